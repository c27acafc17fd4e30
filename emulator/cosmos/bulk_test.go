package cosmos_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestABulkAppliesEachOperationByItself(t *testing.T) {
	operations := `[{"operationType":"Create","partitionKey":"[\"a\"]","resourceBody":{"id":"a"}},
		{"operationType":"Create","partitionKey":"[\"a\"]","resourceBody":{"id":"a"}},
		{"operationType":"Create","partitionKey":"[\"b\"]","resourceBody":{"id":"b"}},
		{"operationType":"Delete","id":"c"},
		{"operationType":"Patch","partitionKey":"[\"b\"]","id":"b","resourceBody":[{"op":"add","path":"/n","value":1}]}]`
	for goesOn, want := range map[string][]string{
		"True":  {`"statusCode":201`, `"statusCode":409`, `"statusCode":201`, `"statusCode":400`, `"statusCode":200`},
		"False": {`"statusCode":201`, `"statusCode":409`, `"statusCode":424`, `"statusCode":424`, `"statusCode":424`},
	} {
		w := newWorld(t)
		w.container("claims", "/id")
		headers := map[string]string{
			"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "False",
			"x-ms-cosmos-batch-continue-on-error": goesOn, "x-ms-documentdb-partitionkeyrangeid": "0",
		}
		got := w.send(request{method: "POST", path: "/dbs/oneeffect/colls/claims/docs", headers: headers, body: operations})
		if got.status != 207 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		rest := got.body
		for _, status := range want {
			_, after, found := strings.Cut(rest, status)
			if !found {
				t.Fatalf("goes on %s: want %v in %s", goesOn, want, got.body)
			}
			rest = after
		}
	}
}

func TestABulkHasAHundredOperations(t *testing.T) {
	w := newWorld(t)
	w.container("claims", "/id")
	bulk := func(size int) answer {
		operations := strings.Repeat(`,{"operationType":"Read","partitionKey":"[\"a\"]","id":"a"}`, size)
		return w.send(request{method: "POST", path: docs, headers: map[string]string{"x-ms-cosmos-is-batch-request": "True"}, body: "[" + operations[1:] + "]"})
	}
	if got := bulk(100); got.status != http.StatusMultiStatus {
		t.Errorf("a hundred: %d %.200s", got.status, got.body)
	}
	if got := bulk(101); got.status != http.StatusBadRequest || !strings.Contains(got.body, "more operations") {
		t.Errorf("one more: %d %.200s", got.status, got.body)
	}
}
