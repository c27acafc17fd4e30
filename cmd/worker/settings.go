package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/horizon"
)

// settings of a worker. How they must fit together stands in internal/horizon.
type settings struct {
	process.Settings
	handlers string
	probes   string
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
	flags.StringVar(&s.probes, "probes", "127.0.0.1:0", "address of /livez and /readyz; it is printed")
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

// check finds every mistake that does not take the handlers to see, in the
// operator's words.
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
	must(s.slots >= 1, "-slots %d: at least 1", s.slots)
	must(s.lease >= time.Second && s.lease%time.Second == 0, "-lease %v: whole seconds, since the store's clock has no finer ones", s.lease)
	must(s.maxAttempts >= 1, "-max-attempts %d: at least 1", s.maxAttempts)
	violations, _ := horizon.Check(s.horizon(nil))
	return errors.Join(append(errs, horizon.Errors(violations))...)
}

// drain is how long tasks may run on after SIGTERM. What is left of the grace is
// for a claim to be given back, its message to be settled, and the end.
func (s settings) drain() time.Duration { return s.grace - s.StoreLimit - s.settle - horizon.Closing }
