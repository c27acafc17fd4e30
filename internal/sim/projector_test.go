package sim

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
	"oneeffect/internal/projector"
	"oneeffect/internal/receipt"
	"oneeffect/internal/servicebus"

	"go.opentelemetry.io/otel/metric/noop"
)

const reservations = message.Reservations + "/subscriptions/" + message.Inventory

// projection is what a projector is made of, as cmd/projector wires it.
func (w *world) projection(id string, store receipt.Store) *projector.Projector {
	counters, err := projector.NewCounters(noop.Meter{})
	if err != nil {
		w.t.Fatal(err)
	}
	return &projector.Projector{
		Inventory: &receipt.Book{Store: store, Timeout: storeTimeout, Keep: 60 * 24 * time.Hour},
		Counters:  counters, Log: w.log(id),
	}
}

// projector starts a projector.
func (w *world) projector(id string) (stop func()) {
	db, bus := w.connect(id)
	p := w.projection(id, db.Inventory())
	receiver := servicebus.Receiver{
		Client: bus, Topic: message.Reservations, Subscription: message.Inventory, Sessions: true, Slots: 4, LockDuration: w.pace.lock,
		SettleTimeout: settleTimeout, Grace: w.pace.grace, Log: w.log(id),
	}
	return w.run(db, bus, func(ctx context.Context) error { return receiver.Run(ctx, p.Handle) })
}

func reserve(version, quantity int64) message.Reservation {
	id := fmt.Sprint("R-", 991+version)
	return message.Reservation{EventKey: "inventory:sku-42:reservation:" + id, SKU: "sku-42", ReservationID: id, Version: version, Quantity: quantity}
}

// tell sends an event about stock under a transport's id.
func (w *world) tell(transport string, e stockEvent) {
	w.t.Helper()
	m, err := e.Message(transport, time.Now())
	w.send(message.Reservations, m, err)
}

// settledAs waits until a message was settled, and says how.
func (w *world) settledAs(key, disposition string) control.Event {
	w.t.Helper()
	return w.until(key+" is settled as "+disposition, func(e control.Event) bool {
		return onBroker("settled", reservations, key)(e) && e.Disposition == disposition
	})
}

func (w *world) wantStock(stock, version int64) {
	w.t.Helper()
	s, err := w.view.Inventory().Item(w.t.Context(), "sku-42")
	if err != nil || s.Item.Stock != stock || s.Item.Version != version {
		w.t.Errorf("sku-42 has %d at version %d, %v, want %d at %d", s.Item.Stock, s.Item.Version, err, stock, version)
	}
}

var opening = message.StockCount{EventKey: "inventory:sku-42:count:1", SKU: "sku-42", Version: 9, Stock: 100}

// The lesson's own numbers.
func TestAReservationIsAppliedOnceAndOnlyForwards(t *testing.T) { // R1 R3 R4 P1 P4
	story(t, func(t *testing.T, w *world) {
		w.projector("projector-1")
		w.tell("opening", opening)
		w.settledAs("opening", "completed")
		w.tell("delivery-A", reserve(10, 3))
		w.settledAs("delivery-A", "completed")
		w.wantStock(97, 10)
		w.tell("delivery-B", reserve(10, 3)) // the same event by another message
		w.settledAs("delivery-B", "completed")
		w.tell("late", reserve(9, 5))
		w.settledAs("late", "completed")
		w.tell("other-content", reserve(10, 4))
		w.settledAs("other-content", "dead-lettered")
		w.wantStock(97, 10)
		// One batch for each receipt, and one that a duplicate is refused: its message is
		// another, so that nobody told that its receipt may stand.
		w.wantCount(3, "a batch is applied", request("projector-1", "inventory", "batch", http.StatusOK))
		w.wantCount(2, "a batch is refused", request("projector-1", "inventory", "batch", http.StatusMultiStatus))
	})
}

// The crash points of the projector: batch sent, answer lost; batch applied,
// message not settled.
func TestAProjectorThatDiesAroundItsBatchLeavesOneEffect(t *testing.T) { // R2 R4 R6 P1
	for says, rule := range map[string]control.Rule{
		"before it was applied": {Match: control.Match{Service: "cosmos", Operation: "batch", Client: "projector-1"}, Do: "hold", Nth: 1},
		"its answer is lost":    {Match: control.Match{Service: "cosmos", Operation: "batch", Client: "projector-1"}, When: "after", Do: "hold", Nth: 1},
		"it lands after all":    {Match: control.Match{Service: "cosmos", Operation: "batch", Client: "projector-1"}, Do: "hold", Late: true, Nth: 1},
		"not settled":           {Match: control.Match{Service: "servicebus", Operation: "complete", Client: "projector-1", Key: "delivery-A"}, Do: "hold"},
	} {
		t.Run(says, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				w.projector("projector-1")
				w.tell("opening", opening)
				w.settledAs("opening", "completed")
				rule.Name = "death"
				w.arm(rule)
				w.tell("delivery-A", reserve(10, 3))
				w.until("projector 1 is where it dies", reached("death"))
				w.hub.Isolate("projector-1")
				w.projector("projector-2")
				w.until("it is settled by projector 2", func(e control.Event) bool {
					return by("projector-2", onBroker("settled", reservations, "delivery-A"))(e) && e.Disposition == "completed"
				})
				w.wantStock(97, 10)
				if rule.Late {
					w.release("death", "go")
					synctest.Wait()
					w.wantStock(97, 10)
				}
				w.hub.Rejoin("projector-1")
			})
		})
	}
}

