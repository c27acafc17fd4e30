package orchestrator

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// ReconcileBudget bounds one round of the reconciler; each of its three parts has a
// third of it.
const ReconcileBudget = time.Minute

const (
	maxLooked = 500 // executions or dead letters of one part of one round
	deadPage  = 100 // dead letters asked for at once

	// Nothing promises that a later dead letter has a larger number, and where a queue
	// is partitioned it has none: from time to time all of them are looked at.
	rewind = 12 // rounds
)

// Reconcile heals what no event did, until ctx ends: it reads the claims of
// executions that a dead letter is about (E4), that have been running for long (E5),
// or that are FAILED (E4). Any number of processes may do so at once: whatever is
// written is written on the condition that nothing has changed, and what is sent
// twice is run once.
func (o *Orchestrator) Reconcile(ctx context.Context) error {
	r := reconciler{Orchestrator: o}
	for {
		r.round(ctx)
		// Replicas that start together do not stay together.
		if message.Pause(ctx, o.ReconcilePeriod-mathrand.N(o.ReconcilePeriod/8+1)) != nil {
			return nil
		}
	}
}

// reconciler is one Reconcile and how far it has come.
type reconciler struct {
	*Orchestrator
	rounds  int
	letters int64            // the first dead letter that was not looked at
	running execution.Cursor // in the listing of old executions
	failed  execution.Cursor // in the listing of failed ones
}

func (r *reconciler) round(ctx context.Context) {
	for _, part := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"dead letters", r.lookAtDeadLetters},
		{"old executions", r.lookAtOld},
		{"failed executions", r.lookAtFailed},
	} {
		bounded, cancel := context.WithTimeout(ctx, ReconcileBudget/3)
		if err := part.do(bounded); err != nil && ctx.Err() == nil {
			r.Log.LogAttrs(ctx, slog.LevelWarn, "reconcile", slog.String("part", part.what), slog.Any("err", err))
		}
		cancel()
	}
}

// lookAtDeadLetters goes on where the last round ended. One that comes to nothing,
// because the store does not answer, is where the next round begins.
func (r *reconciler) lookAtDeadLetters(ctx context.Context) error {
	if r.rounds%rewind == 0 {
		r.letters = 0
	}
	r.rounds++
	for looked := 0; looked < maxLooked; {
		page, err := r.DeadLetters.Browse(ctx, r.letters, deadPage)
		if err != nil {
			return err
		}
		for _, d := range page {
			err := r.lookAtDeadLetter(ctx, d)
			if errors.Is(err, message.ErrRefused) || errors.Is(err, errLaterRun) { // the next look will see no more
				r.Log.LogAttrs(ctx, slog.LevelWarn, "reconcile", slog.String("message", d.MessageID), slog.Any("err", err))
			} else if err != nil {
				return fmt.Errorf("dead letter %s: %w", d.MessageID, err)
			}
			r.letters = d.Sequence + 1
		}
		if looked += len(page); len(page) < deadPage {
			break
		}
	}
	return nil
}

// innocent are the reasons that say nothing about an execution.
var innocent = []string{message.IdempotencyKeyReused, message.InvalidMessage, message.TooOld}

// errLaterRun: a replica does not know the run yet, or nobody does, as after a restore of
// the store. Whichever it is, those behind it do not wait, and it is looked at again when
// all are.
var errLaterRun = errors.New("it is of a run that has not begun")

