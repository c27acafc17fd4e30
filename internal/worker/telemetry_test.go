package worker

import (
	"context"
	"maps"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"oneeffect/internal/message"
)

// A task that is delivered again when it is done is told apart, counted, and linked
// to the delivery that did it.
func TestASuppressedDeliveryLinksToTheOneThatDidTheWork(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
		var err error
		if b.Counters, err = NewCounters(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")); err != nil {
			t.Fatal(err)
		}
		for count := range 2 {
			ctx, span := tracer.Start(t.Context(), "process tasks")
			if s := b.deliver(ctx, count+1); s.Action != message.Complete {
				t.Fatalf("delivery %d: %s %s", count+1, s.Action, s.Description)
			}
			span.End()
		}
		first, second := spans.Ended()[0], spans.Ended()[1]
		if len(first.Links()) != 0 || len(second.Links()) != 1 || second.Links()[0].SpanContext.SpanID() != first.SpanContext().SpanID() {
			t.Errorf("links: %v and %v", first.Links(), second.Links())
		}
		for i, want := range []string{"granted", "done"} {
			said := attribute.NewSet(spans.Ended()[i].Attributes()...)
			claimed, _ := said.Value(keyClaim)
			id, _ := said.Value(keyTask)
			if claimed.AsString() != want || id.AsString() != "82f3" {
				t.Errorf("delivery %d of %s: claim %s, want %s", i+1, id.AsString(), claimed.AsString(), want)
			}
		}
		want := map[string]int64{
			"oneeffect.worker.claims oneeffect.outcome=granted": 1, "oneeffect.worker.claims oneeffect.outcome=done": 1,
			"oneeffect.worker.deliveries oneeffect.settlement=complete,oneeffect.verdict=done": 2,
		}
		wantCounted(t, reader, want)
	})
}

// A lease that is renewed, a renewal that does not come through, a write that finds a
// newer grant and a handler that panics: each is counted where it happens.
func TestWhatBefallsALeaseIsCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		reader := sdkmetric.NewManualReader()
		var err error
		if b.Counters, err = NewCounters(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")); err != nil {
			t.Fatal(err)
		}
		b.Claims.Renewed = b.Counters.Renewed
		b.Claims.Fenced = func(ctx context.Context, _ string) { b.Counters.Fenced(ctx) }
		other := b.another("worker-2")
		other.Counters = b.Counters
		b.declared.Timeout = 4 * time.Minute
		b.answer = func(ctx context.Context, _ message.Call) message.Outcome {
			time.Sleep(101 * time.Second) // one renewal
			b.hub.Jump(10 * time.Minute)  // to the store this owner is silent
			b.answer = func(context.Context, message.Call) message.Outcome { panic("no") }
			b.Worker = other
			b.deliver(t.Context(), 1)
			<-ctx.Done() // with the next renewal, which is fenced
			return message.Outcome{Effect: message.EffectApplied, Ref: "/c/1"}
		}
		b.deliver(t.Context(), 1)
		wantCounted(t, reader, map[string]int64{
			"oneeffect.worker.lease_renewals oneeffect.outcome=renewed": 1, "oneeffect.worker.lease_renewals oneeffect.outcome=failed": 1,
			"oneeffect.worker.claims oneeffect.outcome=granted": 1, "oneeffect.worker.claims oneeffect.outcome=takeover": 1,
			"oneeffect.worker.claims oneeffect.outcome=fenced": 2, // the renewal, and then the result
			"oneeffect.worker.panics oneeffect.task_type=t":    1, "oneeffect.worker.unknown_outcomes oneeffect.task_type=t": 1,
			"oneeffect.worker.deliveries oneeffect.settlement=copy later,oneeffect.verdict=busy": 2,
		})
	})
}

// wantCounted wants these series and no others.
func wantCounted(t *testing.T, reader sdkmetric.Reader, want map[string]int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			got[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}
