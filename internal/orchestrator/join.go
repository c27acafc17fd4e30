package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// fanOut begins the parts of an orchestration that was just made. Whatever does not
// begin is left to the relay, since its outbox entry stands (E6).
func (o *Orchestrator) fanOut(ctx context.Context, e execution.Execution, entries []execution.Entry) {
	ctx, cancel := o.followUp(ctx)
	defer cancel()
	for _, entry := range entries {
		if err := o.begin(ctx, e, entry); err != nil {
			o.Log.LogAttrs(ctx, slog.LevelWarn, "part is left to the relay", slog.String("task", entry.Part), slog.Any("err", err))
		}
	}
}

// begin makes the execution of one part, sends its task, and then forgets the outbox
// entry, which is the orchestration's: the part has none of its own, so it costs what
// every execution does. One create decides between whoever begins a part and whoever
// cancels it before it began.
func (o *Orchestrator) begin(ctx context.Context, e execution.Execution, entry execution.Entry) error {
	if e.Status != execution.Running {
		if e.Status == execution.Cancelled {
			if err := o.cancelPart(ctx, e, entry.Part, e.CancelledBy()); err != nil {
				return fmt.Errorf("cancel %s: %w", entry.Part, err)
			}
		}
		return o.Store.Sent(ctx, entry)
	}
	part, err := e.Begin(entry.Part, time.Now().UTC())
	if err != nil {
		return err
	}
	ticket, err := o.Store.Create(ctx, part)
	if errors.Is(err, message.ErrExists) {
		return o.begun(ctx, e, entry)
	}
	if err != nil {
		return fmt.Errorf("begin %s: %w", entry.Part, err)
	}
	return o.dispatch(ctx, part, entry, ticket)
}

// begun goes on with a part whose id is taken. As long as the entry stands, nobody
// knows that its task was sent (E6); of an execution that is another's, the part has
// failed; and one that was cancelled before it began needs no task.
func (o *Orchestrator) begun(ctx context.Context, e execution.Execution, entry execution.Entry) error {
	stands, err := o.Store.Load(ctx, entry.Part)
	if err != nil {
		return fmt.Errorf("load %s: %w", entry.Part, err)
	}
	switch part := stands.Execution; {
	case part.Orchestration != e.ExecutionID:
		taken := execution.Part{ExecutionID: entry.Part, Status: execution.Failed, Run: 1, Reason: message.IdempotencyKeyReused}
		if err := o.join(ctx, e.ExecutionID, taken); err != nil {
			return err
		}
	case part.Status == execution.Running && part.Run == entry.Run:
		return o.dispatch(ctx, part, entry, stands.ETag)
	}
	return o.Store.Sent(ctx, entry)
}

// joinEvent joins a part whose event was handled. After a transition the event says
// how it ended; after anything else only its execution knows.
func (o *Orchestrator) joinEvent(ctx context.Context, event message.Event, d execution.Decision) error {
	if event.Orchestration() == "" || d == execution.Contradiction {
		return nil
	}
	if d != execution.Transition {
		return o.joinEnded(ctx, event.ExecutionID())
	}
	part := execution.Part{ExecutionID: event.ExecutionID(), Run: event.Run()}
	if c := event.Completed; c != nil {
		part.Status, part.Ref, part.Digest = execution.Completed, c.ResultRef, c.ResultDigest
	} else {
		part.Status, part.Reason = execution.Failed, event.Failed.Reason
	}
	return o.joinUnseen(ctx, event.Orchestration(), part)
}

// joinUnseen joins without looking, which the first end of a part needs not. What
// stands after it is what its answer shows; if it does not fit, look.
func (o *Orchestrator) joinUnseen(ctx context.Context, id string, part execution.Part) error {
	joined, note, ok := execution.Unseen(id, part, time.Now().UTC())
	if !ok {
		return o.join(ctx, id, part)
	}
	stands, err := o.Store.Join(ctx, id, joined, note)
	switch {
	case err == nil:
		return o.conclude(ctx, stands)
	case errors.Is(err, message.ErrConflict), errors.Is(err, message.ErrUnknown), errors.Is(err, message.ErrTransient):
		return o.join(ctx, id, part)
	}
	return err // there is no such orchestration, by the word of a write
}

