package process

import (
	"context"
	"errors"

	"oneeffect/internal/horizon"
	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"
)

// Receive runs a receiver until ctx ends, or until a delivery cannot be under the
// lock that the flag -lock told. Its message is left to that lock: given back, it
// would be here again at once, and be counted.
func Receive(ctx context.Context, r servicebus.Receiver, handle servicebus.Handle) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := r.Run(ctx, watch(stop, horizon.Is("-lock", r.LockDuration), handle))
	if v, wrong := errors.AsType[horizon.Violation](context.Cause(ctx)); wrong {
		return errors.Join(err, v)
	}
	return err
}

func watch(stop context.CancelCauseFunc, lock horizon.Duration, handle servicebus.Handle) servicebus.Handle {
	return func(ctx context.Context, d message.Delivery) message.Settlement {
		if v, wrong := horizon.ObservedLock(lock, d.LockAtMost); wrong {
			stop(v)
			return message.LetExpire()
		}
		return handle(ctx, d)
	}
}
