package cosmos_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
)

// The server alone, without the SDK, a network or signatures, over a container
// that holds ten thousand items.
func BenchmarkServer(b *testing.B) {
	hub := control.New()
	defer hub.Close()
	if err := hub.Switch("cosmos.auth", true); err != nil {
		b.Fatal(err)
	}
	server := cosmos.New(hub, cosmos.Options{})
	send := func(want int, method, path, body string, headers ...string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		if w.Code != want {
			b.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	send(201, http.MethodPost, "/dbs", `{"id":"oneeffect"}`)
	send(201, http.MethodPost, "/dbs/oneeffect/colls", `{"id":"claims","partitionKey":{"kind":"Hash","paths":["/id"],"version":2}}`)
	const items = 10_000
	payload := strings.Repeat("x", 500)
	item := func(i int) (body, key string) {
		id := fmt.Sprint(i % items)
		return fmt.Sprintf(`{"id":%q,"status":"IN_PROGRESS","n":%d,"payload":%q}`, id, i, payload), fmt.Sprintf(`[%q]`, id)
	}
	for i := range items {
		body, key := item(i)
		send(201, http.MethodPost, docs, body, "x-ms-documentdb-partitionkey", key)
	}
	b.Run("upsert", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			body, key := item(i)
			send(200, http.MethodPost, docs, body, "x-ms-documentdb-partitionkey", key, "x-ms-documentdb-is-upsert", "true", "Prefer", "return=minimal")
		}
	})
	b.Run("read", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			_, key := item(i)
			send(200, http.MethodGet, fmt.Sprint(docs, "/", i%items), "", "x-ms-documentdb-partitionkey", key)
		}
	})
	b.Run("query of one partition", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			_, key := item(i)
			send(200, http.MethodPost, docs, `{"query":"SELECT * FROM c WHERE c.status = 'IN_PROGRESS' ORDER BY c.n"}`,
				"x-ms-documentdb-partitionkey", key, "x-ms-documentdb-query", "True")
		}
	})
	send(201, http.MethodPost, "/dbs/oneeffect/colls", `{"id":"executions","partitionKey":{"kind":"Hash","paths":["/of"],"version":2}}`)
	const executions = "/dbs/oneeffect/colls/executions/docs"
	made := 0
	execute := func() { // in a partition of its own
		made++
		key := fmt.Sprintf(`["%d"]`, made)
		batch := fmt.Sprintf(`[{"operationType":"Create","resourceBody":{"id":"execution","of":"%d","status":"RUNNING","n":%[1]d,"payload":%q}},`+
			`{"operationType":"Create","resourceBody":{"id":"outbox","of":"%[1]d","n":1}}]`, made, payload)
		send(200, http.MethodPost, executions, batch, "x-ms-documentdb-partitionkey", key,
			"x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True", "Prefer", "return=minimal")
		send(204, http.MethodDelete, executions+"/outbox", "", "x-ms-documentdb-partitionkey", key)
	}
	for range 1000 {
		execute()
	}
	send(200, http.MethodPost, executions, `{"query":"SELECT * FROM c WHERE c._ts <= 1"}`, // an index is kept from now on
		"x-ms-documentdb-query", "True", "x-ms-documentdb-query-enablecrosspartition", "true")
	b.Run("batch of two, of which one is deleted", func(b *testing.B) {
		for b.Loop() {
			execute()
		}
	})
	b.Run("scan of all", func(b *testing.B) {
		for b.Loop() {
			send(200, http.MethodPost, docs, `{"query":"SELECT * FROM c WHERE c.n < 0"}`,
				"x-ms-documentdb-query", "True", "x-ms-documentdb-query-enablecrosspartition", "true")
		}
	})
}
