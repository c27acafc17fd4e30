package cosmos_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestADefinitionOfAContainerIsChecked(t *testing.T) {
	w := newWorld(t)
	key := `"partitionKey":{"kind":"Hash","paths":["/id"],"version":2}`
	for definition, says := range map[string]string{
		`{"id":"c",` + key + `}`:                   "",
		`{"id":"ttl",` + key + `,"defaultTtl":-1}`: "",
		`{"id":"tree","partitionKey":{"kind":"MultiHash","paths":["/a","/b/c"],"version":2}}`: "",
		`{"id":"kindless","partitionKey":{"paths":["/id"]}}`:                                  "",
		`{"id":"null","partitionKey":{"kind":null,"paths":["/id"]}}`:                          "",
		`{"id":"x","partitionKey":{"paths":["/a","/b"]}}`:                                     "exactly one path",
		`{` + key + `}`:                                                 "id is missing",
		`{"id":"a/b",` + key + `}`:                                      "must not hold",
		`{"id":"a#",` + key + `}`:                                       "must not hold",
		`{"id":"blank ",` + key + `}`:                                   "end in a blank",
		`{"id":"` + strings.Repeat("x", 256) + `",` + key + `}`:         "at most 255",
		`{"id":"x"}`:                                                    "partition key definition is missing",
		`{"id":"x","partitionKey":{"kind":"Range","paths":["/a"]}}`:     "neither Hash nor MultiHash",
		`{"id":"x","partitionKey":{"kind":"Hash","paths":["/a","/b"]}}`: "exactly one path",
		`{"id":"x","partitionKey":{"kind":"MultiHash","paths":["/a","/b","/c","/d"]}}`: "one to three",
		`{"id":"x","partitionKey":{"kind":"Hash","paths":["a"]}}`:                      "names behind slashes",
		`{"id":"x","partitionKey":{"kind":"Hash","paths":["/_ts"]}}`:                   "names behind slashes",
		`{"id":"x","partitionKey":{"kind":"Hash","paths":["/a"],"version":3}}`:         "neither 1 nor 2",
		`{"id":"x",` + key + `,"defaultTtl":0}`:                                        "ttl",
		`{"id":"x",` + key + `,"defaultTtl":"1h"}`:                                     "ttl",
		`{"id":"x",` + key + `,"indexingPolicy":{"indexingMode":"lazy"}}`:              "indexing mode",
		`{"id":"x",` + key + `,"indexingPolicy":{"includedPaths":[{"path":"/a"}]}}`:    "indexing path",
		`{"id":"x",` + key + `,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":[]}]}}`:       "no paths",
	} {
		got := w.send(request{method: "POST", path: "/dbs/oneeffect/colls", body: definition})
		if says == "" && got.status != http.StatusCreated || says != "" && (got.status != 400 || !strings.Contains(got.body, says)) {
			t.Errorf("%s: %d %s, want %q", definition, got.status, got.body, says)
		}
	}
	if got := w.send(request{method: "GET", path: "/dbs/oneeffect/colls/kindless"}); !strings.Contains(got.body, `"partitionKey":{"paths":["/id"],"kind":"Hash"}`) {
		t.Errorf("without a kind: %s", got.body)
	}
	if got := w.send(request{method: "POST", path: "/dbs/oneeffect/colls", body: `{"id":"c",` + key + `}`}); got.status != http.StatusConflict {
		t.Errorf("an id twice: %d", got.status)
	}
	if got := w.send(request{method: "POST", path: "/dbs", body: `{"id":"oneeffect"}`}); got.status != http.StatusConflict {
		t.Errorf("a database twice: %d", got.status)
	}
	if got := w.send(request{method: "POST", path: "/dbs/none/colls", body: `{"id":"c",` + key + `}`}); got.status != http.StatusNotFound {
		t.Errorf("in no database: %d", got.status)
	}
}

func TestAContainerMadeAnewIsAnother(t *testing.T) {
	w := newWorld(t)
	c := w.container("claims", "/id")
	must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
	before := must2(c.Read(t.Context(), nil))(t).ContainerProperties
	must2(c.Delete(t.Context(), nil))(t)
	_, err := c.ReadItem(t.Context(), pk("1"), "1", nil)
	wantStatus(t, err, http.StatusNotFound)
	c = w.container("claims", "/id")
	after := must2(c.Read(t.Context(), nil))(t).ContainerProperties
	if before.ResourceID == after.ResourceID || after.ResourceID == "" {
		t.Errorf("rid %q before and %q after", before.ResourceID, after.ResourceID)
	}
	_, err = c.ReadItem(t.Context(), pk("1"), "1", nil)
	wantStatus(t, err, http.StatusNotFound)
}

