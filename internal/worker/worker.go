package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// Worker does tasks. Its fields are its wiring, filled in by cmd/worker.
type Worker struct {
	Claims   *claim.Desk
	Handlers map[string]message.Handler // by task type
	Publish  func(ctx context.Context, m message.Message) error

	BusyWait       time.Duration // how long a delivery waits here for somebody's lease to end
	PublishTimeout time.Duration // budget of all tries to publish one event
	SettleTimeout  time.Duration // bound of taking back a call that is not made after all
	KeyMargin      time.Duration // a key window is taken to end so much earlier

	Log      *slog.Logger
	Counters Counters // zero: nothing is counted

	calls sync.WaitGroup // handlers that run, also those that nobody waits for any more
}

// Wait returns when every handler has returned, or when ctx ends: a handler that
// does not end with its context may outlive its delivery.
func (w *Worker) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		w.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("handlers still run: %w", context.Cause(ctx))
	}
}

// Handle is one delivery of the sequence diagram; the numbers are its arrows.
func (w *Worker) Handle(ctx context.Context, d message.Delivery) message.Settlement { // 1, 6
	job, refusal := w.open(d)
	if refusal != nil {
		w.Log.LogAttrs(ctx, slog.LevelWarn, "not taken", slog.String("message", d.MessageID), slog.String("reason", refusal.Reason), slog.String("description", refusal.Description))
		return *refusal
	}
	job.began(ctx)
	lease, verdict, err := w.take(ctx, job, d.Count > 1) // 2, 7
	w.claimed(ctx, verdict, err)
	var o outcome
	if err == nil && verdict.Kind == claim.Granted {
		o = w.call(ctx, lease, job)                   // 3 4, 8 9
		verdict, err = w.conclude(ctx, lease, job, o) // 10
	}
	if err == nil {
		err = w.publish(ctx, job, verdict) // 11
	}
	settlement := settlementFor(verdict, err, job.task.NotAfter.Sub(d.BrokerNow()), d.InVain) // 11, carried out when Handle has returned
	w.told(ctx, verdict, settlement, err)
	w.tell(ctx, job, o, verdict, settlement, err)
	return settlement
}

// tell logs one delivery as one line. It is a warning when the call brought no
// effect or something did not answer: the words of the downstream, the store or
// the topic are in it, since nothing else says why a task comes back.
func (w *Worker) tell(ctx context.Context, j *job, o outcome, v claim.Verdict, s message.Settlement, err error) {
	level := slog.LevelInfo
	failed := o.Effect != message.EffectApplied && o.Description != ""
	if failed || err != nil {
		level = slog.LevelWarn
	}
	if !w.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("task", j.task.ExecutionID), slog.Int("run", j.task.Run), slog.Int("delivery", j.delivery.Count),
		slog.Int64("fence", v.Claim.Fence), slog.String("verdict", v.Kind.String()), slog.String("settlement", s.Action.String()),
		slog.Duration("took", time.Since(j.delivery.Received)),
	}
	if failed {
		attrs = append(attrs, slog.String("call", o.Description))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("err", err))
	}
	w.Log.LogAttrs(ctx, level, "handled", attrs...)
}

// job is one delivery with everything that is fixed before the claim is asked for.
type job struct {
	delivery    message.Delivery
	task        message.Task
	handler     message.Handler
	declared    message.Declaration
	fingerprint string
	fenced      int64 // the fence under which a write was refused, since another had the claim; 0: none
}

