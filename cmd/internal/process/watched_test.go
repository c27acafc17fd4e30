package process

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	nometric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"

	"oneeffect/internal/telemetry"
)

func TestNothingIsDoneForWatchersThatAreNotThere(t *testing.T) {
	off, err := telemetry.Start(t.Context(), telemetry.Options{Service: "test", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	measured, traced := off, off
	measured.Metrics = struct{ nometric.MeterProvider }{} // any but that of telemetry that is off
	traced.Traces = notrace.NewTracerProvider()           // likewise
	for name, test := range map[string]struct {
		telemetry telemetry.Providers
		watched   bool
	}{"off": {off, false}, "measured": {measured, true}, "traced": {traced, true}} {
		t.Run(name, func(t *testing.T) {
			asked, served := httptest.NewRecorder(), false
			handler := Watched(test.telemetry, "test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served = true
				if _, watched := otelhttp.LabelerFromContext(r.Context()); watched != test.watched {
					t.Errorf("watched: %v, want %v", watched, test.watched)
				}
				if own := w == http.ResponseWriter(asked); own == test.watched {
					t.Errorf("the answer is written to the server's own writer: %v, want %v", own, !test.watched)
				}
				if at := trace.SpanContextFromContext(r.Context()).TraceID().String(); at != "0af7651916cd43dd8448eb211c80319c" {
					t.Errorf("the caller's trace has become %s", at)
				}
			}))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			r.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			if handler.ServeHTTP(asked, r); !served {
				t.Error("the request came to nobody")
			}
		})
	}
}