// conclude ends an orchestration whose last part has ended.
func (o *Orchestrator) conclude(ctx context.Context, stands execution.Stored) error {
	return o.whole(ctx, stands, stands.Execution.ExecutionID, func(e execution.Execution, now time.Time) (execution.Change, execution.Decision, error) {
		change, d := execution.Conclude(e, now)
		return change, d, nil
	})
}

// join writes the end of a part into its orchestration, having looked.
func (o *Orchestrator) join(ctx context.Context, id string, part execution.Part) error {
	return o.whole(ctx, execution.Stored{}, id, func(e execution.Execution, now time.Time) (execution.Change, execution.Decision, error) {
		return execution.Join(e, part, now)
	})
}

// whole writes what is decided of an orchestration as it stands, on the condition that
// it still does: it is read where that is not known, or not any more.
func (o *Orchestrator) whole(ctx context.Context, stands execution.Stored, id string,
	decide func(execution.Execution, time.Time) (execution.Change, execution.Decision, error),
) error {
	gone := false // by the word of a write, which no lagging replica answers
	for race := range 2 * maxRaces {
		if race > 0 {
			if err := message.Pause(ctx, rand.N(time.Duration(race)*20*time.Millisecond)); err != nil {
				return err
			}
		}
		if stands.ETag == "" {
			var err error
			stands, err = o.Store.Load(ctx, id)
			if errors.Is(err, message.ErrNotFound) && !gone {
				err = fmt.Errorf("%w: not there, or not at this replica yet", message.ErrTransient)
			}
			if err != nil {
				return fmt.Errorf("join into %s: %w", id, err)
			}
		}
		change, d, err := decide(stands.Execution, time.Now().UTC())
		if d == execution.Contradiction {
			// Nothing that a redelivery could mend, and the part itself has ended well.
			o.Log.LogAttrs(ctx, slog.LevelError, "part not joined", slog.String("execution", id), slog.Any("err", err))
			return nil
		}
		if d == execution.NoOp {
			return nil
		}
		_, err = o.Store.Change(ctx, id, change, stands.ETag)
		if err == nil {
			if d == execution.Transition {
				o.Log.LogAttrs(ctx, slog.LevelInfo, "orchestration ended", slog.String("execution", id), slog.String("status", string(change.Status)))
			}
			return nil
		}
		if !lookAgain(err) {
			return fmt.Errorf("join into %s: %w", id, err)
		}
		gone, stands = errors.Is(err, message.ErrNotFound), execution.Stored{}
	}
	return fmt.Errorf("join into %s: lost %d races: %w", id, 2*maxRaces, message.ErrTransient)
}

// rejoin looks after an orchestration that has been running for long: parts that
// never began are begun, ends that were never joined are, and what all parts have
// ended is ended.
func (o *Orchestrator) rejoin(ctx context.Context, stands execution.Stored) error {
	e := stands.Execution
	errs := []error{o.conclude(ctx, stands)}
	for _, p := range e.Tasks {
		if p.Status == execution.Completed || ctx.Err() != nil {
			continue
		}
		stands, err := o.Store.Load(ctx, p.ExecutionID)
		switch {
		case errors.Is(err, message.ErrNotFound):
			errs = append(errs, o.begin(ctx, e, execution.PartEntry(e.ExecutionID, p.ExecutionID)))
			continue
		case err != nil:
			errs = append(errs, err)
			continue
		}
		errs = append(errs, o.joinPart(ctx, stands.Execution))
	}
	return errors.Join(errs...)
}

