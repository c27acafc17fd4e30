package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"oneeffect/emulator/control"
)

// Who waits for an event may have missed it when the log has forgotten some: nothing can
// be said then, and waiting on would be for nothing. What is skipped may be forgotten.
func TestAWitnessNoticesWhatTheLogHasForgotten(t *testing.T) {
	const kept = 65536
	hub := control.New()
	defer hub.Close()
	server := httptest.NewServer(hub.Handler())
	defer server.Close()
	record := func(events int, kind string) {
		for range events {
			hub.Record(control.Event{Kind: kind})
		}
	}
	record(kept+10, "before")
	w := witness{base: server.URL}
	if err := w.skip(t.Context()); err != nil {
		t.Fatalf("skip what has happened: %v", err)
	}
	record(1, "wanted")
	if s, err := w.await(t.Context(), "that is wanted", func(s sighting) bool { return s.Kind == "wanted" }); err != nil || s.Seq != kept+11 {
		t.Errorf("the next event is %+v, %v", s, err)
	}
	record(kept+2, "after")
	_, err := w.await(t.Context(), "that is after", func(s sighting) bool { return s.Kind == "after" })
	if err == nil || !strings.Contains(err.Error(), "events 65548 to 65549 were forgotten before they were read") {
		t.Errorf("with events missing: %v", err)
	}
}
