package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
	"unicode/utf8"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// What an operator's words are bounded by: they stay in the history.
const (
	maxReason    = 500
	maxResultRef = 2048
)

// asked reads what the operations have in common: the execution, who asks and why,
// and what version was seen. reason is a member of body.
func asked(w http.ResponseWriter, r *http.Request, body any, form string, reason *string, required bool) (id string, by execution.Operator, match tags, err error) {
	if id, err = executionID(r); err != nil {
		return
	}
	if match, err = tagsOf(r, "If-Match"); err != nil {
		return
	}
	if err = readBody(w, r, body, form, required); err != nil {
		return
	}
	by, err = operator(r, *reason, required)
	return
}

// operator is who asks for a change, and why.
func operator(r *http.Request, reason string, required bool) (execution.Operator, error) {
	if required && reason == "" {
		return execution.Operator{}, problem{InvalidRequest, "there is no reason: say why, it stays in the history"}
	}
	if utf8.RuneCountInString(reason) > maxReason {
		return execution.Operator{}, problem{InvalidRequest, fmt.Sprintf("the reason has more than %d characters", maxReason)}
	}
	return execution.Operator{Name: PrincipalOf(r.Context()).Name, Reason: reason}, nil
}

// operation is one change that somebody asks for. next decides from what stands;
// apply writes what was decided.
type operation struct {
	name  string
	match tags // If-Match
	next  func(stands execution.Execution, now time.Time) (execution.Change, execution.Decision, error)
	apply func(ctx context.Context, stands execution.Stored, change *execution.Change) (execution.ETag, error)
}

// operate decides from what stands and writes under its ETag, until one decision
// holds: a race that was lost, or an answer, is looked at again, and what was
// applied after all is then found to have happened. done is whether this call wrote.
func (o *Orchestrator) operate(ctx context.Context, id string, op operation) (stands execution.Stored, done bool, err error) {
	for range maxRaces {
		stands, err = o.Store.Load(ctx, id)
		if err != nil {
			return stands, false, err
		}
		now := stands.At // notAfter is the store's to compare with, where it says what time it is
		if now.IsZero() {
			now = time.Now()
		}
		change, decision, err := op.next(stands.Execution, now.UTC())
		if decision == execution.NoOp {
			return stands, false, nil // also under an ETag of before: what is asked for has happened
		}
		if op.match.given && !op.match.strong(string(stands.ETag)) {
			return stands, false, problem{Changed, "the execution has changed: it is " + string(stands.Execution.Status) + " now; look at it again, and then decide"}
		}
		if decision == execution.Refusal {
			return stands, false, problem{NotPossible, err.Error()}
		}
		if err != nil {
			return stands, false, err
		}
		etag, err := op.apply(ctx, stands, &change)
		if err == nil {
			o.Log.LogAttrs(ctx, slog.LevelInfo, "operation", slog.String("operation", op.name), slog.String("task", id),
				slog.String("by", change.Note.By), slog.String("reason", change.Note.Detail))
			return execution.Stored{Execution: stands.Execution.With(change), ETag: etag}, true, nil
		}
		if !lookAgain(err) && !errors.Is(err, message.ErrExists) {
			return stands, false, fmt.Errorf("%s %s: %w", op.name, id, err)
		}
	}
	return stands, false, fmt.Errorf("%s %s: lost %d races: %w", op.name, id, maxRaces, message.ErrTransient)
}

// change writes a transition that nothing has to be sent for.
func (o *Orchestrator) change(ctx context.Context, stands execution.Stored, change *execution.Change) (execution.ETag, error) {
	return o.Store.Change(ctx, stands.Execution.ExecutionID, *change, stands.ETag)
}

// cancel ends a running execution (E8). The execution first: from then on nothing
// its task does moves it. Then the claim, if nobody can have called under it.
func (o *Orchestrator) cancel(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Reason string `json:"reason"`
	}
	id, by, match, err := asked(w, r, &body, `{"reason":…}`, &body.Reason, false)
	if err == nil && !match.given {
		err = problem{PreconditionRequired, "send If-Match with the execution's ETag, so that what is cancelled is what you have seen"}
	}
	if err != nil {
		o.fail(w, r, err)
		return
	}
	stands, _, err := o.operate(r.Context(), id, o.cancelling(by, match))
	if err != nil {
		o.fail(w, r, err)
		return
	}
	ctx, stop := o.followUp(r.Context())
	defer stop()
	o.cancelled(ctx, stands.Execution, by)
	o.answer(w, r, http.StatusOK, stands)
}

func (o *Orchestrator) cancelling(by execution.Operator, match tags) operation {
	return operation{
		name: "cancel", match: match, apply: o.change,
		next: func(stands execution.Execution, now time.Time) (execution.Change, execution.Decision, error) {
			return execution.Cancel(stands, by, now)
		},
	}
}

