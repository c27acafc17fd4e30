package servicebus

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/internal/message"
	"oneeffect/internal/telemetry"
)

// off is all that telemetry asks of one delivery and of one send while it is off.
func off(t testing.TB) func() {
	t.Helper()
	providers, err := telemetry.Start(t.Context(), telemetry.Options{Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(Options{
		ConnectionString: connectionString, Propagator: providers.Propagator,
		Tracer: providers.Traces.Tracer("test"), Meter: providers.Metrics.Meter("test"),
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &pump{Receiver: Receiver{Client: c, Queue: "tasks"}, entity: "tasks", station: c.newStation("tasks"), slots: newSlots(1)}
	d := &delivery{sdk: &azservicebus.ReceivedMessage{}, Delivery: message.Delivery{MessageID: "82f3", CorrelationID: "82f3", Count: 1}}
	ctx, began := t.Context(), time.Now()
	return func() {
		work, span := p.startProcess(ctx, d)
		p.hasReceived(work, 1)
		sending, sent := c.startSend(work, p.station, "82f3/completed", "82f3")
		_ = c.inject(sending, nil)
		fail(sent, nil)
		c.hasSent(sending, p.station, nil)
		c.took(sending, p.station, opSend, began, nil)
		sent.End()
		p.hasProcessed(work, began)
		refused(span, message.Done())
		settling, settle := p.startSettle(work, d, opComplete)
		c.took(settling, p.station, opComplete, began, nil)
		settle.End()
		p.hasSettled(work, message.Complete, "", nil)
		span.End()
	}
}

// What telemetry costs a delivery while it is off: no context, span, attribute, option
// or measurement is made.
func TestNothingIsMadeForTelemetryThatIsOff(t *testing.T) { // S10
	if made := testing.AllocsPerRun(1000, off(t)); made > 0 {
		t.Errorf("%v allocations for a delivery, want none", made)
	}
}

func BenchmarkTelemetryThatIsOff(b *testing.B) {
	b.ReportAllocs()
	for deliver := off(b); b.Loop(); {
		deliver()
	}
}
