package receipt_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/receipt"
)

const (
	timeout = 10 * time.Second // of one operation of the store (T_w)
	keep    = 60 * 24 * time.Hour
)

// world is a database account with its control, all in one bubble.
type world struct {
	t      *testing.T
	hub    *control.Hub
	server *emulator.Server
	mark   uint64 // events before it do not count
	raw    *azcosmos.ContainerClient
}

// inWorld runs a test in a bubble of its own, with a database that is set up.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		w := &world{t: t, hub: hub, server: emulator.New(hub, emulator.Options{})}
		t.Cleanup(func() {
			hub.Close()
			if err := w.server.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := w.open("setup").Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.raw = w.sdk()
		test(t, w)
	})
}

// endpoints numbers the accounts: clients of one process share what they know of
// an endpoint, and bubbles must not share anything.
var endpoints atomic.Int64

func endpoint() string { return fmt.Sprintf("http://receipt-%d.test:8081/", endpoints.Add(1)) }

// open makes a client of the account, known to rules and events by name.
func (w *world) open(name string) *cosmos.Database {
	w.t.Helper()
	db, err := cosmos.Open(cosmos.Options{
		Endpoint: endpoint(), Key: emulator.EmulatorKey, ApplicationID: name, Transport: w.server.Transport(), Timeout: timeout,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(db.Close)
	return db
}

// sdk is the SDK itself, to look at documents with.
func (w *world) sdk() *azcosmos.ContainerClient {
	w.t.Helper()
	key, err := azcosmos.NewKeyCredential(emulator.EmulatorKey)
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(endpoint(), key, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: w.server.Transport()}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	items, err := client.NewContainer(cosmos.DefaultDatabase, "inventory")
	if err != nil {
		w.t.Fatal(err)
	}
	return items
}

// book is that of a process of its own.
func (w *world) book(name string) *receipt.Book {
	w.t.Helper()
	return &receipt.Book{Store: w.open(name).Inventory(), Timeout: timeout, Keep: keep}
}

// document is what may lie in the partition of a sku: an item or a receipt.
type document struct {
	ID      string `json:"id"`
	SKU     string `json:"sku"`
	Stock   *int64 `json:"stock"`
	Version int64  `json:"version"`
	Outcome string `json:"outcome"`
	Key     string `json:"key"`
	Delta   int64  `json:"delta"`
	Gap     int64  `json:"gap"`
	Found   int64  `json:"found"`
	TTL     int    `json:"ttl"`
	W       string `json:"w"`
}

// look reads everything in the partition of a sku, past this program's own code.
func (w *world) look(sku string) (item *document, receipts map[string]document) {
	w.t.Helper()
	receipts = map[string]document{}
	pager := w.raw.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKeyString(sku), nil)
	for pager.More() {
		page, err := pager.NextPage(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, text := range page.Items {
			var d document
			if err := json.Unmarshal(text, &d); err != nil {
				w.t.Fatal(err)
			}
			if d.ID == "item" {
				item = &d
			} else {
				receipts[d.Key] = d
			}
		}
	}
	return item, receipts
}

// wantStock holds what stands: the stock and version of sku-42, and how many
// receipts it has.
func (w *world) wantStock(stock, version int64, receipts int) {
	w.t.Helper()
	item, found := w.look("sku-42")
	switch {
	case item == nil:
		w.t.Errorf("there is no item, want stock %d at version %d", stock, version)
	case *item.Stock != stock || item.Version != version || len(found) != receipts:
		w.t.Errorf("stock %d at version %d with %d receipts, want %d at %d with %d", *item.Stock, item.Version, len(found), stock, version, receipts)
	}
}

// record records and holds the class.
func (w *world) record(b *receipt.Book, e receipt.Event, delivery string, want receipt.Class) receipt.Decision {
	w.t.Helper()
	d, err := b.Record(w.t.Context(), e, receipt.Delivery{ID: delivery})
	if err != nil || d.Class != want {
		w.t.Errorf("%s by %s: %s, %v, want %s", e.Key, delivery, d.Class, err, want) // not fatal: others than the test's goroutine record too
	}
	return d
}

// arm puts a rule to work on the operations on the inventory.
func (w *world) arm(r control.Rule) (name string) {
	w.t.Helper()
	r.Match.Service, r.Match.Entity = "cosmos", "inventory"
	name, err := w.hub.Arm(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return name
}

// whenReached lets go of what a rule holds as soon as it holds something, after
// doing something else.
func (w *world) whenReached(rule string, do func(), how control.Release) (wait func()) {
	var done sync.WaitGroup
	done.Go(func() {
		if _, err := w.hub.WaitReached(w.t.Context(), rule); err != nil {
			w.t.Error(err)
			return
		}
		do()
		if err := w.hub.Release(rule, how); err != nil {
			w.t.Error(err)
		}
	})
	return done.Wait
}

// forget starts the counting of requests anew.
func (w *world) forget() { w.mark = w.hub.Last() }

// requests are a client's on the inventory, in the order in which they were
// answered: "batch 200".
func (w *world) requests(client string) []string {
	var all []string
	for _, e := range w.hub.Events(w.mark) {
		if e.Service == "cosmos" && e.Kind == "request" && e.Entity == "inventory" && e.Client == client {
			all = append(all, fmt.Sprintf("%s %d", e.Operation, e.Status))
		}
	}
	return all
}

func (w *world) wantRequests(client string, want ...string) {
	w.t.Helper()
	if got := w.requests(client); !slices.Equal(got, want) {
		w.t.Errorf("%s sent %q, want %q", client, got, want)
	}
}