func TestAnUnknownSKUWaitsForItsBeginning(t *testing.T) { // P2 P3
	story(t, func(t *testing.T, w *world) {
		w.projector("projector-1")
		w.tell("early", reserve(10, 3))
		w.until("it is delivered", onBroker("delivered", reservations, "early"))
		w.tell("opening", opening)
		w.settledAs("early", "completed")
		w.wantStock(97, 10)
		nobodys := reserve(2, 1)
		nobodys.SKU, nobodys.EventKey = "sku-43", "inventory:sku-43:1"
		w.tell("nobody's", nobodys)
		w.settledAs("nobody's", "dead-lettered")
	})
}

// After an outage of the store, what begins a sku may come later than what needs it,
// by as much as it is held: the reservation waits as long.
func TestAReservationWaitsForABeginningThatAnOutageHeldUp(t *testing.T) { // P2 P3
	story(t, func(t *testing.T, w *world) {
		w.projector("projector-1")
		w.arm(control.Rule{Name: "outage", Match: control.Match{Service: "cosmos", Client: "projector-1"}, Do: "answer", Status: http.StatusServiceUnavailable})
		w.arm(control.Rule{Name: "late", Match: control.Match{Service: "servicebus", Operation: "deliver", Key: "opening"}, Do: "hold", Nth: 4})
		w.tell("early", reserve(10, 3))
		w.tell("opening", opening)
		w.until("the fourth delivery of the opening", reached("late"))
		from := w.hub.Last()
		w.disarm("outage")
		w.after(from, "its sku is looked for and not found", request("projector-1", "inventory", "read", http.StatusNotFound))
		time.Sleep(time.Minute) // held, as a message is that has come three times
		w.release("late", "go")
		if e := w.settledAs("early", "completed"); e.Delivery < 3 {
			t.Errorf("it was delivered %d times: the outage was none", e.Delivery)
		}
		w.wantStock(97, 10)
	})
}

// outage is a store that takes no receipt of R-1001 for as long as one recording tries.
func outage(client string) control.Rule {
	key := map[string]any{"/*/resourceBody/key": reserve(10, 3).EventKey}
	return control.Rule{
		Match: control.Match{Service: "cosmos", Operation: "batch", Client: client, Body: key},
		Do:    "answer", Status: http.StatusServiceUnavailable, Times: 12,
	}
}

// Without sessions, whatever comes to nothing once is overtaken by what was sent
// after it.
func TestAnEventThatIsTriedAgainIsOvertaken(t *testing.T) { // R3 R8
	story(t, func(t *testing.T, w *world) {
		w.projector("projector-1")
		w.tell("opening", opening)
		w.settledAs("opening", "completed")
		w.arm(outage("projector-1"))
		w.tell("ten", reserve(10, 3))
		w.until("it is delivered", onBroker("delivered", reservations, "ten"))
		w.tell("eleven", reserve(11, 5))
		w.settledAs("ten", "completed")
		w.wantStock(95, 11) // too high by 3, and the receipts say so:
		for version, want := range map[int64]receipt.Receipt{10: {Outcome: receipt.OutcomeStale, Delta: -3}, 11: {Outcome: receipt.OutcomeApplied, Delta: -5, Gap: 1}} {
			r, err := w.view.Inventory().Receipt(t.Context(), "sku-42", reserve(version, 0).EventKey)
			if err != nil || r.Outcome != want.Outcome || r.Delta != want.Delta || r.Gap != want.Gap {
				t.Errorf("the receipt of version %d is %+v, %v", version, r, err)
			}
		}
		w.tell("recount", message.StockCount{EventKey: "inventory:sku-42:count:2", SKU: "sku-42", Version: 12, Stock: 92})
		w.settledAs("recount", "completed")
		w.wantStock(92, 12)
	})
}

func (w *world) wantOutcomes(want map[int64]receipt.Outcome) {
	w.t.Helper()
	for version, outcome := range want {
		r, err := w.view.Inventory().Receipt(w.t.Context(), "sku-42", reserve(version, 0).EventKey)
		if err != nil || r.Outcome != outcome {
			w.t.Errorf("version %d is %s, %v, want %s", version, r.Outcome, err, outcome)
		}
	}
}

type stockEvent interface {
	Message(id string, at time.Time) (message.Message, error)
}
