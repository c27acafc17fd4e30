package receipt_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
	"oneeffect/internal/receipt"
)

const key = "inventory:sku-42:reservation:R-1001"

// begun is a world in which sku-42 has a stock of 100 at version 9.
func begun(t *testing.T, test func(t *testing.T, w *world, b *receipt.Book)) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		w.record(w.book("counter"), count(t, 9, 100), "count", receipt.Applied)
		w.wantStock(100, 9, 1)
		test(t, w, w.book("projector-1"))
	})
}

func TestAnEventIsAppliedOnceUnderWhateverTransportID(t *testing.T) { // R1 R4
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		e := reservation(t, 10)
		w.record(b, e, "delivery-A", receipt.Applied)
		w.wantStock(97, 10, 2)
		for _, again := range []struct{ delivery, by string }{{"delivery-B", "projector-1"}, {"delivery-A", "projector-1"}, {"delivery-C", "projector-2"}} {
			d := w.record(w.book(again.by), e, again.delivery, receipt.Duplicate)
			if d.Receipt.Delivery != "delivery-A" || d.Receipt.Outcome != receipt.OutcomeApplied {
				t.Errorf("%s is told of the receipt of %s, %s", again.delivery, d.Receipt.Delivery, d.Receipt.Outcome)
			}
			w.wantStock(97, 10, 2)
		}
		d, err := b.Record(t.Context(), e, receipt.Delivery{ID: "delivery-D", Again: true})
		if err != nil || d.Class != receipt.Duplicate {
			t.Errorf("a redelivery: %s, %v", d.Class, err)
		}
		w.wantStock(97, 10, 2)
	})
}

func TestAnEventCostsOneReadAndOneBatch(t *testing.T) { // R9
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		e := reservation(t, 10)
		w.forget()
		w.record(b, e, "A", receipt.Applied)
		w.wantRequests("projector-1", "read 200", "batch 200")

		w.forget() // a redelivery, told by the broker
		if _, err := b.Record(t.Context(), e, receipt.Delivery{Again: true}); err != nil {
			t.Error(err)
		}
		w.wantRequests("projector-1", "read 200")

		w.forget() // a repetition that nobody told
		w.record(b, e, "B", receipt.Duplicate)
		w.wantRequests("projector-1", "read 200", "batch 207", "read 200")

		w.forget()
		w.record(b, reservation(t, 9, named("R-999")), "C", receipt.Stale)
		w.wantRequests("projector-1", "read 200", "batch 200")
	})
}

func TestAStaleEventLeavesAReceiptAndNothingElse(t *testing.T) { // R2 R3
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		w.record(b, reservation(t, 10), "A", receipt.Applied)
		late := reservation(t, 9, named("R-1000"))
		w.record(b, late, "B", receipt.Stale)
		w.record(b, reservation(t, 10, named("R-1002")), "C", receipt.Stale) // an equal version is not greater
		w.wantStock(97, 10, 4)
		_, receipts := w.look("sku-42")
		r := receipts[late.Key]
		if r.Outcome != "stale" || r.Version != 9 || r.Found != 10 || r.Delta != -3 || r.TTL != 60*24*3600 || r.SKU != "sku-42" || r.ID != receipt.ID(late.Key) {
			t.Errorf("the receipt is %+v", r)
		}
		w.record(b, late, "D", receipt.Duplicate)
		w.wantStock(97, 10, 4)
	})
}

func TestAnotherContentUnderAKnownKeyChangesNothing(t *testing.T) { // R5
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		w.record(b, reservation(t, 10), "A", receipt.Applied)
		_, before := w.look("sku-42")
		for says, other := range map[string]receipt.Event{
			"a greater version":  reservation(t, 11),
			"a lower version":    reservation(t, 9),
			"another quantity":   reservation(t, 10, func(r *message.Reservation) { r.Quantity = 50 }),
			"more at once":       reservation(t, 12, func(r *message.Reservation) { r.Quantity = 50 }),
			"another type of it": event(t, message.StockEvent{Count: &message.StockCount{EventKey: key, SKU: "sku-42", Version: 12, Stock: 1}}),
		} {
			for _, again := range []bool{false, true} {
				d, err := b.Record(t.Context(), other, receipt.Delivery{Again: again})
				if err != nil || d.Class != receipt.Conflict || d.Receipt.Version != 10 {
					t.Errorf("%s (again: %t): %s of version %d, %v", says, again, d.Class, d.Receipt.Version, err)
				}
			}
		}
		w.wantStock(97, 10, 2)
		if _, after := w.look("sku-42"); after[key] != before[key] {
			t.Errorf("the receipt was %+v and is %+v", before[key], after[key])
		}
	})
}

