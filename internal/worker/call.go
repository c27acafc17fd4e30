package worker

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// outcome is what is known after the calls of a task.
type outcome struct {
	message.Outcome
	running bool // its handler has not returned, although its time is over
}

// call makes the calls of a task, one after the other: one, or one for each step
// that has no result yet. What ends it is the last one's outcome, or the first
// that is no success. A step may have a result wherever it stands: the version
// that made it may have declared others after it.
func (w *Worker) call(ctx context.Context, lease *claim.Lease, j *job) (o outcome) {
	steps := j.declared.Calls()
	for i, step := range steps {
		if made, kept := lease.Claim().Steps[step.Name]; kept {
			o = outcome{Outcome: message.Outcome{Effect: message.EffectApplied, Ref: made.Ref, Value: made.Value}}
			continue
		}
		o = w.step(ctx, lease, j, step)
		if o.Effect == message.EffectUnknown {
			w.Counters.unknownOutcome(ctx, j.task.Type)
		}
		if o.Effect != message.EffectApplied || i == len(steps)-1 {
			return o
		}
		if err := w.keep(ctx, lease, step, o); err != nil {
			// A keyed step is made again under its key; of a keyless one the claim still
			// says that it started.
			return outcome{Outcome: message.Outcome{Effect: message.EffectUnknown, Retry: true, Free: true, Description: "made, and not known to be kept: " + err.Error()}}
		}
	}
	return o
}

// keep stores a step's result. It was made, so this is tried even if nobody waits
// for the rest any more.
func (w *Worker) keep(ctx context.Context, lease *claim.Lease, step message.Step, o outcome) error {
	ctx = context.WithoutCancel(ctx) // for no longer than a lease
	r := message.StepResult{Ref: o.Ref, Value: o.Value}
	if len(r.Value) > claim.MaxStepValue || !r.Value.IsValid() {
		r.Value = nil
	}
	return lease.StepDone(ctx, step.Name, r)
}

// step makes one call, or none and says why: only while the lease is sure to
// outlive it, and a keyless one only after the claim says that it starts (W1, W2).
func (w *Worker) step(ctx context.Context, lease *claim.Lease, j *job, step message.Step) outcome {
	need := step.Timeout + w.Claims.Timeout // the call and the write after it
	if err := lease.Ensure(ctx, need); err != nil {
		return notCalled("the lease is too short for the call", err)
	}
	stands := lease.Claim()
	c := message.Call{Type: j.task.Type, Step: step.Name, Payload: j.task.Payload, Results: maps.Clone(stands.Steps)}
	if step.Keyed {
		c.Key = message.Key(j.task.ExecutionID, step.Name)
	}
	if w.mayBeForgotten(j, stands, step) {
		return forgotten
	}
	if j.keyedStep(stands, step) {
		o := w.callWithin(ctx, lease, j, c, step)
		if !j.keyed(stands) {
			o.Retry, o.Free = false, false // the task has a keyless step: its first failure is final
		}
		return o
	}
	if err := lease.CallStarting(ctx); err != nil {
		return notCalled("it is not proved that the claim says so", err)
	}
	// The write took time. A call that might outlive the lease is not begun, and
	// neither is one that nobody waits for any more.
	if ctx.Err() != nil || lease.Left() < step.Timeout {
		w.withdraw(ctx, lease)
		return notCalled("the lease became too short for the call", context.Cause(ctx))
	}
	if w.mayBeForgotten(j, stands, step) {
		w.withdraw(ctx, lease)
		return forgotten
	}
	o := w.callWithin(ctx, lease, j, c, step)
	o.Retry, o.Free = false, false // whatever the handler thinks of it: the first failure is final
	return o
}

// forgotten is the outcome of a call that is not made since its key might not be
// recognised: of earlier calls under it, nothing is known.
var forgotten = outcome{Outcome: message.Outcome{
	Effect: message.EffectUnknown, Retry: true, Free: true,
	Description: "not called: the downstream may forget the key during the call",
}}

// mayBeForgotten says that an earlier call of this step may have been made under
// its key, without a word in the claim, and that the downstream may not know the key
// any more when the next one arrives (W2). That is so of a keyed claim, and of one
// that began with a keyless step beside keyed ones; under one that began without any
// key every call was announced.
func (w *Worker) mayBeForgotten(j *job, stands claim.Claim, step message.Step) bool {
	unannounced := j.keyedStep(stands, step) || step.Keyed && stands.KeylessStep != ""
	return unannounced && claim.WindowPassed(stands.FirstCallAt, j.delivery.BrokerNow().Add(step.Timeout), step.KeyWindow, w.KeyMargin)
}

