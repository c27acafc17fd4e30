package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// Orchestrator's fields are its wiring, filled in by cmd/orchestrator.
type Orchestrator struct {
	Store execution.Store
	Views Views
	Send  func(ctx context.Context, m message.Message) error // to the queue of tasks

	SendTimeout time.Duration // bound of one dispatch (T_send)
	RelayAge    time.Duration // an outbox entry younger than this is its creator's business
	RelayPeriod time.Duration
	MaxMessage  int // bytes of a task message that the queue takes

	Claims          *claim.Desk   // on the workers' terms
	DeadLetters     DeadLetters   // of the queue of tasks
	ReconcileAge    time.Duration // an execution that runs for longer is looked at, and its task sent again (X)
	ReconcilePeriod time.Duration

	Attached func(context.Context) error // nil error: events are received; nil: nobody asks

	Log      *slog.Logger
	Counters Counters // zero: nothing is counted

	ReplaySettle time.Duration // no sooner after a failure of unknown outcome is another run begun
	FollowPeriod time.Duration // how often the change feed is read when nothing changes
	FollowWindow time.Duration // how far back the index of the newest executions begins

	// Changed is told of executions that have changed, once the index is as new as the
	// store; an empty page, when it has become so: any may have. It must not wait. nil:
	// nobody is told.
	Changed func(page []execution.Summary)

	index    index
	seen     seen
	clearing clearing
}

// maxRaces bounds one transition: races lost to other writers of the execution.
const maxRaces = 8

// Reasons of dead-lettered events.
const (
	ResultChanged    = "ResultChanged"    // E2: cannot happen while claims keep C2
	UnknownExecution = "UnknownExecution" // an event about nothing that stands here
)

// Handle is one delivery of a task event: arrows 12 to 14.
func (o *Orchestrator) Handle(ctx context.Context, d message.Delivery) message.Settlement {
	event, err := message.ParseEvent(d.Body)
	if err != nil {
		o.Log.LogAttrs(ctx, slog.LevelWarn, "not taken", slog.String("message", d.MessageID), slog.String("reason", message.InvalidMessage), slog.Any("err", err))
		return message.Reject(message.InvalidMessage, err.Error())
	}
	decision, err := o.transition(ctx, event, execution.Stored{Execution: execution.Expected(event.Run()), ETag: execution.ETag(event.Ticket())})
	if err == nil {
		err = o.joinEvent(ctx, event, decision)
	}
	o.Counters.event(ctx, event, decision, err)
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.String("task", event.ExecutionID()), slog.String("event", event.Type()), slog.Int("delivery", d.Count),
		slog.String("decision", decision.String()), slog.Duration("took", time.Since(d.Received)),
	}
	switch {
	case err != nil:
		level, attrs = slog.LevelWarn, append(attrs, slog.Any("err", err))
	case decision == execution.Contradiction:
		level = slog.LevelError // somebody must look: a promise of the claims is broken
	}
	o.Log.LogAttrs(ctx, level, "handled", attrs...)
	switch {
	case errors.Is(err, message.ErrNotFound):
		return message.Reject(UnknownExecution, "no execution has this id; it is older than the store keeps, or of another environment")
	case err != nil:
		return message.Hold(d.Count)
	case decision == execution.Contradiction:
		return message.Reject(ResultChanged, "the execution is completed with another result; its state is unchanged")
	}
	return message.Done()
}

// transition applies an event to what its caller takes to stand: under that
// version, without looking; and whenever it does not fit, to what is read.
func (o *Orchestrator) transition(ctx context.Context, event message.Event, stands execution.Stored) (execution.Decision, error) {
	id, now := event.ExecutionID(), time.Now().UTC()
	gone := false // by the word of a write, which no lagging replica answers
	for range maxRaces {
		if stands.ETag == "" {
			var err error
			stands, err = o.Store.Load(ctx, id)
			if errors.Is(err, message.ErrNotFound) && !gone {
				return 0, fmt.Errorf("load %s: %w: not there, or not at this replica yet", id, message.ErrTransient)
			}
			if err != nil {
				return 0, fmt.Errorf("load %s: %w", id, err)
			}
		}
		change, decision := execution.Next(stands.Execution, event, now)
		if decision != execution.Transition && decision != execution.Record {
			suppressed(ctx, stands.Execution)
			o.seen.fenced(event, now)
			o.seen.add(event, decision, stands.Execution.Status, now)
			return decision, nil // an earlier delivery did this, or it changes nothing
		}
		_, err := o.Store.Change(ctx, id, change, stands.ETag)
		if err == nil {
			o.seen.fenced(event, now)
			return decision, nil
		}
		if !lookAgain(err) {
			return 0, fmt.Errorf("transition of %s: %w", id, err)
		}
		o.Counters.lookingAgain(ctx, err)
		gone = errors.Is(err, message.ErrNotFound)
		stands = execution.Stored{}
	}
	return 0, fmt.Errorf("transition of %s: lost %d races: %w", id, maxRaces, message.ErrTransient)
}

// lookAgain reports whether what stands may explain the error: somebody else
// wrote, or our own write was applied and its answer lost.
func lookAgain(err error) bool {
	return errors.Is(err, message.ErrConflict) || errors.Is(err, message.ErrUnknown) || errors.Is(err, message.ErrNotFound)
}