func TestAGapIsInTheReceiptOfWhatCameAfterIt(t *testing.T) { // R8
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		w.record(b, reservation(t, 13), "A", receipt.Applied)
		if _, receipts := w.look("sku-42"); receipts[key].Gap != 3 || receipts[key].Found != 9 {
			t.Errorf("the receipt is %+v, want a gap of 3 after version 9", receipts[key])
		}
		w.record(b, count(t, 14, 80), "B", receipt.Applied) // the way back
		w.wantStock(80, 14, 3)
	})
}

func TestAnUnknownSKUIsNotBegunByALaterVersion(t *testing.T) { // R8
	inWorld(t, func(t *testing.T, w *world) {
		b := w.book("projector-1")
		if _, err := b.Record(t.Context(), reservation(t, 2), receipt.Delivery{}); !errors.Is(err, receipt.ErrNoItem) {
			t.Errorf("version 2 of nothing: %v, want ErrNoItem", err)
		}
		if item, receipts := w.look("sku-42"); item != nil || len(receipts) != 0 {
			t.Errorf("there is %v and %v, want nothing", item, receipts)
		}
		w.record(b, reservation(t, 1), "A", receipt.Applied)
		w.wantStock(-3, 1, 1)
		w.record(b, reservation(t, 2, named("R-1002")), "B", receipt.Applied)
		w.wantStock(-6, 2, 2)
	})
}

// What becomes of a batch whose answer is lost is told by its receipt.
func TestALostAnswerIsReadBack(t *testing.T) { // R2 R6
	for _, when := range []string{"before", "after"} {
		for _, version := range []int64{9, 10} {
			t.Run(fmt.Sprintf("%s it was applied, version %d", when, version), func(t *testing.T) {
				begun(t, func(t *testing.T, w *world, b *receipt.Book) {
					w.arm(control.Rule{Match: control.Match{Operation: "batch", Client: "projector-1"}, When: when, Do: "drop", Times: 1})
					want, stock, state := receipt.Applied, int64(97), int64(10)
					if version == 9 {
						want, stock, state = receipt.Stale, 100, 9
					}
					w.record(b, reservation(t, version), "A", want)
					w.wantStock(stock, state, 2)
					w.record(b, reservation(t, version), "B", receipt.Duplicate)
					w.wantStock(stock, state, 2)
				})
			})
		}
	}
}

// The request is still on its way when its sender gives it up and looks. What
// lands first decides, and neither is applied twice.
func TestAWriteThatLandsLateIsNotASecondEffect(t *testing.T) { // R2 R4 R6
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		rule := w.arm(control.Rule{Match: control.Match{Operation: "batch", Client: "projector-1"}, Do: "hold", Late: true, Nth: 1})
		w.record(b, reservation(t, 10), "A", receipt.Applied) // by a second batch, after the bound of the first
		w.wantStock(97, 10, 2)
		if err := w.hub.Release(rule, control.Release{Action: "go"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantStock(97, 10, 2)
	})
}

// Whose receipt it is, its nonce tells, and nothing else: another process may have
// recorded the same event while the answer was on its way.
func TestAReceiptFoundAfterALostAnswerIsOnlyOursByItsNonce(t *testing.T) { // R6
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		rule := w.arm(control.Rule{Match: control.Match{Operation: "batch", Client: "projector-1"}, Do: "hold", Nth: 1})
		other, e := w.book("projector-2"), reservation(t, 10)
		wait := w.whenReached(rule, func() { w.record(other, e, "A", receipt.Applied) }, control.Release{Action: "drop"})
		w.record(b, e, "A", receipt.Duplicate) // the transport id is the same, too
		wait()
		w.wantStock(97, 10, 2)
	})
}

