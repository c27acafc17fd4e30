package servicebus

import (
	"context"
	"net"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.opentelemetry.io/otel/attribute"
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
			if len(d.MessageID) == 4 {
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

func TestOneTraceHoldsSendProcessAndSettle(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		spans := tracetest.NewSpanRecorder()
		w.client.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
		stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement {
			return message.Reject("InvalidMessage", "")
		})
		defer stop()
		w.send("tasks", "82f3")
		w.settled("82f3")
		stop()
		got := map[string]sdktrace.ReadOnlySpan{}
		for _, s := range spans.Ended() {
			got[s.Name()] = s
		}
		send, process, settle := got["send tasks"], got["process tasks"], got["settle tasks"]
		if send == nil || process == nil || settle == nil {
			t.Fatalf("spans: %v", got)
		}
		if process.Parent().SpanID() != send.SpanContext().SpanID() || settle.Parent().SpanID() != process.SpanContext().SpanID() {
			t.Error("the spans are not each other's children")
		}
		disposition := attribute.String("messaging.servicebus.disposition_status", "dead-letter")
		found := false
		for _, a := range settle.Attributes() {
			found = found || a == disposition
		}
		if !found {
			t.Errorf("settle has %v", settle.Attributes())
		}
	})
}