// rejoinFailed looks after a FAILED orchestration whose parts may have recovered.
func (o *Orchestrator) rejoinFailed(ctx context.Context, id string) error {
	stands, err := o.Store.Load(ctx, id)
	if errors.Is(err, message.ErrNotFound) {
		return nil
	}
	if err != nil || len(stands.Execution.Tasks) == 0 || stands.Execution.Status != execution.Failed {
		return err
	}
	return o.rejoin(ctx, stands)
}

// joinEnded joins an execution as it stands.
func (o *Orchestrator) joinEnded(ctx context.Context, id string) error {
	stands, err := o.Store.Load(ctx, id)
	if err != nil {
		return fmt.Errorf("load %s: %w", id, err)
	}
	return o.joinPart(ctx, stands.Execution)
}

// joinPart joins an execution into its orchestration, if it is a part of one and has
// ended.
func (o *Orchestrator) joinPart(ctx context.Context, e execution.Execution) error {
	ended, over := e.Ended()
	if e.Orchestration == "" || !over {
		return nil
	}
	return o.join(ctx, e.Orchestration, ended)
}

// joinNow joins what an operator has ended, which no event will do. What fails is
// left to the reconciler.
func (o *Orchestrator) joinNow(ctx context.Context, e execution.Execution) {
	if err := o.joinPart(ctx, e); err != nil {
		o.Log.LogAttrs(ctx, slog.LevelWarn, "join is left to the reconciler", slog.String("task", e.ExecutionID), slog.Any("err", err))
	}
}

// cancelParts cancels what is still running of an orchestration that was cancelled:
// best effort, as the rest of a cancel is (E8).
func (o *Orchestrator) cancelParts(ctx context.Context, e execution.Execution, by execution.Operator) {
	for i, p := range e.Tasks {
		if ctx.Err() != nil {
			o.Log.LogAttrs(ctx, slog.LevelWarn, "parts not cancelled in time", slog.String("task", e.ExecutionID), slog.Int("parts", len(e.Tasks)-i))
			return
		}
		if err := o.cancelPart(ctx, e, p.ExecutionID, by); err != nil {
			o.Log.LogAttrs(ctx, slog.LevelWarn, "part not cancelled", slog.String("task", p.ExecutionID), slog.Any("err", err))
		}
	}
}

// cancelPart cancels a part as it stands. One that has not begun is made, cancelled:
// whoever is about to begin it meets that, and sends nothing. An execution that had
// its id before is another's, and is left alone.
func (o *Orchestrator) cancelPart(ctx context.Context, e execution.Execution, id string, by execution.Operator) error {
	cancel := o.cancelling(by, tags{})
	cancel.next = func(stands execution.Execution, now time.Time) (execution.Change, execution.Decision, error) {
		if stands.Orchestration != e.ExecutionID {
			return execution.Change{}, execution.Refusal, errors.New("it is no part of " + e.ExecutionID)
		}
		return execution.Cancel(stands, by, now)
	}
	for range maxRaces {
		stands, _, err := o.operate(ctx, id, cancel)
		if _, refused := errors.AsType[problem](err); refused {
			return nil // it has ended
		}
		if err == nil {
			o.cancelled(ctx, stands.Execution, by)
			return nil
		}
		if !errors.Is(err, message.ErrNotFound) {
			return err
		}
		now := time.Now().UTC()
		part, err := e.Begin(id, now)
		if err != nil {
			return err
		}
		change, _, err := execution.Cancel(part, by, now)
		if err != nil {
			return err
		}
		part = part.With(change)
		if _, err = o.Store.Create(ctx, part); err == nil {
			o.joinNow(ctx, part)
			return nil
		}
		if !errors.Is(err, message.ErrExists) && !errors.Is(err, message.ErrUnknown) {
			return err
		}
	}
	return fmt.Errorf("cancel %s: lost %d races: %w", id, maxRaces, message.ErrTransient)
}
