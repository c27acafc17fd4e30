package servicebus

import (
	"context"
	"net"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/internal/message"
)

func parent() trace.SpanContext {
	state, _ := trace.ParseTraceState("vendor=1")
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0xab, 15: 1}, SpanID: trace.SpanID{0xcd, 7: 1}, TraceFlags: trace.FlagsSampled, TraceState: state,
	})
}

const parentText = "00-ab000000000000000000000000000001-cd00000000000001-01"

func TestTheTraceContextTravelsWithTelemetryOff(t *testing.T) { // S7
	inBubble(t, func(t *testing.T, w *world) {
		got := make(chan trace.SpanContext, 2)
		stop := w.run(w.receiver(), func(ctx context.Context, d message.Delivery) message.Settlement {
			got <- trace.SpanContextFromContext(ctx)
			if d.MessageID == "82f3" {
				return message.Later(0)
			}
			return message.Done()
		})
		defer stop()
		s, err := w.client.Sender("tasks")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(trace.ContextWithSpanContext(t.Context(), parent()), task("82f3")); err != nil {
			t.Fatal(err)
		}
		for _, which := range []string{"original", "copy"} {
			c := <-got
			if !c.IsRemote() || c.TraceID() != parent().TraceID() || c.SpanID() != parent().SpanID() || c.TraceState().String() != "vendor=1" {
				t.Errorf("the %s has %+v", which, c)
			}
		}
	})
}