// lookAtDeadLetter takes a dead letter for a hint (E4). One that nobody can read is
// none of ours, whatever execution it names: that one is looked at as if it were
// old, and not failed for it.
func (r *reconciler) lookAtDeadLetter(ctx context.Context, d DeadLetter) error {
	if slices.Contains(innocent, d.Reason) {
		return nil
	}
	task, err := message.ParseTask(d.Body)
	readable := err == nil
	if !readable {
		if message.CheckExecutionID(d.CorrelationID) != nil {
			return nil
		}
		task.ExecutionID = d.CorrelationID
	}
	stands, err := r.Store.Load(ctx, task.ExecutionID)
	switch {
	case errors.Is(err, message.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	switch e := stands.Execution; {
	case e.Status == execution.Failed:
		return r.recover(ctx, e.ExecutionID)
	case e.Status != execution.Running:
		return nil
	case !readable:
		_, err = r.look(ctx, stands, "")
		return err
	case task.Run < e.Run:
		return nil
	case task.Run > e.Run:
		return fmt.Errorf("load %s: %w: %d, and not %d", e.ExecutionID, errLaterRun, task.Run, e.Run)
	}
	asked, err := claim.Fingerprint(task.Type, task.Payload)
	if err != nil || asked != stands.Execution.Request {
		return err // another payload under its id, which a worker would have refused (C7)
	}
	_, err = r.look(ctx, stands, reasonOf(d))
	return err
}

// reasonOf is never empty: somebody may have moved the message by hand.
func reasonOf(d DeadLetter) string {
	if d.Reason == "" {
		return "DeadLettered"
	}
	return d.Reason
}

// lookAtOld looks at executions that have been running for long (E5). The listing is
// gone on with by the next round, whatever became of this one's executions.
func (r *reconciler) lookAtOld(ctx context.Context) error {
	const ever = 100 * 365 * 24 * time.Hour
	var failed error
	for looked := 0; looked < maxLooked && ctx.Err() == nil; {
		ids, next, err := r.Store.Unchanged(ctx, execution.Running, r.ReconcileAge, ever, r.running)
		r.running = next // the beginning, after an error: a cursor may have grown too old
		if err != nil {
			return err
		}
		failed = cmp.Or(failed, each(ctx, ids, r.lookAtOldOne))
		if looked += len(ids); next == "" {
			break
		}
	}
	return failed
}

// each looks at every execution, and says how the first failed and how many did.
func each(ctx context.Context, ids []string, look func(context.Context, string) error) error {
	var first error
	failed := 0
	for _, id := range ids {
		if err := look(ctx, id); err != nil {
			first = cmp.Or(first, err)
			failed++
		}
	}
	if first != nil {
		return fmt.Errorf("%d of %d executions are left to another round, the first since: %w", failed, len(ids), first)
	}
	return nil
}

func (r *reconciler) lookAtOldOne(ctx context.Context, id string) error {
	stands, err := r.Store.Load(ctx, id)
	switch {
	case errors.Is(err, message.ErrNotFound):
		return nil
	case err != nil:
		return err
	case stands.Execution.Status != execution.Running:
		return nil
	case len(stands.Execution.Tasks) > 0:
		return r.rejoin(ctx, stands)
	}
	found, err := r.look(ctx, stands, "")
	if err != nil || found == claim.FoundDone || found == claim.FoundOver {
		return err
	}
	if cancelled, err := r.cancelWithWhole(ctx, stands.Execution); err != nil || cancelled {
		return err
	}
	if found != claim.FoundNobody {
		return nil
	}
	return r.redispatch(ctx, stands)
}

// cancelWithWhole goes on with the cancel of an orchestration where it was cut off: a
// part of it that still runs is cancelled too (E8).
func (r *reconciler) cancelWithWhole(ctx context.Context, part execution.Execution) (cancelled bool, err error) {
	if part.Orchestration == "" {
		return false, nil
	}
	whole, err := r.Store.Load(ctx, part.Orchestration)
	if errors.Is(err, message.ErrNotFound) {
		return false, nil // not at this replica, or older than the store keeps
	}
	if err != nil || whole.Execution.Status != execution.Cancelled {
		return false, err
	}
	return true, r.cancelPart(ctx, whole.Execution, part.ExecutionID, whole.Execution.CancelledBy())
}

// lookAtFailed looks whether a FAILED execution's claim is COMPLETED (E4): an
// operator's word that was cut off between the two, or an event that was lost. It
// takes a hundred a round, in turn. A claim is forgotten some time after its last
// write, and what was never written to later than that is not found either.
func (r *reconciler) lookAtFailed(ctx context.Context) error {
	ids, next, err := r.Store.Unchanged(ctx, execution.Failed, 0, 2*r.Claims.Keep, r.failed)
	r.failed = next
	if err != nil {
		return err
	}
	return each(ctx, ids, r.recover)
}

// recover completes a failed execution if its claim is completed.
func (r *reconciler) recover(ctx context.Context, id string) error {
	c, err := r.Claims.Read(ctx, id)
	if err != nil || c != nil && c.Status != claim.Completed {
		return err
	}
	if c == nil {
		return r.rejoinFailed(ctx, id)
	}
	count(ctx, r.Counters.reconciled, attribute.String("oneeffect.hint", "failed"), attribute.String("oneeffect.found", claim.FoundDone.String()))
	return r.end(ctx, completedBy(*c), execution.Stored{})
}

// look examines the claim of a running execution, and ends the execution if the
// claim has ended, or ends by that.
func (r *reconciler) look(ctx context.Context, stands execution.Stored, deadLetter string) (claim.Found, error) {
	e := stands.Execution
	if stands.At.IsZero() {
		return 0, fmt.Errorf("load %s: %w: the answer has no Date header, without which nothing can be too old: let the gateway's pass", e.ExecutionID, message.ErrRefused)
	}
	known := look(e)
	known.DeadLetter, known.Now = deadLetter, stands.At
	found, c, err := r.Claims.Examine(ctx, known)
	if err != nil {
		return 0, err
	}
	hint := "age"
	if deadLetter != "" {
		hint = "dead letter"
	}
	count(ctx, r.Counters.reconciled, attribute.String("oneeffect.hint", hint), attribute.String("oneeffect.found", found.String()))
	switch found {
	case claim.FoundDone:
		return found, r.end(ctx, completedBy(c), stands)
	case claim.FoundOver:
		return found, r.end(ctx, failedBy(c), stands)
	}
	return found, nil
}

// end applies what a claim says as if its event had arrived.
func (r *reconciler) end(ctx context.Context, event message.Event, stands execution.Stored) error {
	decision, err := r.transition(ctx, event, stands)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if decision == execution.Contradiction {
		level = slog.LevelError // somebody must look: a promise of the claims is broken
	}
	r.Log.LogAttrs(ctx, level, "reconciled", slog.String("task", event.ExecutionID()), slog.String("event", event.Type()), slog.String("decision", decision.String()))
	return r.joinEnded(ctx, event.ExecutionID())
}

func completedBy(c claim.Claim) message.Event {
	return message.Event{Completed: &message.Completed{
		ExecutionID: c.ID, Run: c.Run, Fence: c.Fence, ResultRef: c.Result.Ref, ResultDigest: c.Result.Digest,
	}}
}

func failedBy(c claim.Claim) message.Event {
	return message.Event{Failed: &message.Failed{
		ExecutionID: c.ID, Run: c.Run, Fence: c.Fence,
		Reason: c.Failure.Reason, Description: c.Failure.Description, Outcome: c.Failure.Outcome,
	}}
}

// redispatch sends the task of an execution again that nobody works on, if it is
// time. It is counted first: of several processes one counts, and that one sends. A
// crash between the two costs the wait until the next time.
func (r *reconciler) redispatch(ctx context.Context, stands execution.Stored) error {
	e := stands.Execution
	var before *execution.Redispatch
	counted, err := r.Store.Redispatched(ctx, e.ExecutionID)
	switch {
	case err == nil:
		before = &counted.Redispatch
	case !errors.Is(err, message.ErrNotFound):
		return err
	}
	next, due := execution.Again(e, before, counted.Age, r.ReconcileAge)
	if !due {
		return nil
	}
	err = r.Store.Redispatch(ctx, next, counted.ETag)
	if errors.Is(err, message.ErrExists) || errors.Is(err, message.ErrConflict) {
		return nil // another process counts it, and sends
	}
	if err != nil {
		return err
	}
	copied := execution.Entry{MessageID: message.CopyMessageID(e.ExecutionID, rand.Text()), Run: e.Run}
	m, err := taskFor(e, copied, stands.ETag)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(withTraceparent(ctx, e.TraceParent), r.SendTimeout)
	defer cancel()
	if err := r.Send(bounded, m); err != nil {
		return fmt.Errorf("send task %s: %w", m.ID, err)
	}
	count(ctx, r.Counters.redispatched)
	r.Log.LogAttrs(ctx, slog.LevelInfo, "sent again", slog.String("task", e.ExecutionID), slog.Int("run", e.Run), slog.Int("times", next.Count))
	return nil
}