// open reads the message. A refusal is for messages that have no claim: those
// that never will parse, and those whose type this version does not know (W3).
func (w *Worker) open(d message.Delivery) (*job, *message.Settlement) {
	task, err := message.ParseTask(d.Body)
	var fingerprint string
	if err == nil {
		fingerprint, err = claim.Fingerprint(task.Type, task.Payload)
	}
	if err != nil {
		s := message.Reject(message.InvalidMessage, message.Line(err.Error()))
		return nil, &s
	}
	handler, known := w.Handlers[task.Type]
	if !known {
		// A rolling deploy: a newer worker may know it. Past notAfter nobody will.
		left := task.NotAfter.Sub(d.BrokerNow())
		s := again(unknownTypeDelay, left, d.InVain)
		s.Reason, s.Description = "UnknownTaskType", fmt.Sprintf("no handler for task type %q here: declare one, or wait for a worker that has it", task.Type)
		if left < 0 {
			s = message.Reject(claim.TooOld, s.Description)
		}
		return nil, &s
	}
	return &job{delivery: d, task: task, handler: handler, declared: handler.Declaration(), fingerprint: fingerprint}, nil
}

// take asks for the claim, and waits here while that is worth it: with lock and
// lease of the same length, a redelivery arrives a moment before the dead
// owner's lease is stale. readFirst says that a claim may stand already.
func (w *Worker) take(ctx context.Context, j *job, readFirst bool) (*claim.Lease, claim.Verdict, error) {
	ask := claim.Ask{
		ID: j.task.ExecutionID, TaskType: j.task.Type, Fingerprint: j.fingerprint, Run: j.task.Run,
		Keyed: j.declared.Keyed, KeylessStep: j.declared.KeylessStep(), KeyWindow: j.declared.KeyWindow, KeyMargin: w.KeyMargin,
		NotAfter: j.task.NotAfter, Asserted: j.task.Asserted,
		Trace: traceOf(ctx),
		Now:   j.delivery.BrokerNow, ReadFirst: readFirst,
	}
	for waited := time.Duration(0); ; {
		lease, verdict, err := w.Claims.Take(ctx, ask)
		if err != nil || verdict.Kind != claim.Busy || waited+verdict.Wait > w.BusyWait {
			return lease, verdict, err
		}
		if message.Pause(ctx, verdict.Wait) != nil {
			return nil, verdict, nil // busy: a copy takes it from here
		}
		waited += max(verdict.Wait, time.Millisecond)
		ask.ReadFirst, ask.Waited = true, waited
	}
}

// conclude writes what the call brought into the claim, and gives the lease back.
// When the lease was lost meanwhile, what stands in the claim by now decides.
func (w *Worker) conclude(ctx context.Context, lease *claim.Lease, j *job, o outcome) (claim.Verdict, error) {
	defer lease.Close()
	ctx, ends := context.WithoutCancel(ctx), time.Now().Add(w.Claims.Lease) // no write is tried for longer than a lease
	verdict, err := w.write(ctx, lease, j, o)
	if err == nil || !errors.Is(err, claim.ErrLost) {
		return verdict, err
	}
	if errors.Is(err, claim.ErrFenced) {
		j.fenced = lease.Claim().Fence
	}
	lease.Close()
	ctx, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	again, verdict, err := w.take(ctx, j, true)
	if err != nil || verdict.Kind != claim.Granted {
		return verdict, err
	}
	defer again.Close()
	return w.release(ctx, again, j, outcome{Outcome: message.Outcome{Free: true}})
}

