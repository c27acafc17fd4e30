package cosmos_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/cosmos"
)

// world is an account, its control and a client that is set up.
type world struct {
	t      *testing.T
	hub    *control.Hub
	server *emulator.Server
	wire   *wire
	db     *cosmos.Database
}

// newWorld makes an account whose database is as it must be.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := newAccount(t)
	if err := w.db.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wire.forget()
	return w
}

// newAccount makes an empty account and a client of it.
func newAccount(t *testing.T) *world {
	t.Helper()
	hub := control.New()
	server := emulator.New(hub, emulator.Options{})
	w := &world{t: t, hub: hub, server: server, wire: &wire{next: server.Transport()}}
	w.db = w.open(nil)
	t.Cleanup(func() {
		w.db.Close()
		hub.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// open opens another client of the account.
func (w *world) open(change func(*cosmos.Options)) *cosmos.Database {
	w.t.Helper()
	o := cosmos.Options{
		Endpoint: endpoint(w.t), Key: emulator.EmulatorKey, ApplicationID: "worker-1",
		Transport: w.wire, Timeout: 10 * time.Second,
	}
	if change != nil {
		change(&o)
	}
	db, err := cosmos.Open(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return db
}

// endpoint is another one for every test, since the SDK shares caches between the
// clients of one process.
func endpoint(t *testing.T) string {
	h := fnv.New64a()
	h.Write([]byte(t.Name()))
	return fmt.Sprintf("http://%x.test:8081/", h.Sum64())
}

// raw is the SDK itself.
func (w *world) raw() *azcosmos.Client {
	w.t.Helper()
	key, err := azcosmos.NewKeyCredential(emulator.EmulatorKey)
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(endpoint(w.t), key, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: w.server.Transport()},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return client
}

// sdk is a container by the SDK, for what the stores do not offer.
func (w *world) sdk(container string) *azcosmos.ContainerClient {
	w.t.Helper()
	items, err := w.raw().NewContainer(cosmos.DefaultDatabase, container)
	if err != nil {
		w.t.Fatal(err)
	}
	return items
}

func (w *world) arm(r control.Rule) string {
	w.t.Helper()
	name, err := w.hub.Arm(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return name
}

// whileHeld does something as soon as a rule holds an operation, and then lets go.
func (w *world) whileHeld(rule string, how control.Release) func() {
	var done sync.WaitGroup
	done.Go(func() {
		if _, err := w.hub.WaitReached(w.t.Context(), rule); err != nil {
			w.t.Error(err)
			return
		}
		if err := w.hub.Release(rule, how); err != nil {
			w.t.Error(err)
		}
	})
	return done.Wait
}

// wire is the road to the account, which remembers what passed and can be cut.
type wire struct {
	next interface {
		Do(*http.Request) (*http.Response, error)
	}

	mu   sync.Mutex
	fail func(*http.Request) (*http.Response, error) // instead of passing on, unless it returns neither
	sent []*http.Request
}

func (w *wire) Do(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.sent = append(w.sent, r)
	fail := w.fail
	w.mu.Unlock()
	if fail != nil {
		if response, err := fail(r); response != nil || err != nil {
			return response, err
		}
	}
	return w.next.Do(r)
}

func (w *wire) cut(fail func(*http.Request) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = fail
}

func (w *wire) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = nil
}

// requests returns what was sent, other than discoveries of the account.
func (w *wire) requests() (operations, discoveries []*http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.sent {
		if r.URL.Path == "/" || r.URL.Path == "" {
			discoveries = append(discoveries, r)
		} else {
			operations = append(operations, r)
		}
	}
	return operations, discoveries
}

func (w *wire) wantOperations(t *testing.T, want int) []*http.Request {
	t.Helper()
	operations, _ := w.requests()
	if len(operations) != want {
		t.Errorf("%d requests were sent, want %d", len(operations), want)
	}
	return operations
}

// silent is a peer that takes everything and never answers.
func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}
