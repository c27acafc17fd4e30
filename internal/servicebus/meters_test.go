package servicebus

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"oneeffect/internal/message"
)

// measured are a reader's series: what was counted, or how often something took how
// long, by the instrument's name and its attributes.
func measured(t *testing.T, reader sdkmetric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Error(err) // not fatal: a handler asks too
	}
	got := map[string]int64{}
	add := func(name string, at attribute.Set, n int64) {
		got[name+" "+at.Encoded(attribute.DefaultEncoder())] += n
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, int64(p.Count))
				}
			}
		}
	}
	return got
}

func TestWhatABrokerIsAskedIsMeasured(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		reader := sdkmetric.NewManualReader()
		w.client = w.dialAs(Options{
			ConnectionString: connectionString, ApplicationID: "measured",
			Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"),
		})
		var during map[string]int64
		stop := w.run(w.receiver(), func(_ context.Context, d message.Delivery) message.Settlement {
			during = measured(t, reader)
			switch d.CorrelationID {
			case "82f3":
				return message.Reject("InvalidMessage", "")
			case "82f4":
				return message.Settlement{}
			}
			return message.Done()
		})
		defer stop()
		for _, id := range []string{"82f3", "82f4", "82f5"} {
			w.send("tasks", id)
			if id == "82f4" {
				w.await("lock-expired", id, 0)
				continue
			}
			w.settled(id)
		}
		stop()
		got := measured(t, reader)
		for series, want := range map[string]int64{
			"messaging.client.sent.messages messaging.destination.name=tasks,messaging.operation.name=send,messaging.system=servicebus,server.address=localhost":             3,
			"messaging.client.operation.duration messaging.destination.name=tasks,messaging.operation.name=complete,messaging.system=servicebus,server.address=localhost":    1,
			"messaging.client.operation.duration messaging.destination.name=tasks,messaging.operation.name=dead_letter,messaging.system=servicebus,server.address=localhost": 1,
			"oneeffect.servicebus.settlements failed=false,messaging.destination.name=tasks,messaging.servicebus.disposition_status=complete,messaging.system=servicebus":    1,
			"oneeffect.servicebus.dead_letters messaging.destination.name=tasks,messaging.system=servicebus,oneeffect.reason=InvalidMessage":                                 1,
		} {
			if got[series] != want {
				t.Errorf("%s is %d, want %d; there is %v", series, got[series], want, got)
			}
		}
		failed := got["oneeffect.servicebus.settlements failed=true,messaging.destination.name=tasks,messaging.servicebus.disposition_status=leave,messaging.system=servicebus"]
		consumed := got["messaging.client.consumed.messages messaging.destination.name=tasks,messaging.operation.name=receive,messaging.system=servicebus,server.address=localhost"]
		processed := got["messaging.process.duration messaging.destination.name=tasks,messaging.operation.name=process,messaging.system=servicebus,server.address=localhost"]
		if failed < 1 || consumed != 2+failed || processed != consumed {
			t.Errorf("%d settlements failed, %d messages came, %d were processed", failed, consumed, processed)
		}
		slots := "oneeffect.servicebus.slots messaging.destination.name=tasks,messaging.system=servicebus,oneeffect.state="
		if during[slots+"used"] < 1 || during[slots+"allowed"] != during[slots+"configured"] {
			t.Errorf("slots while one was in use: %v", during)
		}
		if _, still := got[slots+"used"]; still {
			t.Error("the slots of a receiver that has ended are still shown")
		}
	})
}
