package cosmos_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
	"oneeffect/emulator/disk"
)

// seen is everything that a client can see of the account, by request.
func seen(w *world) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	look := func(path string, headers map[string]string) string {
		w.t.Helper()
		a := w.send(request{method: http.MethodGet, path: path, headers: headers})
		text := fmt.Sprint(a.status, a.body)
		for _, name := range []string{"etag", "x-ms-session-token", "x-ms-continuation"} {
			text += "\n" + name + ": " + a.header.Get(name)
		}
		all[fmt.Sprint(path, headers)] = text
		return a.body
	}
	everything := map[string]string{"x-ms-max-item-count": "-1"}
	look("/dbs", nil)
	look("/offers", nil)
	look("/dbs/oneeffect", nil)
	for _, k := range members(w.t, look("/dbs/oneeffect/colls", nil), "DocumentCollections") {
		path := "/dbs/oneeffect/colls/" + k["id"].(string)
		look(path, nil)
		look(path+"/docs", everything)
		for after := range 3 {
			look(path+"/docs", map[string]string{"A-IM": "Incremental Feed", "x-ms-max-item-count": "2", "If-None-Match": fmt.Sprintf(`"%d"`, after*2)})
		}
	}
	return all
}

func members(t *testing.T, text, name string) (list []map[string]any) {
	t.Helper()
	for _, one := range decode(t, []byte(text))[name].([]any) {
		list = append(list, one.(map[string]any))
	}
	return list
}

func same(t *testing.T, when string, got, want map[string]string) {
	t.Helper()
	for _, asked := range slices.Sorted(maps.Keys(want)) {
		if got[asked] != want[asked] {
			t.Errorf("%s: %s is answered with\n%s\nwant\n%s", when, asked, got[asked], want[asked])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d things to be seen, want %d", when, len(got), len(want))
	}
}

// historyContainers are of each kind that matters to what is kept.
var historyContainers = map[string]string{
	"plain": `"partitionKey":{"kind":"Hash","paths":["/of"],"version":2},"defaultTtl":-1`,
	"tree":  `"partitionKey":{"kind":"MultiHash","paths":["/of","/in/at"],"version":2},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/n"]}]}`,
}

// step asks for something at random. Some of it is refused, which is as good.
func step(w *world, random *rand.Rand, n int) answer {
	name := []string{"plain", "tree"}[random.IntN(2)]
	of := []string{`"x"`, `1.50`, `null`, `"\u00e4\u2028\"/"`, `true`}[random.IntN(5)]
	key := of
	if name == "tree" {
		key += `,"y"`
	}
	id := fmt.Sprint(random.IntN(4))
	item := fmt.Sprintf(`{"id":%q,"of":%s,"in":{"at":"y"},"n":%d,"ttl":%d,"text":"\u00e4\ud83d\ude00","big":12345678901234567890,"e":1.0E2}`,
		id, of, n, 1_000_000+random.IntN(100))
	headers := map[string]string{"x-ms-documentdb-partitionkey": "[" + key + "]"}
	database := "/dbs/oneeffect/colls"
	path := database + "/" + name
	one := path + "/docs/" + id
	switch random.IntN(16) { // from 13 on it makes the container: without one everything else is refused
	case 0, 1, 2:
		return w.send(request{method: "POST", path: path + "/docs", headers: with(headers, "x-ms-documentdb-is-upsert", "true"), body: item})
	case 3, 4:
		return w.send(request{method: "POST", path: path + "/docs", headers: headers, body: item})
	case 5:
		return w.send(request{method: "PUT", path: one, headers: headers, body: item})
	case 6:
		return w.send(request{method: "PATCH", path: one, headers: headers, body: `{"operations":[{"op":"set","path":"/p/0","value":1},{"op":"add","path":"/n","value":7}]}`})
	case 7, 8:
		return w.send(request{method: "DELETE", path: one, headers: headers})
	case 9, 10: // what one of them deletes, another may create anew
		return w.send(request{method: "POST", path: path + "/docs", headers: with(headers, "x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "true"),
			body: `[{"operationType":"Upsert","resourceBody":` + item + `},{"operationType":"Delete","id":"` + id + `"},{"operationType":"Create","resourceBody":` +
				strings.Replace(item, `"n"`, `"m"`, 1) + `}]`})
	case 11:
		return w.send(request{method: "PUT", path: path, body: fmt.Sprintf(`{"id":%q,%s,"step":%d}`, name, historyContainers[name], n)})
	case 12:
		if random.IntN(3) > 0 {
			return answer{}
		}
		return w.send(request{method: "DELETE", path: path})
	}
	return w.send(request{method: "POST", path: database, headers: map[string]string{"x-ms-offer-throughput": "500"}, body: fmt.Sprintf(`{"id":%q,%s}`, name, historyContainers[name])})
}

// TestWhereverItIsCutWhatWasKeptIsWhole has an account live a random life and cuts what was written at every place: what is
// there then is what was there after one of the steps.
func TestWhereverItIsCutWhatWasKeptIsWhole(t *testing.T) { // V9
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		p := newPaper()
		w := reopened(t, p)
		w.send(request{method: "POST", path: "/dbs", headers: map[string]string{"x-ms-offer-throughput": "400"}, body: `{"id":"oneeffect"}`})
		after := []map[string]string{seen(w)}
		written := []int{len(p.pieces)}
		done := 0
		for n := range 120 {
			if step(w, random, n).status/100 == 2 {
				done++
			}
			after, written = append(after, seen(w)), append(written, len(p.pieces))
			time.Sleep(time.Second)
		}
		if done < 20 {
			t.Fatalf("%d steps of 120 have changed something", done)
		}
		for i := range after {
			same(t, fmt.Sprintf("after step %d", i), seen(reopened(t, p.after(written[i]))), after[i])
			if i > 0 && written[i] > written[i-1]+1 {
				t.Errorf("step %d was written in %d pieces", i, written[i]-written[i-1])
			}
			if t.Failed() {
				return
			}
		}
	})
}