func TestAContainerKeepsItsKeyAndItsItemsWhenItIsReplaced(t *testing.T) {
	w := newWorld(t)
	c := w.container("claims", "/id")
	must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
	properties := must2(c.Read(t.Context(), nil))(t).ContainerProperties
	ttl := int32(60)
	properties.DefaultTimeToLive = &ttl
	replaced := must2(c.Replace(t.Context(), *properties, nil))(t)
	if got := replaced.ContainerProperties.DefaultTimeToLive; got == nil || *got != 60 || replaced.ETag == *properties.ETag {
		t.Errorf("replaced: %+v", replaced.ContainerProperties)
	}
	must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t)
	properties.PartitionKeyDefinition.Paths = []string{"/other"}
	_, err := c.Replace(t.Context(), *properties, nil)
	wantStatus(t, err, http.StatusBadRequest)
}

func TestUniqueKeysAreUniqueWithinAPartition(t *testing.T) {
	w := newWorld(t)
	c := w.containerWith(azcosmos.ContainerProperties{
		ID: "users", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/team"}},
		UniqueKeyPolicy: &azcosmos.UniqueKeyPolicy{UniqueKeys: []azcosmos.UniqueKey{{Paths: []string{"/mail", "/address/zip"}}}},
	})
	create := func(id, team, rest string) error {
		_, err := c.CreateItem(t.Context(), pk(team), fmt.Appendf(nil, `{"id":%q,"team":%q%s}`, id, team, rest), nil)
		return err
	}
	for _, err := range []error{
		create("1", "a", `,"mail":"x","address":{"zip":1}`),
		create("2", "a", `,"mail":"x","address":{"zip":2}`),
		create("3", "b", `,"mail":"x","address":{"zip":1}`),
		create("4", "a", ``),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	wantStatus(t, create("5", "a", `,"mail":"x","address":{"zip":1}`), http.StatusConflict)
	wantStatus(t, create("6", "a", `,"mail":null`), http.StatusConflict) // what is missing is null
	must2(c.UpsertItem(t.Context(), pk("a"), []byte(`{"id":"1","team":"a","mail":"x","address":{"zip":1},"n":2}`), nil))(t)
	b := c.NewTransactionalBatch(pk("a"))
	b.DeleteItem("1", nil)
	b.CreateItem([]byte(`{"id":"7","team":"a","mail":"x","address":{"zip":1}}`), nil)
	b.CreateItem([]byte(`{"id":"8","team":"a","mail":"x","address":{"zip":1}}`), nil)
	response := must2(c.ExecuteTransactionalBatch(t.Context(), b, nil))(t)
	if got := fmt.Sprint(codes(response)); got != "[424 424 409]" {
		t.Errorf("codes %s", got)
	}
	// Every other write holds them too, and leaves the item as it was.
	before := must2(c.ReadItem(t.Context(), pk("a"), "2", nil))(t)
	taken := []byte(`{"id":"2","team":"a","mail":"x","address":{"zip":1}}`)
	_, err := c.ReplaceItem(t.Context(), pk("a"), "2", taken, nil)
	wantStatus(t, err, http.StatusConflict)
	_, err = c.UpsertItem(t.Context(), pk("a"), taken, nil)
	wantStatus(t, err, http.StatusConflict)
	var p azcosmos.PatchOperations
	p.AppendSet("/address/zip", 1)
	_, err = c.PatchItem(t.Context(), pk("a"), "2", p, nil)
	wantStatus(t, err, http.StatusConflict)
	if after := must2(c.ReadItem(t.Context(), pk("a"), "2", nil))(t); after.ETag != before.ETag {
		t.Errorf("the refused writes left %s", after.Value)
	}
}

func TestDatabasesAndContainersAreListed(t *testing.T) {
	w := newWorld(t)
	w.container("claims", "/id")
	w.container("executions", "/executionId")
	database := must2(w.client.NewDatabase("oneeffect"))(t)
	containers := database.NewQueryContainersPager("select * from c where c.id != @no", &azcosmos.QueryContainersOptions{
		QueryParameters: []azcosmos.QueryParameter{{Name: "@no", Value: "claims"}},
	})
	page := must2(containers.NextPage(t.Context()))(t)
	if len(page.Containers) != 1 || page.Containers[0].ID != "executions" || containers.More() {
		t.Errorf("containers %+v, more %v", page.Containers, containers.More())
	}
	databases := must2(w.client.NewQueryDatabasesPager("select * from root", nil).NextPage(t.Context()))(t)
	if len(databases.Databases) != 1 || databases.Databases[0].ID != "oneeffect" {
		t.Errorf("databases %+v", databases.Databases)
	}
	got := w.send(request{method: "GET", path: "/dbs/oneeffect/colls/"})
	var feed struct {
		DocumentCollections []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(got.body), &feed); err != nil || fmt.Sprint(feed.DocumentCollections) != "[{claims} {executions}]" {
		t.Errorf("the plain list: %s", got.body)
	}
}

func TestThroughputIsAnOffer(t *testing.T) {
	w := newWorld(t)
	database := must2(w.client.NewDatabase("oneeffect"))(t)
	key := azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}}
	throughput := azcosmos.NewManualThroughputProperties(400)
	must2(database.CreateContainer(t.Context(), azcosmos.ContainerProperties{ID: "manual", PartitionKeyDefinition: key}, &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput}))(t)
	c := w.on(w.client, "manual")
	if got, _ := must2(c.ReadThroughput(t.Context(), nil))(t).ThroughputProperties.ManualThroughput(); got != 400 {
		t.Errorf("throughput %d", got)
	}
	must2(c.ReplaceThroughput(t.Context(), azcosmos.NewManualThroughputProperties(600), nil))(t)
	if got, _ := must2(c.ReadThroughput(t.Context(), nil))(t).ThroughputProperties.ManualThroughput(); got != 600 {
		t.Errorf("throughput %d", got)
	}
	_, err := c.ReplaceThroughput(t.Context(), azcosmos.NewManualThroughputProperties(450), nil)
	wantStatus(t, err, http.StatusBadRequest)
	few := azcosmos.NewManualThroughputProperties(100)
	_, err = database.CreateContainer(t.Context(), azcosmos.ContainerProperties{ID: "few", PartitionKeyDefinition: key}, &azcosmos.CreateContainerOptions{ThroughputProperties: &few})
	wantStatus(t, err, http.StatusBadRequest)
}

