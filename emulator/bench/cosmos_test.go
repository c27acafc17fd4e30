package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
	"oneeffect/measure"
)

// A request that failed, or did less than it says, would be faster than it should be.
func TestTheRequestsOfTheCosmosRowsAreAnswered(t *testing.T) {
	hub := control.New()
	defer hub.Close()
	emulator := cosmos.New(hub, cosmos.Options{})
	defer emulator.Close()
	for name, handler := range map[string]http.Handler{"fixed answers": newFixed(), "cosmos": emulator} {
		web := httptest.NewServer(handler)
		d, err := dialDocuments(t.Context(), &measure.Server{Cosmos: strings.TrimPrefix(web.URL, "http://")}, "items")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		const n = 2 * inPartition
		for i, do := range []func(context.Context, int) error{d.create, d.read, d.replace, d.replace, d.batch, d.query} {
			if err := do(t.Context(), n); err != nil {
				t.Errorf("%s: request %d: %v", name, i, err)
			}
		}
		web.Close()
	}
	counts := make(map[string]int)
	for _, e := range hub.Events(0) {
		if e.Status < http.StatusBadRequest {
			counts[e.Operation]++
		}
	}
	const n = 2 * inPartition
	for operation, want := range map[string]int{"create": n, "read": n, "replace": 2 * n, "batch": n, "query": n} {
		if counts[operation] != want {
			t.Errorf("%d of %s, want %d", counts[operation], operation, want)
		}
	}
}
