package cosmos_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/cosmos"
)

// round runs one attempt per racer at the same time and counts how they ended: by
// the status of the refusal, 0 if there was no error, -1 if it was no refusal.
func round(racers int, attempt func(i int) error) map[int]int {
	var mu sync.Mutex
	ended := map[int]int{}
	var racing sync.WaitGroup
	start := make(chan struct{})
	for i := range racers {
		racing.Go(func() {
			<-start
			err := attempt(i)
			how := status(err)
			if err != nil && how == 0 {
				how = -1
			}
			mu.Lock()
			defer mu.Unlock()
			ended[how]++
		})
	}
	close(start)
	racing.Wait()
	return ended
}

func TestOfWritersUnderOneETagExactlyOneWins(t *testing.T) { // V1
	w := newWorld(t)
	c := w.container("executions", "/executionId")
	key := pk("e1")
	must2(c.CreateItem(t.Context(), key, []byte(`{"id":"e1","executionId":"e1","n":0}`), nil))(t)
	const rounds, racers = 40, 16
	for r := range rounds {
		etag := must2(c.ReadItem(t.Context(), key, "e1", nil))(t).ETag
		ended := round(racers, func(i int) error {
			body := fmt.Appendf(nil, `{"id":"e1","executionId":"e1","n":%d,"by":%d}`, r+1, i)
			var err error
			switch i % 4 {
			case 0:
				_, err = c.ReplaceItem(t.Context(), key, "e1", body, ifMatch(etag))
			case 1:
				_, err = c.UpsertItem(t.Context(), key, body, ifMatch(etag))
			case 2:
				var p azcosmos.PatchOperations
				p.AppendSet("/n", r+1)
				_, err = c.PatchItem(t.Context(), key, "e1", p, ifMatch(etag))
			default:
				b := c.NewTransactionalBatch(key)
				b.ReplaceItem("e1", body, &azcosmos.TransactionalBatchItemOptions{IfMatchETag: &etag})
				response, err := c.ExecuteTransactionalBatch(t.Context(), b, nil)
				if err == nil && !response.Success {
					return &azcore.ResponseError{StatusCode: int(response.OperationResults[0].StatusCode)}
				}
				return err
			}
			return err
		})
		if ended[0] != 1 || ended[http.StatusPreconditionFailed] != racers-1 {
			t.Fatalf("round %d ended %v, want 1 winner and %d times 412", r, ended, racers-1)
		}
	}
	if got := decode(t, must2(c.ReadItem(t.Context(), key, "e1", nil))(t).Value)["n"]; got != float64(rounds) {
		t.Errorf("n is %v after %d rounds", got, rounds)
	}
}

func TestOfCreatorsOfOneIdExactlyOneWins(t *testing.T) { // V1
	w := newWorld(t)
	c := w.container("claims", "/id")
	for r := range 40 {
		id := fmt.Sprint("task-", r)
		ended := round(16, func(int) error {
			_, err := c.CreateItem(t.Context(), pk(id), fmt.Appendf(nil, `{"id":%q}`, id), nil)
			return err
		})
		if ended[0] != 1 || ended[http.StatusConflict] != 15 {
			t.Fatalf("round %d ended %v", r, ended)
		}
	}
}

func TestIncrementsAreNeverLost(t *testing.T) {
	w := newWorld(t)
	c := w.container("claims", "/id")
	must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
	var failures atomic.Int32
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 25 {
				var p azcosmos.PatchOperations
				p.AppendIncrement("/n", 1)
				if _, err := c.PatchItem(t.Context(), pk("1"), "1", p, nil); err != nil {
					failures.Add(1)
				}
			}
		})
	}
	writers.Wait()
	if got := decode(t, must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t).Value)["n"]; failures.Load() != 0 || got != 200.0 {
		t.Errorf("n is %v after 200 increments, of which %d failed", got, failures.Load())
	}
}

func TestEventsAreInTheOrderOfTheChanges(t *testing.T) {
	w := newWorld(t)
	c := w.container("claims", "/id")
	must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
	const writers = 32
	ended := round(writers, func(i int) error {
		_, err := c.UpsertItem(t.Context(), pk("1"), fmt.Appendf(nil, `{"id":"1","status":"S%d"}`, i), nil)
		return err
	})
	if ended[0] != writers {
		t.Fatalf("ended %v, want all of them well", ended)
	}
	before := ""
	for _, e := range w.hub.Events(0) {
		if e.Operation != "create" && e.Operation != "upsert" {
			continue
		}
		if e.ETagBefore != before || e.ETagAfter == before {
			t.Fatalf("event %d goes from %s to %s, the one before it ended at %s", e.Seq, e.ETagBefore, e.ETagAfter, before)
		}
		before = e.ETagAfter
	}
}

func TestIfMatchOfAnItemThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	c := w.container("claims", "/id")
	etag := azcore.ETag(`"gone"`)
	_, err := c.ReplaceItem(t.Context(), pk("1"), "1", []byte(`{"id":"1"}`), ifMatch(etag))
	wantStatus(t, err, http.StatusNotFound)
	_, err = c.DeleteItem(t.Context(), pk("1"), "1", ifMatch(etag))
	wantStatus(t, err, http.StatusNotFound)
	created := must2(c.UpsertItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), ifMatch(etag)))(t)
	if created.RawResponse.StatusCode != http.StatusCreated {
		t.Errorf("upsert under If-Match of nothing: %d", created.RawResponse.StatusCode)
	}
	_, err = c.DeleteItem(t.Context(), pk("1"), "1", ifMatch(etag))
	wantStatus(t, err, http.StatusPreconditionFailed)
	_, err = c.ReplaceItem(t.Context(), pk("1"), "1", []byte(`{"id":"1"}`), ifMatch(azcore.ETag(created.ETag[1:len(created.ETag)-1])))
	wantStatus(t, err, http.StatusPreconditionFailed) // the quotes are part of an etag
	must2(c.DeleteItem(t.Context(), pk("1"), "1", ifMatch("*")))(t)
}

func TestIfMatchCanBeIgnoredForOneContainer(t *testing.T) {
	w := newWorld(t)
	executions, claims := w.container("executions", "/id"), w.container("claims", "/id")
	if err := w.hub.Switch("cosmos.if-match/executions", true); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*azcosmos.ContainerClient{executions, claims} {
		must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
	}
	must2(executions.ReplaceItem(t.Context(), pk("1"), "1", []byte(`{"id":"1"}`), ifMatch(`"old"`)))(t)
	_, err := claims.ReplaceItem(t.Context(), pk("1"), "1", []byte(`{"id":"1"}`), ifMatch(`"old"`))
	wantStatus(t, err, http.StatusPreconditionFailed)
}

// What follows is for the race detector: what is read without the lock does not change.

func TestAReplicaChangesNothingThatIsBeingRead(t *testing.T) {
	w := newWorldWith(t, cosmos.Options{Consistency: "Strong"})
	c := w.container("items", "/pk")
	w.lag("PUT", "/items", `{"commits":1}`)
	fill(t, c, 1, 4)
	ended := round(4, func(i int) error {
		for n := range 20 {
			if i == 0 {
				if _, err := c.UpsertItem(t.Context(), pk("1"), fmt.Appendf(nil, `{"id":"%d","pk":"1","n":%d}`, n%4, n), nil); err != nil {
					return err
				}
				continue
			}
			if all, _, err := query(t, c, "SELECT * FROM c", pk("1"), nil); err != nil || len(all) != 4 {
				return fmt.Errorf("%d items (%w)", len(all), err)
			}
		}
		return nil
	})
	if ended[0] != 4 {
		t.Errorf("ended %v, want four times well", ended)
	}
}

func TestAQueryIsPlannedWhileItsContainerIsReplaced(t *testing.T) {
	w := newWorld(t)
	c := w.container("claims", "/id")
	definition := *must2(c.Read(t.Context(), nil))(t).ContainerProperties
	plan := request{
		method: "POST", path: docs, body: `{"query":"SELECT * FROM c"}`,
		headers: map[string]string{"Content-Type": "application/query+json", "x-ms-cosmos-is-query-plan-request": "True"},
	}
	ended := round(8, func(i int) error {
		for range 50 {
			if i%2 == 0 {
				if _, err := c.Replace(t.Context(), definition, nil); err != nil {
					return err
				}
			} else if got, err := w.ask(w.server.Transport(), plan); err != nil || got.status != http.StatusOK {
				return fmt.Errorf("planned with %d %s (%w)", got.status, got.body, err)
			}
		}
		return nil
	})
	if ended[0] != 8 {
		t.Errorf("ended %v, want eight times well", ended)
	}
}
