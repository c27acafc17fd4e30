package projector_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
)

func TestAMessageIsCompletedOnceItsReceiptStands(t *testing.T) { // P1
	inWorld(t, func(t *testing.T, w *world) {
		w.deliver(count(t, 9, 100), 1, message.Complete)
		w.deliver(reservation(t, "R-1001", 10), 1, message.Complete)
		w.wantStock(97, 10)
		w.wantLog("class=RECEIPT_COMMITTED_EFFECT_APPLIED", "event=inventory:sku-42:reservation:R-1001", "message=delivery-1")
		w.deliver(reservation(t, "R-1001", 10), 2, message.Complete)
		w.wantLog("class=DUPLICATE_SUPPRESSED")
		w.deliver(reservation(t, "R-1000", 9), 1, message.Complete)
		w.wantLog("level=WARN", "class=STALE_EVENT_REJECTED", "found=10", "delta=-3")
		w.deliver(reservation(t, "R-1005", 14), 1, message.Complete)
		w.wantLog("level=WARN", "class=RECEIPT_COMMITTED_EFFECT_APPLIED", "gap=3")
		w.wantStock(94, 14)
	})
}

// While no receipt can be proved to stand, the message is not completed, although
// its effect may be there already.
func TestAMessageWhoseReceiptIsNotProvedIsNotCompleted(t *testing.T) { // P1 P3
	inWorld(t, func(t *testing.T, w *world) {
		w.deliver(count(t, 9, 100), 1, message.Complete)
		lost := w.arm(control.Rule{Match: control.Match{Operation: "batch"}, When: "after", Do: "drop"})
		dark := w.arm(control.Rule{Match: control.Match{Operation: "read"}, Do: "answer", Status: http.StatusServiceUnavailable})
		w.deliver(reservation(t, "R-1001", 10), 1, message.CopyLater)
		dark()
		w.deliver(reservation(t, "R-1001", 10), 2, message.Complete) // by its answer, which is lost, and then by its receipt
		lost()
		w.wantStock(97, 10)
	})
}

func TestWhatCannotTakeEffectIsDeadLetteredWithItsReason(t *testing.T) { // P2
	inWorld(t, func(t *testing.T, w *world) {
		w.deliver(count(t, 9, 100), 1, message.Complete)
		w.deliver(reservation(t, "R-1001", 10), 1, message.Complete)
		w.writes()
		for _, test := range []struct {
			says   string
			body   []byte
			nth    int
			reason string
			words  string
		}{
			{"no JSON", []byte("hello"), 1, message.InvalidMessage, "not a CloudEvents event"},
			{"another type", []byte(`{"specversion":"1.0","id":"1","source":"s","type":"ReservationCancelled","data":{}}`), 1, message.InvalidMessage, "ReservationCancelled"},
			{"a negative quantity", reservation(t, "R-2", 11, func(r *message.Reservation) { r.Quantity = -3 }), 1, message.InvalidMessage, "quantity is -3"},
			{"a huge quantity", reservation(t, "R-2", 11, func(r *message.Reservation) { r.Quantity = 1 << 50 }), 1, message.InvalidMessage, "quantity is"},
			{"a version that overflows", reservation(t, "R-2", 1<<53), 1, message.InvalidMessage, "version is"},
			{"a version beyond every integer", []byte(strings.Replace(string(reservation(t, "R-2", 11)), `"version":11`, `"version":1e400`, 1)), 1, message.InvalidMessage, "version"},
			{"no quantity", []byte(strings.Replace(string(reservation(t, "R-2", 11)), `"quantity":3`, `"amount":3`, 1)), 1, message.InvalidMessage, "quantity is 0"},
			{"no fields at all", []byte(`{"specversion":"1.0","id":"1","source":"s","type":"ReservationAccepted","data":{}}`), 1, message.InvalidMessage, "sku is missing"},
			{"a key named item", reservation(t, "R-2", 11, func(r *message.Reservation) { r.EventKey = "item" }), 1, message.InvalidMessage, `eventKey is "item"`},
			{"a sku with a line break", reservation(t, "R-2", 11, func(r *message.Reservation) { r.SKU, r.EventKey = "a\n", "inventory:a\n:1" }), 1, message.InvalidMessage, "sku contains"},
			{"other content under a known key", reservation(t, "R-1001", 10, func(r *message.Reservation) { r.Quantity = 4 }), 1, "ReceiptConflict", "nothing was changed"},
			{"a sku that nobody began, again", reservation(t, "R-2", 11, func(r *message.Reservation) { r.SKU, r.EventKey = "sku-43", "inventory:sku-43:1" }), 2, "UnknownItem", `nothing is known of sku "sku-43"`},
		} {
			s := w.deliver(test.body, test.nth, message.DeadLetter)
			if s.Reason != test.reason || !strings.Contains(s.Description, test.words) {
				t.Errorf("%s: %s, %s", test.says, s.Reason, s.Description)
			}
			if n := w.writes(); n != 0 {
				t.Errorf("%s: %d writes", test.says, n)
			}
		}
		w.wantStock(97, 10)
		// What is odd and legal is taken.
		w.deliver(reservation(t, "R/10 02", 11, func(r *message.Reservation) {
			r.SKU, r.EventKey = "a/b #?", "inventory:a/b #?:item/../1"
			r.Version = 1
		}), 1, message.Complete)
	})
}

