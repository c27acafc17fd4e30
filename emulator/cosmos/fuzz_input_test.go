package cosmos

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"oneeffect/emulator/control"
)

// Whatever it is given, a patch is refused or gives an item that can be stored and read again, and leaves the item that
// it was given as it was.
func FuzzPatch(f *testing.F) {
	deep := strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
	for _, seed := range [][2]string{
		{`{"id":"1","a":1}`, `{"operations":[{"op":"set","path":"/b","value":{"z":[1,null]}}]}`},
		{`{"id":"1","l":[1,2,3]}`, `{"operations":[{"op":"add","path":"/l/-","value":4},{"op":"remove","path":"/l/0"},{"op":"replace","path":"/l/1","value":{}}]}`},
		{`{"id":"1","n":9007199254740993}`, `{"condition":"from c where c.n > 0","operations":[{"op":"incr","path":"/n","value":-1e308},{"op":"incr","path":"/n","value":-1e308}]}`},
		{`{"id":"1","a":{"b":{}}}`, `{"operations":[{"op":"move","from":"/a","path":"/c"},{"op":"move","from":"/c/b","path":"/c"}]}`},
		{`{"id":"1","a~/":{"":1}}`, `{"operations":[{"op":"set","path":"/a~0~1/","value":2},{"op":"remove","path":"/a~0~1/"}]}`},
		{`{"id":"1","a":` + deep + `}`, `{"operations":[{"op":"set","path":"/a` + strings.Repeat("/a", 90) + `","value":` + deep + `}]}`},
		{`{"id":"1"}`, `{"operations":[{"op":"set","path":"/x","value":1e999}]}`},
		{`{"id":"1"}`, `{"operations":[{"op":"set","path":"/x","path":"/y"}]}`},
		{`{"id":"1"}`, "{\"operations\":[{\"op\":\"set\",\"path\":\"/\xff\"}]}"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, patch string) {
		item, err := parseObject([]byte(text))
		if err != nil {
			return
		}
		before := textOf(item)
		p, refusal := parsePatch([]byte(patch))
		if refusal != nil {
			return
		}
		p.holds(item)
		changed, refusal := p.apply(item)
		if textOf(item) != before {
			t.Fatalf("%s has changed %s to %s", patch, before, textOf(item))
		}
		if refusal != nil || nesting(changed) > maxNesting { // which applyPatch refuses
			return
		}
		written := textOf(changed)
		again, err := parseObject([]byte(written))
		if err != nil || textOf(again) != written {
			t.Fatalf("%s makes %s, which cannot be read again: %v", patch, written, err)
		}
	})
}

// Whatever a partition key header says, it is refused or names one partition, the same however it is written.
func FuzzPartitionKey(f *testing.F) {
	for _, seed := range []string{
		`["a"]`, `[1]`, `[-0.0]`, `[1e400]`, `[null]`, `[{}]`, `[true]`, `["a",1]`, `["a",{}]`, `[]`, `"a"`, `[["a"]]`, `[{"a":1}]`,
		`["\U0001f600\x01\a\v"]`, `["\u00e9\ud83d\ude00"]`, `["\ud800"]`, "[\"\xff\"]", `["a" `, `["` + strings.Repeat("x", 3000) + `"]`,
		strings.Repeat("[", 300), `[9007199254740993]`, `[1.0]`, ` [ "a" ] `, `['a']`,
	} {
		f.Add(seed)
	}
	definitions := []keyDefinition{{paths: [][]string{{"a"}}}, {paths: [][]string{{"a"}, {"b", "c"}}}}
	f.Fuzz(func(t *testing.T, header string) {
		for _, d := range definitions {
			key, refusal := d.parse(header)
			if refusal != nil {
				if refusal.status != http.StatusBadRequest || refusal.message == "" {
					t.Fatalf("%q is refused with %+v", header, refusal)
				}
				continue
			}
			if key == nil && header == "" {
				continue
			}
			again, refusal := d.parse(key.canonical())
			if refusal != nil || len(again) != len(d.paths) || again.canonical() != key.canonical() {
				t.Fatalf("%q is %s, which is read as %v (%v)", header, key.canonical(), again, refusal)
			}
		}
	})
}

// Whatever path is asked for with whatever method, the router ends and does not panic, what it takes for ids leads to the
// same place again, and a refusal is one of the service's and changes nothing.
func FuzzRoute(f *testing.F) {
	for _, seed := range []string{
		"/", "/dbs", "/dbs/", "/dbs/d", "//dbs//d//", "/dbs/d/colls/c/docs/a%20b%2F%25%C3%A9+", "/dbs/d/colls/c/docs/%", "/dbs/d/colls/c/docs/%2e%2e",
		"/dbs/d/colls/c/docs/../x", "/dbs/d%2Fcolls/c", "/dbs/d/colls/c/pkranges", "/offers/abc/", "/dbs/d/colls/c/docs//", "/dbs/%00", "/dbs/d/colls/c/docs/%ff",
		"/DBS/d", "/dbs/d/colls/c/sprocs/s", "/dbs/d/colls/c/docs/1/attachments", "/dbs/d/colls/c/docs/1?x=y#z", "/dbs/dbs/colls/colls/docs/docs",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "BREW"} {
			f.Add(method, seed, `{"id":"1"}`)
		}
	}
	f.Fuzz(func(t *testing.T, method, path, body string) {
		at, err := url.ParseRequestURI(path)
		if err != nil || at.Host != "" || !strings.HasPrefix(path, "/") {
			return // net/http refuses it
		}
		r := &http.Request{Method: method, URL: at, Host: "cosmos.test", Header: http.Header{}, Body: http.NoBody}
		target, refusal := locate(r)
		if refusal == nil && target.container != "" {
			ids := []string{"dbs", target.database, "colls", target.container}
			if target.item != "" {
				ids = append(ids, "docs", target.item)
			}
			escaped := ""
			for _, id := range ids {
				escaped += "/" + url.PathEscape(id)
			}
			same, err := url.ParseRequestURI(escaped)
			if err != nil {
				t.Fatalf("%q leads to %q, which is no path: %v", path, escaped, err)
			}
			again, refusal := locate(&http.Request{Method: method, URL: same})
			if refusal != nil || again.database != target.database || again.container != target.container || again.item != target.item {
				t.Fatalf("%q leads to %+v and that to %+v (%v)", path, target, again, refusal)
			}
		}
		hub := control.New()
		if err := hub.Switch("cosmos.auth", true); err != nil {
			t.Fatal(err)
		}
		s := New(hub, Options{ComputeGateway: len(body)%2 == 0})
		defer s.Close()
		r.Body = http.NoBody
		if body != "" {
			r = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", strings.NewReader(body))
			r.Method, r.URL, r.Host = method, at, "cosmos.test"
		}
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, r)
		switch answer.Code {
		case 200, 201, 204, 304:
		case 400, 401, 404, 405, 409, 412, 413:
			var said struct{ Code, Message string }
			if err := json.Unmarshal(answer.Body.Bytes(), &said); err != nil || said.Code == "" || said.Message == "" {
				t.Fatalf("%s %q is refused with %d %s", method, path, answer.Code, answer.Body)
			}
			if len(s.store.databases)+len(s.store.offers) > 0 {
				t.Fatalf("%s %q is refused and has changed something", method, path)
			}
		default:
			t.Fatalf("%s %q is answered %d %s", method, path, answer.Code, answer.Body)
		}
	})
}
