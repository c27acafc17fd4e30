package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

// bench is a worker on a real claim store, with a handler and a topic that are
// the test's.
type bench struct {
	*Worker
	t      *testing.T
	hub    *control.Hub
	server *emulator.Server

	declared  message.Declaration
	answer    func(ctx context.Context, c message.Call) message.Outcome
	calls     []message.Call
	published []message.Message
}

func (b *bench) Declaration() message.Declaration { return b.declared }

func (b *bench) Call(ctx context.Context, c message.Call) message.Outcome {
	b.calls = append(b.calls, c)
	return b.answer(ctx, c)
}

// endpoints numbers the accounts, since clients of one process share what they
// know of an endpoint, and bubbles must not share anything.
var endpoints atomic.Int64

const storeTimeout = 10 * time.Second

// inBubble gives a test a worker whose handler is keyed and succeeds, until the
// test says otherwise.
func inBubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		server := emulator.New(hub, emulator.Options{})
		defer func() {
			hub.Close()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}()
		b := &bench{
			t: t, hub: hub, server: server,
			declared: message.Declaration{
				Type: "t", Keyed: true, KeyWindow: 24 * time.Hour, Timeout: 20 * time.Second,
				Attempts: 8, BackoffMin: 2 * time.Second, BackoffMax: 5 * time.Minute,
			},
			answer: func(context.Context, message.Call) message.Outcome {
				return message.Outcome{Effect: message.EffectApplied, Ref: "/c/1"}
			},
		}
		if err := b.open("setup").Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.Worker = b.another("worker-1")
		test(t, b)
	})
}

// open makes a client of the store, known to rules and events by name.
func (b *bench) open(name string) *cosmos.Database {
	b.t.Helper()
	db, err := cosmos.Open(cosmos.Options{
		Endpoint: fmt.Sprintf("http://worker-%d.test/", endpoints.Add(1)), Key: emulator.EmulatorKey,
		ApplicationID: name, Transport: b.server.Transport(), Timeout: storeTimeout,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(db.Close)
	return db
}

// another is the worker of a process of its own.
func (b *bench) another(name string) *Worker {
	b.t.Helper()
	return &Worker{
		Claims: &claim.Desk{
			Store: b.open(name).Claims(), Process: name + "/" + claim.Nonce(), Timeout: storeTimeout,
			Terms: claim.Terms{Lease: 5 * time.Minute, OwnerMargin: 10 * time.Second, ChallengerMargin: 5 * time.Second, MaxAttempts: 8, Keep: 30 * 24 * time.Hour},
		},
		Handlers: map[string]message.Handler{"t": b},
		Publish: func(_ context.Context, m message.Message) error {
			b.published = append(b.published, m)
			return nil
		},
		BusyWait: 20 * time.Second, PublishTimeout: 30 * time.Second, SettleTimeout: 10 * time.Second, KeyMargin: 15 * time.Minute,
		Log: slog.New(slog.DiscardHandler),
	}
}

// keyless makes the handler one whose downstream honours no key.
func (b *bench) keyless() { b.declared.Keyed, b.declared.KeyWindow, b.declared.Attempts = false, 0, 1 }

// deliver hands the task to the worker, as the count-th delivery.
func (b *bench) deliver(ctx context.Context, count int) message.Settlement {
	b.t.Helper()
	task := message.Task{
		ExecutionID: "82f3", Run: 1, Type: "t", Payload: jsontext.Value(`{}`),
		Deadline: time.Now().Add(24 * time.Hour), NotAfter: time.Now().Add(21 * 24 * time.Hour),
	}
	return b.deliverTask(ctx, task, count)
}

func (b *bench) deliverTask(ctx context.Context, task message.Task, count int) message.Settlement {
	b.t.Helper()
	return b.Handle(ctx, b.delivery(task, count))
}

// deliverCopy hands the task to the worker as the copy that a settlement has made of it.
func (b *bench) deliverCopy(ctx context.Context, task message.Task, of message.Settlement) message.Settlement {
	b.t.Helper()
	d := b.delivery(task, 1)
	d.InVain = of.InVain
	return b.Handle(ctx, d)
}

func (b *bench) delivery(task message.Task, count int) message.Delivery {
	b.t.Helper()
	m, err := task.Message("82f3", time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	return message.Delivery{MessageID: m.ID, CorrelationID: m.CorrelationID, Body: m.Body, Count: count, Taken: time.Now(), Received: time.Now()}
}

// takenBy has the desk of another process take the claim of the task.
func (b *bench) takenBy(ctx context.Context, d *claim.Desk) (*claim.Lease, error) {
	fingerprint, err := claim.Fingerprint("t", jsontext.Value(`{}`))
	if err != nil {
		return nil, err
	}
	lease, v, err := d.Take(ctx, claim.Ask{
		ID: "82f3", TaskType: "t", Fingerprint: fingerprint, Run: 1, Keyed: true, KeyWindow: 24 * time.Hour,
		NotAfter: time.Now().Add(time.Hour), Now: time.Now, ReadFirst: true,
	})
	if err == nil && lease == nil {
		err = fmt.Errorf("the claim is not granted: %s", v.Kind)
	}
	return lease, err
}

// afterWrite calls back when a write of the claim was applied and its answer has
// come, before the worker sees that.
func (b *bench) afterWrite(f func(claim.Claim)) { b.Claims.Store = watched{b.Claims.Store, f} }

type watched struct {
	claim.Store
	after func(claim.Claim)
}

func (w watched) Record(id string) claim.Record { return watchedRecord{w.Store.Record(id), w.after} }

type watchedRecord struct {
	claim.Record
	after func(claim.Claim)
}

func (r watchedRecord) Create(ctx context.Context, c claim.Claim) (claim.ETag, error) {
	etag, err := r.Record.Create(ctx, c)
	if err == nil {
		r.after(c)
	}
	return etag, err
}

func (r watchedRecord) Replace(ctx context.Context, c claim.Claim, unchanged claim.ETag) (claim.ETag, error) {
	etag, err := r.Record.Replace(ctx, c, unchanged)
	if err == nil {
		r.after(c)
	}
	return etag, err
}

// stands is the claim as it stands. Handlers ask too, in goroutines of their own, which
// cannot end the test.
func (b *bench) stands() claim.Claim {
	b.t.Helper()
	s, err := b.Claims.Store.Record("82f3").Read(b.t.Context())
	if err != nil {
		b.t.Error(err)
	}
	return s.Claim
}

func (b *bench) arm(r control.Rule) {
	b.t.Helper()
	r.Match.Service, r.Match.Entity = "cosmos", "claims"
	if _, err := b.hub.Arm(r); err != nil {
		b.t.Fatal(err)
	}
}
