package message_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	reservationData = members{
		"eventKey": `"inventory:sku-42:reservation:R-1001"`, "sku": `"sku-42"`, "reservationId": `"R-1001"`, "version": `10`, "quantity": `3`,
	}
	countData = members{"eventKey": `"inventory:sku-42:count:1"`, "sku": `"sku-42"`, "version": `9`, "stock": `100`}
)

func TestAStockEventIsReadAsItWasWritten(t *testing.T) {
	for _, test := range []struct {
		name string
		body string
		want message.StockEvent
	}{
		{
			"a reservation", envelopeOf(message.TypeReservation, reservationData).object(),
			message.StockEvent{Reservation: &message.Reservation{EventKey: "inventory:sku-42:reservation:R-1001", SKU: "sku-42", ReservationID: "R-1001", Version: 10, Quantity: 3}},
		},
		{
			"a count", envelopeOf(message.TypeStockCount, countData).object(),
			message.StockEvent{Count: &message.StockCount{EventKey: "inventory:sku-42:count:1", SKU: "sku-42", Version: 9, Stock: 100}},
		},
		{
			"a count of nothing", envelopeOf(message.TypeStockCount, countData.with(members{"stock": "0"})).object(),
			message.StockEvent{Count: &message.StockCount{EventKey: "inventory:sku-42:count:1", SKU: "sku-42", Version: 9}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := message.ParseStockEvent([]byte(test.body))
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, test.want)
			}
		})
	}
}

// A sku is a name in the world outside: what can be kept is taken as it is.
func TestASKUMayBeWrittenInManyWays(t *testing.T) {
	for _, sku := range []string{"a/b", "item", "..", "a b", "#?&+%2F", `"`, `\`, "größe-42", "品番", "r-", strings.Repeat("x", message.MaxSKU)} {
		r := message.Reservation{EventKey: "inventory:" + sku + ":reservation:R/1001", SKU: sku, ReservationID: "R/1001", Version: 1, Quantity: 1}
		m, err := r.Message("any", time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		got, err := message.ParseStockEvent(m.Body)
		if err != nil || got.SKU() != r.SKU || got.Key() != r.EventKey {
			t.Errorf("%q: read %+v, %v", sku, got, err)
		}
	}
}

func TestAStockEventThatDoesNotParseIsRefusedWithItsCause(t *testing.T) { // M1, M3
	reservation := func(m members) string {
		return envelopeOf(message.TypeReservation, reservationData.with(m)).object()
	}
	count := func(m members) string { return envelopeOf(message.TypeStockCount, countData.with(m)).object() }
	for eventType, data := range map[string]members{message.TypeReservation: reservationData, message.TypeStockCount: countData} {
		t.Run(eventType, func(t *testing.T) { refuses(t, message.ParseStockEvent, anyEnvelope(eventType, data)) })
	}
	const key = `the key of an event about this sku is inventory:sku-42: and a name of the event's own`
	refuses(t, message.ParseStockEvent, []refusal{
		{"another event type", envelopeOf("ReservationCancelled", reservationData).object(), `type is "ReservationCancelled", the topic carries ReservationAccepted and StockCounted`},
		{"no key", reservation(members{"eventKey": ""}), key},
		{"a key that is item", reservation(members{"eventKey": `"item"`}), key},
		{"a key of another sku", reservation(members{"eventKey": `"inventory:sku-4:reservation:R-1001"`}), key},
		{"a key of a longer sku", reservation(members{"eventKey": `"inventory:sku-421:R-1001"`}), key},
		{"a key that names only its sku", reservation(members{"eventKey": `"inventory:sku-42:"`}), key},
		{"a key of megabytes", reservation(members{"eventKey": `"inventory:sku-42:` + strings.Repeat("x", message.MaxEventKey) + `"`}), "eventKey has 273 bytes, 256 are allowed"},
		{"a key with a line break", reservation(members{"eventKey": `"inventory:sku-42:\n"`}), `eventKey contains '\n'`},
		{"no sku", reservation(members{"sku": ""}), "sku is missing"},
		{"a sku with a colon", reservation(members{"sku": `"a:b"`, "eventKey": `"inventory:a:b:R"`}), "sku contains a colon"},
		{"a sku with a control character", reservation(members{"sku": `"a\u0001"`, "eventKey": `"inventory:a\u0001:R"`}), `sku contains '\x01'`},
		{"a sku beyond U+FFFF", reservation(members{"sku": `"a😀"`, "eventKey": `"inventory:a😀:R"`}), `sku contains '\U0001f600'`},
		{"a sku that is too long", reservation(members{"sku": `"` + strings.Repeat("x", 129) + `"`, "eventKey": `"inventory:` + strings.Repeat("x", 129) + `:R"`}), "sku has 129 bytes, 128 are allowed"},
		{"no reservation", reservation(members{"reservationId": ""}), "reservationId is missing"},
		{"no version", reservation(members{"version": ""}), "version is 0, or missing"},
		{"version 0", reservation(members{"version": "0"}), "version is 0, or missing"},
		{"a negative version", reservation(members{"version": "-1"}), "version is -1, or missing"},
		{"the version that nothing comes after", reservation(members{"version": "9007199254740992"}), "version is 9007199254740992, or missing: versions count from 1 to 9007199254740991"},
		{"a version that is no exact number", reservation(members{"version": "9007199254740993"}), `at "/data/version": the integer 9007199254740993 is beyond 2^53: send it as a string`},
		{"a version that is a string", reservation(members{"version": `"10"`}), `unmarshal JSON string into Go int64 within "/version"`},
		{"a version with a fraction", reservation(members{"version": "10.5"}), `within "/version"`},
		{"no quantity", reservation(members{"quantity": ""}), "quantity is 0: a reservation takes 1 to 1000000000"},
		{"a negative quantity", reservation(members{"quantity": "-3"}), "quantity is -3"},
		{"a huge quantity", reservation(members{"quantity": "1000000001"}), "quantity is 1000000001"},
		{"a quantity of nothing", reservation(members{"quantity": "null"}), "quantity is 0"},
		{"no stock", count(members{"stock": ""}), "stock is missing"},
		{"a stock of nothing", count(members{"stock": "null"}), "stock is missing"},
		{"a negative stock", count(members{"stock": "-1"}), "stock is -1"},
		{"a huge stock", count(members{"stock": "1000000000001"}), "stock is 1000000000001"},
	})
}

// anyEnvelope is what an envelope is refused for, whatever is in it.
func anyEnvelope(eventType string, data members) []refusal {
	return slices.DeleteFunc(envelopeRefusals(eventType, data), func(r refusal) bool {
		return strings.Contains(r.want, "taskExecutionId") || strings.Contains(r.want, `run"`)
	})
}

func TestAStockEventTravelsWithWhatLaterVersionsAdd(t *testing.T) { // M2
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, e := range []message.StockEvent{
		{Reservation: &message.Reservation{EventKey: "inventory:a:1", SKU: "a", ReservationID: "1", Version: 1, Quantity: 1, Unknown: jsontext.Value(`{"warehouse":"north"}`)}},
		{Count: &message.StockCount{EventKey: "inventory:a:2", SKU: "a", Version: 2, Stock: 7, Unknown: jsontext.Value(`{"warehouse":"north"}`)}},
	} {
		var m message.Message
		var err error
		if e.Count != nil {
			m, err = e.Count.Message("transport-7", at)
		} else {
			m, err = e.Reservation.Message("transport-7", at)
		}
		if err != nil || m.ID != "transport-7" || m.CorrelationID != "a" {
			t.Fatalf("%+v, %v", m, err)
		}
		if got, err := message.ParseStockEvent(m.Body); err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%s came back as %+v, %v", m.Body, got, err)
		}
	}
}

