package worker

import (
	"context"
	"fmt"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// call makes one call, or none and says why: only while the lease is sure to
// outlive it, and a keyless one only after the claim says that it starts (W1, W2).
func (w *Worker) call(ctx context.Context, lease *claim.Lease, j job) message.Outcome {
	need := j.declared.Timeout + w.Claims.Timeout // the call and the write after it
	if err := lease.Ensure(ctx, need); err != nil {
		return notCalled("the lease is too short for the call", err)
	}
	if j.declared.Keyed {
		first := lease.Claim().FirstCallAt
		if claim.WindowPassed(first, j.delivery.BrokerNow().Add(j.declared.Timeout), j.declared.KeyWindow, w.KeyMargin) {
			return message.Outcome{Effect: message.EffectUnknown, Retry: true, Free: true, Description: "not called: the downstream may forget the key during the call"}
		}
		return w.callWithin(ctx, lease, j, message.Call{Key: j.task.ExecutionID, Type: j.task.Type, Payload: j.task.Payload})
	}
	if err := lease.CallStarting(ctx); err != nil {
		return notCalled("it is not proved that the claim says so", err)
	}
	// The write took time. A call that might outlive the lease is not begun, and
	// neither is one that nobody waits for any more.
	if ctx.Err() != nil || lease.Left() < j.declared.Timeout {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.SettleTimeout)
		defer cancel()
		if err := lease.CallWithdrawn(bounded); err != nil {
			return message.Outcome{Effect: message.EffectUnknown, Description: "not called, but the claim says that it may have been: " + err.Error()}
		}
		return notCalled("the lease became too short for the call", context.Cause(ctx))
	}
	return w.callWithin(ctx, lease, j, message.Call{Type: j.task.Type, Payload: j.task.Payload})
}

// callWithin ends the call with the delivery, the lease or the declared timeout,
// whichever comes first.
func (w *Worker) callWithin(ctx context.Context, lease *claim.Lease, j job, c message.Call) message.Outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, j.declared.Timeout, fmt.Errorf("no answer within %v", j.declared.Timeout))
	defer cancel()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	defer context.AfterFunc(lease.Context(), func() { lost(context.Cause(lease.Context())) })()
	return j.handler.Call(ctx, c)
}

// notCalled is the outcome of a call that was not made. It costs no attempt.
func notCalled(why string, err error) message.Outcome {
	return message.Outcome{
		Effect: message.EffectNotApplied, Retry: true, Free: true,
		Description: fmt.Sprintf("not called: %s: %v", why, err),
	}
}

// backoff is how long to wait before the next call: doubling from the declared
// minimum with every grant before this one, so that free waiting slows down too,
// at most the declared maximum, jittered, never before the downstream asked for.
func backoff(j job, grants int64, after time.Duration) time.Duration {
	wait := j.declared.BackoffMin << min(grants, 16)
	if wait > j.declared.BackoffMax || wait <= 0 {
		wait = j.declared.BackoffMax
	}
	return max(jitter(wait), after, time.Second)
}
