package cosmos_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// doomed is an operation that fails, and with what.
type doomed struct {
	add  func(b *azcosmos.TransactionalBatch)
	want int
}

// failing are operations that fail, each by a kind of its own, in a partition that has items "a" and "b".
func failing() map[string]doomed {
	stale := &azcosmos.TransactionalBatchItemOptions{IfMatchETag: new(azcore.ETag(`"stale"`))}
	var impossible, untrue azcosmos.PatchOperations
	impossible.AppendSet("/half", true)
	impossible.AppendRemove("/nothing")
	untrue.SetCondition("from c where c.n < 0")
	untrue.AppendSet("/half", true)
	return map[string]doomed{
		"create what exists":       {func(b *azcosmos.TransactionalBatch) { b.CreateItem([]byte(`{"id":"b","pk":"p"}`), nil) }, 409},
		"create without an id":     {func(b *azcosmos.TransactionalBatch) { b.CreateItem([]byte(`{"pk":"p"}`), nil) }, 400},
		"create elsewhere":         {func(b *azcosmos.TransactionalBatch) { b.CreateItem([]byte(`{"id":"x","pk":"q"}`), nil) }, 400},
		"upsert what is stale":     {func(b *azcosmos.TransactionalBatch) { b.UpsertItem([]byte(`{"id":"b","pk":"p"}`), stale) }, 412},
		"replace what is stale":    {func(b *azcosmos.TransactionalBatch) { b.ReplaceItem("b", []byte(`{"id":"b","pk":"p"}`), stale) }, 412},
		"replace nothing":          {func(b *azcosmos.TransactionalBatch) { b.ReplaceItem("x", []byte(`{"id":"x","pk":"p"}`), nil) }, 404},
		"replace by another id":    {func(b *azcosmos.TransactionalBatch) { b.ReplaceItem("b", []byte(`{"id":"x","pk":"p"}`), nil) }, 400},
		"delete what is stale":     {func(b *azcosmos.TransactionalBatch) { b.DeleteItem("b", stale) }, 412},
		"delete nothing":           {func(b *azcosmos.TransactionalBatch) { b.DeleteItem("x", nil) }, 404},
		"patch what is stale":      {func(b *azcosmos.TransactionalBatch) { b.PatchItem("b", impossible, stale) }, 412},
		"patch nothing":            {func(b *azcosmos.TransactionalBatch) { b.PatchItem("x", impossible, nil) }, 404},
		"patch by halves":          {func(b *azcosmos.TransactionalBatch) { b.PatchItem("b", impossible, nil) }, 400},
		"patch under a lie":        {func(b *azcosmos.TransactionalBatch) { b.PatchItem("b", untrue, nil) }, 412},
		"read nothing":             {func(b *azcosmos.TransactionalBatch) { b.ReadItem("x", nil) }, 404},
		"read what is gone by now": {func(b *azcosmos.TransactionalBatch) { b.ReadItem("gone", nil) }, 404},
	}
}

// succeeding are operations of every kind that would each be seen if they stayed.
func succeeding() []func(b *azcosmos.TransactionalBatch) {
	var patch azcosmos.PatchOperations
	patch.AppendIncrement("/n", 100)
	return []func(b *azcosmos.TransactionalBatch){
		func(b *azcosmos.TransactionalBatch) { b.CreateItem([]byte(`{"id":"new","pk":"p","n":100}`), nil) },
		func(b *azcosmos.TransactionalBatch) { b.UpsertItem([]byte(`{"id":"c","pk":"p","n":100}`), nil) },
		func(b *azcosmos.TransactionalBatch) { b.ReplaceItem("a", []byte(`{"id":"a","pk":"p","n":100}`), nil) },
		func(b *azcosmos.TransactionalBatch) { b.PatchItem("b", patch, nil) },
		func(b *azcosmos.TransactionalBatch) { b.ReadItem("a", nil) },
		func(b *azcosmos.TransactionalBatch) { b.DeleteItem("gone", nil) },
	}
}

// partition is what stands in partition "p": each item's text, which has its ETag and its time. Watchers ask too, whose
// goroutines must not end the test.
func partition(t *testing.T, c *azcosmos.ContainerClient) map[string]string {
	t.Helper()
	all, _, err := query(t, c, "SELECT * FROM c", pk("p"), nil)
	if err != nil {
		t.Error(err)
	}
	items := map[string]string{}
	for _, text := range all {
		var item struct{ ID string }
		if err := json.Unmarshal([]byte(text), &item); err != nil {
			t.Error(err)
		}
		items[item.ID] = text
	}
	return items
}