func TestAWebhookBodyIsReadOrRefusedWithItsCause(t *testing.T) { // M1, M2, M3
	whole := members{"requestId": `"req-4401"`, "resource": `"invoice-7"`, "version": `3`, "state": `{"paid":true}`}
	got, err := message.ParseChange([]byte(whole.with(members{"later": "1"}).object()))
	want := message.Change{RequestID: "req-4401", Resource: "invoice-7", Version: 3, State: jsontext.Value(`{"paid":true}`), Unknown: jsontext.Value(`{"later":1}`)}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	refuses(t, message.ParseChange, []refusal{
		{"nothing", "", "EOF"},
		{"no object", "[]", "JSON array"},
		{"two values", whole.object() + "{}", "after top-level value"},
		{"no request", whole.with(members{"requestId": ""}).object(), "requestId is missing"},
		{"a request that is too long", whole.with(members{"requestId": `"` + strings.Repeat("x", 129) + `"`}).object(), "requestId has 129 bytes"},
		{"a request with a line break", whole.with(members{"requestId": `"a\r\n"`}).object(), `requestId contains '\r'`},
		{"no resource", whole.with(members{"resource": ""}).object(), "resource is missing"},
		{"a resource with a colon", whole.with(members{"resource": `"a:b"`}).object(), "resource contains a colon"},
		{"no version", whole.with(members{"version": ""}).object(), "version is 0"},
		{"no state", whole.with(members{"state": ""}).object(), "state is missing"},
		{"a state that is no object", whole.with(members{"state": "[]"}).object(), "state is missing, or not an object"},
		{"duplicate names", `{"version":1,"version":2}`, "duplicate object member name"},
	})
}

// FuzzParseStockEvent: a body is refused as poison, or read into exactly one event
// that comes back the same after it has travelled (M1, M2).
func FuzzParseStockEvent(f *testing.F) {
	for eventType, data := range map[string]members{message.TypeReservation: reservationData, message.TypeStockCount: countData} {
		f.Add([]byte(envelopeOf(eventType, data).object()))
		f.Add([]byte(envelopeOf(eventType, data.with(members{"x": `{"y":[1.50]}`})).object()))
		for _, r := range anyEnvelope(eventType, data) {
			f.Add([]byte(r.body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := message.ParseStockEvent(body)
		if err != nil {
			if !errors.Is(err, message.ErrPoison) || e != (message.StockEvent{}) {
				t.Fatalf("refused with %v, and there is %+v", err, e)
			}
			return
		}
		if (e.Reservation == nil) == (e.Count == nil) || !strings.HasPrefix(e.Key(), "inventory:"+e.SKU()+":") {
			t.Fatalf("%+v has been read", e)
		}
		send := func() (message.Message, error) { return e.Reservation.Message("id", time.Unix(0, 0)) }
		if e.Count != nil {
			send = func() (message.Message, error) { return e.Count.Message("id", time.Unix(0, 0)) }
		}
		m, err := send()
		if err != nil {
			t.Fatalf("%+v cannot be sent: %v", e, err)
		}
		again, err := message.ParseStockEvent(m.Body)
		if err != nil || again.Key() != e.Key() || again.SKU() != e.SKU() {
			t.Fatalf("%s came back as %+v, %v, was %+v", m.Body, again, err, e)
		}
	})
}
