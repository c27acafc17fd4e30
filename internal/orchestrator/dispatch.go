package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"

	"go.opentelemetry.io/otel/propagation"
)

// taskFor is the message that an outbox entry stands for.
func taskFor(e execution.Execution, entry execution.Entry, ticket execution.ETag) (message.Message, error) {
	return e.Task(entry.Run, ticket).Message(entry.MessageID, time.Now())
}

// dispatch sends a task and forgets its outbox entry. In this order: an entry
// forgotten first would be a task that a crash loses (E6).
func (o *Orchestrator) dispatch(ctx context.Context, e execution.Execution, entry execution.Entry, ticket execution.ETag) error {
	m, err := taskFor(e, entry, ticket)
	if err != nil {
		return err
	}
	ctx, cancel := o.followUp(ctx)
	defer cancel()
	if err := o.Send(ctx, m); err != nil {
		return fmt.Errorf("send task %s: %w", m.ID, err)
	}
	if err := o.Store.Sent(ctx, entry); err != nil {
		return fmt.Errorf("forget outbox entry %s: %w", entry.ID, err) // the relay will send it twice, which is harmless
	}
	return nil
}

// followUp is for what follows a write: it goes on when whoever asked for the write
// has gone, and not for long.
func (o *Orchestrator) followUp(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), o.SendTimeout)
}

// maxRelayed bounds one round of the relay.
const maxRelayed = 100

// Relay sends what a crash left in the outbox, until ctx ends. A round that has had
// its fill is gone on with by the next: entries that cannot be sent keep none of
// the others waiting.
func (o *Orchestrator) Relay(ctx context.Context) error {
	tick := time.NewTicker(o.RelayPeriod)
	defer tick.Stop()
	var from execution.Cursor
	for {
		var err error
		if from, err = o.relay(ctx, from); err != nil && ctx.Err() == nil {
			o.Log.LogAttrs(ctx, slog.LevelWarn, "relay", slog.Any("err", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// relay is one round, from a cursor on; the next one goes on where it says.
func (o *Orchestrator) relay(ctx context.Context, from execution.Cursor) (execution.Cursor, error) {
	var errs []error
	var oldest time.Duration
	defer func() { o.Counters.waiting(ctx, oldest) }()
	for relayed := 0; relayed < maxRelayed; {
		entries, next, err := o.Store.Unsent(ctx, o.RelayAge, from)
		if err != nil { // of the cursor too, if it has grown too old
			return "", errors.Join(append(errs, fmt.Errorf("read the outbox: %w", err))...)
		}
		for _, entry := range entries {
			if ctx.Err() != nil {
				return from, errors.Join(errs...)
			}
			waited, err := o.resend(ctx, entry)
			oldest, errs = max(oldest, waited), append(errs, err)
		}
		relayed += len(entries)
		if from = next; from == "" {
			break
		}
	}
	return from, errors.Join(errs...)
}

// resend looks first: the ticket is the ETag that stands, and a run that has ended,
// or that a later one has replaced, needs no task. An execution that stands at an
// earlier run than its entry is an old version of it, at a replica that lags: the
// entry stays, since it may be all that is left of the dispatch (E6). It says how long
// the entry has waited.
func (o *Orchestrator) resend(ctx context.Context, entry execution.Entry) (waited time.Duration, err error) {
	stands, err := o.Store.Load(ctx, entry.ExecutionID)
	if err != nil {
		return 0, fmt.Errorf("load %s: %w", entry.ExecutionID, err)
	}
	for _, n := range stands.Execution.History {
		if n.Run == entry.Run { // the note that began the run is the first
			waited = stands.At.Sub(n.At)
			break
		}
	}
	return max(waited, 0), o.resendFor(ctx, entry, stands)
}

func (o *Orchestrator) resendFor(ctx context.Context, entry execution.Entry, stands execution.Stored) error {
	e := stands.Execution
	switch {
	case entry.Part != "":
		return o.begin(withTraceparent(ctx, e.TraceParent), e, entry)
	case e.Run < entry.Run:
		return fmt.Errorf("relay run %d of %s: %w: read at run %d", entry.Run, entry.ExecutionID, message.ErrTransient, e.Run)
	case e.Run > entry.Run || e.Status != execution.Running:
		return o.Store.Sent(ctx, entry)
	}
	return o.dispatch(withTraceparent(ctx, e.TraceParent), e, entry, stands.ETag)
}

// traceparent is the W3C header of the request's trace, kept with the execution
// so that what a relay sends later belongs to it too.
func traceparent(ctx context.Context) string {
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, header)
	return header["traceparent"]
}

func withTraceparent(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}
