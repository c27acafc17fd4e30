package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// Orchestrator's fields are its wiring, filled in by cmd/orchestrator.
type Orchestrator struct {
	Store execution.Store
	Send  func(ctx context.Context, m message.Message) error // to the queue of tasks

	SendTimeout time.Duration // bound of one dispatch (T_send)
	RelayAge    time.Duration // an outbox entry younger than this is its creator's business
	RelayPeriod time.Duration
	MaxMessage  int // bytes of a task message that the queue takes

	Log *slog.Logger
}

// Waits and bounds of the consumer. A subscription cannot schedule copies, so a
// delay here holds the message and then spends a delivery count.
const (
	maxRaces   = 8
	retryDelay = 5 * time.Second
)

// Reasons of dead-lettered events.
const (
	InvalidMessage   = "InvalidMessage"
	ResultChanged    = "ResultChanged"    // E2: cannot happen while claims keep C2
	UnknownExecution = "UnknownExecution" // an event about nothing that stands here
)

// Handle is one delivery of a task event: arrows 12 to 14.
func (o *Orchestrator) Handle(ctx context.Context, d message.Delivery) message.Settlement {
	event, err := message.ParseEvent(d.Body)
	if err != nil {
		o.Log.LogAttrs(ctx, slog.LevelWarn, "not taken", slog.String("message", d.MessageID), slog.String("reason", InvalidMessage), slog.Any("err", err))
		return message.Reject(InvalidMessage, err.Error())
	}
	decision, err := o.transition(ctx, event)
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.String("task", event.ExecutionID()), slog.String("event", event.Type()), slog.Int("delivery", d.Count),
		slog.String("decision", decision.String()),
	}
	if err != nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.Any("err", err))
	}
	o.Log.LogAttrs(ctx, level, "handled", attrs...)
	switch {
	case errors.Is(err, message.ErrNotFound):
		return message.Reject(UnknownExecution, "no execution has this id; it is older than the store keeps, or of another environment")
	case err != nil:
		return message.Later(retryDelay)
	case decision == execution.Contradiction:
		return message.Reject(ResultChanged, "the execution is completed with another result; its state is unchanged")
	}
	return message.Done()
}

// transition applies an event: first under the ticket it brought, without
// looking; and whenever that does not fit, by what stands.
func (o *Orchestrator) transition(ctx context.Context, event message.Event) (execution.Decision, error) {
	now := time.Now().UTC()
	if ticket := event.Ticket(); ticket != "" {
		change, decision := execution.Next(execution.Expected(event.Run()), event, now)
		_, err := o.Store.Change(ctx, event.ExecutionID(), change, execution.ETag(ticket))
		if err == nil {
			return decision, nil
		}
		if !lookAgain(err) {
			return 0, fmt.Errorf("transition of %s: %w", event.ExecutionID(), err)
		}
	}
	for range maxRaces {
		stands, err := o.Store.Load(ctx, event.ExecutionID())
		if err != nil {
			return 0, fmt.Errorf("load %s: %w", event.ExecutionID(), err)
		}
		change, decision := execution.Next(stands.Execution, event, now)
		if decision != execution.Transition && decision != execution.Record {
			return decision, nil // an earlier delivery did this, or it changes nothing
		}
		_, err = o.Store.Change(ctx, event.ExecutionID(), change, stands.ETag)
		if err == nil {
			return decision, nil
		}
		if !lookAgain(err) {
			return 0, fmt.Errorf("transition of %s: %w", event.ExecutionID(), err)
		}
	}
	return 0, fmt.Errorf("transition of %s: lost %d races: %w", event.ExecutionID(), maxRaces, message.ErrTransient)
}

// lookAgain reports whether what stands may explain the error: somebody else
// wrote, or our own write was applied and its answer lost.
func lookAgain(err error) bool {
	return errors.Is(err, message.ErrConflict) || errors.Is(err, message.ErrUnknown) || errors.Is(err, message.ErrNotFound)
}
