package worker

import (
	"testing"

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
		want := map[string]int64{
			"oneeffect.worker.claims oneeffect.outcome=granted": 1, "oneeffect.worker.claims oneeffect.outcome=done": 1,
			"oneeffect.worker.deliveries oneeffect.settlement=complete,oneeffect.verdict=done": 2,
		}
		for series, n := range want {
			if got[series] != n {
				t.Errorf("%s is %d, want %d", series, got[series], n)
			}
		}
		if len(got) != len(want) {
			t.Errorf("counted %v", got)
		}
	})
}
