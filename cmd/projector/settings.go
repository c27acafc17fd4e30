package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"time"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/horizon"
)

// settings of a projector. How they must fit together stands in internal/horizon.
type settings struct {
	process.Settings
	listen                       string
	slots, webhookSlots          int
	lock, settle, grace          time.Duration
	ttl, replayAge, webhookRetry time.Duration
	keep                         time.Duration
	webhookBody                  int64
	secrets                      map[string][][]byte
}

const day = 24 * time.Hour

func parse(args []string, env process.Environment, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("projector", flag.ContinueOnError)
	flags.SetOutput(stderr)
	s.Register(flags)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8083", "address of webhooks and probes; secrets of webhooks are variables, WEBHOOK_SECRET_ and the source")
	flags.IntVar(&s.slots, "slots", 8, "messages at a time; of a subscription that requires sessions, skus at a time")
	flags.DurationVar(&s.lock, "lock", 5*time.Minute, "lock duration of the subscription, as it is configured there")
	flags.DurationVar(&s.settle, "settle-timeout", 10*time.Second, "bound of settling one message")
	flags.DurationVar(&s.grace, "grace", 90*time.Second, "from SIGTERM to the end, at most")
	flags.DurationVar(&s.keep, "keep-receipts", 60*day, "how long a receipt is kept")
	flags.DurationVar(&s.ttl, "reservation-ttl", 14*day, "how long a message lives in the subscription, as it is configured there")
	flags.DurationVar(&s.replayAge, "reservation-replay-age", 21*day, "the oldest dead letter of the subscription that anybody will replay")
	flags.DurationVar(&s.webhookRetry, "webhook-retry", 3*day, "how long a sender of webhooks tries")
	flags.IntVar(&s.webhookSlots, "webhook-slots", 32, "webhooks at a time; more are told to come again")
	flags.Int64Var(&s.webhookBody, "webhook-body", 256<<10, "bytes of a webhook's body")
	err := s.Parse(flags, args, env, func() error {
		var mistakes error
		s.secrets, mistakes = secrets(env)
		return errors.Join(mistakes, s.check())
	})
	return s, err
}

// check finds every mistake, in the operator's words.
func (s settings) check() error {
	var errs []error
	if _, _, err := net.SplitHostPort(s.listen); err != nil {
		errs = append(errs, fmt.Errorf("-listen %q: give host:port, for example 127.0.0.1:8083", s.listen))
	}
	for _, n := range []struct {
		flag  string
		value int64
	}{{"slots", int64(s.slots)}, {"webhook-slots", int64(s.webhookSlots)}, {"webhook-body", s.webhookBody}} {
		if n.value < 1 {
			errs = append(errs, fmt.Errorf("-%s %d: at least 1", n.flag, n.value))
		}
	}
	if s.webhookBody > maxWebhookBody {
		errs = append(errs, fmt.Errorf("-webhook-body %d: at most %d, since the store takes documents of 2 MiB", s.webhookBody, maxWebhookBody))
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"lock", s.lock}, {"settle-timeout", s.settle}, {"store-timeout", s.StoreLimit}, {"keep-receipts", s.keep},
		{"reservation-ttl", s.ttl}, {"reservation-replay-age", s.replayAge}, {"webhook-retry", s.webhookRetry},
	} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("-%s %v: it must be positive", d.flag, d.value))
		}
	}
	violations, _ := horizon.Check(s.horizon())
	return errors.Join(append(errs, horizon.Errors(violations))...)
}

// maxWebhookBody leaves room in a document for what the store adds.
const maxWebhookBody = 1 << 20

// horizon is what this projector knows of the settings that must fit together, by
// the names that an operator changes them by.
func (s settings) horizon() horizon.Settings {
	return horizon.Settings{
		Reservations: horizon.Entity{Lock: horizon.Is("-lock", s.lock), TTL: horizon.Is("-reservation-ttl", s.ttl)},
		Projector: horizon.Projector{
			Process: horizon.Process{
				StoreTimeout:  horizon.Is("-store-timeout", s.StoreLimit),
				SettleTimeout: horizon.Is("-settle-timeout", s.settle),
				LockRenewal:   horizon.Constant("the renewal of locks", s.lock/3),
				Grace:         horizon.Is("-grace", s.grace),
			},
			KeepReceipts: horizon.Is("-keep-receipts", s.keep),
			ReplayAge:    horizon.Is("-reservation-replay-age", s.replayAge),
			WebhookRetry: horizon.Is("-webhook-retry", s.webhookRetry),
		},
	}
}

// secretVariable begins the names of the variables that hold webhook secrets.
const secretVariable = "WEBHOOK_SECRET_"

// shortestSecret is what a secret must have at least, in bytes.
const shortestSecret = 16

var sourceName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// secrets are those of the sources that may be heard: WEBHOOK_SECRET_BILLING_EU is
// that of billing-eu. Several, separated by blanks, are all good: while one is
// being replaced. What is wrong with one is said without it.
func secrets(env process.Environment) (map[string][][]byte, error) {
	var errs []error
	found := map[string][][]byte{}
	for _, entry := range env {
		variable, _, _ := strings.Cut(entry, "=")
		name, ok := strings.CutPrefix(variable, secretVariable)
		value := strings.TrimSpace(env.Get(variable))
		if !ok || value == "" {
			continue
		}
		source := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if !sourceName.MatchString(source) || len(source) > 64 {
			errs = append(errs, fmt.Errorf("%s names no source: after %s come 1 to 64 capitals, digits and single _", variable, secretVariable))
			continue
		}
		var all [][]byte
		for secret := range strings.FieldsSeq(value) {
			if len(secret) < shortestSecret {
				errs = append(errs, fmt.Errorf("%s has a secret of %d bytes: give at least %d, for example from openssl rand -hex 32", variable, len(secret), shortestSecret))
			}
			all = append(all, []byte(secret))
		}
		found[source] = all
	}
	return found, errors.Join(errs...)
}
