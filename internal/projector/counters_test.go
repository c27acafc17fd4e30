package projector_test

import (
	"maps"
	"net/http"
	"testing"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
	"oneeffect/internal/projector"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// counted has the world count from now on. It returns what a reader sees: counters
// by their name, source and class.
func (w *world) counted() (read func() map[string]int64) {
	w.t.Helper()
	reader := metric.NewManualReader()
	counters, err := projector.NewCounters(metric.NewMeterProvider(metric.WithReader(reader)).Meter("test"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.projector.Counters, w.webhooks.Counters = counters, counters
	return func() map[string]int64 {
		var all metricdata.ResourceMetrics
		if err := reader.Collect(w.t.Context(), &all); err != nil {
			w.t.Fatal(err)
		}
		found := map[string]int64{}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
					name := m.Name
					for _, key := range []attribute.Key{"oneeffect.source", "oneeffect.class"} {
						if value, ok := point.Attributes.Value(key); ok {
							name += " " + value.AsString()
						}
					}
					found[name] = point.Value
				}
			}
		}
		return found
	}
}

func TestWhatBecameOfEventsIsCounted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		read := w.counted()
		w.deliver(count(t, 9, 100), 1, message.Complete)
		w.deliver(reservation(t, "R-1001", 10), 1, message.Complete)
		w.deliver(reservation(t, "R-1001", 10), 2, message.Complete)
		w.deliver(reservation(t, "R-1000", 9), 1, message.Complete)
		w.deliver(reservation(t, "R-1001", 11), 1, message.DeadLetter)
		w.deliver(reservation(t, "R-1005", 14), 1, message.Complete)
		w.deliver(reservation(t, "R-1006", 15, func(r *message.Reservation) { r.SKU, r.EventKey = "sku-43", "inventory:sku-43:1" }), 1, message.DeadLetter)
		w.arm(control.Rule{Match: control.Match{Operation: "batch"}, Do: "answer", Status: http.StatusPreconditionFailed, Times: 2})
		w.deliver(reservation(t, "R-1006", 15), 1, message.Complete)
		w.post(attemptOf(paid, "A"))
		w.post(attemptOf(paid, "B"))
		want := map[string]int64{
			"oneeffect.projector.events inventory RECEIPT_COMMITTED_EFFECT_APPLIED": 4,
			"oneeffect.projector.events inventory DUPLICATE_SUPPRESSED":             1,
			"oneeffect.projector.events inventory STALE_EVENT_REJECTED":             1,
			"oneeffect.projector.events inventory RECEIPT_CONFLICT":                 1,
			"oneeffect.projector.events inventory undecided":                        1,
			"oneeffect.projector.events webhook RECEIPT_COMMITTED_EFFECT_APPLIED":   1,
			"oneeffect.projector.events webhook DUPLICATE_SUPPRESSED":               1,
			"oneeffect.projector.races inventory":                                   2,
			"oneeffect.projector.gaps inventory":                                    3,
		}
		if got := read(); !maps.Equal(got, want) {
			t.Errorf("counted %v\nwant    %v", got, want)
		}
	})
}
