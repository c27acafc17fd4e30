package cosmos_test

import (
	"net/http"
	"strings"
	"testing"
)

// Whatever is wrong with the input, the answer is the service's status, and nothing is stored.
func TestBadInputIsRefusedAndLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.container("claims", "/id")
	if got := w.send(request{method: "POST", path: docs, headers: keyOne, body: `{"id":"1","n":1}`}); got.status != http.StatusCreated {
		t.Fatalf("%+v", got)
	}
	before := w.send(request{method: "GET", path: docs + "/1", headers: keyOne})
	batch := with(keyOne, "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True")
	upserts := with(keyOne, "x-ms-documentdb-is-upsert", "True")
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	wide := strings.Repeat("[", 1<<20)
	values := map[string]string{
		"broken JSON":          `{"a":`,
		"a word":               `nul`,
		"two values":           `1 2`,
		"a comma too many":     `[1,]`,
		"a comment":            `1 /* one */`,
		"deep nesting":         deep,
		"nesting without end":  wide,
		"a number beyond all":  `1e999`,
		"a number of zeros":    `00001`,
		"a number of digits":   `1` + strings.Repeat("0", 400),
		"no number":            `NaN`,
		"a member twice":       `{"b":1,"b":2}`,
		"the same in escapes":  `{"b":1,"\u0062":2}`,
		"invalid UTF-8":        "\"\xff\"",
		"half of a surrogate":  `"\ud800"`,
		"a control character":  "\"\x01\"",
		"an escape of nothing": `"\x41"`,
	}
	for what, value := range values {
		for how, r := range map[string]request{
			"create":        {method: "POST", path: docs, headers: with(nil, "x-ms-documentdb-partitionkey", `["2"]`), body: `{"id":"2","a":` + value + `}`},
			"upsert":        {method: "POST", path: docs, headers: upserts, body: `{"id":"1","a":` + value + `}`},
			"replace":       {method: "PUT", path: docs + "/1", headers: keyOne, body: `{"id":"1","a":` + value + `}`},
			"patch":         {method: "PATCH", path: docs + "/1", headers: keyOne, body: `{"operations":[{"op":"set","path":"/ok","value":1},{"op":"set","path":"/a","value":` + value + `}]}`},
			"batch":         {method: "POST", path: docs, headers: batch, body: `[{"operationType":"Upsert","resourceBody":{"id":"1"}},{"operationType":"Upsert","resourceBody":{"id":"1","a":` + value + `}}]`},
			"query with it": {method: "POST", path: docs, headers: with(keyOne, "Content-Type", "application/query+json"), body: `{"query":"SELECT * FROM c WHERE c.a = @a","parameters":[{"name":"@a","value":` + value + `}]}`},
			"container":     {method: "POST", path: "/dbs/oneeffect/colls", body: `{"id":"other","partitionKey":{"paths":["/id"]},"extra":` + value + `}`},
			"key":           {method: "POST", path: docs, headers: with(nil, "x-ms-documentdb-partitionkey", `[`+header(value)+`]`), body: `{"id":"2"}`},
		} {
			if how == "key" && (what == "a control character" || what == "an escape of nothing") {
				continue // the Go client escapes like this, and net/http sends no control characters
			}
			got := w.send(r)
			if got.status != http.StatusBadRequest || got.code != "BadRequest" {
				t.Errorf("%s in a %s: %d %.200s, want 400", what, how, got.status, got.body)
			}
		}
	}
	if after := w.send(request{method: "GET", path: docs + "/1", headers: keyOne}); after.body != before.body || after.header.Get("x-ms-session-token") != before.header.Get("x-ms-session-token") {
		t.Errorf("it has become %s of %s", after.body, after.header.Get("x-ms-session-token"))
	}
	if got := w.send(request{method: "GET", path: "/dbs/oneeffect/colls/other"}); got.status != http.StatusNotFound {
		t.Errorf("a container was made: %s", got.body)
	}
}

// header makes a text one that a header may have.
func header(text string) string {
	if len(text) > 1<<16 {
		return text[:1<<16]
	}
	return text
}

func TestHeadersOfAnySizeAreReadAndRefused(t *testing.T) {
	w := newWorld(t)
	w.container("claims", "/id")
	long := strings.Repeat("9", 900_000)
	for name, headers := range map[string]map[string]string{
		"a key":                {"x-ms-documentdb-partitionkey": `["` + long + `"]`},
		"a key of many parts":  {"x-ms-documentdb-partitionkey": "[" + strings.Repeat("1,", 400_000) + "1]"},
		"a session":            with(keyOne, "x-ms-session-token", long),
		"a session of numbers": with(keyOne, "x-ms-session-token", "0:-1#"+long),
		"a level":              with(keyOne, "x-ms-consistency-level", long),
	} {
		if got := w.send(request{method: "GET", path: docs + "/1", headers: headers}); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %.200s", name, got.status, got.body)
		}
	}
	query := with(keyOne, "Content-Type", "application/query+json")
	for name, headers := range map[string]map[string]string{
		"a continuation": with(query, "x-ms-continuation", long),
		"a page":         with(query, "x-ms-max-item-count", long),
	} {
		if got := w.send(request{method: "POST", path: docs, headers: headers, body: `{"query":"SELECT * FROM c"}`}); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %.200s", name, got.status, got.body)
		}
	}
	for name, authorization := range map[string]string{
		"a signature": "type%3Dmaster%26ver%3D1.0%26sig%3D" + long, "a token": "type=aad&ver=1.0&sig=" + long + "." + long + "." + long, "nothing": long,
	} {
		if got := w.send(request{method: "GET", path: docs + "/1", unsigned: true, headers: with(keyOne, "Authorization", authorization)}); got.status != http.StatusUnauthorized {
			t.Errorf("%s: %d %.200s", name, got.status, got.body)
		}
	}
	if got := w.send(request{method: "PUT", path: docs + "/1", headers: with(keyOne, "If-Match", long), body: `{"id":"1"}`}); got.status != http.StatusNotFound {
		t.Errorf("an ETag: %d %.200s", got.status, got.body)
	}
}
