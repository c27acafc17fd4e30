package claim_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
)

// world is a database account with its control, all in one bubble.
type world struct {
	t      *testing.T
	hub    *control.Hub
	server *emulator.Server
	mark   uint64 // events before it do not count
}

// inWorld runs a test in a bubble of its own, with a database that is set up.
// The bubble finds every goroutine that does not end.
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
		test(t, w)
	})
}

// endpoints numbers the accounts: clients of one process share what they know of
// an endpoint, and bubbles must not share anything.
var endpoints atomic.Int64

// open makes a client of the account, known to rules and events by name.
func (w *world) open(name string) *cosmos.Database {
	w.t.Helper()
	db, err := cosmos.Open(cosmos.Options{
		Endpoint: fmt.Sprintf("http://claim-%d.test:8081/", endpoints.Add(1)), Key: emulator.EmulatorKey,
		ApplicationID: name, Transport: w.server.Transport(), Timeout: timeout,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(db.Close)
	return db
}

// timeout bounds one operation of the store (T_w).
const timeout = 10 * time.Second

// desk is that of a process of its own.
func (w *world) desk(name string) *claim.Desk {
	w.t.Helper()
	return &claim.Desk{Store: w.open(name).Claims(), Process: name + "/" + claim.Nonce(), Timeout: timeout, Terms: terms}
}

// task is what a first delivery of a keyed task asks for; broker and store have
// the right time here.
func task(change ...func(*claim.Ask)) claim.Ask {
	a := claim.Ask{
		ID: "82f3", TaskType: "customer.create", Fingerprint: "sha256:asked", Run: 1,
		Keyed: true, KeyWindow: keyWindow, KeyMargin: keyMargin, NotAfter: time.Now().Add(21 * 24 * time.Hour), Now: time.Now,
	}
	for _, f := range change {
		f(&a)
	}
	return a
}

func again(a *claim.Ask) { a.ReadFirst = true }

// grant takes a claim that must be granted. The lease is closed with the test.
func (w *world) grant(d *claim.Desk, ask claim.Ask) *claim.Lease {
	w.t.Helper()
	lease, v, err := d.Take(w.t.Context(), ask)
	if err != nil || v.Kind != claim.Granted {
		w.t.Fatalf("%s, %v, want it granted", v.Kind, err)
	}
	w.t.Cleanup(lease.Close)
	return lease
}

// answer takes a claim that must not be granted.
func (w *world) answer(d *claim.Desk, ask claim.Ask) claim.Verdict {
	w.t.Helper()
	lease, v, err := d.Take(w.t.Context(), ask)
	if err != nil || lease != nil {
		w.t.Fatalf("%s, lease %t, %v, want another verdict", v.Kind, lease != nil, err)
	}
	return v
}

// stands is the record as it stands.
func (w *world) stands() claim.Stored {
	w.t.Helper()
	s, err := w.open("witness").Claims().Record("82f3").Read(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// arm puts a rule to work on the operations on claims.
func (w *world) arm(r control.Rule) (name string) {
	w.t.Helper()
	r.Match.Service, r.Match.Entity = "cosmos", "claims"
	name, err := w.hub.Arm(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return name
}

func (w *world) disarm(name string) {
	w.t.Helper()
	if err := w.hub.Disarm(name); err != nil {
		w.t.Fatal(err)
	}
}

// reached waits until a rule has fired.
func (w *world) reached(rule string) {
	w.t.Helper()
	if _, err := w.hub.WaitReached(w.t.Context(), rule); err != nil {
		w.t.Fatal(err)
	}
}

// release lets go of what a rule holds, and waits until all that follows from it
// without time passing has happened.
func (w *world) release(rule, action string) {
	w.t.Helper()
	if err := w.hub.Release(rule, control.Release{Action: action}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// forget starts the counting of requests anew.
func (w *world) forget() { w.mark = w.hub.Last() }

// requests are a client's on claims, in the order in which they were answered:
// "create 201". What a rule cut off before it was applied is not among them.
func (w *world) requests(client string) []string {
	var all []string
	for _, e := range w.hub.Events(w.mark) {
		if e.Service == "cosmos" && e.Kind == "request" && e.Entity == "claims" && e.Client == client {
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

// going is something that runs beside the test until its result is asked for.
func going[T any](f func() T) (result func() T) {
	c := make(chan T, 1)
	go func() { c <- f() }()
	return func() T { return <-c }
}

// took is how a Take ended.
type took struct {
	lease   *claim.Lease
	verdict claim.Verdict
	err     error
}

// taking takes beside the test; what was granted is closed with the test.
func (w *world) taking(ctx context.Context, d *claim.Desk, ask claim.Ask) (result func() took) {
	wait := going(func() took {
		lease, v, err := d.Take(ctx, ask)
		return took{lease, v, err}
	})
	return func() took {
		got := wait()
		if got.lease != nil {
			w.t.Cleanup(got.lease.Close)
		}
		return got
	}
}

// wantVersion finds any write since a record was read.
func (w *world) wantVersion(before claim.Stored) {
	w.t.Helper()
	if after := w.stands(); after.ETag != before.ETag {
		w.t.Errorf("the record changed from %+v\nto %+v", before.Claim, after.Claim)
	}
}

// done is a result.
func done(t *testing.T) claim.Result {
	t.Helper()
	r, err := claim.NewResult("/customers/7", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// laggard is a store whose reads may show what stood earlier, as a replica may.
type laggard struct {
	claim.Store
	lag func(n int, s claim.Stored, err error) (claim.Stored, error) // of the nth read, from 1
}

func (l laggard) Record(id string) claim.Record {
	return &laggingRecord{Record: l.Store.Record(id), lag: l.lag}
}

type laggingRecord struct {
	claim.Record
	lag   func(int, claim.Stored, error) (claim.Stored, error)
	reads int
}

func (r *laggingRecord) Read(ctx context.Context) (claim.Stored, error) {
	r.reads++
	s, err := r.Record.Read(ctx)
	return r.lag(r.reads, s, err)
}

var _ claim.Store = laggard{}

// notFound is what a replica says that has not heard of a record yet.
func notFound(n int, s claim.Stored, err error) (claim.Stored, error) {
	if n == 1 {
		return claim.Stored{}, message.ErrNotFound
	}
	return s, err
}
