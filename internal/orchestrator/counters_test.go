package orchestrator_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"oneeffect/internal/message"
	"oneeffect/internal/orchestrator"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A second completion, and what else changes nothing, is settled, and it is counted and
// said in the span of its delivery.
func TestWhatBecameOfEventsIsCountedAndTraced(t *testing.T) { // E1 E2 E3
	inBubble(t, func(t *testing.T, b *bench) {
		reader, spans := metric.NewManualReader(), tracetest.NewSpanRecorder()
		var err error
		if b.Counters, err = orchestrator.NewCounters(metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")); err != nil {
			t.Fatal(err)
		}
		tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test")
		ticket := b.create(t, "82f3")
		failure := message.Event{Failed: &message.Failed{ExecutionID: "82f3", Run: 1, Fence: 1, Reason: message.DownstreamRejected, Outcome: "none"}}
		for _, e := range []message.Event{
			completion("82f3", ticket, "sha256:one"), completion("82f3", ticket, "sha256:one"), completion("82f3", ticket, "sha256:one"),
			completion("82f3", ticket, "sha256:two"), failure, completion("nobody", ticket, "sha256:one"),
		} {
			m, err := e.Message(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			ctx, span := tracer.Start(t.Context(), "process")
			b.Handle(ctx, message.Delivery{MessageID: m.ID, Body: m.Body, Count: 1})
			span.End()
		}
		var traced []string
		for _, s := range spans.Ended() {
			for _, a := range s.Attributes() {
				if a.Key == "oneeffect.decision" {
					traced = append(traced, a.Value.AsString())
				}
			}
		}
		if want := []string{"transition", "no-op", "no-op", "contradiction", "record", "error"}; !slices.Equal(traced, want) {
			t.Errorf("traced %q, want %q", traced, want)
		}
		counted := map[string]int64{}
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				if m.Name != "oneeffect.orchestrator.events" {
					continue // of other things
				}
				for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
					name := m.Name
					for _, key := range []attribute.Key{"oneeffect.event", "oneeffect.decision"} {
						value, _ := point.Attributes.Value(key)
						name += " " + value.AsString()
					}
					counted[name] = point.Value
				}
			}
		}
		const events = "oneeffect.orchestrator.events "
		want := map[string]int64{
			events + "TaskCompleted transition": 1, events + "TaskCompleted no-op": 2, events + "TaskCompleted contradiction": 1,
			events + "TaskFailed record": 1, events + "TaskCompleted error": 1,
		}
		if !maps.Equal(counted, want) {
			t.Errorf("counted %v, want %v", counted, want)
		}
	})
}