func TestNothingIsSaidWhileNothingCanBeRead(t *testing.T) { // R6
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		lost := w.arm(control.Rule{Match: control.Match{Operation: "batch", Client: "projector-1"}, When: "after", Do: "drop"})
		dark := w.arm(control.Rule{Match: control.Match{Operation: "read", Client: "projector-1", Key: receipt.ID(key)}, Do: "answer", Status: http.StatusServiceUnavailable})
		if d, err := b.Record(t.Context(), reservation(t, 10), receipt.Delivery{}); err == nil {
			t.Errorf("it is said to be %s", d.Class)
		}
		w.wantStock(97, 10, 2) // it was applied all the same
		for _, rule := range []string{lost, dark} {
			if err := w.hub.Disarm(rule); err != nil {
				t.Fatal(err)
			}
		}
		w.record(b, reservation(t, 10), "B", receipt.Duplicate)
		w.wantStock(97, 10, 2)
	})
}

func TestALostRaceIsDecidedAgain(t *testing.T) { // R3 R7
	for _, test := range []struct {
		says     string
		other    int64
		want     receipt.Class
		stock    int64
		version  int64
		receipts int
	}{
		{"behind a lower version", 10, receipt.Applied, 94, 11, 3},
		{"behind an equal version", 11, receipt.Stale, 97, 11, 3},
		{"behind a greater version", 12, receipt.Stale, 97, 12, 3},
	} {
		t.Run(test.says, func(t *testing.T) {
			begun(t, func(t *testing.T, w *world, b *receipt.Book) {
				rule := w.arm(control.Rule{Match: control.Match{Operation: "batch", Client: "projector-1"}, Do: "hold", Nth: 1})
				other, e := w.book("projector-2"), reservation(t, test.other, named("R-7"))
				wait := w.whenReached(rule, func() { w.record(other, e, "B", receipt.Applied) }, control.Release{Action: "go"})
				d := w.record(b, reservation(t, 11), "A", test.want)
				wait()
				if d.Races != 1 {
					t.Errorf("%d races are counted, want 1", d.Races)
				}
				w.wantStock(test.stock, test.version, test.receipts)
			})
		})
	}
}

func TestTwoWhoBeginAnItemAreOneBeginning(t *testing.T) { // R2 R7
	inWorld(t, func(t *testing.T, w *world) {
		rule := w.arm(control.Rule{Match: control.Match{Operation: "batch", Client: "projector-1"}, Do: "hold", Nth: 1})
		other, e := w.book("projector-2"), count(t, 9, 100)
		wait := w.whenReached(rule, func() { w.record(other, e, "B", receipt.Applied) }, control.Release{Action: "go"})
		w.record(w.book("projector-1"), count(t, 10, 50), "A", receipt.Applied)
		wait()
		w.wantStock(50, 10, 2)
		w.wantRequests("projector-1", "read 404", "batch 207", "read 200", "batch 200")
	})
}

func TestALaggingReplicaMisleadsNobody(t *testing.T) { // R7
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		// Whoever brings no session token is shown the past from now on.
		if err := w.hub.SetLag("inventory", control.Lag{Duration: control.Duration(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		w.record(b, reservation(t, 10), "A", receipt.Applied)
		for process, test := range map[string]struct {
			event receipt.Event
			want  receipt.Class
			sends []string
		}{
			"another-1": {reservation(t, 10), receipt.Duplicate, []string{"read 200", "batch 207", "read 200"}},
			"another-2": {reservation(t, 10, named("R-7")), receipt.Stale, []string{"read 200", "batch 207", "read 200", "batch 200"}},
		} {
			w.record(w.book(process), test.event, "B", test.want)
			w.wantRequests(process, test.sends...)
		}
		w.record(w.book("another-3"), reservation(t, 11, named("R-8")), "D", receipt.Applied)
		w.wantRequests("another-3", "read 200", "batch 207", "read 200", "batch 200")
		w.hub.EndLag("inventory")
		w.wantStock(94, 11, 4)
	})
}

func TestAStoreThatAsksForLessIsAskedLessAndThenAnswers(t *testing.T) { // R9
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		w.arm(control.Rule{Match: control.Match{Client: "projector-1", Operation: "batch"}, Do: "answer", Status: http.StatusTooManyRequests, RetryAfter: control.Duration(20 * time.Millisecond), Times: 30})
		w.record(b, reservation(t, 10), "A", receipt.Applied)
		w.wantStock(97, 10, 2)
	})
}

