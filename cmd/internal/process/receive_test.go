package process

import (
	"context"
	"strings"
	"testing"
	"time"

	"oneeffect/internal/horizon"
	"oneeffect/internal/message"
)

func TestALockThatIsShorterThanToldStopsTheProcess(t *testing.T) { // H1
	ctx, stop := context.WithCancelCause(t.Context())
	handled := 0
	handle := watch(stop, horizon.Is("-lock", 5*time.Minute), func(context.Context, message.Delivery) message.Settlement {
		handled++
		return message.Done()
	})
	if did := handle(ctx, message.Delivery{LockAtMost: 301 * time.Second}); did != message.Done() || handled != 1 || ctx.Err() != nil {
		t.Errorf("under the lock that was told: %+v, handled %d, stopped by %v", did, handled, context.Cause(ctx))
	}
	if did := handle(ctx, message.Delivery{LockAtMost: time.Minute}); did != message.LetExpire() || handled != 1 {
		t.Errorf("under a shorter lock: %+v, handled %d", did, handled)
	}
	if err := context.Cause(ctx); err == nil || !strings.Contains(err.Error(), "H1: -lock 5m must be the LockDuration of the entity, which is at most 1m") {
		t.Errorf("stopped by %v", err)
	}
}
