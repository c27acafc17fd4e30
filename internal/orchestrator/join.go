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

// begin makes the execution of one part and forgets its outbox entry. If it stands
// already, its own outbox entry says whether its task was sent; if its id was taken by
// another execution before, the part has failed.
func (o *Orchestrator) begin(ctx context.Context, e execution.Execution, entry execution.Entry) error {
	if e.Status != execution.Running {
		return o.Store.Sent(ctx, entry) // cancelled before it began
	}
	part, err := e.Begin(entry.Part, time.Now().UTC())
	if err != nil {
		return err
	}
	first := execution.OutboxEntry(part.ExecutionID, message.TaskMessageID(part.ExecutionID, 1), 1)
	ticket, err := o.Store.Create(ctx, part, first)
	switch {
	case errors.Is(err, message.ErrExists):
		stands, err := o.Store.Load(ctx, part.ExecutionID)
		if err != nil {
			return fmt.Errorf("load %s: %w", part.ExecutionID, err)
		}
		if stands.Execution.Orchestration != e.ExecutionID {
			taken := execution.Part{ExecutionID: part.ExecutionID, Status: execution.Failed, Run: 1, Reason: message.IdempotencyKeyReused}
			if err := o.join(ctx, e.ExecutionID, taken); err != nil {
				return err
			}
		}
	case err != nil:
		return fmt.Errorf("begin %s: %w", entry.Part, err)
	default:
		if err := o.dispatch(ctx, part, first, ticket); err != nil {
			o.Log.LogAttrs(ctx, slog.LevelWarn, "dispatch is left to the relay", slog.String("task", part.ExecutionID), slog.Any("err", err))
		}
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
	return o.join(ctx, event.Orchestration(), part)
}

// join writes the end of a part into its orchestration, on the condition that no
// other part was joined meanwhile: many end at once, and only the last may end it.
func (o *Orchestrator) join(ctx context.Context, id string, part execution.Part) error {
	for race := range 2 * maxRaces {
		if race > 0 {
			if err := pause(ctx, rand.N(time.Duration(race)*20*time.Millisecond)); err != nil {
				return err
			}
		}
		stands, err := o.Store.Load(ctx, id)
		if err != nil {
			return fmt.Errorf("join %s into %s: %w", part.ExecutionID, id, err)
		}
		change, d, err := execution.Join(stands.Execution, part, time.Now().UTC())
		if d == execution.Contradiction {
			// Nothing that a redelivery could mend, and the part itself has ended well.
			o.Log.LogAttrs(ctx, slog.LevelError, "part not joined", slog.String("task", part.ExecutionID), slog.Any("err", err))
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
			return fmt.Errorf("join %s into %s: %w", part.ExecutionID, id, err)
		}
	}
	return fmt.Errorf("join %s into %s: lost %d races: %w", part.ExecutionID, id, 2*maxRaces, message.ErrTransient)
}

// rejoin looks after an orchestration that has been running for long: parts that
// never began are begun, and ends that were never joined are.
func (o *Orchestrator) rejoin(ctx context.Context, e execution.Execution) error {
	var errs []error
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
	return o.rejoin(ctx, stands.Execution)
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
		if err := o.cancelPart(ctx, p.ExecutionID, by); err != nil {
			o.Log.LogAttrs(ctx, slog.LevelWarn, "part not cancelled", slog.String("task", p.ExecutionID), slog.Any("err", err))
		}
	}
}

func (o *Orchestrator) cancelPart(ctx context.Context, id string, by execution.Operator) error {
	stands, _, err := o.operate(ctx, id, o.cancelling(by, tags{}))
	if _, ended := errors.AsType[problem](err); ended || errors.Is(err, message.ErrNotFound) {
		return nil // or it has not begun, and will not
	}
	if err != nil {
		return err
	}
	o.cancelled(ctx, stands.Execution, by)
	return nil
}

// pause waits, or says why the context ended first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
