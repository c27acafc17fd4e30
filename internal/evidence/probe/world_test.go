package probe

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	cosmosemulator "oneeffect/emulator/cosmos"
	brokeremulator "oneeffect/emulator/servicebus"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/projector"
	"oneeffect/internal/servicebus"

	"go.opentelemetry.io/otel/metric/noop"
)

// world is a broker and a store, and probes wired to them, in one bubble. Processes
// that kill themselves and webhooks have no place in a bubble: cmd/local shows them.
type world struct {
	t      *testing.T
	hub    *control.Hub
	probes *Probes
}

var accounts atomic.Int64

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, hub: control.New()}
		broker, store := w.emulators()
		o := cosmos.Options{
			Endpoint: fmt.Sprintf("http://probes-%d.test:8081/", accounts.Add(1)), Key: cosmosemulator.EmulatorKey,
			ApplicationID: "probes", Database: Database, Transport: store.Transport(), Timeout: 10 * time.Second,
		}
		db, err := cosmos.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		if err := db.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		unguarded, err := OpenUnguarded(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(unguarded.Close)
		bus, err := servicebus.Dial(servicebus.Options{
			ConnectionString: "Endpoint=sb://bus.example;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true",
			ApplicationID:    "probes", NewConn: func(ctx context.Context) (net.Conn, error) { return broker.Dial(ctx) },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.close(bus) })
		counters, err := projector.NewCounters(noop.Meter{})
		if err != nil {
			t.Fatal(err)
		}
		w.probes = &Probes{
			Bus: bus, Topic: Topic, Subscription: Subscription, Lock: Lock, Inventory: db.Inventory(), Webhooks: db.Webhooks(),
			Unguarded: unguarded, Timeout: 10 * time.Second, Counters: counters, Log: slog.New(slog.DiscardHandler), token: rand.Text(),
		}
		test(t, w)
	})
}

func (w *world) emulators() (*brokeremulator.Server, *cosmosemulator.Server) {
	file, err := os.Open("../../../emulator/config.json")
	if err != nil {
		w.t.Fatal(err)
	}
	defer file.Close()
	config, err := brokeremulator.ReadConfig(file)
	if err != nil {
		w.t.Fatal(err)
	}
	broker, err := brokeremulator.New(w.hub, config)
	if err != nil {
		w.t.Fatal(err)
	}
	store := cosmosemulator.New(w.hub, cosmosemulator.Options{})
	w.t.Cleanup(func() {
		w.hub.Close()
		for _, end := range []func() error{broker.Close, store.Close} {
			if err := end(); err != nil {
				w.t.Error(err)
			}
		}
	})
	return broker, store
}

func (w *world) close(bus *servicebus.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := bus.Close(ctx); err != nil {
		w.t.Error(err)
	}
}
