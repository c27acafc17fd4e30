package sim

import (
	"testing"

	"oneeffect/emulator/control"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// One trace from the request over dispatch, a delivery that is lost with its
// worker, the redelivery and its call to the transition.
func TestOneTraceGoesThroughTheWholeStory(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		recorder := tracetest.NewSpanRecorder()
		w.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("sim")
		ctx, request := w.tracer.Start(t.Context(), "POST /v1/executions")
		w.orchestrator()
		w.worker("worker-1")
		w.arm(control.Rule{Name: "completion", Match: completionOf("worker-1"), Do: "hold"})
		w.submitIn(ctx, customer)
		request.End()
		w.until("worker 1 records its result", reached("completion"))
		w.hub.Isolate("worker-1")
		w.worker("worker-2")
		w.until("the event is settled", onBroker("settled", subscription, "82f3/completed"))
		w.end()

		spans := map[string]int{}
		for _, s := range recorder.Ended() {
			if s.SpanContext().TraceID() == request.SpanContext().TraceID() {
				spans[s.Name()]++
			}
		}
		for name, least := range map[string]int{
			"send tasks": 1, "process tasks": 2, "POST": 2, "send task-events": 1,
			"complete tasks": 1, "process task-events": 1, "complete task-events": 1,
		} {
			if spans[name] < least {
				t.Errorf("%q: %d spans in the request's trace, want at least %d; it has %v", name, spans[name], least, spans)
			}
		}
	})
}
