package receipt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"oneeffect/internal/message"
	"oneeffect/internal/receipt"

	"github.com/go-json-experiment/json/jsontext"
)

// reservation is an event about sku-42 that takes 3 from its stock.
func reservation(t *testing.T, version int64, change ...func(*message.Reservation)) receipt.Event {
	t.Helper()
	r := message.Reservation{EventKey: "inventory:sku-42:reservation:R-1001", SKU: "sku-42", ReservationID: "R-1001", Version: version, Quantity: 3}
	for _, f := range change {
		f(&r)
	}
	return event(t, message.StockEvent{Reservation: &r})
}

// named gives an event another key.
func named(id string) func(*message.Reservation) {
	return func(r *message.Reservation) {
		r.EventKey, r.ReservationID = "inventory:"+r.SKU+":reservation:"+id, id
	}
}

// count is an event that sets the stock of sku-42.
func count(t *testing.T, version, stock int64) receipt.Event {
	t.Helper()
	return event(t, message.StockEvent{Count: &message.StockCount{
		EventKey: fmt.Sprintf("inventory:sku-42:count:%d", version), SKU: "sku-42", Version: version, Stock: stock,
	}})
}

func event(t *testing.T, m message.StockEvent) receipt.Event {
	t.Helper()
	e, err := receipt.FromStock(m)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAnEventChangesAnItemOnlyIfItsVersionIsGreater(t *testing.T) { // R2 R3 R8
	begun := &receipt.Item{Stock: 100, Version: 9}
	for _, test := range []struct {
		says    string
		stands  *receipt.Item
		event   receipt.Event
		outcome receipt.Outcome
		stock   int64
		version int64
		gap     int64
	}{
		{"the next version", begun, reservation(t, 10), receipt.OutcomeApplied, 97, 10, 0},
		{"a version after a gap", begun, reservation(t, 13), receipt.OutcomeApplied, 97, 13, 3},
		{"the same version under another key", begun, reservation(t, 9), receipt.OutcomeStale, 100, 9, 0},
		{"a lower version", begun, reservation(t, 8), receipt.OutcomeStale, 100, 9, 0},
		{"version 1, long after the beginning", begun, reservation(t, 1), receipt.OutcomeStale, 100, 9, 0},
		{"the last version of all", begun, reservation(t, message.MaxVersion), receipt.OutcomeApplied, 97, message.MaxVersion, message.MaxVersion - 10},
		{"version 1 of a sku that is not known", nil, reservation(t, 1), receipt.OutcomeApplied, -3, 1, 0},
		{"a count of a sku that is not known", nil, count(t, 9, 100), receipt.OutcomeApplied, 100, 9, 0},
		{"a count at the next version", begun, count(t, 10, 40), receipt.OutcomeApplied, 40, 10, 0},
		{"a count that comes late", begun, count(t, 9, 40), receipt.OutcomeStale, 100, 9, 0},
	} {
		t.Run(test.says, func(t *testing.T) {
			next, r, err := receipt.Decide(test.stands, test.event)
			if err != nil || r.Outcome != test.outcome || next.Stock != test.stock || next.Version != test.version || r.Gap != test.gap {
				t.Errorf("%s, stock %d at version %d, gap %d, %v; want %s, %d at %d, gap %d", r.Outcome, next.Stock, next.Version, r.Gap, err, test.outcome, test.stock, test.version, test.gap)
			}
			if r.Key != test.event.Key || r.Digest != test.event.Digest || r.Version != test.event.Version {
				t.Errorf("the receipt is of another event: %+v", r)
			}
		})
	}
	if begun.Stock != 100 || begun.Version != 9 {
		t.Errorf("a decision changed what it was made from: %+v", *begun)
	}
}

func TestAReservationBeginsAnItemOnlyWithTheFirstVersion(t *testing.T) { // R8
	for _, version := range []int64{2, 10, message.MaxVersion} {
		if _, _, err := receipt.Decide(nil, reservation(t, version)); !errors.Is(err, receipt.ErrNoItem) {
			t.Errorf("version %d of a sku that is not known: %v, want ErrNoItem", version, err)
		}
	}
}

func TestAStockDoesNotLeaveItsRange(t *testing.T) {
	low := &receipt.Item{Stock: -message.MaxStock + 2, Version: 9}
	if _, _, err := receipt.Decide(low, reservation(t, 10)); !errors.Is(err, receipt.ErrRange) {
		t.Errorf("3 from %d: %v, want ErrRange", low.Stock, err)
	}
	low.Stock++
	if next, _, err := receipt.Decide(low, reservation(t, 10)); err != nil || next.Stock != -message.MaxStock {
		t.Errorf("3 from %d: %d, %v", low.Stock, next.Stock, err)
	}
	// Stale is said first: what changes nothing cannot leave the range either.
	if _, r, err := receipt.Decide(low, reservation(t, 9)); err != nil || r.Outcome != receipt.OutcomeStale {
		t.Errorf("a stale event: %s, %v", r.Outcome, err)
	}
}

func TestAReceiptThatStandsSaysWhoseItIs(t *testing.T) { // R4 R5 R6
	e := reservation(t, 10)
	_, mine, err := receipt.Decide(&receipt.Item{Stock: 100, Version: 9}, e)
	if err != nil {
		t.Fatal(err)
	}
	mine.W = "mine"
	stale := mine
	stale.Outcome = receipt.OutcomeStale
	for _, test := range []struct {
		says   string
		stands receipt.Receipt
		event  receipt.Event
		w      string
		want   receipt.Class
	}{
		{"my own, applied", mine, e, "mine", receipt.Applied},
		{"my own, stale", stale, e, "mine", receipt.Stale},
		{"another delivery's", mine, e, "another", receipt.Duplicate},
		{"another delivery's that was stale", stale, e, "another", receipt.Duplicate},
		{"another quantity", mine, reservation(t, 10, func(r *message.Reservation) { r.Quantity = 4 }), "another", receipt.Conflict},
		{"another version", mine, reservation(t, 11), "another", receipt.Conflict},
		{"another member", mine, reservation(t, 10, func(r *message.Reservation) { r.Unknown = jsontext.Value(`{"warehouse":"north"}`) }), "another", receipt.Conflict},
	} {
		if got := receipt.Recognise(test.stands, test.event, test.w); got != test.want {
			t.Errorf("%s: %s, want %s", test.says, got, test.want)
		}
	}
}

// The digest is over what is said, not over how it is written.
func TestTheSameContentHasTheSameDigest(t *testing.T) { // R4 R5
	read := func(data string) receipt.Event {
		t.Helper()
		m, err := message.ParseStockEvent([]byte(`{"specversion":"1.0","id":"x","source":"s","type":"ReservationAccepted","data":` + data + `}`))
		if err != nil {
			t.Fatal(err)
		}
		return event(t, m)
	}
	one := read(`{"eventKey":"inventory:a:1","sku":"a","reservationId":"1","version":1,"quantity":2,"x":{"b":1.0,"a":"\u0061"}}`)
	two := read(`{"x": {"a":"a", "b":1}, "quantity":2, "version":1, "reservationId":"1", "sku":"\u0061", "eventKey":"inventory:a:1"}`)
	if one.Digest != two.Digest || !strings.HasPrefix(one.Digest, "sha256:") {
		t.Errorf("one content has two digests: %s and %s", one.Digest, two.Digest)
	}
	other := read(`{"eventKey":"inventory:a:1","sku":"a","reservationId":"1","version":1,"quantity":2,"x":{"b":2,"a":"a"}}`)
	if other.Digest == one.Digest {
		t.Error("two contents have one digest")
	}
}

func TestAReceiptsIDIsOfItsKeyAloneAndNoOtherDocuments(t *testing.T) { // R1
	seen := map[string]string{}
	for _, key := range []string{"item", "inventory:a/b:1", "inventory:a:1", "inventory:a:1 ", "INVENTORY:A:1", "r:", "../item", "#?"} {
		id := receipt.ID(key)
		if seen[id] != "" || id == "item" || strings.ContainsAny(id, `/\?# `) || len(id) != 45 || !strings.HasPrefix(id, "r:") {
			t.Errorf("%q has the id %q, as %q", key, id, seen[id])
		}
		seen[id] = key
	}
	// From a shell: printf inventory:sku-42:reservation:R-1001 | openssl dgst -sha256 -binary | basenc --base64url
	const want = "r:uMYM8KWiQVzKm2LiPHYhHkFMtMe7ZfSnUejtLnYo6-s"
	if got := receipt.ID("inventory:sku-42:reservation:R-1001"); got != want {
		t.Errorf("the id is %s, want %s", got, want)
	}
}

func TestNoTwoRequestsOfSourcesShareAKeyOrAnEntity(t *testing.T) { // R1
	keys, entities := map[string]string{}, map[string]string{}
	for _, source := range []string{"a", "a-b"} {
		for _, resource := range []string{"r", "b", "r/req-1", "a b"} {
			for _, request := range []string{"req-1", "r:req-1", "b:req-1", "item"} {
				who := fmt.Sprintf("%s|%s|%s", source, resource, request)
				e, err := receipt.FromWebhook(source, message.Change{RequestID: request, Resource: resource, Version: 1, State: jsontext.Value(`{}`)})
				if err != nil {
					t.Fatal(err)
				}
				if keys[e.Key] != "" {
					t.Errorf("%s has the key %q, as %s", who, e.Key, keys[e.Key])
				}
				if of := source + "|" + resource; entities[e.Entity] != "" && entities[e.Entity] != of {
					t.Errorf("%s has the entity %q, as %s", who, e.Entity, entities[e.Entity])
				} else {
					entities[e.Entity] = of
				}
				keys[e.Key] = who
			}
		}
	}
}