func TestAnAccountIsKeptInAFolder(t *testing.T) { // V9
	folder := t.TempDir()
	var before map[string]string
	for start := range 3 {
		w := &world{t: t, hub: control.New()}
		w.server = must2(cosmos.Open(w.hub, cosmos.Options{}, folder))(t)
		w.send(request{method: "POST", path: "/dbs", body: `{"id":"oneeffect"}`})
		if start > 0 {
			same(t, fmt.Sprintf("start %d", start), seen(w), before)
		}
		for n := range 60 {
			step(w, rand.New(rand.NewPCG(uint64(start), uint64(n))), n)
		}
		before = seen(w)
		if _, err := cosmos.Open(w.hub, cosmos.Options{}, folder); !errors.Is(err, disk.ErrData) {
			t.Errorf("the folder was opened twice: %v", err)
		}
		w.hub.Close()
		if err := w.server.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNoNumberIsGivenTwice(t *testing.T) { // V9
	p := newPaper()
	w := reopened(t, p)
	w.send(request{method: "POST", path: "/dbs", body: `{"id":"oneeffect"}`})
	definition := `{"id":"claims","partitionKey":{"kind":"Hash","paths":["/id"],"version":2}}`
	given := map[string]int{}
	stamp := func(etag string) string { // without what is random in it
		return strings.Join(slices.Delete(strings.Split(strings.Trim(etag, `"`), "-"), 1, 2)[:2], "-")
	}
	lsn := 0
	for round := range 4 {
		w = reopened(t, p)
		if round == 2 {
			w.send(request{method: "DELETE", path: "/dbs/oneeffect/colls/claims"})
			w = reopened(t, p)
			lsn = 0 // another container
		}
		if round%2 == 0 {
			made := w.send(request{method: "POST", path: "/dbs/oneeffect/colls", body: definition})
			body := decode(t, []byte(made.body))
			given["container "+body["_rid"].(string)]++
			given[stamp(body["_etag"].(string))]++
			w = reopened(t, p)
		}
		item := w.send(request{method: "POST", path: docs, headers: keyOne, body: `{"id":"1"}`})
		body := decode(t, []byte(item.body))
		given["item "+body["_rid"].(string)]++
		given[stamp(body["_etag"].(string))]++
		gone := w.send(request{method: "DELETE", path: docs + "/1", headers: keyOne})
		for _, a := range []answer{item, gone} {
			var next int
			if _, err := fmt.Sscanf(a.header.Get("x-ms-session-token"), "0:-1#%d", &next); err != nil || next != lsn+1 {
				t.Errorf("round %d: session token %s after lsn %d", round, a.header.Get("x-ms-session-token"), lsn)
			}
			lsn = next
		}
	}
	if len(given) != 2*2+2*4 {
		t.Errorf("given twice: %v", given)
	}
}

func TestWhatAClientHasInItsHandGoesOn(t *testing.T) { // V9
	synctest.Test(t, func(t *testing.T) {
		w, p := onPaper(t)
		c := w.on(w.client, "claims")
		for i := range 6 {
			must2(c.CreateItem(t.Context(), pk(fmt.Sprint(i)), fmt.Appendf(nil, `{"id":"%d","n":%d}`, i, -i), nil))(t)
		}
		two := map[string]string{"x-ms-max-item-count": "2", "x-ms-documentdb-isquery": "true", "Content-Type": "application/query+json",
			"x-ms-documentdb-query-enablecrosspartition": "true"}
		ask := func(w *world, continuation string) answer {
			return w.send(request{method: "POST", path: docs, headers: with(two, "x-ms-continuation", continuation), body: `{"query":"SELECT c.id, c._ts FROM c WHERE c.n < 0"}`})
		}
		page := ask(w, "")
		_, position, _ := w.feed("", "x-ms-max-item-count", "4")
		read := must2(c.ReadItem(t.Context(), pk("5"), "5", nil))(t)
		wantPage := ask(w, page.header.Get("x-ms-continuation"))
		wantFeed, _, _ := w.feed(position)
		if len(wantFeed) != 2 {
			t.Fatalf("the feed went on with %v", wantFeed)
		}
		time.Sleep(time.Minute)
		w = reopened(t, p)
		c = w.on(w.client, "claims")
		if got := ask(w, page.header.Get("x-ms-continuation")); page.status != http.StatusOK || got.status != http.StatusOK || got.body != wantPage.body {
			t.Errorf("the query goes on with %d %s, want %s", got.status, got.body, wantPage.body)
		}
		if ids, _, _ := w.feed(position); !slices.Equal(ids, wantFeed) {
			t.Errorf("the feed goes on with %v, want %v", ids, wantFeed)
		}
		must2(c.ReadItem(t.Context(), pk("5"), "5", &azcosmos.ItemOptions{SessionToken: read.SessionToken}))(t)
		must2(c.ReplaceItem(t.Context(), pk("5"), "5", []byte(`{"id":"5"}`), ifMatch(read.ETag)))(t)
		_, err := c.ReplaceItem(t.Context(), pk("5"), "5", []byte(`{"id":"5"}`), ifMatch(read.ETag))
		wantStatus(t, err, http.StatusPreconditionFailed)
	})
}

func TestARecordThatCannotBeReadIsRefused(t *testing.T) {
	_, whole := onPaper(t)
	item := "items 00000002/" + string([]byte{0, 0, 0, 0, 0, 0, 0, 1})
	for name, record := range map[string][2]string{
		"of a bucket that nobody has":      {"items 00000099/n", "\x01\x01\x01"},
		"of a kind that nobody knows":      {"account/z\x00\x00\x00\x01", "{}"},
		"with a key that is too short":     {"account/b\x00", "{}"},
		"a database that is no JSON":       {"account/b\x00\x00\x00\x09", "{"},
		"a container of no database":       {"account/c\x00\x00\x00\x09", "\x63{}"},
		"a container without a definition": {"account/c\x00\x00\x00\x09", "\x01{}"},
		"numbers that end too early":       {"account/a", "\x01\xff"},
		"an item without its numbers":      {item, ""},
		"an item of half a partition":      {item, "\x01\x01\x01\x01\x01\x03\x00\x00{}"},
		"an item with a key of its own":    {"items 00000002/xx", "\x01\x01\x00{}"},
	} {
		p := whole.after(len(whole.pieces))
		p.records[record[0]] = record[1]
		if s, err := cosmos.OpenOn(control.New(), cosmos.Options{}, p); err == nil || s != nil {
			t.Errorf("a record %s was taken: %v", name, err)
		}
	}
	if _, err := cosmos.OpenOn(control.New(), cosmos.Options{}, whole); err != nil {
		t.Errorf("without them: %v", err)
	}
}