func TestWhatIsNotKnownYetIsTriedAgainLater(t *testing.T) { // P3
	inWorld(t, func(t *testing.T, w *world) {
		begins := count(t, 9, 100)
		var late sync.WaitGroup
		late.Go(func() {
			time.Sleep(8 * time.Second)
			w.deliver(begins, 1, message.Complete)
		})
		w.deliver(reservation(t, "R-1001", 10), 1, message.Complete) // whose sku is begun while it waits
		late.Wait()
		w.wantStock(97, 10)

		down := w.arm(control.Rule{Do: "answer", Status: http.StatusServiceUnavailable})
		var total time.Duration
		for nth := range 10 {
			s := w.deliver(reservation(t, "R-1002", 11), nth+1, message.CopyLater)
			total += s.Delay
		}
		if total < 45*time.Minute || total > 70*time.Minute {
			t.Errorf("ten deliveries outlast an outage of %v, want three quarters of an hour", total)
		}
		w.wantLog("level=WARN", "class=undecided")
		down()
		w.deliver(reservation(t, "R-1002", 11), 3, message.Complete)
		w.wantStock(94, 11)
	})
}

// How long a sku's beginning is waited for grows with how often its message has
// come, and ends; and it ends at once when the process is to stop.
func TestTheBeginningOfASKUIsWaitedForWithinBounds(t *testing.T) { // P2 P3
	inWorld(t, func(t *testing.T, w *world) {
		for nth, least := range map[int]time.Duration{1: 9 * time.Second, 4: 130 * time.Second, 10: 45 * time.Minute} {
			w.asked()
			began := time.Now()
			if s := w.deliver(reservation(t, "R-1001", 10), nth, message.DeadLetter); s.Reason != "UnknownItem" {
				t.Errorf("delivery %d: %s", nth, s.Reason)
			}
			if took := time.Since(began); took < least || took > least*5/4 {
				t.Errorf("delivery %d waited for %v, want %v or a little more", nth, took, least)
			}
			if n := w.asked(); n > 3*(nth+1) { // receipt and item at each look, and the account now and then
				t.Errorf("delivery %d asked the store %d times", nth, n)
			}
		}
		stopping := make(chan struct{})
		w.projector.Stopping = stopping
		time.AfterFunc(3*time.Second, func() { close(stopping) })
		began := time.Now()
		w.deliver(reservation(t, "R-1001", 10), 10, message.CopyLater)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("waited for %v, although the process stops after 3s", took)
		}
	})
}

// One message under many transport ids, and many events under one.
func TestATransportIDDecidesNothing(t *testing.T) { // P4
	inWorld(t, func(t *testing.T, w *world) {
		w.deliver(count(t, 9, 100), 1, message.Complete)
		for _, id := range []string{"A", "B", "A", ""} {
			s := w.projector.Handle(t.Context(), message.Delivery{MessageID: id, Body: reservation(t, "R-1001", 10), Count: 1})
			if s.Action != message.Complete {
				t.Errorf("by %q: %s", id, s.Action)
			}
		}
		w.wantStock(97, 10)
		s := w.projector.Handle(t.Context(), message.Delivery{MessageID: "A", Body: reservation(t, "R-1002", 11), Count: 1})
		if s.Action != message.Complete {
			t.Errorf("another event by A: %s", s.Action)
		}
		w.wantStock(94, 11)
		r, err := w.db.Inventory().Receipt(t.Context(), "sku-42", "inventory:sku-42:reservation:R-1001")
		if err != nil || r.Delivery != "A" {
			t.Errorf("the receipt was written by %q, %v", r.Delivery, err)
		}
	})
}

func TestAStockThatWouldLeaveItsRangeIsDeadLettered(t *testing.T) { // P2
	inWorld(t, func(t *testing.T, w *world) {
		w.deliver(count(t, 1, 0), 1, message.Complete)
		version := int64(1)
		for range 1000 { // as many as fit
			version++
			body := reservation(t, "R", version, func(r *message.Reservation) {
				r.EventKey, r.Quantity = r.EventKey+time.Duration(version).String(), message.MaxQuantity
			})
			w.deliver(body, 1, message.Complete)
		}
		if s := w.deliver(reservation(t, "R-1", version+1), 1, message.DeadLetter); s.Reason != "StockOutOfRange" {
			t.Errorf("%s: %s", s.Reason, s.Description)
		}
		w.wantStock(-message.MaxStock, version)
	})
}
