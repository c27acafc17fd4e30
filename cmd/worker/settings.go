package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/execution"
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

func parse(args []string, env process.Environment, stderr io.Writer) (settings, error) {
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
	err := s.Parse(flags, args, env, func() error {
		if s.renewal == 0 {
			s.renewal = s.lease / 3
		}
		return s.check()
	})
	return s, err
}

// check holds the relations that concern a worker alone, in the operator's words.
func (s settings) check() error {
	var errs []error
	must := func(holds bool, format string, args ...any) {
		if !holds {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"owner-margin", s.ownerMargin}, {"renewal", s.renewal}, {"store-timeout", s.StoreLimit}, {"busy-wait", s.busyWait},
		{"publish-timeout", s.publish}, {"settle-timeout", s.settle}, {"key-margin", s.keyMargin},
	} {
		must(d.value > 0, "-%s %v: it must be positive", d.flag, d.value)
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
	must(s.drain() > 0, "-grace %v must be longer than -store-timeout, -settle-timeout and %v (%v), which giving back and closing take", s.grace, closing, s.grace-s.drain())
	return errors.Join(errs...)
}

// closing is what a process needs to close its connections and flush its telemetry.
const closing = 5 * time.Second

// drain is how long tasks may run on after SIGTERM. What is left of the grace is
// for a claim to be given back, its message to be settled, and the end.
func (s settings) drain() time.Duration { return s.grace - s.StoreLimit - s.settle - closing }

// story is the longest that a task may take from its first call to its last, left
// to itself: every start dies at its end, waits for lock and lease to run out, and
// backs off.
func (s settings) story(d message.Declaration) time.Duration {
	attempt := s.StoreLimit + d.Timeout + s.StoreLimit + s.publish
	return time.Duration(s.maxAttempts) * (attempt + max(s.lock, s.lease+s.challengerMargin) + s.busyWait + d.BackoffMax)
}

// fits holds the relations between the worker's durations and what a handler declares.
func (s settings) fits(d message.Declaration) error {
	var errs []error
	if need, trust := d.Timeout+s.StoreLimit, s.lease-s.ownerMargin; need > trust {
		errs = append(errs, fmt.Errorf("a call and a write (%v) must fit into -lease less -owner-margin (%v): shorten the handler's timeout or lengthen the lease", need, trust))
	}
	if d.Timeout > s.drain() {
		errs = append(errs, fmt.Errorf("a call (%v) must fit into what -grace leaves for running tasks (%v), else every deploy cuts calls off: shorten the handler's timeout or lengthen -grace", d.Timeout, s.drain()))
	}
	story := s.story(d)
	if window := d.KeyWindow - s.keyMargin; d.Keyed && story > window {
		errs = append(errs, fmt.Errorf("a task may be tried for %v, and the downstream is sure of its key for %v (window less -key-margin): lower -max-attempts or the handler's backoff, else a late call may be a second effect", story, window))
	}
	if least := execution.NotAfterAfter + story + 24*time.Hour; s.keep < least {
		errs = append(errs, fmt.Errorf("-keep %v must be at least %v (the life of a task, its tries and a day), else a claim is forgotten while a message of it lives: a second effect", s.keep, least))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", d.Type, err)
	}
	return nil
}