func TestPartitionKeyRangesEnd(t *testing.T) {
	w := newWorld(t)
	w.container("claims", "/id")
	first := w.send(request{method: "GET", path: "/dbs/oneeffect/colls/claims/pkranges", headers: map[string]string{"A-IM": "Incremental Feed"}})
	if first.status != 200 || !strings.Contains(first.body, `"id":"0"`) || !strings.Contains(first.body, `"maxExclusive":"FF"`) {
		t.Fatalf("%+v", first)
	}
	second := w.send(request{method: "GET", path: "/dbs/oneeffect/colls/claims/pkranges", headers: map[string]string{"A-IM": "Incremental Feed", "If-None-Match": first.header.Get("etag")}})
	if second.status != http.StatusNotModified || second.body != "" {
		t.Errorf("%+v", second)
	}
}

func TestHierarchicalKeys(t *testing.T) {
	w := newWorld(t)
	c := w.container("tree", "/a", "/b/c")
	full := azcosmos.NewPartitionKeyString("x").AppendNumber(1)
	other := azcosmos.NewPartitionKeyString("x").AppendNumber(2)
	must2(c.CreateItem(t.Context(), full, []byte(`{"id":"1","a":"x","b":{"c":1}}`), nil))(t)
	must2(c.CreateItem(t.Context(), other, []byte(`{"id":"1","a":"x","b":{"c":2}}`), nil))(t)
	_, err := c.ReadItem(t.Context(), pk("x"), "1", nil)
	wantStatus(t, err, http.StatusBadRequest)
	for sql, want := range map[string]int{
		"SELECT * FROM c WHERE c.a = 'x'":                             2,
		"SELECT * FROM c WHERE c.a = 'x' AND c.b.c = 1 ORDER BY c.id": 1,
		"SELECT * FROM c WHERE c.a = 'x' ORDER BY c.id":               -1, // a prefix is not one partition
	} {
		results, _, err := query(t, c, sql, azcosmos.NewPartitionKey(), nil)
		if want < 0 && status(err) != 400 || want >= 0 && (err != nil || len(results) != want) {
			t.Errorf("%s: %d (%v), want %d", sql, len(results), err, want)
		}
	}
}

func TestConsistencyIsNoStrongerThanTheAccounts(t *testing.T) {
	w := newWorld(t)
	w.container("claims", "/id")
	w.send(request{method: "POST", path: docs, headers: keyOne, body: `{"id":"1"}`})
	for level, want := range map[string]int{"Strong": 400, "BoundedStaleness": 400, "Session": 200, "Eventual": 200, "Hope": 400} {
		if got := w.send(request{method: "GET", path: docs + "/1", headers: with(keyOne, "x-ms-consistency-level", level)}); got.status != want {
			t.Errorf("%s: %d %s", level, got.status, got.body)
		}
	}
}