func TestAStoreThatNeverAnswersEndsARecording(t *testing.T) { // R9
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, 449} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			begun(t, func(t *testing.T, w *world, b *receipt.Book) {
				w.arm(control.Rule{Match: control.Match{Client: "projector-1"}, Do: "answer", Status: status})
				start := time.Now()
				d, err := b.Record(t.Context(), reservation(t, 10), receipt.Delivery{})
				if err == nil || errors.Is(err, message.ErrRefused) {
					t.Errorf("%s, %v", d.Class, err)
				}
				if took := time.Since(start); took > 5*time.Minute {
					t.Errorf("it took %v", took)
				}
				w.wantStock(100, 9, 1)
			})
		})
	}
}

// A document near the limit, by whatever hand: the batch is refused as a whole, at
// once, and for what it is.
func TestABatchThatIsTooLargeChangesNothing(t *testing.T) { // R2 R9
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		large := fmt.Sprintf(`{"id":"item","sku":"sku-42","stock":100,"version":9,"note":%q}`, strings.Repeat("x", 2<<20-400))
		if _, err := w.raw.ReplaceItem(t.Context(), azcosmos.NewPartitionKeyString("sku-42"), "item", []byte(large), nil); err != nil {
			t.Fatal(err)
		}
		w.forget()
		_, err := b.Record(t.Context(), reservation(t, 10), receipt.Delivery{})
		if !errors.Is(err, message.ErrRefused) {
			t.Errorf("%v, want ErrRefused", err)
		}
		w.wantRequests("projector-1", "read 200", "batch 413")
		w.wantStock(100, 9, 1)
		w.record(b, reservation(t, 9), "A", receipt.Stale) // its receipt goes alone, and fits
	})
}

// Members that a later version of this program adds to an item survive this one.
func TestWhatLaterVersionsAddToAnItemIsKept(t *testing.T) {
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		later := `{"id":"item","sku":"sku-42","stock":100,"version":9,"warehouse":{"north":1}}`
		if _, err := w.raw.ReplaceItem(t.Context(), azcosmos.NewPartitionKeyString("sku-42"), "item", []byte(later), nil); err != nil {
			t.Fatal(err)
		}
		w.record(b, reservation(t, 10), "A", receipt.Applied)
		answer, err := w.raw.ReadItem(t.Context(), azcosmos.NewPartitionKeyString("sku-42"), "item", nil)
		if err != nil || !strings.Contains(string(answer.Value), `"warehouse":{"north":1}`) || !strings.Contains(string(answer.Value), `"stock":97`) {
			t.Errorf("the item is %s, %v", answer.Value, err)
		}
	})
}

// What a later version of this program may say of an event is not for this one to guess.
func TestAReceiptThatSaysWhatThisVersionDoesNotKnowDecidesNothing(t *testing.T) {
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		e := reservation(t, 10)
		w.record(b, e, "A", receipt.Applied)
		var later azcosmos.PatchOperations
		later.AppendSet("/outcome", "deferred")
		if _, err := w.raw.PatchItem(t.Context(), azcosmos.NewPartitionKeyString("sku-42"), receipt.ID(key), later, nil); err != nil {
			t.Fatal(err)
		}
		for _, again := range []bool{false, true} {
			if d, err := b.Record(t.Context(), e, receipt.Delivery{Again: again}); !errors.Is(err, message.ErrRefused) {
				t.Errorf("again %t: %s, %v, want ErrRefused", again, d.Class, err)
			}
		}
		w.wantStock(97, 10, 2)
	})
}

// A receipt that has expired no longer tells a duplicate; its version still does.
func TestAnEventThatOutlivesItsReceiptIsStaleAndNotApplied(t *testing.T) { // R3
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		w.record(b, reservation(t, 10), "A", receipt.Applied)
		w.hub.Jump(keep + time.Second)
		w.record(b, reservation(t, 10), "B", receipt.Stale)
		item, _ := w.look("sku-42")
		if *item.Stock != 97 || item.Version != 10 {
			t.Errorf("stock %d at version %d, want 97 at 10", *item.Stock, item.Version)
		}
		w.record(w.book("counter"), count(t, 9, 100), "again", receipt.Stale)
		w.wantStock(97, 10, 2)
	})
}

