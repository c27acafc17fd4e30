package cosmos_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func codes(response azcosmos.TransactionalBatchResponse) []int {
	var list []int
	for _, r := range response.OperationResults {
		list = append(list, int(r.StatusCode))
	}
	return list
}

func TestABatchIsAppliedAsAWhole(t *testing.T) { // V2
	w := newWorld(t)
	c := w.container("inventory", "/sku")
	key := pk("A")
	must2(c.CreateItem(t.Context(), key, []byte(`{"id":"old","sku":"A"}`), nil))(t)
	b := c.NewTransactionalBatch(key)
	b.CreateItem([]byte(`{"id":"r:1","sku":"A"}`), nil)
	b.UpsertItem([]byte(`{"id":"item","sku":"A","stock":5}`), nil)
	b.ReplaceItem("item", []byte(`{"id":"item","sku":"A","stock":4}`), nil)
	var p azcosmos.PatchOperations
	p.AppendIncrement("/stock", -1)
	b.PatchItem("item", p, nil)
	b.ReadItem("item", nil)
	b.DeleteItem("old", nil)
	response := must2(c.ExecuteTransactionalBatch(t.Context(), b, &azcosmos.TransactionalBatchOptions{EnableContentResponseOnWrite: true}))(t)
	if !response.Success || fmt.Sprint(codes(response)) != "[201 201 200 200 200 204]" {
		t.Fatalf("success %v, codes %v", response.Success, codes(response))
	}
	read := response.OperationResults[4]
	if decode(t, read.ResourceBody)["stock"] != 3.0 {
		t.Errorf("the batch does not see what it has written: %s", read.ResourceBody)
	}
	stored := must2(c.ReadItem(t.Context(), key, "item", nil))(t)
	if stored.ETag != read.ETag {
		t.Errorf("etag %s in the batch, %s afterwards", read.ETag, stored.ETag)
	}
	_, err := c.ReadItem(t.Context(), key, "old", nil)
	wantStatus(t, err, http.StatusNotFound)
}

func TestAFailedBatchLeavesNothing(t *testing.T) { // V2
	stale := azcore.ETag(`"stale"`)
	for name, test := range map[string]struct {
		fail func(b *azcosmos.TransactionalBatch)
		want int
	}{
		"an id that exists":   {func(b *azcosmos.TransactionalBatch) { b.CreateItem([]byte(`{"id":"item","sku":"A"}`), nil) }, 409},
		"an id that does not": {func(b *azcosmos.TransactionalBatch) { b.DeleteItem("nothing", nil) }, 404},
		"a stale etag": {func(b *azcosmos.TransactionalBatch) {
			b.DeleteItem("item", &azcosmos.TransactionalBatchItemOptions{IfMatchETag: &stale})
		}, 412},
		"another partition":    {func(b *azcosmos.TransactionalBatch) { b.CreateItem([]byte(`{"id":"x","sku":"B"}`), nil) }, 400},
		"a body without an id": {func(b *azcosmos.TransactionalBatch) { b.CreateItem([]byte(`{"sku":"A"}`), nil) }, 400},
		"a condition that is false": {func(b *azcosmos.TransactionalBatch) {
			var p azcosmos.PatchOperations
			p.SetCondition("from c where c.stock > 100")
			p.AppendIncrement("/stock", -1)
			b.PatchItem("item", p, nil)
		}, 412},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.container("inventory", "/sku")
			key := pk("A")
			before := must2(c.CreateItem(t.Context(), key, []byte(`{"id":"item","sku":"A","stock":5}`), nil))(t)
			b := c.NewTransactionalBatch(key)
			b.CreateItem([]byte(`{"id":"r:1","sku":"A"}`), nil)
			b.UpsertItem([]byte(`{"id":"item","sku":"A","stock":4}`), nil)
			test.fail(&b)
			b.UpsertItem([]byte(`{"id":"after","sku":"A"}`), nil)
			response := must2(c.ExecuteTransactionalBatch(t.Context(), b, nil))(t)
			if want := fmt.Sprintf("[424 424 %d 424]", test.want); response.Success || fmt.Sprint(codes(response)) != want {
				t.Fatalf("success %v, codes %v, want %s", response.Success, codes(response), want)
			}
			if response.RawResponse.StatusCode != http.StatusMultiStatus {
				t.Errorf("status %d, want 207", response.RawResponse.StatusCode)
			}
			all, _, err := query(t, c, "SELECT VALUE c.id FROM c", key, nil)
			if err != nil || fmt.Sprint(all) != `["item"]` {
				t.Errorf("left behind %v (%v)", all, err)
			}
			if after := must2(c.ReadItem(t.Context(), key, "item", nil))(t); after.ETag != before.ETag {
				t.Errorf("the item went from %s to %s", before.ETag, after.ETag)
			}
		})
	}
}

