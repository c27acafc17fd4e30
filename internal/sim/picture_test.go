package sim

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	picture "oneeffect/internal/diagram"
	"oneeffect/internal/message"
	"oneeffect/internal/page"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// looked is what the orchestrator answers to somebody who looks.
func (w *world) looked(handler http.Handler, path, accept string) string {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		w.t.Fatalf("GET %s: %d %s", path, answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// diverted is a run in which everything happens that a picture has a mark for: a worker
// dies before it has written its result, the lock of its message expires, the next one
// finds the lease still standing, takes over, and shuts the first one's writes out; at
// the end the task comes once more.
func diverted(w *world) *tracetest.SpanRecorder {
	recorder := tracetest.NewSpanRecorder()
	w.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("sim")
	w.orchestrator()
	w.worker("worker-1")
	w.arm(control.Rule{Name: "completion", Match: completionOf("worker-1"), Do: "hold"})
	ctx, request := w.tracer.Start(w.t.Context(), "POST /v1/executions")
	w.submitIn(ctx, customer)
	request.End()
	w.until("worker 1 records its result", reached("completion"))
	w.hub.Isolate("worker-1")
	w.worker("worker-2")
	first := w.until("the transition", transitionOf("82f3"))
	first = w.after(first.Seq, "the completion is settled", onBroker("settled", subscription, "82f3/completed"))
	copied, err := w.taskOf("82f3").Message(message.CopyMessageID("82f3", "another"), time.Now())
	w.send(message.Tasks, copied, err)
	w.after(first.Seq, "the second completion is settled", onBroker("settled", subscription, "82f3/completed"))
	synctest.Wait()
	return recorder
}

// drawn is the picture of 82f3 by what the API tells of it.
func (w *world) drawn() picture.Diagram {
	w.t.Helper()
	var line picture.Timeline
	if err := json.Unmarshal([]byte(w.looked(w.api.API(), "/v1/executions/82f3/timeline", "application/json")), &line); err != nil {
		w.t.Fatal(err)
	}
	return picture.Of(line)
}

// What stands in the store after such a run, and in the memory of the orchestrator that
// saw it, is enough for all of it to be seen, as SVG and as text (G1).
func TestEverythingThatWentWrongIsInThePictureOfARun(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		diverted(w)
		drawn := w.drawn()
		svg := picture.SVG(drawn)
		wide, narrow := picture.Text(drawn, 0), picture.Text(drawn, 40)
		for name, mark := range map[string]struct{ svg, says, text string }{
			"crash":       {`mark-crash"`, "stopped before recording a result", "[crash, inferred]"},
			"lock expiry": {`mark-expired"`, "lock expired · redeliver 82f3", "[expired]"},
			"busy":        {`mark-busy"`, "busy: the lease stood for another ", "nothing ran"},
			"fenced":      {`mark-fenced"`, "fenced: what fence 1 writes now is refused", "fenced: "},
			"duplicate":   {`mark-duplicate"`, "already COMPLETED", "[duplicate]"},
			"no-op":       {`mark-duplicate"`, "no-op, message settled", "no-op"},
		} {
			if !strings.Contains(svg, mark.svg) || !strings.Contains(svg, mark.says) {
				t.Errorf("%s: not in the SVG", name)
			}
			for _, text := range []string{wide, narrow} {
				if !strings.Contains(text, mark.says) || !strings.Contains(text, mark.text) {
					t.Errorf("%s: not in the text", name)
				}
			}
		}
		if t.Failed() {
			t.Log(narrow)
		}
	})
}

// shutOut is a run in which the first owner lives on: none of its writes reaches the
// store until another worker has taken over and completed the task.
func shutOut(w *world) {
	w.orchestrator()
	w.workerWith("worker-1", handlers, 1, w.pace.grace)
	w.arm(control.Rule{Name: "slow", Match: control.Match{Service: "downstream"}, When: "after", Do: "delay", Delay: control.Duration(20 * time.Second), Times: 1})
	w.arm(control.Rule{Name: "cut-off", Match: control.Match{Service: "cosmos", Operation: "replace", Entity: "claims", Client: "worker-1"}, Do: "drop"})
	w.submit(customer)
	w.until("worker 1 calls", reached("slow"))
	time.Sleep(lease + 7*time.Second)
	w.worker("worker-2")
	copied, err := w.taskOf("82f3").Message(message.CopyMessageID("82f3", "another"), time.Now())
	w.send(message.Tasks, copied, err)
	first := w.until("the transition", transitionOf("82f3"))
	first = w.after(first.Seq, "the completion is settled", onBroker("settled", subscription, "82f3/completed"))
	w.disarm("cut-off")
	w.after(first.Seq, "the second completion is settled", onBroker("settled", subscription, "82f3/completed"))
	synctest.Wait()
}

// A worker whose write was refused says so with the event that it publishes anyway, so
// that the picture need not infer it; no write is made for that (C4).
func TestAWriteThatWasRefusedIsInThePictureOfARun(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		shutOut(w)
		text := picture.Text(w.drawn(), 40)
		for _, want := range []string{
			"worker-1: recorded no result before its lease ended [expired]", "worker-1 → Idempotency store: write under fence 1 → refused: it is another's by now [fenced]",
			"worker-1 → Service Bus: TaskCompleted again · complete message [duplicate]", "Cosmos DB → Orchestrator: already COMPLETED → no-op, message settled [duplicate]",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("not in the picture: %s", want)
			}
		}
		for _, wrong := range []string{"what fence 1 writes now", "stopped before"} {
			if strings.Contains(text, wrong) {
				t.Errorf("inferred, although it is known better: %s", wrong)
			}
		}
		if t.Failed() {
			t.Log(text)
		}
	})
}

// The trace that page and command line name is the one that the request began, and that
// the deliveries went on with.
func TestTheTraceThatIsShownIsTheOneThatTelemetryHas(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		recorder := diverted(w)
		traces := map[string]map[string]bool{} // of spans, by name
		for _, s := range recorder.Ended() {
			if traces[s.Name()] == nil {
				traces[s.Name()] = map[string]bool{}
			}
			traces[s.Name()][s.SpanContext().TraceID().String()] = true
		}
		var id string
		for trace := range traces["POST /v1/executions"] {
			id = trace
		}
		for _, name := range []string{"send tasks", "process tasks", "process task-events"} {
			if !traces[name][id] {
				t.Errorf("%q is not in trace %q", name, id)
			}
		}
		if c := w.claim("82f3"); len(c.Attempts) != 2 || !strings.Contains(c.Attempts[0].Trace, id) || !strings.Contains(c.Attempts[1].Trace, id) {
			t.Errorf("the grants: %+v, want both in trace %s", c.Attempts, id)
		}
		shown, err := page.New(page.Options{API: w.api.API(), MaxSubscribers: 1, Log: w.log("page")})
		if err != nil {
			t.Fatal(err)
		}
		if text := w.looked(shown.Handler(), "/executions/82f3", "text/html"); !strings.Contains(text, "<dt>Trace id</dt><dd><code>"+id+"</code>") {
			t.Errorf("the page does not show trace %s:\n%s", id, text)
		}
		var line picture.Timeline
		if err := json.Unmarshal([]byte(w.looked(w.api.API(), "/v1/executions/82f3/timeline", "application/json")), &line); err != nil {
			t.Fatal(err)
		}
		if text := picture.Text(picture.Of(line), 0); !strings.Contains(text, "\ntrace "+id+"\n") {
			t.Errorf("the text does not show trace %s:\n%s", id, text)
		}
	})
}
