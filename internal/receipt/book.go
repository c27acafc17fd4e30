package receipt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"oneeffect/internal/message"
)

// Book records events for one process.
type Book struct {
	Store   Store
	Timeout time.Duration // bound of one operation of the store, its retries included (T_w)
	Keep    time.Duration // how long a receipt is kept

	turns turns
}

// Delivery is the way by which an event came.
type Delivery struct {
	ID    string // the transport's, for people
	Trace string // its W3C traceparent, for people too; empty: nobody keeps it
	Again bool   // it has been delivered before: its receipt may stand
}

// Decision is what became of an event.
type Decision struct {
	Class   Class
	Receipt Receipt // the one that stands; of a conflict, the other event's
	Races   int     // writes that found the item changed
}

// maxRounds bounds one recording: lost races, lost answers and refusals together.
const maxRounds = 12

// Record applies an event, once. An error says that no decision was reached;
// ErrNoItem and ErrRange, that none ever will be unless the item changes. What was
// sent may still be applied, and the next delivery will find it.
func (b *Book) Record(ctx context.Context, e Event, d Delivery) (Decision, error) {
	turn, err := b.turns.take(ctx, e.Entity, e.Version)
	if err != nil {
		return Decision{}, fmt.Errorf("record %q: wait for the events before it: %w", e.Key, err)
	}
	r := &recording{book: b, event: e, delivery: d, w: nonce(), look: d.Again, stands: turn.known}
	defer func() { turn.pass(r.stands) }() // also if the store panics: others wait for it
	return r.run(ctx)
}

// recording is one Record: look, decide, write on the condition, until a receipt stands.
type recording struct {
	book     *Book
	event    Event
	delivery Delivery
	w        string // new for each recording: a receipt that bears it is ours (R6)

	look   bool    // for the receipt, before anything else
	exists bool    // the store said that there is one: not finding it is a replica's lag
	stands *Stored // the item, if it is known
	races  int
}

func (r *recording) run(ctx context.Context) (Decision, error) {
	var last error
	for round := range maxRounds {
		if last != nil {
			if err := pause(ctx, round, last); err != nil {
				return Decision{}, fmt.Errorf("record %q: %w", r.event.Key, errors.Join(last, err))
			}
		}
		var d Decision
		if d, last = r.round(ctx); last == nil {
			d.Races = r.races
			return d, nil
		}
		if errors.Is(last, message.ErrRefused) || errors.Is(last, ErrNoItem) || errors.Is(last, ErrRange) {
			return Decision{}, fmt.Errorf("record %q: %w", r.event.Key, last)
		}
	}
	return Decision{}, fmt.Errorf("record %q: no decision in %d rounds, %d races lost: %w", r.event.Key, maxRounds, r.races, last)
}

// round is one try. An error other than a final one is worth another.
func (r *recording) round(ctx context.Context) (Decision, error) {
	if r.look {
		found, err := r.receipt(ctx)
		if err == nil {
			return Decision{Class: Recognise(found, r.event, r.w), Receipt: found}, found.check()
		}
		if !errors.Is(err, message.ErrNotFound) || r.exists {
			return Decision{}, fmt.Errorf("read its receipt: %w", err)
		}
		r.look = false
	}
	if r.stands == nil {
		if err := r.item(ctx); err != nil {
			return Decision{}, err
		}
	}
	return r.write(ctx)
}

func (r *recording) receipt(ctx context.Context) (Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, r.book.Timeout)
	defer cancel()
	return r.book.Store.Receipt(ctx, r.event.Entity, r.event.Key)
}

// item reads the item. That there is none is something to decide on.
func (r *recording) item(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.book.Timeout)
	defer cancel()
	s, err := r.book.Store.Item(ctx, r.event.Entity)
	if err != nil && !errors.Is(err, message.ErrNotFound) {
		return fmt.Errorf("read the item: %w", err)
	}
	r.stands = &s // without an ETag: nothing
	return nil
}

// write decides and writes the decision down.
func (r *recording) write(ctx context.Context) (Decision, error) {
	var stands *Item
	if r.stands.ETag != "" {
		stands = &r.stands.Item
	}
	next, receipt, err := Decide(stands, r.event)
	if err != nil {
		r.stands = nil
		return Decision{}, err
	}
	receipt.W, receipt.Delivery, receipt.Trace = r.w, r.delivery.ID, r.delivery.Trace
	receipt.TTL = int(r.book.Keep / time.Second)
	ctx, cancel := context.WithTimeout(ctx, r.book.Timeout)
	defer cancel()
	entity, class, etag := r.event.Entity, Applied, r.stands.ETag
	switch {
	case receipt.Outcome == OutcomeStale:
		class, err = Stale, r.book.Store.Reject(ctx, entity, receipt)
	case stands == nil:
		etag, err = r.book.Store.Begin(ctx, entity, receipt, next)
	default:
		etag, err = r.book.Store.Apply(ctx, entity, receipt, next, etag)
	}
	if err == nil {
		r.stands = &Stored{Item: next, ETag: etag}
		return Decision{Class: class, Receipt: receipt}, nil
	}
	return Decision{}, r.refused(err)
}

// refused notes what a write that brought no success says of the store.
func (r *recording) refused(err error) error {
	r.stands = nil // whatever it was, it is not known to stand any more
	switch {
	case errors.Is(err, message.ErrExists):
		r.look, r.exists = true, true
	case errors.Is(err, message.ErrUnknown):
		r.look = true
	case errors.Is(err, message.ErrConflict):
		r.races++
	}
	return fmt.Errorf("write its receipt: %w", err)
}

// pause waits a jittered moment before the next round. A receipt that exists is
// read at once. After a lost race somebody else was quick, so it is short: 10 ms.
// Otherwise it is 50 ms, doubling, at most 1.6 s.
func pause(ctx context.Context, round int, last error) error {
	step := 50 * time.Millisecond << min(round-1, 5)
	switch {
	case errors.Is(last, message.ErrExists) && round == 1:
		return nil
	case errors.Is(last, message.ErrConflict):
		step = 10 * time.Millisecond << min(round-1, 3)
	}
	return message.Pause(ctx, step/2+rand.N(step/2))
}
