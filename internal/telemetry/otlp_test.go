package telemetry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/trace"
	collectorlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// collector is the receiving end of OTLP: it keeps the trace, metric and log
// requests it was sent, by either protocol.
type collector struct {
	collectortraces.UnimplementedTraceServiceServer

	traces  chan *collectortraces.ExportTraceServiceRequest
	metrics chan *collectormetrics.ExportMetricsServiceRequest
	logs    chan *collectorlogs.ExportLogsServiceRequest
}

func newCollector() *collector {
	return &collector{
		traces:  make(chan *collectortraces.ExportTraceServiceRequest, 8),
		metrics: make(chan *collectormetrics.ExportMetricsServiceRequest, 8),
		logs:    make(chan *collectorlogs.ExportLogsServiceRequest, 8),
	}
}

func (c *collector) Export(_ context.Context, r *collectortraces.ExportTraceServiceRequest) (*collectortraces.ExportTraceServiceResponse, error) {
	c.traces <- r
	return &collectortraces.ExportTraceServiceResponse{}, nil
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch r.URL.Path {
	case "/v1/traces":
		err = take(body, &collectortraces.ExportTraceServiceRequest{}, c.traces)
	case "/v1/metrics":
		err = take(body, &collectormetrics.ExportMetricsServiceRequest{}, c.metrics)
	case "/v1/logs":
		err = take(body, &collectorlogs.ExportLogsServiceRequest{}, c.logs)
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func take[M proto.Message](body []byte, m M, into chan M) error {
	if err := proto.Unmarshal(body, m); err != nil {
		return err
	}
	into <- m
	return nil
}

// received is what arrived by the time the providers have flushed.
func received[M any](t *testing.T, from chan M) M {
	t.Helper()
	select {
	case m := <-from:
		return m
	default:
		t.Fatal("nothing arrived")
		panic("unreachable")
	}
}

func attributes(r *resourcepb.Resource) map[string]string {
	got := map[string]string{}
	for _, kv := range r.GetAttributes() {
		got[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	return got
}

// counted begins a span and counts one within it.
func counted(t *testing.T, p Providers) (context.Context, trace.Span) {
	t.Helper()
	ctx, span := p.Traces.Tracer("test").Start(t.Context(), "process tasks")
	count, err := p.Metrics.Meter("test").Int64Counter("oneeffect.fenced")
	if err != nil {
		t.Fatalf("make a counter: %v", err)
	}
	count.Add(ctx, 1)
	return ctx, span
}

func TestAllThreeSignalsArriveOverHTTPWhenOnlyAnEndpointIsSet(t *testing.T) {
	receiver := newCollector()
	server := httptest.NewServer(receiver)
	defer server.Close()
	getenv := environment(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL,
		"OTEL_RESOURCE_ATTRIBUTES":    "deployment.environment.name=test",
	})
	p, err := Start(t.Context(), Options{Service: "worker", Instance: "worker-1/5f3a", Version: "v0", Getenv: getenv})
	if err != nil {
		t.Fatalf("start: %v", err)
	}

	ctx, span := counted(t, p)
	var record log.Record
	record.SetBody(attribute.StringValue("settled"))
	p.Logs.Logger("test").Emit(ctx, record)
	span.End()
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatalf("shut down: %v", err)
	}

	traces := received(t, receiver.traces).GetResourceSpans()[0]
	if got := traces.GetScopeSpans()[0].GetSpans()[0].GetName(); got != "process tasks" {
		t.Errorf("the span is called %q, want process tasks", got)
	}
	who := attributes(traces.GetResource())
	for name, want := range map[string]string{
		"service.name": "worker", "service.instance.id": "worker-1/5f3a", "service.version": "v0",
		"deployment.environment.name": "test",
	} {
		if who[name] != want {
			t.Errorf("%s is %q, want %q", name, who[name], want)
		}
	}
	if got := received(t, receiver.metrics).GetResourceMetrics()[0].GetScopeMetrics()[0].GetMetrics()[0].GetName(); got != "oneeffect.fenced" {
		t.Errorf("the metric is called %q, want oneeffect.fenced", got)
	}
	entry := received(t, receiver.logs).GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords()[0]
	if got := entry.GetBody().GetStringValue(); got != "settled" {
		t.Errorf("the log record says %q, want settled", got)
	}
	if id := span.SpanContext().TraceID(); string(entry.GetTraceId()) != string(id[:]) {
		t.Errorf("the log record belongs to trace %x, want %s", entry.GetTraceId(), id)
	}
}

// Measurements are not asked whether they are exemplars unless somebody wants some.
func TestThereAreExemplarsIfTheirFilterIsChosen(t *testing.T) {
	for filter, want := range map[string]int{"": 0, "always_off": 0, "trace_based": 1} {
		t.Run(filter, func(t *testing.T) {
			receiver := newCollector()
			server := httptest.NewServer(receiver)
			defer server.Close()
			p, err := Start(t.Context(), Options{Service: "worker", Getenv: environment(t, map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_LOGS_EXPORTER": "none", "OTEL_METRICS_EXEMPLAR_FILTER": filter,
			})})
			if err != nil {
				t.Fatalf("start: %v", err)
			}
			if p.Unwatched() {
				t.Error("nobody watches")
			}
			_, span := counted(t, p)
			span.End()
			if err := p.Shutdown(t.Context()); err != nil {
				t.Fatalf("shut down: %v", err)
			}
			point := received(t, receiver.metrics).GetResourceMetrics()[0].GetScopeMetrics()[0].GetMetrics()[0].GetSum().GetDataPoints()[0]
			if got := len(point.GetExemplars()); got != want {
				t.Errorf("%d exemplars, want %d", got, want)
			}
		})
	}
}

func TestASpanArrivesOverGRPC(t *testing.T) {
	receiver := newCollector()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collectortraces.RegisterTraceServiceServer(server, receiver)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	}()

	getenv := environment(t, map[string]string{
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://" + listener.Addr().String(),
		"OTEL_EXPORTER_OTLP_PROTOCOL":        "grpc",
		"OTEL_SERVICE_NAME":                  "renamed",
	})
	p, err := Start(t.Context(), Options{Service: "worker", Getenv: getenv})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	_, span := p.Traces.Tracer("test").Start(t.Context(), "send task-events")
	span.End()
	stopping, cancel := context.WithCancel(t.Context())
	cancel() // a program flushes after it was told to stop
	if err := p.Shutdown(stopping); err != nil {
		t.Fatalf("shut down: %v", err)
	}
	traces := received(t, receiver.traces).GetResourceSpans()[0]
	if got := traces.GetScopeSpans()[0].GetSpans()[0].GetName(); got != "send task-events" {
		t.Errorf("the span is called %q, want send task-events", got)
	}
	if got := attributes(traces.GetResource())["service.name"]; got != "renamed" {
		t.Errorf("service.name is %q, want the one of OTEL_SERVICE_NAME", got)
	}
}

// The collector answers only after Shutdown has returned, so a Shutdown that
// waited for it would wait for ever.
func TestShutdownIsBoundedWhenTheCollectorDoesNotAnswer(t *testing.T) {
	returned := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-returned }))
	defer server.Close()
	defer close(returned)
	getenv := environment(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": server.URL})
	p, err := Start(t.Context(), Options{Getenv: getenv, Flush: 50 * time.Millisecond})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	_, span := p.Traces.Tracer("test").Start(t.Context(), "process tasks")
	span.End()
	if err := p.Shutdown(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shut down with %v, want to be told that the time was up", err)
	}
}
