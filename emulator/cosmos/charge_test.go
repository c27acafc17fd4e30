package cosmos_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/cosmos"
)

// chargeWorld has a container without an index, for which the service publishes
// figures, and one that indexes some paths.
func chargeWorld(t *testing.T, o cosmos.Options) (w *world, bare, indexed *azcosmos.ContainerClient) {
	t.Helper()
	w = newWorldWith(t, o)
	key := azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}
	bare = w.containerWith(azcosmos.ContainerProperties{ID: "bare", PartitionKeyDefinition: key,
		IndexingPolicy: &azcosmos.IndexingPolicy{IndexingMode: azcosmos.IndexingModeNone}})
	indexed = w.containerWith(azcosmos.ContainerProperties{ID: "indexed", PartitionKeyDefinition: key,
		IndexingPolicy: &azcosmos.IndexingPolicy{
			Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
			IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}},
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/padding/?"}, {Path: "/o/*"}, {Path: `/"_etag"/?`}},
		}})
	return w, bare, indexed
}

// sized is an item of so many bytes as it is stored.
func (w *world) sized(id string, bytes int) []byte {
	w.t.Helper()
	probe := w.on(w.client, "bare")
	empty := fmt.Sprintf(`{"id":%q,"pk":"p","padding":""}`, id)
	must2(probe.CreateItem(w.t.Context(), pk("p"), []byte(empty), nil))(w.t)
	stored := must2(probe.ReadItem(w.t.Context(), pk("p"), id, nil))(w.t)
	must2(probe.DeleteItem(w.t.Context(), pk("p"), id, nil))(w.t)
	return fmt.Appendf(nil, `{"id":%q,"pk":"p","padding":%q}`, id, strings.Repeat("x", bytes-len(stored.Value)))
}

func TestChargesAreThePublishedOnes(t *testing.T) {
	w, c, _ := chargeWorld(t, cosmos.Options{})
	for bytes, want := range map[int]struct{ read, write float32 }{
		500: {1, 5}, 1 << 10: {1, 5}, 1<<10 + 1: {1.09, 5.45}, 4 << 10: {1.27, 6.36}, 100 << 10: {10, 50}, 1 << 20: {94, 470},
	} {
		id := fmt.Sprint("of-", bytes)
		item := w.sized(id, bytes)
		if got := must2(c.CreateItem(t.Context(), pk("p"), item, nil))(t).RequestCharge; got != want.write {
			t.Errorf("create %d bytes: %v, want %v", bytes, got, want.write)
		}
		if got := must2(c.ReadItem(t.Context(), pk("p"), id, nil))(t).RequestCharge; got != want.read {
			t.Errorf("read %d bytes: %v, want %v", bytes, got, want.read)
		}
		if got := must2(c.ReplaceItem(t.Context(), pk("p"), id, item, nil))(t).RequestCharge; got < 2*want.write-0.01 || got > 2*want.write+0.01 {
			t.Errorf("replace %d bytes: %v, want %v", bytes, got, 2*want.write)
		}
		if got := must2(c.DeleteItem(t.Context(), pk("p"), id, nil))(t).RequestCharge; got != want.write {
			t.Errorf("delete %d bytes: %v, want %v", bytes, got, want.write)
		}
	}
}

func TestAWriteIsChargedByIndexedPath(t *testing.T) {
	_, _, c := chargeWorld(t, cosmos.Options{})
	for item, paths := range map[string]int{
		`{"id":"1","pk":"p"}`:                                      2,
		`{"id":"1","pk":"p","padding":"x"}`:                        2, // excluded
		`{"id":"1","pk":"p","a":1,"n":null,"d":{"x":1,"y":[1,2]}}`: 7,
		`{"id":"1","pk":"p","o":{"x":1,"y":{"z":2}}}`:              2, // all below it is excluded
		`{"id":"1","pk":"p","e":{},"l":[]}`:                        2,
	} {
		want := float32(5 + 0.04*float64(paths))
		if got := must2(c.CreateItem(t.Context(), pk("p"), []byte(item), nil))(t).RequestCharge; got != want {
			t.Errorf("%s: %v, want %v", item, got, want)
		}
		var patch azcosmos.PatchOperations
		patch.AppendSet("/padding", "y")
		if got := must2(c.PatchItem(t.Context(), pk("p"), "1", patch, nil))(t).RequestCharge; got < 2*want-0.01 || got > 2*want+0.01 {
			t.Errorf("patch of %s: %v, want %v", item, got, 2*want)
		}
		must2(c.DeleteItem(t.Context(), pk("p"), "1", nil))(t)
	}
}

func TestABatchIsChargedTheSumOfItsOperations(t *testing.T) {
	_, c, _ := chargeWorld(t, cosmos.Options{})
	batch := c.NewTransactionalBatch(pk("p"))
	batch.CreateItem([]byte(`{"id":"1","pk":"p"}`), nil)
	batch.ReadItem("1", nil)
	batch.ReplaceItem("1", []byte(`{"id":"1","pk":"p","n":1}`), nil)
	batch.DeleteItem("1", nil)
	response := must2(c.ExecuteTransactionalBatch(t.Context(), batch, nil))(t)
	var each []float32
	for _, r := range response.OperationResults {
		each = append(each, r.RequestCharge)
	}
	if fmt.Sprint(each) != "[5 1 10 5]" || response.RequestCharge != 21 {
		t.Errorf("%v for %v, want 21 for [5 1 10 5]", response.RequestCharge, each)
	}
}

func TestAPageIsChargedByWhatTheIndexLeaves(t *testing.T) {
	_, bare, indexed := chargeWorld(t, cosmos.Options{})
	for _, c := range []*azcosmos.ContainerClient{bare, indexed} {
		for i := range 100 {
			item := fmt.Appendf(nil, `{"id":"%d","pk":"p","n":%d,"o":{"n":%d}}`, i, i%10, i%10)
			must2(c.CreateItem(t.Context(), pk("p"), item, nil))(t)
		}
	}
	for sql, want := range map[string]float32{
		"SELECT * FROM c":                              100,
		"SELECT VALUE c.n FROM c WHERE c.n = 1":        10,
		"SELECT VALUE c.n FROM c WHERE c.o.n = 1":      100, // the same ten, by a path that is not indexed
		"SELECT VALUE COUNT(1) FROM c WHERE c.n >= 6":  40,
		"SELECT TOP 5 * FROM c":                        5,
		"SELECT * FROM c WHERE c.id = '7'":             2.3,
		"SELECT * FROM c WHERE c.n = 99":               2.3,
		"SELECT * FROM c WHERE c.n = -1":               2.3,
		"SELECT * FROM c WHERE c.n = 1 AND c.id = '1'": 2.3,
	} {
		pages := indexed.NewQueryItemsPager(sql, pk("p"), nil)
		if got := must2(pages.NextPage(t.Context()))(t).RequestCharge; got != want {
			t.Errorf("%s: %v, want %v", sql, got, want)
		}
	}
	pages := bare.NewQueryItemsPager("SELECT VALUE c.n FROM c WHERE c.n = 1", pk("p"), nil)
	if got := must2(pages.NextPage(t.Context()))(t).RequestCharge; got != 100 {
		t.Errorf("without an index: %v, want 100", got)
	}
}

func TestReadingTwiceIsChargedTwice(t *testing.T) {
	for level, want := range map[string]float32{"Strong": 2, "BoundedStaleness": 2, "Session": 1, "ConsistentPrefix": 1, "Eventual": 1} {
		w, c, _ := chargeWorld(t, cosmos.Options{Consistency: level})
		if got := must2(c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"1","pk":"p"}`), nil))(t).RequestCharge; got != 5 {
			t.Errorf("%s: create: %v, want 5", level, got)
		}
		if got := must2(c.ReadItem(t.Context(), pk("p"), "1", nil))(t).RequestCharge; got != want {
			t.Errorf("%s: read: %v, want %v", level, got, want)
		}
		weaker := request{method: http.MethodGet, path: "/dbs/oneeffect/colls/bare/docs/1",
			headers: map[string]string{"x-ms-documentdb-partitionkey": `["p"]`, "x-ms-consistency-level": "Eventual"}}
		if got := w.send(weaker); got.header.Get("x-ms-request-charge") != "1" {
			t.Errorf("%s, Eventual asked for: read: %s %s", level, got.header.Get("x-ms-request-charge"), got.body)
		}
	}
}
