package sim

import (
	"context"
	"net/http"
	"strings"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
)

// until waits for an event that has happened or is still to come.
func (w *world) until(what string, match func(control.Event) bool) control.Event {
	w.t.Helper()
	return w.after(0, what, match)
}

func (w *world) after(seq uint64, what string, match func(control.Event) bool) control.Event {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour) // virtual
	defer cancel()
	e, err := w.hub.WaitEvent(ctx, seq, match)
	if err != nil {
		w.t.Fatalf("%s: not seen: %v", what, err)
	}
	return e
}

// count is how many events match so far.
func (w *world) count(match func(control.Event) bool) int {
	n := 0
	for _, e := range w.hub.Events(0) {
		if match(e) {
			n++
		}
	}
	return n
}

func (w *world) wantCount(want int, what string, match func(control.Event) bool) {
	w.t.Helper()
	if got := w.count(match); got != want {
		w.t.Errorf("%s: seen %d times, want %d", what, got, want)
	}
}

// wantLedger holds the calls and effects of one path against the downstream's ledger.
func (w *world) wantLedger(path string, calls, effects int) {
	w.t.Helper()
	gotCalls, gotEffects := 0, 0
	for _, e := range w.outside.Ledger().Entries {
		if e.Path == path {
			gotCalls, gotEffects = gotCalls+e.Calls, gotEffects+e.Effects
		}
	}
	if gotCalls != calls || gotEffects != effects {
		w.t.Errorf("%s: %d calls with %d effects, want %d with %d", path, gotCalls, gotEffects, calls, effects)
	}
}

func (w *world) claim(id string) claim.Claim {
	w.t.Helper()
	s, err := w.view.Claims().Record(id).Read(w.t.Context())
	if err != nil {
		w.t.Fatalf("read claim %s: %v", id, err)
	}
	return s.Claim
}

func (w *world) execution(id string) execution.Stored {
	w.t.Helper()
	s, err := w.view.Executions().Load(w.t.Context(), id)
	if err != nil {
		w.t.Fatalf("load execution %s: %v", id, err)
	}
	return s
}

// What the stories look for in the event log.
func request(client, entity, operation string, status int) func(control.Event) bool {
	return func(e control.Event) bool {
		return e.Service == "cosmos" && e.Kind == "request" && e.Client == client && e.Entity == entity && e.Operation == operation && e.Status == status
	}
}

func transitionOf(id string) func(control.Event) bool {
	return func(e control.Event) bool {
		return strings.HasPrefix(e.Client, "orchestrator") && request(e.Client, "executions", "patch", http.StatusOK)(e) && e.Key == id
	}
}

func onBroker(kind, entity, key string) func(control.Event) bool {
	return func(e control.Event) bool {
		return e.Service == "servicebus" && e.Kind == kind && e.Entity == entity && e.Key == key
	}
}

func by(client string, match func(control.Event) bool) func(control.Event) bool {
	return func(e control.Event) bool { return e.Client == client && match(e) }
}

func reached(rule string) func(control.Event) bool {
	return func(e control.Event) bool { return e.Kind == "rule-reached" && e.Rule == rule }
}

// completionOf is the write that would complete a claim of one worker.
func completionOf(client string) control.Match {
	return control.Match{Service: "cosmos", Operation: "replace", Entity: "claims", Client: client, Body: map[string]any{"/status": "COMPLETED"}}
}

// wantCompleted holds the end of the story: one transition, no more.
func (w *world) wantCompleted(id string) {
	w.t.Helper()
	s := w.execution(id).Execution
	transitions := 0
	for _, n := range s.History {
		if n.To == execution.Completed {
			transitions++
		}
	}
	if s.Status != execution.Completed || transitions != 1 {
		w.t.Errorf("execution %s is %s after %d transitions to COMPLETED, want COMPLETED after 1", id, s.Status, transitions)
	}
}
