package orchestrator_test

import (
	"maps"
	"slices"
	"strings"
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
		reader, spans := b.counted(t), tracetest.NewSpanRecorder()
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
		const events = "oneeffect.orchestrator.events "
		want := map[string]float64{
			events + "TaskCompleted transition": 1, events + "TaskCompleted no-op": 2, events + "TaskCompleted contradiction": 1,
			events + "TaskFailed record": 1, events + "TaskCompleted error": 1,
		}
		got := told(t, reader)
		maps.DeleteFunc(got, func(name string, _ float64) bool { return !strings.HasPrefix(name, events) })
		if !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}
	})
}

// How long the oldest unsent task has waited is told by every round of the relay, and is
// nothing when the queue has taken it.
func TestTheAgeOfTheOutboxIsTold(t *testing.T) { // E6
	inBubble(t, func(t *testing.T, b *bench) {
		const age = "oneeffect.orchestrator.outbox_age"
		reader := b.counted(t)
		b.failSends(message.ErrTransient)
		b.create(t, "82f3")
		time.Sleep(10 * time.Second)
		b.create(t, "82f4")
		b.relayFor(t, 2*b.RelayPeriod) // and so there are rounds after 10, 40 and 70 seconds
		if got := told(t, reader)[age]; got != 70 {
			t.Errorf("the oldest has waited %vs, want 70s", got)
		}
		b.failSends(nil)
		b.relayFor(t, 2*b.RelayPeriod)
		if got, found := told(t, reader)[age]; got != 0 || !found {
			t.Errorf("all is sent, and the oldest has waited %vs", got)
		}
	})
}

func TestTasksThatAreSentAgainAreCounted(t *testing.T) { // E5
	inBubble(t, func(t *testing.T, b *bench) {
		reader := b.counted(t)
		b.runs(t, "82f3", 1)
		for times, age := range []time.Duration{b.ReconcileAge, 2 * b.ReconcileAge} {
			time.Sleep(age)
			b.reconcileFor(t, oneRound)
			if got := told(t, reader)["oneeffect.orchestrator.redispatched"]; got != float64(times+1) {
				t.Errorf("%v tasks were sent again, want %d", got, times+1)
			}
		}
	})
}

// counted has the bench count from now on.
func (b *bench) counted(t *testing.T) metric.Reader {
	t.Helper()
	reader := metric.NewManualReader()
	var err error
	if b.Counters, err = orchestrator.NewCounters(metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")); err != nil {
		t.Fatal(err)
	}
	return reader
}

// told is what a reader sees: by name, event and decision.
func told(t *testing.T, reader metric.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	add := func(name string, by attribute.Set, value float64) {
		for _, key := range []attribute.Key{"oneeffect.event", "oneeffect.decision"} {
			if said, ok := by.Value(key); ok {
				name += " " + said.AsString()
			}
		}
		values[name] += value
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					add(m.Name, point.Attributes, float64(point.Value))
				}
			case metricdata.Gauge[float64]:
				for _, point := range data.DataPoints {
					add(m.Name, point.Attributes, point.Value)
				}
			}
		}
	}
	return values
}
