package orchestrator_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

const lease = 5 * time.Minute

// deadLetters is a dead-letter queue that was looked into so often.
type deadLetters struct {
	all []message.Dead // changed by a test before anybody looks, and by Discard

	fails error // what a look is answered with

	mu     sync.Mutex
	browse int
}

func (d *deadLetters) Browse(_ context.Context, from int64, limit int) ([]message.Dead, error) {
	d.mu.Lock()
	d.browse++
	d.mu.Unlock()
	if d.fails != nil {
		return nil, d.fails
	}
	var page []message.Dead
	for _, m := range d.all {
		if m.Sequence >= from && len(page) < limit {
			page = append(page, m)
		}
	}
	return page, nil
}

func (d *deadLetters) Discard(_ context.Context, meant func(message.Dead) bool, most int) (removed int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.all)
	d.all = slices.DeleteFunc(d.all, meant)
	return before - len(d.all), nil
}

// bury has the broker give up the task of an execution's run.
func (b *bench) bury(t *testing.T, id string, run int, reason string) {
	t.Helper()
	b.buryTask(t, message.Task{ExecutionID: id, Run: run, Type: "t", Payload: jsontext.Value(`{"a":1}`), Deadline: time.Now(), NotAfter: time.Now()}, reason)
}

func (b *bench) buryTask(t *testing.T, task message.Task, reason string) {
	t.Helper()
	m, err := task.Message(message.TaskMessageID(task.ExecutionID, task.Run), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b.dead.all = append(b.dead.all, message.Dead{
		Sequence: int64(len(b.dead.all) + 1), MessageID: m.ID, CorrelationID: task.ExecutionID, Body: m.Body, Reason: reason,
	})
}

// runs creates an execution that is running, in its first run or in its second.
func (b *bench) runs(t *testing.T, id string, run int) execution.Stored {
	t.Helper()
	w := b.ask(http.MethodPost, "/v1/executions", `{"executionId":"`+id+`","type":"t","payload":{"a":1}}`)
	if w.Code != http.StatusCreated {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	if run > 1 {
		b.fails(t, id, "AttemptsExhausted")
		s := b.load(t, id)
		change, _, err := execution.Replay(s.Execution, execution.Operator{Name: "ada", Reason: "why not"}, false, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Store.Reopen(t.Context(), id, change, execution.OutboxEntry(id, message.TaskMessageID(id, run), run), s.ETag); err != nil {
			t.Fatal(err)
		}
		if err := b.Store.Sent(t.Context(), execution.OutboxEntry(id, message.TaskMessageID(id, run), run)); err != nil {
			t.Fatal(err)
		}
	}
	b.sent = nil
	return b.load(t, id)
}

// fails ends an execution's first run by an event.
func (b *bench) fails(t *testing.T, id, reason string) {
	t.Helper()
	s := b.deliver(t, message.Event{Failed: &message.Failed{ExecutionID: id, Run: 1, Fence: 1, Reason: reason, Outcome: "none"}}, 1)
	if s.Action != message.Complete {
		t.Fatalf("the failure is settled by %s", s.Action)
	}
}

func (b *bench) load(t *testing.T, id string) execution.Stored {
	t.Helper()
	s, err := b.Store.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// claims writes the claim of an execution as change makes it: in progress, keyed,
// under a lease that begins now.
func (b *bench) claims(t *testing.T, id string, change func(*claim.Claim)) {
	t.Helper()
	if change == nil {
		return
	}
	fingerprint, err := claim.Fingerprint("t", jsontext.Value(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	c := claim.Claim{
		ID: id, Status: claim.InProgress, Run: 1, Fence: 3, Owner: "worker-1/1/1", W: "1", LeaseSeconds: int(lease.Seconds()),
		TaskType: "t", Keyed: true, Fingerprint: fingerprint, FirstCallAt: time.Now().UTC(), Starts: 1, TTL: 30 * 24 * 60 * 60, Version: 1,
	}
	change(&c)
	if _, err := b.Claims.Store.Record(id).Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) claim(t *testing.T, id string) claim.Claim {
	t.Helper()
	c, err := b.Claims.Read(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return claim.Claim{}
	}
	return *c
}

// What the claims of the tables are like.
func completed(c *claim.Claim) {
	c.Status, c.Result = claim.Completed, &claim.Result{Ref: "/c/1", Digest: "sha256:one"}
}

func failed(c *claim.Claim) {
	c.Status, c.Failure = claim.Failed, &claim.Failure{Reason: "DownstreamRejected", Description: "no", Outcome: "none"}
}
func held(*claim.Claim)        {}
func keyless(c *claim.Claim)   { c.Keyed = false }
func called(c *claim.Claim)    { c.Keyed, c.CallStarted = false, true }
func released(c *claim.Claim)  { c.Released = true }
func waits(c *claim.Claim)     { c.Released, c.NotBefore = true, time.Now().Add(24*time.Hour).UTC() }
func cancelled(c *claim.Claim) { c.Status = claim.Cancelled }

// reconcileFor runs the reconciler for a while.
func (b *bench) reconcileFor(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reconciled := make(chan error, 1)
	go func() { reconciled <- b.Reconcile(ctx) }()
	time.Sleep(d)
	synctest.Wait()
	cancel()
	if err := <-reconciled; err != nil {
		t.Error(err)
	}
}
