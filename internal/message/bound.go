package message

import (
	"context"
	"time"
)

// Within bounds a call to the world outside: its context ends after limit at the
// latest. One whose caller allows no more time than that is bounded already, and is
// not given a second clock.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return WithinCause(ctx, limit, nil)
}

// WithinCause is Within with the cause that a context has which ends after limit.
func WithinCause(ctx context.Context, limit time.Duration, cause error) (context.Context, context.CancelFunc) {
	if deadline, bounded := ctx.Deadline(); bounded && time.Until(deadline) <= limit {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, cause)
}

// Pause waits, or says why the context ended first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
