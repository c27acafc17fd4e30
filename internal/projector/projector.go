package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"oneeffect/internal/message"
	"oneeffect/internal/receipt"
)

// Projector applies messages about stock. Its fields are its wiring, filled in by
// cmd/projector.
type Projector struct {
	Inventory *receipt.Book
	Stopping  <-chan struct{} // closed when no more is received: nothing is waited for any more
	Counters  *Counters
	Log       *slog.Logger
}

// Reasons of dead-lettered events, besides message.InvalidMessage.
const (
	ReceiptConflict = "ReceiptConflict" // the key is known with other content
	UnknownItem     = "UnknownItem"     // the sku was never begun
	StockOutOfRange = "StockOutOfRange"
)

// Handle is one delivery of a message about stock. It is settled when Handle has
// returned, last (P1).
func (p *Projector) Handle(ctx context.Context, d message.Delivery) message.Settlement {
	event, err := open(d.Body)
	if err != nil {
		p.Log.LogAttrs(ctx, slog.LevelWarn, "not taken", slog.String("message", d.MessageID), slog.String("reason", message.InvalidMessage), slog.Any("err", err))
		return message.Reject(message.InvalidMessage, err.Error())
	}
	decision, err := p.record(ctx, event, d)
	tell(ctx, p.Log, p.Counters, "inventory", event, decision, err, slog.Int("delivery", d.Count), slog.String("message", d.MessageID), slog.Duration("took", time.Since(d.Received)))
	return settlementFor(event, decision, err, d.Count)
}

// errNotWaited: the sku is not known, and its beginning was not waited for.
var errNotWaited = errors.New("stopping: its beginning is not waited for")

// record records an event. The beginning of a sku that nobody knows may be behind
// it; and where an outage had both held, its hold may end later. So it is looked for
// again after every hold that a message had which came as often as this one. That
// spends no delivery, so that an outage leaves as much of it as there was.
func (p *Projector) record(ctx context.Context, e receipt.Event, d message.Delivery) (receipt.Decision, error) {
	for look := 1; ; look++ {
		decision, err := p.Inventory.Record(ctx, e, receipt.Delivery{ID: d.MessageID, Trace: traceOf(ctx), Again: d.Count > 1})
		if !errors.Is(err, receipt.ErrNoItem) || look > d.Count {
			return decision, err
		}
		if !p.wait(ctx, message.Hold(look).Delay) {
			return receipt.Decision{}, fmt.Errorf("record %q: %w", e.Key, errNotWaited)
		}
	}
}

// wait says whether it has waited to the end.
func (p *Projector) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.Stopping:
	case <-ctx.Done():
	}
	return false
}

// open reads a message about stock.
func open(body []byte) (receipt.Event, error) {
	m, err := message.ParseStockEvent(body)
	if err != nil {
		return receipt.Event{}, err
	}
	return receipt.FromStock(m)
}

// settlementFor is the one table from what became of an event to what becomes of
// its message.
func settlementFor(e receipt.Event, d receipt.Decision, err error, count int) message.Settlement {
	switch {
	case errors.Is(err, receipt.ErrNoItem):
		return message.Reject(UnknownItem, fmt.Sprintf("nothing is known of sku %q, and version %d does not begin it: send its %s first", e.Entity, e.Version, message.TypeStockCount))
	case errors.Is(err, receipt.ErrRange):
		return message.Reject(StockOutOfRange, err.Error())
	case err != nil:
		return message.Hold(count)
	case d.Class == receipt.Conflict:
		return message.Reject(ReceiptConflict, fmt.Sprintf("the event %q is known with other content (version %d, %s); nothing was changed", e.Key, d.Receipt.Version, d.Receipt.Digest))
	}
	return message.Done()
}

// tell logs and counts what became of an event, as one line. A gap is a warning:
// what was skipped will be stale when it comes, and somebody may want to know now.
func tell(ctx context.Context, log *slog.Logger, c *Counters, source string, e receipt.Event, d receipt.Decision, err error, attrs ...slog.Attr) {
	level := slog.LevelInfo
	attrs = append(attrs, slog.String("event", e.Key), slog.Int64("version", e.Version))
	class := string(d.Class)
	switch {
	case err != nil:
		level, class = slog.LevelWarn, "undecided"
		attrs = append(attrs, slog.Any("err", err))
	case d.Class == receipt.Conflict:
		level = slog.LevelError // somebody must look: two events share a name
	case d.Receipt.Gap > 0 && d.Class == receipt.Applied, d.Class == receipt.Stale:
		level = slog.LevelWarn
		attrs = append(attrs, slog.Int64("found", d.Receipt.Found), slog.Int64("gap", d.Receipt.Gap), slog.Int64("delta", d.Receipt.Delta))
	}
	log.LogAttrs(ctx, level, "handled", append(attrs, slog.String("class", class), slog.Int("races", d.Races))...)
	mark(ctx, e, class, d, err)
	c.count(ctx, source, class, d)
}
