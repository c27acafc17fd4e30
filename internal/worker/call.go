package worker

import (
	"context"
	"fmt"
	"log/slog"
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
	c := message.Call{Type: j.task.Type, Payload: j.task.Payload}
	if j.declared.Keyed {
		c.Key = j.task.ExecutionID
	}
	if j.keyed(lease.Claim()) {
		first := lease.Claim().FirstCallAt
		if claim.WindowPassed(first, j.delivery.BrokerNow().Add(j.declared.Timeout), j.declared.KeyWindow, w.KeyMargin) {
			return message.Outcome{Effect: message.EffectUnknown, Retry: true, Free: true, Description: "not called: the downstream may forget the key during the call"}
		}
		return w.callWithin(ctx, lease, j, c)
	}
	if err := lease.CallStarting(ctx); err != nil {
		return notCalled("it is not proved that the claim says so", err)
	}
	// The write took time. A call that might outlive the lease is not begun, and
	// neither is one that nobody waits for any more.
	if ctx.Err() != nil || lease.Left() < j.declared.Timeout {
		w.withdraw(ctx, lease)
		return notCalled("the lease became too short for the call", context.Cause(ctx))
	}
	o := w.callWithin(ctx, lease, j, c)
	o.Retry, o.Free = false, false // whatever the handler thinks of it: the first failure is final
	return o
}

// keyed says whether this grant may call more than once: the handler declares a
// key now, and so did every worker that this claim was granted to. A claim that
// began without may pass on to a worker that still knows of no key, whose call
// would be a second effect; so it keeps the rules it began with.
func (j job) keyed(stands claim.Claim) bool { return j.declared.Keyed && stands.Keyed }

// withdraw records that the call was not made. If that is not answered, the
// release that follows writes the same.
func (w *Worker) withdraw(ctx context.Context, lease *claim.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.SettleTimeout)
	defer cancel()
	if err := lease.CallWithdrawn(ctx); err != nil {
		w.Log.LogAttrs(ctx, slog.LevelWarn, "call not withdrawn yet", slog.String("task", lease.Claim().ID), slog.Any("err", err))
	}
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
