package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/horizon"
	"oneeffect/internal/message"
)

// fit holds what the handlers declare against the worker's settings, and says what
// cannot be seen from here.
func (s settings) fit(ctx context.Context, handlers map[string]message.Handler, log *slog.Logger) error {
	var declared []message.Declaration
	var mistakes []error
	for _, taskType := range slices.Sorted(maps.Keys(handlers)) {
		d := handlers[taskType].Declaration()
		declared, mistakes = append(declared, d), append(mistakes, d.Check())
	}
	violations, unchecked := horizon.Check(s.horizon(declared))
	horizon.Log(ctx, log, unchecked)
	return errors.Join(append(mistakes, horizon.Errors(violations))...)
}

// horizon is what this worker knows of the settings that must fit together, by the
// names that an operator changes them by.
func (s settings) horizon(handlers []message.Declaration) horizon.Settings {
	known := horizon.Settings{
		Tasks: horizon.Entity{Lock: horizon.Is("-lock", s.lock), MaxDelivery: horizon.Is("-max-delivery", s.maxDelivery)},
		Worker: horizon.Worker{
			Process: horizon.Process{
				StoreTimeout:  horizon.Is("-store-timeout", s.StoreLimit),
				SettleTimeout: horizon.Is("-settle-timeout", s.settle),
				LockRenewal:   horizon.Constant("the renewal of locks", s.lock/3),
				Grace:         horizon.Is("-grace", s.grace),
			},
			Lease:            horizon.Is("-lease", s.lease),
			Renewal:          horizon.Is("-renewal", s.renewal),
			OwnerMargin:      horizon.Is("-owner-margin", s.ownerMargin),
			ChallengerMargin: horizon.Is("-challenger-margin", s.challengerMargin),
			BusyWait:         horizon.Is("-busy-wait", s.busyWait),
			Buffered:         horizon.Constant("the wait for a slot", time.Duration(0)), // S1: nothing is held that no slot is free for
			PublishTimeout:   horizon.Is("-publish-timeout", s.publish),
			KeyMargin:        horizon.Is("-key-margin", s.keyMargin),
			Keep:             horizon.Is("-keep", s.keep),
			MaxAttempts:      horizon.Is("-max-attempts", s.maxAttempts),
		},
		Store:    horizon.Store{Skew: horizon.Constant("the skew of the store's clocks", s.StoreSkew())},
		TaskLife: horizon.Constant("the life of a task", execution.NotAfterAfter),
	}
	for _, d := range handlers {
		known.Handlers = append(known.Handlers, horizon.Handler{
			Type: d.Type, Keyed: d.Keyed,
			Call: horizon.Is(d.Type+" request.timeout", d.Timeout), Calls: horizon.Constant(d.Type+" steps", len(d.Calls())),
			KeyWindow:  horizon.Is(d.Type+" idempotency.window", d.KeyWindow),
			Attempts:   horizon.Is(d.Type+" retry.attempts", d.Attempts),
			BackoffMax: horizon.Is(d.Type+" retry.backoff", d.BackoffMax),
			Result:     horizon.Constant("what a claim keeps of a reply", claim.MaxValue),
		})
	}
	return known
}
