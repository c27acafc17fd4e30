package cosmos_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
)

// arm arms a rule for writes to claims.
func (w *world) arm(r control.Rule) string {
	w.t.Helper()
	r.Match.Service = "cosmos"
	return must2(w.hub.Arm(r))(w.t)
}

func TestAHeldRequestWhoseClientHasGoneIsNeverApplied(t *testing.T) { // V3
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		rule := w.arm(control.Rule{Do: "hold", Match: control.Match{Operation: "create", Entity: "claims", Key: "82f3"}})
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := c.CreateItem(ctx, pk("82f3"), []byte(`{"id":"82f3"}`), nil)
			ended <- err
		}()
		firing := must2(w.hub.WaitReached(t.Context(), rule))(t)
		if firing.Op.Client != "setup" || !strings.Contains(string(firing.Op.Body), "82f3") {
			t.Errorf("the rule saw %+v", firing.Op)
		}
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the client saw %v", err)
		}
		if err := w.hub.WaitPeerGone(t.Context(), rule); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := w.hub.Disarm(rule); err != nil {
			t.Fatal(err)
		}
		_, err := c.ReadItem(t.Context(), pk("82f3"), "82f3", nil)
		wantStatus(t, err, http.StatusNotFound)
	})
}

func TestALateRequestIsAppliedAlthoughItsClientHasGone(t *testing.T) { // V3
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		rule := w.arm(control.Rule{Do: "hold", Late: true, Match: control.Match{Operation: "create", Entity: "claims"}})
		ctx, leave := context.WithCancel(t.Context())
		go func() { _, _ = c.CreateItem(ctx, pk("82f3"), []byte(`{"id":"82f3"}`), nil) }()
		must2(w.hub.WaitReached(t.Context(), rule))(t)
		leave()
		synctest.Wait()
		if err := w.hub.Release(rule, control.Release{Action: "go"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		must2(c.ReadItem(t.Context(), pk("82f3"), "82f3", nil))(t)
	})
}

func TestARequestDroppedAfterItWasAppliedLooksLikeABrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		created := must2(c.CreateItem(t.Context(), pk("82f3"), []byte(`{"id":"82f3","status":"IN_PROGRESS"}`), nil))(t)
		rule := w.arm(control.Rule{When: "after", Do: "hold", Match: control.Match{
			Operation: "replace", Body: map[string]any{"/status": "COMPLETED"},
		}})
		ended := make(chan error, 1)
		go func() {
			_, err := c.ReplaceItem(t.Context(), pk("82f3"), "82f3", []byte(`{"id":"82f3","status":"COMPLETED"}`), ifMatch(created.ETag))
			ended <- err
		}()
		must2(w.hub.WaitReached(t.Context(), rule))(t)
		// It is applied while its answer is held, and the store is free.
		if got := decode(t, must2(c.ReadItem(t.Context(), pk("82f3"), "82f3", nil))(t).Value)["status"]; got != "COMPLETED" {
			t.Errorf("status %v while the answer is held", got)
		}
		if err := w.hub.Release(rule, control.Release{Action: "drop"}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, io.ErrUnexpectedEOF) || status(err) != 0 {
			t.Errorf("the client saw %v", err)
		}
		sent := 0
		for _, e := range w.hub.Events(0) {
			if e.Kind == "request" && e.Operation == "replace" {
				sent++
			}
		}
		if sent != 1 {
			t.Errorf("the SDK sent the write %d times", sent)
		}
	})
}

func TestARuleHoldsItsRequestAlone(t *testing.T) { // V8
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		rule := w.arm(control.Rule{Do: "hold", Match: control.Match{Client: "worker-1"}})
		held := w.on(w.connect("worker-1", cosmos.EmulatorKey), "claims")
		ended := make(chan error, 1)
		go func() {
			_, err := held.UpsertItem(t.Context(), pk("1"), []byte(`{"id":"1","by":"worker-1"}`), nil)
			ended <- err
		}()
		must2(w.hub.WaitReached(t.Context(), rule))(t)
		must2(c.UpsertItem(t.Context(), pk("1"), []byte(`{"id":"1","by":"worker-2"}`), nil))(t)
		if err := w.hub.Disarm(rule); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if got := decode(t, must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t).Value)["by"]; got != "worker-1" {
			t.Errorf("the held write came last, but the item is by %v", got)
		}
	})
}

func TestARuleAnswersInsteadOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		create := func() error {
			_, err := c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil)
			return err
		}
		before := w.arm(control.Rule{Do: "answer", Status: 449, Condition: "RetryWith/5352", Match: control.Match{Operation: "create"}})
		err := create()
		wantStatus(t, err, 449)
		if substatus(err) != "5352" || !strings.Contains(err.Error(), "RetryWith") {
			t.Errorf("substatus %q in %v", substatus(err), err)
		}
		_, err = c.ReadItem(t.Context(), pk("1"), "1", nil)
		wantStatus(t, err, http.StatusNotFound)
		if err := w.hub.Disarm(before); err != nil {
			t.Fatal(err)
		}

		bare := w.arm(control.Rule{Do: "answer", Condition: "Odd", Match: control.Match{Operation: "create"}})
		err = create()
		wantStatus(t, err, http.StatusInternalServerError) // no rule of this service has to name a status
		if err == nil || !strings.Contains(err.Error(), "Odd") {
			t.Errorf("the condition of a rule without a status is not told: %v", err)
		}
		if err := w.hub.Disarm(bare); err != nil {
			t.Fatal(err)
		}

		after := w.arm(control.Rule{When: "after", Do: "answer", Status: 503, Match: control.Match{Operation: "create"}})
		wantStatus(t, create(), http.StatusServiceUnavailable)
		must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t)
		if err := w.hub.Disarm(after); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, create(), http.StatusConflict)
	})
}

func TestThrottlingTellsHowLongToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		w.arm(control.Rule{
			Do: "answer", Status: 429, RetryAfter: control.Duration(1500 * time.Millisecond), Match: control.Match{Operation: "create"},
		})
		_, err := c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil)
		wantStatus(t, err, http.StatusTooManyRequests)
		h := headersOf(err)
		if h.Get("x-ms-retry-after-ms") != "1500" || h.Get("x-ms-substatus") != "3200" {
			t.Errorf("retry after %q, substatus %q", h.Get("x-ms-retry-after-ms"), h.Get("x-ms-substatus"))
		}
	})
}

func TestOneOperationOfABatchCanBeMatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("executions", "/executionId")
		w.arm(control.Rule{Do: "drop", Match: control.Match{
			Operation: "batch", Key: "e1", Body: map[string]any{"/*/resourceBody/status": "RUNNING"},
		}})
		b := c.NewTransactionalBatch(pk("e1"))
		b.CreateItem([]byte(`{"id":"e1","executionId":"e1"}`), nil)
		b.CreateItem([]byte(`{"id":"e2","executionId":"e1","status":"RUNNING"}`), nil)
		if _, err := c.ExecuteTransactionalBatch(t.Context(), b, nil); err == nil || status(err) != 0 {
			t.Errorf("the client saw %v", err)
		}
		all, _, err := query(t, c, "SELECT * FROM c", pk("e1"), nil)
		if err != nil || len(all) != 0 {
			t.Errorf("left behind %v (%v)", all, err)
		}
	})
}

func TestAnIsolatedClientGetsNoAnswerAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		dead := w.on(w.connect("worker-1", cosmos.EmulatorKey), "claims")
		must2(dead.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
		rule := w.arm(control.Rule{Do: "hold", Match: control.Match{Operation: "upsert", Client: "worker-1"}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 2)
		go func() {
			_, err := dead.UpsertItem(ctx, pk("1"), []byte(`{"id":"1","zombie":true}`), nil)
			ended <- err
		}()
		must2(w.hub.WaitReached(t.Context(), rule))(t)
		w.hub.Isolate("worker-1") // while its request is on the way
		go func() {
			_, err := dead.DeleteItem(ctx, pk("1"), "1", nil)
			ended <- err
		}()
		start := time.Now()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the isolated client saw %v", err)
			}
		}
		if waited := time.Since(start); waited != time.Minute {
			t.Errorf("it waited %v, want its own minute", waited)
		}
		got := decode(t, must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t).Value)
		if got["zombie"] != nil {
			t.Errorf("the item is %v", got)
		}
	})
}

func TestALateWriteOfAnIsolatedClientIsApplied(t *testing.T) { // V3
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("claims", "/id")
		created := must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
		rule := w.arm(control.Rule{Do: "hold", Late: true, Match: control.Match{Operation: "replace", Client: "worker-1"}})
		dead := w.on(w.connect("worker-1", cosmos.EmulatorKey), "claims")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := dead.ReplaceItem(ctx, pk("1"), "1", []byte(`{"id":"1","late":true}`), ifMatch(created.ETag))
			ended <- err
		}()
		must2(w.hub.WaitReached(t.Context(), rule))(t)
		w.hub.Isolate("worker-1")
		if err := w.hub.Release(rule, control.Release{Action: "go"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := decode(t, must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t).Value); got["late"] != true {
			t.Errorf("the item is %v", got)
		}
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the isolated client saw %v", err)
		}
	})
}

func TestEveryRequestIsAnEvent(t *testing.T) {
	w := newWorld(t)
	c := w.container("claims", "/id")
	worker := w.on(w.connect("worker-1", cosmos.EmulatorKey), "claims")
	created := must2(worker.CreateItem(t.Context(), pk("82f3"), []byte(`{"id":"82f3","status":"IN_PROGRESS"}`), nil))(t)
	if e := w.lastRequest(); e.Service != "cosmos" || e.Operation != "create" || e.Entity != "claims" || e.Client != "worker-1" || e.Key != "82f3" ||
		e.Status != 201 || e.ETagBefore != "" || e.ETagAfter != string(created.ETag) || e.BodyStatus != "IN_PROGRESS" || e.Charge <= 0 {
		t.Errorf("create: %+v", e)
	}
	var p azcosmos.PatchOperations
	p.AppendSet("/status", "COMPLETED")
	patched := must2(worker.PatchItem(t.Context(), pk("82f3"), "82f3", p, nil))(t)
	if e := w.lastRequest(); e.Operation != "patch" || e.Key != "82f3" || e.ETagBefore != string(created.ETag) || e.ETagAfter != string(patched.ETag) || e.BodyStatus != "COMPLETED" {
		t.Errorf("patch: %+v", e)
	}
	_, err := worker.ReplaceItem(t.Context(), pk("82f3"), "82f3", []byte(`{"id":"82f3","status":"FAILED"}`), ifMatch(created.ETag))
	wantStatus(t, err, http.StatusPreconditionFailed)
	if e := w.lastRequest(); e.Status != 412 || e.ETagBefore != string(patched.ETag) || e.ETagAfter != string(patched.ETag) || e.BodyStatus != "FAILED" {
		t.Errorf("refused replace: %+v", e)
	}
	if _, _, err := query(t, c, "SELECT * FROM c", pk("82f3"), nil); err != nil {
		t.Fatal(err)
	}
	if e := w.lastRequest(); e.Operation != "query" || e.Client != "setup" || e.Status != 200 {
		t.Errorf("query: %+v", e)
	}
}