// cancelled does what follows from a cancel, whoever wrote it: the answer to the write
// may have been lost, or the same request may go on where an earlier one was cut off.
func (o *Orchestrator) cancelled(ctx context.Context, e execution.Execution, by execution.Operator) {
	if len(e.Tasks) > 0 {
		o.cancelParts(ctx, e, by)
		return
	}
	o.withdraw(ctx, e)
	o.joinNow(ctx, e)
}

// withdraw is best effort: a claim that it leaves ends by itself, and its events
// change nothing any more.
func (o *Orchestrator) withdraw(ctx context.Context, e execution.Execution) {
	withdrawn, err := o.Claims.Withdraw(ctx, look(e))
	o.Log.LogAttrs(ctx, slog.LevelInfo, "claim of a cancelled execution", slog.String("task", e.ExecutionID), slog.Bool("withdrawn", withdrawn), slog.Any("err", err))
}

// look is what is known of an execution when its claim is looked at.
func look(e execution.Execution) claim.Look {
	return claim.Look{ID: e.ExecutionID, TaskType: e.Type, Fingerprint: e.Request, Run: e.Run, NotAfter: e.NotAfter, Now: time.Now().UTC()}
}

// replay begins another run (E7). Execution and outbox entry are one batch, so that
// a crash leaves either nothing or what the relay sends. What is sent belongs to the
// execution's trace, and not to the operator's.
func (o *Orchestrator) replay(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Reason               string `json:"reason"`
		AssertNothingApplied bool   `json:"assertNothingApplied"`
	}
	id, by, match, err := asked(w, r, &body, `{"reason":…, "assertNothingApplied":…}`, &body.Reason, true)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	entry := func(run int) execution.Entry { return execution.OutboxEntry(id, message.TaskMessageID(id, run), run) }
	stands, done, err := o.operate(r.Context(), id, operation{
		name: "replay", match: match,
		next: func(stands execution.Execution, now time.Time) (execution.Change, execution.Decision, error) {
			return execution.Replay(stands, by, body.AssertNothingApplied, o.ReplaySettle, now)
		},
		apply: func(ctx context.Context, stands execution.Stored, change *execution.Change) (execution.ETag, error) {
			return o.Store.Reopen(ctx, id, *change, entry(change.Reopened.Run), stands.ETag)
		},
	})
	if err != nil {
		o.fail(w, r, err)
		return
	}
	o.clearing.add(stands.Execution, stands.Execution.Run-1)
	if e := stands.Execution; done {
		if err := o.dispatch(withTraceparent(r.Context(), e.TraceParent), e, entry(e.Run), stands.ETag); err != nil {
			o.Log.LogAttrs(r.Context(), slog.LevelWarn, "dispatch is left to the relay", slog.String("task", id), slog.Any("err", err))
		}
	}
	o.answer(w, r, http.StatusOK, stands)
}

// resolve closes a failed execution as applied (E7): nothing is called. The claim
// first: a crash in between leaves a completed claim, from which the same request,
// or whoever reads the claim, completes the execution.
func (o *Orchestrator) resolve(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Reason    string `json:"reason"`
		ResultRef string `json:"resultRef"`
	}
	id, by, match, err := asked(w, r, &body, `{"reason":…, "resultRef":…}`, &body.Reason, true)
	if err == nil && (body.ResultRef == "" || len(body.ResultRef) > maxResultRef) {
		err = problem{InvalidRequest, fmt.Sprintf("the resultRef has %d bytes: say in 1 to %d where the effect is", len(body.ResultRef), maxResultRef)}
	}
	if err != nil {
		o.fail(w, r, err)
		return
	}
	result, err := claim.NewResult(body.ResultRef, nil, "")
	if err != nil {
		o.fail(w, r, err)
		return
	}
	stands, _, err := o.operate(r.Context(), id, operation{
		name: "resolve", match: match,
		next: func(stands execution.Execution, now time.Time) (execution.Change, execution.Decision, error) {
			return execution.Resolve(stands, message.Completed{ExecutionID: id, Run: stands.Run, ResultRef: result.Ref, ResultDigest: result.Digest}, by, now)
		},
		apply: func(ctx context.Context, stands execution.Stored, change *execution.Change) (execution.ETag, error) {
			closed, err := o.Claims.Resolve(ctx, id, stands.Execution.Run, result)
			if errors.Is(err, claim.ErrNotFailed) {
				return "", problem{NotPossible, err.Error()}
			}
			if err != nil {
				return "", err
			}
			// Of a claim that was completed after all, its own result is the right one (C2).
			change.Result = &execution.Result{Ref: closed.Result.Ref, Digest: closed.Result.Digest, Fence: closed.Fence}
			change.Note.Run, change.Note.Fence = closed.Run, closed.Fence
			return o.Store.Change(ctx, id, *change, stands.ETag)
		},
	})
	if err != nil {
		o.fail(w, r, err)
		return
	}
	o.clearing.add(stands.Execution, stands.Execution.Run)
	ctx, stop := o.followUp(r.Context())
	defer stop()
	o.joinNow(ctx, stands.Execution)
	o.answer(w, r, http.StatusOK, stands)
}
