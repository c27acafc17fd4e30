package probe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"oneeffect/internal/evidence"
	"oneeffect/internal/message"
	"oneeffect/internal/receipt"
)

// The probes that need one process, twice: what a run has left does not disturb the next.
func TestTheProbesSeeWhatTheProjectorDoes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		cases := evidence.Cases()
		for range 2 {
			w.probes.token = rand.Text()
			w.want(cases[0], w.probes.baseline)
			w.want(cases[1], w.probes.delivered)
			w.want(cases[4], w.probes.delivered)
		}
	})
}

// want carries out a case and holds its class.
func (w *world) want(c evidence.Case, do func(context.Context, evidence.Case) ([]evidence.Record, error)) evidence.Record {
	w.t.Helper()
	records, err := do(w.t.Context(), c)
	if err != nil || len(records) != 1 {
		w.t.Fatalf("%s: %d records, %v", c.Name, len(records), err)
	}
	r := records[0]
	if got := r.Class(); got != c.Expected {
		w.t.Errorf("%s: %s, want %s: %+v", c.Name, got, c.Expected, r.DeliveryAttempt)
	}
	if missing := r.Missing(); len(missing) > 0 {
		w.t.Errorf("%s: its record lacks %v", c.Name, missing)
	}
	return r
}

// forgetful is a store whose receipts nobody finds again: each is filed under another key.
type forgetful struct {
	receipt.Store
	filed int
}

func (s *forgetful) Apply(ctx context.Context, entity string, r receipt.Receipt, next receipt.Item, unchanged receipt.ETag) (receipt.ETag, error) {
	s.filed++
	r.Key = fmt.Sprint(r.Key, s.filed)
	return s.Store.Apply(ctx, entity, r, next, unchanged)
}

func TestAProjectorThatForgetsItsReceiptsIsFoundOut(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.probes.Inventory = &forgetful{Store: w.probes.Inventory}
		c := evidence.Cases()[0]
		records, err := w.probes.baseline(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		r := records[0]
		if got := r.Class(); got != evidence.Unclassified {
			t.Errorf("%s, want %s: the effect is there and its receipt is not", got, evidence.Unclassified)
		}
		if !strings.Contains(r.Evidence.Inference[0], "nothing") || !strings.HasPrefix(r.ResidualRisk[0], "All of it") {
			t.Errorf("it infers %q, and the risk is %q", r.Evidence.Inference, r.ResidualRisk)
		}
	})
}

func TestADeliveryThatIsNotThisRunsIsRemovedAndOneThatDoesNotComeIsAnError(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.probes
		send := func(id string) {
			t.Helper()
			r := event(evidence.Cases()[0])
			m, err := r.Message(id, time.Now())
			if err == nil {
				err = p.publish(t.Context(), m)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		send("delivery-A") // of a run that did not come to its end
		p.token = rand.Text()
		if _, err := p.receive(t.Context(), "delivery-A", p.projector); !errors.Is(err, message.ErrTransient) || !strings.Contains(err.Error(), "was not delivered within 35s") || !strings.Contains(err.Error(), Topic) {
			t.Errorf("nothing of this run was sent: %v", err)
		}
		if _, err := p.Inventory.Item(t.Context(), evidence.SKU); !errors.Is(err, message.ErrNotFound) {
			t.Errorf("what an earlier run had left was applied: %v", err)
		}
		send("delivery-B")
		if _, err := p.receive(t.Context(), "delivery-A", p.projector); err == nil || !strings.Contains(err.Error(), "message delivery-B was delivered") {
			t.Errorf("another message of this run: %v", err)
		}
		if a, err := p.receive(t.Context(), "delivery-B", p.projector); err != nil || a.Count != 2 {
			t.Errorf("it was given back: delivery %d, %v, want the second", a.Count, err)
		}
	})
}

// lagging is a store that shows a change only at the third look.
type lagging struct {
	receipt.Store
	old   receipt.Stored
	looks int
}

func (s *lagging) Item(ctx context.Context, entity string) (receipt.Stored, error) {
	if s.looks++; s.looks < 3 {
		return s.old, nil
	}
	return s.Store.Item(ctx, entity)
}

func TestWhatAnotherProcessHasWrittenIsWaitedForAndNotForEver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.probes
		if err := p.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		old := receipt.Stored{Item: receipt.Item{Stock: 103, Version: 8}}
		for _, row := range []struct {
			before evidence.State
			looks  int
			took   time.Duration
		}{
			{evidence.State{Version: 8, Stock: 103, Receipts: []evidence.ReceiptSeen{}}, 3, 2 * again},
			{evidence.State{Version: 9, Stock: 100, Receipts: []evidence.ReceiptSeen{}}, 1, 0},
		} {
			f := found(evidence.Cases()[0])
			f.states = []evidence.State{row.before}
			store := &lagging{Store: p.Inventory, old: old}
			began := time.Now()
			if err := p.lookChanged(t.Context(), f, store, "now"); err != nil || store.looks != row.looks || time.Since(began) != row.took {
				t.Errorf("%v: %d looks in %v, %v, want %d in %v", row.before, store.looks, time.Since(began), err, row.looks, row.took)
			}
		}
		f := found(evidence.Cases()[0])
		f.states = []evidence.State{{Version: 9, Stock: 100, Receipts: []evidence.ReceiptSeen{}}}
		began := time.Now()
		if err := p.lookChanged(t.Context(), f, p.Inventory, "now"); err != nil || time.Since(began) != p.Timeout || len(f.states) != 2 {
			t.Errorf("nothing changes: %v after %v, want what stands after %v", err, time.Since(began), p.Timeout)
		}
	})
}

// The broken variant is one that looks for receipts, and fails by its order alone.
func TestTheBrokenVariantRepeatsItsEffectOnlyAfterADeathBetweenTheTwo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.probes
		if err := p.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := event(evidence.Cases()[2])
		m, err := r.Message("delivery-A", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		deliver := func(count int, between func(message.Delivery)) {
			handle := p.Unguarded.handle(between)
			if s := handle(t.Context(), message.Delivery{MessageID: "delivery-A", Body: m.Body, Count: count}); s.Action != message.Complete {
				t.Errorf("delivery %d: %+v", count, s)
			}
		}
		stock := func(want int64, receipts bool) {
			t.Helper()
			s, err := p.Inventory.Item(t.Context(), evidence.SKU)
			_, none := p.Inventory.Receipt(t.Context(), evidence.SKU, evidence.EventKey)
			if err != nil || s.Item.Stock != want || errors.Is(none, message.ErrNotFound) == receipts {
				t.Errorf("stock %d, %v, receipt: %v, want %d and %v", s.Item.Stock, err, none, want, receipts)
			}
		}
		died := func() (died bool) {
			defer func() { died = recover() != nil }()
			deliver(1, func(message.Delivery) { panic("dead") })
			return false
		}()
		if !died {
			t.Fatal("there was no moment between effect and receipt")
		}
		stock(97, false)
		deliver(2, func(message.Delivery) {})
		stock(94, true)
		deliver(3, func(message.Delivery) {})
		stock(94, true)
	})
}
