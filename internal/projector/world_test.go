package projector_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
	"oneeffect/internal/projector"
	"oneeffect/internal/receipt"

	"go.opentelemetry.io/otel/metric/noop"
)

const timeout = 10 * time.Second

// world is a store, and a projector with its webhooks, all in one bubble.
type world struct {
	t         *testing.T
	hub       *control.Hub
	server    *emulator.Server
	db        *cosmos.Database
	projector *projector.Projector
	webhooks  *projector.Webhooks
	log       *strings.Builder
	mark      uint64
}

var endpoints atomic.Int64

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		w := &world{t: t, hub: hub, server: emulator.New(hub, emulator.Options{}), log: &strings.Builder{}}
		t.Cleanup(func() {
			hub.Close()
			if err := w.server.Close(); err != nil {
				t.Error(err)
			}
		})
		var err error
		w.db, err = cosmos.Open(cosmos.Options{
			Endpoint: fmt.Sprintf("http://projector-%d.test:8081/", endpoints.Add(1)), Key: emulator.EmulatorKey,
			ApplicationID: "projector-1", Transport: w.server.Transport(), Timeout: timeout,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.db.Close)
		if err := w.db.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		counters, err := projector.NewCounters(noop.Meter{})
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.NewTextHandler(w.log, nil))
		book := func(s receipt.Store) *receipt.Book {
			return &receipt.Book{Store: s, Timeout: timeout, Keep: 60 * 24 * time.Hour}
		}
		w.projector = &projector.Projector{Inventory: book(w.db.Inventory()), Counters: counters, Log: log}
		w.webhooks = &projector.Webhooks{
			Book: book(w.db.Webhooks()), Secrets: map[string][][]byte{"billing": {secret}, "shop": {[]byte("an old secret of shop"), []byte("a new secret of shop")}},
			MaxBody: 4 << 10, Budget: 30 * time.Second, Slots: make(chan struct{}, 2), Counters: counters, Log: log,
		}
		test(t, w)
	})
}

var secret = []byte("0123456789abcdef0123456789abcdef")

// reservation is a message that takes 3 of sku-42.
func reservation(t *testing.T, id string, version int64, change ...func(*message.Reservation)) []byte {
	t.Helper()
	r := message.Reservation{EventKey: "inventory:sku-42:reservation:" + id, SKU: "sku-42", ReservationID: id, Version: version, Quantity: 3}
	for _, f := range change {
		f(&r)
	}
	m, err := r.Message("any", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return m.Body
}

func count(t *testing.T, version, stock int64) []byte {
	t.Helper()
	c := message.StockCount{EventKey: fmt.Sprint("inventory:sku-42:count:", version), SKU: "sku-42", Version: version, Stock: stock}
	m, err := c.Message("any", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return m.Body
}

// deliver hands a body to the projector and holds what becomes of the message.
func (w *world) deliver(body []byte, nth int, want message.Action) message.Settlement {
	w.t.Helper()
	s := w.projector.Handle(w.t.Context(), message.Delivery{MessageID: fmt.Sprint("delivery-", nth), Body: body, Count: nth})
	if s.Action != want {
		w.t.Errorf("delivery %d: %s (%s: %s), want %s", nth, s.Action, s.Reason, s.Description, want)
	}
	return s
}

// wantStock holds sku-42.
func (w *world) wantStock(stock, version int64) {
	w.t.Helper()
	s, err := w.db.Inventory().Item(w.t.Context(), "sku-42")
	if err != nil || s.Item.Stock != stock || s.Item.Version != version {
		w.t.Errorf("stock %d at version %d, %v, want %d at %d", s.Item.Stock, s.Item.Version, err, stock, version)
	}
}

// writes counts the batches that the store has applied since the last count.
func (w *world) writes() int {
	return w.counts(func(e control.Event) bool { return e.Operation == "batch" && e.Status == 200 })
}

// asked counts everything that the store was asked since the last count.
func (w *world) asked() int { return w.counts(func(control.Event) bool { return true }) }

// counts counts requests of the store, and begins anew.
func (w *world) counts(which func(control.Event) bool) (n int) {
	for _, e := range w.hub.Events(w.mark) {
		if e.Service == "cosmos" && e.Kind == "request" && which(e) {
			n++
		}
	}
	w.mark = w.hub.Last()
	return n
}

func (w *world) arm(r control.Rule) (disarm func()) {
	w.t.Helper()
	r.Match.Service = "cosmos"
	name, err := w.hub.Arm(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return func() {
		if err := w.hub.Disarm(name); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) wantLog(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		if !strings.Contains(w.log.String(), text) {
			w.t.Errorf("the log does not say %s:\n%s", text, w.log)
		}
	}
	w.log.Reset()
}