// Every kind of operation fails at every place of a batch, while others look on.
func TestABatchThatFailsAnywhereLeavesNothing(t *testing.T) { // V2
	for name, fails := range failing() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := w.container("items", "/pk")
				for _, id := range []string{"a", "b", "c", "gone"} {
					must2(c.CreateItem(t.Context(), pk("p"), fmt.Appendf(nil, `{"id":%q,"pk":"p","n":1}`, id), nil))(t)
				}
				before := partition(t, c)
				_, feed, _ := w.feedOf("items")
				good := succeeding()
				for at := range len(good) + 1 {
					if name == "read what is gone by now" && at < len(good) {
						continue // only the last place is behind the deletion
					}
					b := c.NewTransactionalBatch(pk("p"))
					want := slices.Repeat([]int{424}, len(good)+1)
					for i := range want {
						switch {
						case i == at:
							fails.add(&b)
							want[i] = fails.want
						case i < at:
							good[i](&b)
						default:
							good[i-1](&b)
						}
					}
					watched := watch(2, func() {
						if now := partition(t, c); !maps.Equal(now, before) {
							t.Errorf("failing at %d: a watcher has seen %v", at, now)
						}
					})
					response, err := c.ExecuteTransactionalBatch(t.Context(), b, nil)
					watched.Wait()
					if err != nil {
						t.Fatal(err)
					}
					if response.Success || response.RawResponse.StatusCode != 207 || !slices.Equal(codes(response), want) {
						t.Errorf("failing at %d: %d with %v, want 207 with %v", at, response.RawResponse.StatusCode, codes(response), want)
					}
					for i, r := range response.OperationResults {
						if len(r.ResourceBody) > 0 || r.ETag != "" {
							t.Errorf("failing at %d: operation %d is answered with %s %s", at, i, r.ETag, r.ResourceBody)
						}
					}
					if after := partition(t, c); !maps.Equal(after, before) {
						t.Fatalf("failing at %d: there was %v, and is %v", at, before, after)
					}
				}
				if ids, next, _ := w.feedOf("items"); next != feed {
					t.Errorf("the change feed has gone from %s to %s: %v", feed, next, ids)
				}
			})
		})
	}
}

// watch has some watchers look three times each, and what they wait for is that they have.
func watch(watchers int, look func()) *sync.WaitGroup {
	var watching sync.WaitGroup
	for range watchers {
		watching.Go(func() {
			for range 3 {
				look()
			}
		})
	}
	return &watching
}

func TestNobodySeesHalfOfABatch(t *testing.T) { // V2
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.container("items", "/pk")
		ids := strings.Split("abcdefgh", "")
		write := func(n int) {
			b := c.NewTransactionalBatch(pk("p"))
			for _, id := range ids {
				b.UpsertItem(fmt.Appendf(nil, `{"id":%q,"pk":"p","n":%d}`, id, n), nil)
			}
			if response, err := c.ExecuteTransactionalBatch(t.Context(), b, nil); err != nil || !response.Success {
				t.Errorf("codes %v (%v)", codes(response), err)
			}
		}
		write(0)
		for n := range 60 {
			watched := watch(3, func() {
				all, _, err := query(t, c, "SELECT VALUE c.n FROM c", pk("p"), nil)
				if err != nil || len(all) != len(ids) || len(slices.Compact(all)) != 1 {
					t.Errorf("a watcher has seen %v (%v)", all, err)
				}
			})
			write(n + 1)
			watched.Wait()
		}
	})
}

func TestABatchDoesNotFindWhatHasExpired(t *testing.T) { // V2
	for name, test := range map[string]struct {
		add  func(b *azcosmos.TransactionalBatch)
		want int
	}{
		"create":  {func(b *azcosmos.TransactionalBatch) { b.CreateItem([]byte(`{"id":"1"}`), nil) }, 201},
		"upsert":  {func(b *azcosmos.TransactionalBatch) { b.UpsertItem([]byte(`{"id":"1"}`), nil) }, 201},
		"replace": {func(b *azcosmos.TransactionalBatch) { b.ReplaceItem("1", []byte(`{"id":"1"}`), nil) }, 404},
		"delete":  {func(b *azcosmos.TransactionalBatch) { b.DeleteItem("1", nil) }, 404},
		"read":    {func(b *azcosmos.TransactionalBatch) { b.ReadItem("1", nil) }, 404},
		"patch": {func(b *azcosmos.TransactionalBatch) {
			var p azcosmos.PatchOperations
			p.AppendSet("/n", 1)
			b.PatchItem("1", p, nil)
		}, 404},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			c := w.withTTL(10)
			must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
			w.hub.Jump(10 * time.Second)
			b := c.NewTransactionalBatch(pk("1"))
			test.add(&b)
			response := must2(c.ExecuteTransactionalBatch(t.Context(), b, nil))(t)
			if got := codes(response); got[0] != test.want {
				t.Errorf("%s: %v, want %d", name, got, test.want)
			}
		})
	}
}