// keyed says whether this grant may call more than once: the handler declares a
// key now, and so did every worker that this claim was granted to. A claim that
// began without may pass on to a worker that still knows of no key, whose call
// would be a second effect; so it keeps the rules it began with.
func (j *job) keyed(stands claim.Claim) bool { return j.declared.Keyed && stands.Keyed }

// keyedStep says the same of one step. Beside a keyless step the others keep their
// keys, as long as the claim began with the same one.
func (j *job) keyedStep(stands claim.Claim, step message.Step) bool {
	if j.keyed(stands) {
		return true
	}
	return step.Keyed && !j.declared.Keyed && stands.KeylessStep == j.declared.KeylessStep()
}

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
func (w *Worker) callWithin(ctx context.Context, lease *claim.Lease, j *job, c message.Call, step message.Step) outcome {
	within, end := context.WithCancelCause(lease.Context())
	defer end(nil)
	within, cancel := context.WithTimeoutCause(within, step.Timeout, noAnswer(step.Timeout))
	defer cancel()
	if ctx.Err() != nil {
		end(context.Cause(ctx)) // before the handler begins
	}
	if j.declared.Prompt {
		defer context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })()
		return outcome{Outcome: fit(w.guarded(within, j, c))}
	}
	done := make(chan message.Outcome, 1)
	w.calls.Go(func() { done <- fit(w.guarded(within, j, c)) })
	select {
	case o := <-done:
		return outcome{Outcome: o}
	case <-within.Done():
	case <-ctx.Done():
		end(context.Cause(ctx))
	}
	timer := time.NewTimer(w.SettleTimeout)
	defer timer.Stop()
	select {
	case o := <-done:
		return outcome{Outcome: o}
	case <-timer.C:
		w.Log.LogAttrs(ctx, slog.LevelError, "handler does not return", slog.String("task", j.task.ExecutionID), slog.String("type", c.Type), slog.String("step", c.Step),
			slog.String("remedy", "a handler must end with its context: this one still runs, and the process should be restarted"))
		return outcome{running: true, Outcome: message.Outcome{
			Effect: message.EffectUnknown, Retry: true,
			Description: fmt.Sprintf("the handler did not return within %v of the end of its time: %v", w.SettleTimeout, context.Cause(within)),
		}}
	}
}

// noAnswer is the cause when a call has taken as long as it may.
type noAnswer time.Duration

func (n noAnswer) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(n)) }

// guarded calls the handler. One that panics ends its own call and nothing else;
// what it had done by then is unknown.
func (w *Worker) guarded(ctx context.Context, j *job, c message.Call) (o message.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			what := message.Line(panicked(p))
			w.Counters.panicked(ctx, c.Type)
			w.Log.LogAttrs(ctx, slog.LevelError, "handler panicked", slog.String("task", j.task.ExecutionID), slog.String("type", c.Type), slog.String("step", c.Step),
				slog.String("panic", what), slog.String("stack", string(debug.Stack())))
			o = message.Outcome{Effect: message.EffectUnknown, Retry: true, Description: "the handler panicked: " + what}
		}
	}()
	return j.handler.Call(ctx, c)
}

// panicked is what a panic says. Words are meant to be read; of any other value,
// which may well be the payload, only the type is told.
func panicked(p any) string {
	switch p.(type) {
	case error, string:
		return fmt.Sprint(p)
	}
	return fmt.Sprintf("a %T", p)
}

// fit makes what a handler says fit for the claim, whatever it says: its effect
// must not be lost because the words about it cannot be kept.
func fit(o message.Outcome) message.Outcome {
	o.Description = message.Line(o.Description)
	if len(o.Ref) > message.MaxRef || !utf8.ValidString(o.Ref) {
		o.Ref = ""
	}
	if len(o.Omitted) > message.MaxRef || !utf8.ValidString(o.Omitted) {
		o.Omitted = ""
	}
	return o
}

// notCalled is the outcome of a call that was not made. It costs no attempt.
func notCalled(why string, err error) outcome {
	return outcome{Outcome: message.Outcome{
		Effect: message.EffectNotApplied, Retry: true, Free: true,
		Description: fmt.Sprintf("not called: %s: %v", why, err),
	}}
}

// backoff is how long to wait before the next call: doubling from the declared
// minimum with every grant before this one, so that free waiting slows down too,
// at most the declared maximum, jittered, never before the downstream asked for.
func backoff(j *job, grants int64, after time.Duration) time.Duration {
	wait := j.declared.BackoffMin << min(grants, 16)
	if wait > j.declared.BackoffMax || wait <= 0 {
		wait = j.declared.BackoffMax
	}
	return max(jitter(wait), after, time.Second)
}
