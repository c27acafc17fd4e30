package message_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/internal/message"
)

// A call ends when the nearest of all bounds does, and its caller is told of no
// other end.
func TestACallIsBoundedByTheNearestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for caller, want := range map[time.Duration]time.Duration{
			0: 10 * time.Second, time.Second: time.Second, 10 * time.Second: 10 * time.Second, time.Minute: 10 * time.Second,
		} {
			ctx := t.Context()
			if caller > 0 {
				allowed, cancel := context.WithTimeout(ctx, caller)
				defer cancel()
				ctx = allowed
			}
			began := time.Now()
			bounded, cancel := message.Within(ctx, 10*time.Second)
			<-bounded.Done()
			cancel()
			if took := time.Since(began); took != want {
				t.Errorf("whose caller allows %v: ended after %v, want %v", caller, took, want)
			}
			if early := caller == 0 || caller > 10*time.Second; early && ctx.Err() != nil {
				t.Errorf("whose caller allows %v: the caller's context ended too", caller)
			}
		}
	})
}
