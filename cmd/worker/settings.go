package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/message"
)

// settings of a worker. The relations between its durations are checked: a wrong
// pair is the commonest way to lose "one effect".
type settings struct {
	process.Settings
	handlers string
	slots    int

	lock, lease, renewal          time.Duration
	ownerMargin, challengerMargin time.Duration
	busyWait, publish, settle     time.Duration
	keyMargin, keep, grace        time.Duration
	maxAttempts, maxDelivery      int
}

func parse(args []string, getenv func(string) string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(stderr)
	s.Register(flags)
	flags.StringVar(&s.handlers, "handlers", "handlers.yaml", "file that declares the handlers")
	flags.IntVar(&s.slots, "slots", 8, "tasks at a time")
	flags.DurationVar(&s.lock, "lock", 5*time.Minute, "lock duration of the queue, as it is configured there")
	flags.DurationVar(&s.lease, "lease", 5*time.Minute, "how long a claim is leased, whole seconds")
	flags.DurationVar(&s.renewal, "renewal", 0, "how often a lease is renewed; 0: a third of it")
	flags.DurationVar(&s.ownerMargin, "owner-margin", 10*time.Second, "an owner stops trusting its lease so long before it ends")
	flags.DurationVar(&s.challengerMargin, "challenger-margin", 5*time.Second, "another waits so long after it ended")
	flags.DurationVar(&s.busyWait, "busy-wait", 20*time.Second, "how long a delivery waits here for a lease to end")
	flags.DurationVar(&s.publish, "publish-timeout", 30*time.Second, "budget of publishing one event")
	flags.DurationVar(&s.settle, "settle-timeout", 10*time.Second, "bound of settling one message")
	flags.DurationVar(&s.keyMargin, "key-margin", 15*time.Minute, "a downstream's key window is taken to end so much earlier")
	flags.DurationVar(&s.keep, "keep", 30*24*time.Hour, "how long after its last write a claim is kept")
	flags.DurationVar(&s.grace, "grace", 90*time.Second, "from SIGTERM to the end, at most")
	flags.IntVar(&s.maxAttempts, "max-attempts", 8, "starts of one task")
	flags.IntVar(&s.maxDelivery, "max-delivery", 10, "max delivery count of the queue, as it is configured there")
	if err := s.Parse(flags, args, getenv); err != nil {
		return settings{}, err
	}
	if s.renewal == 0 {
		s.renewal = s.lease / 3
	}
	return s, s.check()
}

// check holds the relations that concern a worker alone, in the operator's words.
func (s settings) check() error {
	var errs []error
	must := func(holds bool, format string, args ...any) {
		if !holds {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	trust := s.lease - s.ownerMargin
	must(s.slots >= 1, "-slots %d: at least 1", s.slots)
	must(s.lease >= time.Second && s.lease%time.Second == 0, "-lease %v: whole seconds, since the store's clock has no finer ones", s.lease)
	must(s.challengerMargin >= time.Second, "-challenger-margin %v: at least 1s, the resolution of the store's clock", s.challengerMargin)
	must(2*s.renewal+s.StoreLimit <= trust, "two renewals and a write (2 x %v + %v) must fit into -lease less -owner-margin (%v), else one slow answer loses the lease: shorten -renewal or -store-timeout, or lengthen -lease", s.renewal, s.StoreLimit, trust)
	must(s.StoreLimit <= s.renewal/2, "-store-timeout %v must be at most half of the renewal period %v, else a renewal outlives what it renews", s.StoreLimit, s.renewal)
	late := max(0, s.lease+s.challengerMargin+time.Second+s.StoreLimit-s.lock)
	must(s.busyWait >= late, "-busy-wait %v must be at least %v (lease + challenger margin + 1s + store timeout - lock), else a takeover takes a detour", s.busyWait, late)
	must(s.busyWait+s.StoreLimit+s.settle < s.lock, "-busy-wait, -store-timeout and -settle-timeout (%v) must be shorter than -lock %v", s.busyWait+s.StoreLimit+s.settle, s.lock)
	must(s.publish+s.settle <= s.lock/2, "-publish-timeout and -settle-timeout (%v) must fit into half of -lock %v, else messages are settled after their lock", s.publish+s.settle, s.lock)
	must(s.maxAttempts >= 1 && s.maxAttempts <= s.maxDelivery-2, "-max-attempts %d must be 1 to %d (-max-delivery less 2), else the broker's reason hides the claim's", s.maxAttempts, s.maxDelivery-2)
	must(s.grace > s.settle, "-grace %v must be longer than -settle-timeout %v", s.grace, s.settle)
	return errors.Join(errs...)
}

// fits holds the relations between the lease and what a handler declares.
func (s settings) fits(d message.Declaration) error {
	if need, trust := d.Timeout+s.StoreLimit, s.lease-s.ownerMargin; need > trust {
		return fmt.Errorf("%s: a call and a write (%v) must fit into -lease less -owner-margin (%v): shorten the handler's timeout or lengthen the lease", d.Type, need, trust)
	}
	if d.Keyed && d.KeyWindow <= s.keyMargin+d.Timeout {
		return fmt.Errorf("%s: the key window %v is not longer than -key-margin %v and one call: no call would ever be made", d.Type, d.KeyWindow, s.keyMargin)
	}
	return nil
}
