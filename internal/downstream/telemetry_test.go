package downstream

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/internal/message"
)

func TestACallIsASpanThatTellsNoSecretAndIsMeasured(t *testing.T) {
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	var sent http.Header
	replies := []func() (*http.Response, error){
		func() (*http.Response, error) { return answer(http.StatusCreated, `{"id":"c-1"}`), nil },
		func() (*http.Response, error) { return answer(http.StatusInternalServerError, `{}`), nil },
		func() (*http.Response, error) {
			return nil, &net.OpError{Op: "read", Err: errors.New("connection reset")}
		},
	}
	h := handlerOf(t, keyedAt("http://crm:8082/customers?code=s3cret"), Options{
		Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"),
		Meter:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"),
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			sent = r.Header
			reply := replies[0]
			replies = replies[1:]
			return reply()
		}),
	})
	for i, want := range []struct {
		status, class, effect string
		code                  codes.Code
	}{
		{status: "201", effect: "applied", code: codes.Unset},
		{status: "500", class: "500", effect: "unknown", code: codes.Error},
		{class: "no_reply", effect: "unknown", code: codes.Error},
	} {
		h.Call(t.Context(), message.Call{Key: "82f3", Type: "t", Payload: []byte(`{}`)})
		s := spans.Ended()[i]
		said := map[attribute.Key]string{}
		for _, a := range s.Attributes() {
			said[a.Key] = a.Value.String()
			if strings.Contains(a.Value.String(), "s3cret") {
				t.Errorf("%s is %s", a.Key, a.Value.String())
			}
		}
		for key, value := range map[attribute.Key]string{
			"http.request.method": "POST", "url.full": "http://crm:8082/customers", "server.address": "crm", "server.port": "8082",
			"network.peer.address": "crm", "http.response.status_code": want.status, "error.type": want.class, "oneeffect.effect": want.effect,
		} {
			if said[key] != value {
				t.Errorf("call %d: %s is %q, want %q", i+1, key, said[key], value)
			}
		}
		if s.SpanKind() != trace.SpanKindClient || s.Name() != "POST" || s.Status().Code != want.code || len(s.Events()) != int(want.code) {
			t.Errorf("call %d: %v %s ended as %v with %v", i+1, s.SpanKind(), s.Name(), s.Status(), s.Events())
		}
		if got := sent.Get("traceparent"); !strings.Contains(got, s.SpanContext().SpanID().String()) {
			t.Errorf("call %d: traceparent is %q, want the call's own span", i+1, got)
		}
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, p := range all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Histogram[float64]).DataPoints {
		got[all.ScopeMetrics[0].Metrics[0].Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Count
	}
	const name, at = "http.client.request.duration ", ",server.address=crm,server.port=8082"
	for _, series := range []string{
		name + "http.request.method=POST,http.response.status_code=201" + at,
		name + "error.type=500,http.request.method=POST,http.response.status_code=500" + at,
		name + "error.type=no_reply,http.request.method=POST" + at,
	} {
		if got[series] != 1 {
			t.Errorf("%s is not 1; there is %v", series, got)
		}
	}
}