// A hot sku: everybody at once, in two processes. The broker gives no order, so
// that some are stale; what is applied adds up, and nothing is applied twice.
func TestAHotSKUInTwoProcesses(t *testing.T) { // R2 R3 R9
	begun(t, func(t *testing.T, w *world, _ *receipt.Book) {
		const events = 60
		books := []*receipt.Book{w.book("projector-1"), w.book("projector-2")}
		var all sync.WaitGroup
		var mu sync.Mutex
		classes := map[receipt.Class]int{}
		for i := range events {
			e := reservation(t, int64(10+i), named(fmt.Sprint("R-", i)))
			for _, b := range books { // each event is delivered in both
				all.Go(func() {
					d, err := b.Record(t.Context(), e, receipt.Delivery{})
					if err != nil {
						t.Errorf("%s: %v", e.Key, err)
					}
					mu.Lock()
					defer mu.Unlock()
					classes[d.Class]++
				})
			}
		}
		all.Wait()
		item, receipts := w.look("sku-42")
		applied := 0
		for _, r := range receipts {
			if r.Outcome == "applied" && r.Delta != 0 {
				applied++
			}
		}
		if len(receipts) != events+1 || classes[receipt.Applied] != applied || classes[receipt.Applied]+classes[receipt.Stale] != events || classes[receipt.Duplicate] != events {
			t.Errorf("%d receipts, %d of them applied; %v", len(receipts), applied, classes)
		}
		if *item.Stock != int64(100-3*applied) || item.Version != 10+events-1 {
			t.Errorf("stock %d at version %d after %d effects", *item.Stock, item.Version, applied)
		}
	})
}

// failing is a store that panics when an item is read.
type failing struct{ receipt.Store }

func (failing) Item(context.Context, string) (receipt.Stored, error) { panic("out of order") }

// A server that hears webhooks survives what its handlers do: whoever comes after
// a recording that panicked must not wait for its turn for ever.
func TestARecordingThatPanicsHandsItsTurnOn(t *testing.T) { // R9
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		whole := b.Store
		b.Store = failing{whole}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("it did not panic")
				}
			}()
			_, _ = b.Record(t.Context(), reservation(t, 10), receipt.Delivery{})
		}()
		b.Store = whole
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if d, err := b.Record(ctx, reservation(t, 10), receipt.Delivery{}); err != nil || d.Class != receipt.Applied {
			t.Errorf("the one after it: %s, %v", d.Class, err)
		}
	})
}

// In one process the events of one sku go one after the other: none loses a race,
// and only the first reads.
func TestEventsOfOneSKUTakeTurns(t *testing.T) { // R9
	begun(t, func(t *testing.T, w *world, b *receipt.Book) {
		rule := w.arm(control.Rule{Match: control.Match{Operation: "read", Client: "projector-1"}, Do: "hold", Nth: 1})
		w.forget()
		var all sync.WaitGroup
		for _, i := range []int{0, 4, 2, 3, 1} { // what waits goes by version, so that nothing is stale
			e := reservation(t, int64(10+i), named(fmt.Sprint("R-", i)))
			all.Go(func() {
				if d, err := b.Record(t.Context(), e, receipt.Delivery{}); err != nil || d.Races != 0 {
					t.Errorf("%s: %d races, %v", e.Key, d.Races, err)
				}
			})
			synctest.Wait() // each waits before the next comes
		}
		w.record(b, event(t, message.StockEvent{Count: &message.StockCount{EventKey: "inventory:other:1", SKU: "other", Version: 1}}), "other", receipt.Applied) // another sku does not wait
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("no time"))
		if _, err := b.Record(ctx, reservation(t, 50, named("R-50")), receipt.Delivery{}); err == nil || !strings.Contains(err.Error(), "no time") {
			t.Errorf("who waits no longer: %v", err)
		}
		if err := w.hub.Release(rule, control.Release{Action: "go"}); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		w.wantStock(85, 14, 6)
		w.wantRequests("projector-1", "read 404", "batch 200", "read 200", "batch 200", "batch 200", "batch 200", "batch 200", "batch 200")
	})
}