func TestABatchCanBeMadeToLie(t *testing.T) {
	w := newWorld(t)
	c := w.container("inventory", "/sku")
	if err := w.hub.Switch("cosmos.batch-atomic", true); err != nil {
		t.Fatal(err)
	}
	b := c.NewTransactionalBatch(pk("A"))
	b.CreateItem([]byte(`{"id":"r:1","sku":"A"}`), nil)
	b.DeleteItem("nothing", nil)
	response := must2(c.ExecuteTransactionalBatch(t.Context(), b, nil))(t)
	if response.Success {
		t.Fatal("the batch did not fail")
	}
	must2(c.ReadItem(t.Context(), pk("A"), "r:1", nil))(t)
}

func TestABatchHasLimits(t *testing.T) { // V6
	w := newWorld(t)
	c := w.container("inventory", "/sku")
	batch := func(operations, padding int) error {
		b := c.NewTransactionalBatch(pk("A"))
		for i := range operations {
			b.UpsertItem(fmt.Appendf(nil, `{"id":"%d","sku":"A","p":%q}`, i, strings.Repeat("x", padding)), nil)
		}
		response, err := c.ExecuteTransactionalBatch(t.Context(), b, nil)
		if err == nil && !response.Success {
			t.Fatalf("codes %v", codes(response))
		}
		return err
	}
	if err := batch(100, 10); err != nil {
		t.Errorf("100 operations: %v", err)
	}
	wantStatus(t, batch(101, 10), http.StatusBadRequest)
	if err := batch(10, 200_000); err != nil {
		t.Errorf("2 MB less a little: %v", err)
	}
	wantStatus(t, batch(11, 200_000), http.StatusRequestEntityTooLarge)
}

func TestTheEventOfABatchSaysWhatEachOperationDid(t *testing.T) {
	w := newWorld(t)
	c := w.container("executions", "/executionId")
	created := must2(c.CreateItem(t.Context(), pk("e1"), []byte(`{"id":"e1","executionId":"e1","status":"FAILED"}`), nil))(t)
	b := c.NewTransactionalBatch(pk("e1"))
	var p azcosmos.PatchOperations
	p.AppendSet("/status", "RUNNING")
	b.PatchItem("e1", p, &azcosmos.TransactionalBatchItemOptions{IfMatchETag: &created.ETag})
	b.CreateItem([]byte(`{"id":"out","executionId":"e1"}`), nil)
	response := must2(c.ExecuteTransactionalBatch(t.Context(), b, nil))(t)
	e := w.lastRequest()
	if e.Operation != "batch" || e.Entity != "executions" || e.Key != "e1" || e.Status != 200 || e.Client != "setup" || e.BodyStatus != "RUNNING," {
		t.Errorf("event %+v", e)
	}
	if e.ETagBefore != string(created.ETag)+"," || e.ETagAfter != string(response.OperationResults[0].ETag)+","+string(response.OperationResults[1].ETag) {
		t.Errorf("etags %s to %s", e.ETagBefore, e.ETagAfter)
	}
	if e.Charge <= 0 || float32(e.Charge) != response.RequestCharge {
		t.Errorf("charge %v, the client saw %v", e.Charge, response.RequestCharge)
	}
}