// write chooses between the four ends of a grant. What is known of the effect
// and what the handler declares decide; nothing else does.
func (w *Worker) write(ctx context.Context, lease *claim.Lease, j *job, o outcome) (claim.Verdict, error) {
	stands := lease.Claim()
	keyed := j.keyed(stands)
	now := j.delivery.BrokerNow()
	switch {
	case o.running && keyed:
		// Given back is only what has returned: the lease ends by itself, and the start
		// stays counted.
		return claim.Verdict{Kind: claim.Busy, Wait: lease.Left() + w.Claims.OwnerMargin + w.Claims.ChallengerMargin, Claim: stands}, nil
	case o.Effect == message.EffectApplied:
		result, err := claim.NewResult(o.Ref, o.Value, o.Omitted)
		if err != nil { // a value that is no JSON; the effect is one all the same
			result, err = claim.NewResult(o.Ref, nil, o.Omitted)
		}
		if err != nil {
			return claim.Verdict{}, err
		}
		return lease.Complete(ctx, result)
	case !keyed && o.Effect != message.EffectNotApplied:
		return lease.Fail(ctx, claim.Failure{Reason: claim.OutcomeUnknown, Description: o.Description, Outcome: claim.EffectUnknown})
	case !o.Retry:
		return lease.Fail(ctx, claim.Failure{Reason: claim.DownstreamRejected, Description: o.Description, Outcome: effectOf(stands, o)})
	// Before the deadline: a replay asks for an assertion after this reason only.
	case keyed && claim.WindowPassed(stands.FirstCallAt, now.Add(j.declared.Timeout), j.declared.KeyWindow, w.KeyMargin):
		return lease.Fail(ctx, claim.Failure{Reason: claim.KeyWindowPassed, Description: o.Description, Outcome: claim.EffectUnknown})
	case o.Free && now.After(j.deadline(stands)):
		return lease.Fail(ctx, claim.Failure{Reason: claim.DeadlinePassed, Description: o.Description, Outcome: effectOf(stands, o)})
	case !o.Free && stands.Answered+1 >= j.declared.Attempts:
		return lease.Fail(ctx, claim.Failure{Reason: claim.AttemptsExhausted, Description: o.Description, Outcome: effectOf(stands, o)})
	}
	return w.release(ctx, lease, j, o)
}

// release gives the claim back for a later try, and has a copy come for it.
func (w *Worker) release(ctx context.Context, lease *claim.Lease, j *job, o outcome) (claim.Verdict, error) {
	now := j.delivery.BrokerNow()
	stands := lease.Claim()
	wait := min(backoff(j, stands.Fence-1, o.After), w.longestWait(j, stands, now))
	if err := lease.Release(ctx, now.Add(wait), !o.Free); err != nil {
		return claim.Verdict{}, err
	}
	return claim.Verdict{Kind: claim.Busy, Wait: wait, Claim: lease.Claim()}, nil
}

// deadline ends the free waiting of the claim's run. A message of an earlier run, which
// was left over and is granted this one, brings that run's deadline, which says nothing
// of this one: then notAfter does.
func (j *job) deadline(stands claim.Claim) time.Time {
	if j.task.Run < stands.Run {
		return j.task.NotAfter
	}
	return j.task.Deadline
}

// longestWait bounds what a downstream may ask for (Retry-After): by the deadline and
// by notAfter, when the task ends in any case, and by the last moment at which a call, and all
// that precedes it, fits into the key window. There it is tried once more, sooner
// than was asked; after it, it never would be.
func (w *Worker) longestWait(j *job, stands claim.Claim, now time.Time) time.Duration {
	longest := max(j.deadline(stands).Sub(now), j.declared.BackoffMax)
	longest = min(longest, max(j.task.NotAfter.Sub(now), time.Second))
	if j.keyed(stands) {
		before := w.KeyMargin + 2*j.declared.Timeout + w.BusyWait + w.Claims.Timeout
		if last := stands.FirstCallAt.Add(j.declared.KeyWindow - before).Sub(now); last >= time.Second {
			longest = min(longest, last)
		}
	}
	return longest
}

// effectOf is what is known of the effect of all calls so far, not of the last
// alone: an earlier one that was cut off may have been applied.
func effectOf(stands claim.Claim, o outcome) string {
	first := stands.Answered == 0 && stands.Starts <= 1 && stands.Fence == 1
	alone := !stands.Keyed && stands.KeylessStep == "" // every call was announced: none was cut off
	switch {
	case o.Effect != message.EffectNotApplied || !first && !alone:
		return claim.EffectUnknown
	case len(stands.Steps) > 0:
		return claim.EffectPartial
	}
	return claim.EffectNone
}
