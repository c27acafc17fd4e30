package telemetry

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

func TestALineNamesItsTraceHereAndWhereLogsGo(t *testing.T) {
	receiver := newCollector()
	server := httptest.NewServer(receiver)
	defer server.Close()
	p, err := Start(t.Context(), Options{Service: "worker", Getenv: environment(t, map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": server.URL + "/v1/logs"})})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Unwatched() {
		t.Error("whoever reads logs alone watches spans or measurements")
	}
	at := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{15: 1}, SpanID: trace.SpanID{7: 2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(t.Context(), at)
	var local bytes.Buffer
	log := p.Logger(slog.New(slog.NewJSONHandler(&local, nil))).With("process", "worker-1")
	log.InfoContext(ctx, "handled", "task", "82f3")
	log.DebugContext(ctx, "not told")
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(local.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, local.Bytes())
	}
	for key, want := range map[string]string{"msg": "handled", "task": "82f3", "process": "worker-1", "trace_id": at.TraceID().String(), "span_id": at.SpanID().String()} {
		if line[key] != want {
			t.Errorf("%s is %v, want %s", key, line[key], want)
		}
	}
	records := received(t, receiver.logs).GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords()
	id := at.TraceID()
	if len(records) != 1 || records[0].GetBody().GetStringValue() != "handled" || !bytes.Equal(records[0].GetTraceId(), id[:]) {
		t.Errorf("sent %v", records)
	}
}

func TestALineOutsideOfATraceNamesNone(t *testing.T) {
	var local bytes.Buffer
	Providers{}.Logger(slog.New(slog.NewTextHandler(&local, nil))).Info("ready")
	if bytes.Contains(local.Bytes(), []byte("trace_id")) {
		t.Errorf("logged %s", local.Bytes())
	}
}