func TestAllThreeTracePropertiesAreWritten(t *testing.T) { // S7
	inBubble(t, func(t *testing.T, w *world) {
		s, err := w.client.Sender("tasks")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(trace.ContextWithSpanContext(t.Context(), parent()), task("82f3")); err != nil {
			t.Fatal(err)
		}
		sdk, err := azservicebus.NewClientFromConnectionString(connectionString, &azservicebus.ClientOptions{
			NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
				return w.server.Dial(ctx)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer sdk.Close(context.Background())
		r, err := sdk.NewReceiverForQueue("tasks", nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.ReceiveMessages(t.Context(), 1, nil)
		if err != nil || len(got) != 1 {
			t.Fatalf("received %d, %v", len(got), err)
		}
		m := got[0]
		for name, value := range map[string]string{"traceparent": parentText, "tracestate": "vendor=1", "Diagnostic-Id": parentText} {
			if m.ApplicationProperties[name] != value {
				t.Errorf("%s is %v, want %s", name, m.ApplicationProperties[name], value)
			}
		}
		if *m.ContentType != message.ContentType || *m.Subject != message.TypeTask || *m.CorrelationID != "82f3" || m.MessageID != "82f3" {
			t.Errorf("properties: %v %v %v %v", *m.ContentType, *m.Subject, *m.CorrelationID, m.MessageID)
		}
	})
}

func TestATraceIsReadFromTheFirstPropertyThatHasOne(t *testing.T) { // S7
	c, err := Dial(Options{ConnectionString: connectionString})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	const other = "00-ef000000000000000000000000000002-ee00000000000002-01"
	for _, p := range []struct {
		name       string
		properties map[string]any
		want       string // the trace id
	}{
		{"none", nil, "00000000000000000000000000000000"},
		{"traceparent", map[string]any{"traceparent": parentText}, "ab000000000000000000000000000001"},
		{"Diagnostic-Id", map[string]any{"Diagnostic-Id": parentText}, "ab000000000000000000000000000001"},
		{"both", map[string]any{"traceparent": parentText, "Diagnostic-Id": other}, "ab000000000000000000000000000001"},
		{"a broken traceparent", map[string]any{"traceparent": "00-x", "Diagnostic-Id": other}, "ef000000000000000000000000000002"},
		{"the old form of Diagnostic-Id", map[string]any{"Diagnostic-Id": "|4bf9.1."}, "00000000000000000000000000000000"},
		{"another type", map[string]any{"traceparent": int64(7)}, "00000000000000000000000000000000"},
	} {
		got := trace.SpanContextFromContext(c.extract(t.Context(), p.properties))
		if got.TraceID().String() != p.want {
			t.Errorf("%s: %s, want %s", p.name, got.TraceID(), p.want)
		}
	}
}

// traced has the world's client make spans, and returns them by name.
func (w *world) traced() func() map[string][]sdktrace.ReadOnlySpan {
	spans := tracetest.NewSpanRecorder()
	w.client.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	return func() map[string][]sdktrace.ReadOnlySpan {
		got := map[string][]sdktrace.ReadOnlySpan{}
		for _, s := range spans.Ended() {
			got[s.Name()] = append(got[s.Name()], s)
		}
		return got
	}
}

func TestOneTraceHoldsSendProcessAndSettle(t *testing.T) { // S10
	inBubble(t, func(t *testing.T, w *world) {
		spans := w.traced()
		stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement {
			return message.Reject("InvalidMessage", "no task")
		})
		defer stop()
		w.send("tasks", "82f3")
		enqueued := w.settled("82f3")
		stop()
		got := spans()
		if len(got) != 3 || len(got["send tasks"]) != 1 || len(got["process tasks"]) != 1 || len(got["dead_letter tasks"]) != 1 {
			t.Fatalf("spans: %v", got)
		}
		send, process, settle := got["send tasks"][0], got["process tasks"][0], got["dead_letter tasks"][0]
		if process.Parent().SpanID() != send.SpanContext().SpanID() || settle.Parent().SpanID() != process.SpanContext().SpanID() {
			t.Error("the spans are not each other's children")
		}
		if links := process.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != send.SpanContext().SpanID() {
			t.Errorf("the delivery links to %v, want the span that sent it", links)
		}
		common := []attribute.KeyValue{
			attribute.String("messaging.system", "servicebus"), attribute.String("messaging.destination.name", "tasks"),
			attribute.String("messaging.message.id", "82f3"), attribute.String("messaging.message.conversation_id", "82f3"),
			attribute.String("server.address", "localhost"), attribute.String("network.peer.address", "localhost"),
		}
		wantSpan(t, send, trace.SpanKindProducer, common, attribute.String("messaging.operation.name", "send"), attribute.String("messaging.operation.type", "send"))
		wantSpan(t, process, trace.SpanKindConsumer, common, attribute.String("messaging.operation.name", "process"), attribute.String("messaging.operation.type", "process"),
			attribute.Int("messaging.servicebus.message.delivery_count", 1), attribute.Int64("messaging.servicebus.message.enqueued_time", enqueued.At.Unix()),
			attribute.String("oneeffect.reason", "InvalidMessage"))
		wantSpan(t, settle, trace.SpanKindClient, common, attribute.String("messaging.operation.name", "dead_letter"), attribute.String("messaging.operation.type", "settle"),
			attribute.String("messaging.servicebus.disposition_status", "dead_letter"))
		if status := process.Status(); status.Code != otelcodes.Error || status.Description != "InvalidMessage: no task" {
			t.Errorf("the delivery ended as %v", status)
		}
	})
}

func wantSpan(t *testing.T, s sdktrace.ReadOnlySpan, kind trace.SpanKind, common []attribute.KeyValue, own ...attribute.KeyValue) {
	t.Helper()
	if s.SpanKind() != kind {
		t.Errorf("%s is a %v, want %v", s.Name(), s.SpanKind(), kind)
	}
	want := attribute.NewSet(append(common, own...)...)
	if got := attribute.NewSet(s.Attributes()...); !got.Equals(&want) {
		t.Errorf("%s says\n%s, want\n%s", s.Name(), got.Encoded(attribute.DefaultEncoder()), want.Encoded(attribute.DefaultEncoder()))
	}
}

// A delayed copy is sent by the delivery that put it off, and its own delivery is
// that send's child: one chain through all the waiting.
func TestADelayedCopyStaysInItsTrace(t *testing.T) { // S7, S10
	inBubble(t, func(t *testing.T, w *world) {
		spans := w.traced()
		stop := w.run(w.receiver(), func(_ context.Context, d message.Delivery) message.Settlement {
			if d.MessageID == "82f3" {
				return message.Later(0)
			}
			return message.Done()
		})
		defer stop()
		w.send("tasks", "82f3")
		copied := w.await("scheduled", "", 0)
		w.settled(copied.Key)
		stop()
		got := spans()
		if len(got["send tasks"]) != 2 || len(got["process tasks"]) != 2 || len(got["complete tasks"]) != 2 {
			t.Fatalf("spans: %v", got)
		}
		// They are in the order in which they ended, and a delivery may end before the send of its message has heard
		// that it is sent.
		var before trace.SpanID // nothing is before the first
		for i, name := range []string{"send tasks", "process tasks", "send tasks", "process tasks"} {
			child := slices.IndexFunc(got[name], func(s sdktrace.ReadOnlySpan) bool { return s.Parent().SpanID() == before })
			if child < 0 {
				t.Fatalf("link %d of the chain is missing: no %s is a child of the span before", i, name)
			}
			before = got[name][child].SpanContext().SpanID()
		}
	})
}

func TestWhatIsSettledInVainIsAFailedSpan(t *testing.T) { // S3
	inBubble(t, func(t *testing.T, w *world) {
		spans := w.traced()
		stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement { return message.Settlement{} })
		defer stop()
		w.send("tasks", "82f3")
		w.await("lock-expired", "82f3", 0)
		stop()
		process := spans()["process tasks"][0]
		if process.Status().Code != otelcodes.Error || len(process.Events()) != 1 || process.Events()[0].Name != "exception" {
			t.Errorf("the delivery ended as %v with %v, want an exception", process.Status(), process.Events())
		}
		said := attribute.NewSet(process.Attributes()...)
		if class, _ := said.Value("error.type"); class.AsString() != "undecided" {
			t.Errorf("error.type is %q, want undecided", class.AsString())
		}
	})
}
