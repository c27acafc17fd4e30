package cosmos_test

import (
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
