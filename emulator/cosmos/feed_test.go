package cosmos_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// feed asks for the changes after a continuation.
func (w *world) feed(etag string, more ...string) (ids []string, next string, got answer) {
	w.t.Helper()
	return w.feedOf("claims", append([]string{"If-None-Match", etag}, more...)...)
}

// feedOf asks a container for its changes.
func (w *world) feedOf(container string, more ...string) (ids []string, next string, got answer) {
	w.t.Helper()
	headers := with(map[string]string{"A-IM": "Incremental Feed", "x-ms-documentdb-partitionkeyrangeid": "0"}, more...)
	got = w.send(request{method: "GET", path: "/dbs/oneeffect/colls/" + container + "/docs", headers: headers})
	var body struct {
		Documents []struct{ ID string }
		Count     int `json:"_count"`
	}
	if got.status == http.StatusOK {
		if err := json.Unmarshal([]byte(got.body), &body); err != nil || body.Count != len(body.Documents) {
			w.t.Fatalf("%v in %s", err, got.body)
		}
	}
	for _, d := range body.Documents {
		ids = append(ids, d.ID)
	}
	return ids, got.header.Get("etag"), got
}

func TestTheChangeFeedGivesEachItemOnceAtItsNewestVersion(t *testing.T) {
	w := newWorld(t)
	c := w.container("claims", "/id")
	for i := range 4 {
		id := fmt.Sprint(i)
		must2(c.CreateItem(t.Context(), pk(id), fmt.Appendf(nil, `{"id":%q}`, id), nil))(t)
	}
	must2(c.UpsertItem(t.Context(), pk("1"), []byte(`{"id":"1","again":true}`), nil))(t)
	must2(c.DeleteItem(t.Context(), pk("2"), "2", nil))(t)
	ids, next, _ := w.feed("")
	if fmt.Sprint(ids) != "[0 3 1]" {
		t.Errorf("from the beginning: %v", ids)
	}
	if _, again, got := w.feed(next); got.status != http.StatusNotModified || again == "" || got.body != "" {
		t.Errorf("nothing new: %+v", got)
	}
	must2(c.UpsertItem(t.Context(), pk("0"), []byte(`{"id":"0"}`), nil))(t)
	if ids, _, _ := w.feed(next); fmt.Sprint(ids) != "[0]" {
		t.Errorf("after the change: %v", ids)
	}
	if ids, _, got := w.feed("*"); ids != nil || got.status != http.StatusNotModified {
		t.Errorf("from now on: %v %+v", ids, got)
	}
}

func TestPagesOfTheChangeFeedDoNotTearTransactions(t *testing.T) {
	w := newWorld(t)
	c := w.container("claims", "/k")
	must2(c.CreateItem(t.Context(), pk("k"), []byte(`{"id":"first","k":"k"}`), nil))(t)
	b := c.NewTransactionalBatch(pk("k"))
	for i := range 3 {
		b.CreateItem(fmt.Appendf(nil, `{"id":"b%d","k":"k"}`, i), nil)
	}
	must2(c.ExecuteTransactionalBatch(t.Context(), b, nil))(t)
	must2(c.CreateItem(t.Context(), pk("k"), []byte(`{"id":"last","k":"k"}`), nil))(t)
	var pages []string
	for next := ""; ; {
		ids, after, got := w.feed(next, "x-ms-max-item-count", "2")
		if got.status == http.StatusNotModified {
			break
		}
		pages = append(pages, strings.Join(ids, " "))
		next = after
	}
	if strings.Join(pages, "|") != "first b0 b1 b2|last" {
		t.Errorf("pages %q", pages)
	}
}

func TestTheChangeFeedStartsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.withTTL(60)
		must2(c.CreateItem(t.Context(), pk("old"), []byte(`{"id":"old","ttl":-1}`), nil))(t)
		must2(c.CreateItem(t.Context(), pk("gone"), []byte(`{"id":"gone"}`), nil))(t)
		w.hub.Jump(time.Hour)
		start := w.hub.Now()
		must2(c.CreateItem(t.Context(), pk("new"), []byte(`{"id":"new"}`), nil))(t)
		// The SDK writes UTC where HTTP has GMT.
		if ids, _, _ := w.feed("", "If-Modified-Since", start.Format(time.RFC1123)); fmt.Sprint(ids) != "[new]" {
			t.Errorf("since the jump: %v", ids)
		}
		if ids, _, _ := w.feed(""); fmt.Sprint(ids) != "[old new]" {
			t.Errorf("from the beginning, without what has expired: %v", ids)
		}
	})
}

func TestTheChangeFeedRefusesWhatItDoesNotDo(t *testing.T) {
	w := newWorld(t)
	w.container("claims", "/id")
	for name, headers := range map[string][]string{
		"all versions":   {"A-IM", "Full-Fidelity Feed"},
		"a wire format":  {"x-ms-cosmos-changefeed-wire-format-version", "2021-09-15"},
		"a foreign etag": {"If-None-Match", `"abc"`},
		"a foreign date": {"If-Modified-Since", "yesterday"},
		"a page of none": {"x-ms-max-item-count", "0"},
	} {
		if _, _, got := w.feed("", headers...); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if _, _, got := w.feed("", "x-ms-documentdb-partitionkeyrangeid", "1"); got.status != http.StatusGone {
		t.Errorf("another range: %d", got.status)
	}
}

func TestTheSDKReadsTheChangeFeed(t *testing.T) {
	w := newWorld(t)
	c := w.container("claims", "/id")
	for i := range 3 {
		id := fmt.Sprint(i)
		must2(c.CreateItem(t.Context(), pk(id), fmt.Appendf(nil, `{"id":%q}`, id), nil))(t)
	}
	ranges := must2(c.ReadFeedRanges(t.Context(), nil))(t)
	if len(ranges) != 1 || ranges[0].MinInclusive != "" || ranges[0].MaxExclusive != "FF" {
		t.Fatalf("ranges %+v", ranges)
	}
	response := must2(c.ReadChangeFeed(t.Context(), &azcosmos.ChangeFeedOptions{FeedRange: &ranges[0]}))(t)
	if response.Count != 3 {
		t.Errorf("%d changes", response.Count)
	}
}
