package cosmos_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
	"oneeffect/internal/receipt"
	"oneeffect/internal/telemetry"
)

// Every operation is one span, with the names that the conventions have now and
// nothing of the old ones, and is measured with what it was charged.
func TestAnOperationIsASpanAndMeasured(t *testing.T) { // K8
	w := newWorld(t)
	spans := tracetest.NewSpanRecorder()
	traces := telemetry.Providers{Traces: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))}
	reader := sdkmetric.NewManualReader()
	db := w.open(func(o *cosmos.Options) {
		o.Tracing, o.Meter = traces.Azure(), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
	})
	defer db.Close()
	ctx, request := traces.Traces.Tracer("test").Start(t.Context(), "process tasks")
	record := db.Claims().Record("82f3")
	if _, err := record.Create(ctx, claim.Claim{ID: "82f3", Status: claim.InProgress, TTL: 60}); err != nil {
		t.Fatal(err)
	}
	if _, err := record.Create(ctx, claim.Claim{ID: "82f3", Status: claim.InProgress, TTL: 60}); err == nil {
		t.Fatal("created twice")
	}
	request.End()

	ended := spans.Ended()
	if len(ended) != 3 { // no span for any attempt, and none for the discovery
		t.Fatalf("%d spans, want two operations and what they were done for: %v", len(ended), ended)
	}
	statuses := []string{"201", "409"}
	for i, s := range ended[:2] {
		if s.Name() != "create_item claims" || s.SpanKind() != trace.SpanKindClient || s.Parent().SpanID() != request.SpanContext().SpanID() {
			t.Errorf("span %q of kind %v under %v", s.Name(), s.SpanKind(), s.Parent().SpanID())
		}
		said := map[attribute.Key]attribute.Value{}
		for _, a := range s.Attributes() {
			said[a.Key] = a.Value
		}
		charge := said["azure.cosmosdb.operation.request_charge"]
		if charge.Type() != attribute.FLOAT64 || charge.AsFloat64() <= 0 {
			t.Errorf("the charge is %v, a %v", charge.String(), charge.Type())
		}
		if said["server.port"].AsInt64() != 8081 || said["server.address"] != said["network.peer.address"] {
			t.Errorf("the server is told as %v", said)
		}
		for _, variable := range []attribute.Key{"azure.cosmosdb.operation.request_charge", "server.address", "server.port", "network.peer.address"} {
			delete(said, variable)
		}
		want := map[attribute.Key]string{
			"db.system.name": "azure.cosmosdb", "db.namespace": "oneeffect", "db.collection.name": "claims", "db.operation.name": "create_item",
			"azure.cosmosdb.connection.mode": "gateway", "azure.resource_provider.namespace": "Microsoft.DocumentDB", "db.response.status_code": statuses[i],
		}
		if i == 1 {
			want["error.type"] = "409"
		}
		for key, value := range want {
			if said[key].AsString() != value {
				t.Errorf("%s is %q, want %q", key, said[key].AsString(), value)
			}
			delete(said, key)
		}
		if len(said) > 0 {
			t.Errorf("and also %v", said)
		}
	}
	if ended[0].Status().Code != codes.Unset || ended[1].Status().Code != codes.Error {
		t.Errorf("ended as %v and %v", ended[0].Status(), ended[1].Status())
	}
	wantMeasured(t, reader, map[string]int{"create_item 201": 1, "create_item 409": 1})
}

// What belongs to a trace that nobody keeps makes no span and takes no trouble over one,
// and is measured like everything else. What begins a trace is the sampler's to decide.
func TestATraceThatIsNotSampledIsMeasuredAllTheSame(t *testing.T) { // K8
	w := newWorld(t)
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	traces := telemetry.Providers{Traces: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))}
	silent := w.open(nil)
	defer silent.Close()
	db := w.open(func(o *cosmos.Options) {
		o.Tracing, o.Meter = traces.Azure(), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
	})
	defer db.Close()
	elsewhere := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, Remote: true})
	unsampled, _ := traces.Traces.Tracer("test").Start(trace.ContextWithSpanContext(t.Context(), elsewhere), "process tasks")
	read := func(ctx context.Context, db *cosmos.Database) func() {
		return func() {
			if _, err := db.Claims().Record("82f3").Read(ctx); !errors.Is(err, message.ErrNotFound) {
				t.Error(err)
			}
		}
	}
	const reads = 100 // and one to warm up
	without := testing.AllocsPerRun(reads, read(unsampled, silent))
	with := testing.AllocsPerRun(reads, read(unsampled, db))
	if spent := with - without; spent > 10 {
		t.Errorf("%v allocations, and %v without a provider and a meter", with, without)
	}
	if n := len(spans.Ended()); n != 0 {
		t.Errorf("%d spans of a trace that is not sampled", n)
	}
	read(t.Context(), db)()
	if ended := spans.Ended(); len(ended) != 1 || ended[0].Name() != "read_item claims" {
		t.Errorf("what began a trace made %v", ended)
	}
	wantMeasured(t, reader, map[string]int{"read_item 404": reads + 2})
}

// An attempt that was throttled is counted though its operation succeeded in the end, and
// a batch that is refused is one that was measured under its status.
func TestThrottledAttemptsAndRefusedBatchesAreCounted(t *testing.T) { // K8
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		reader := sdkmetric.NewManualReader()
		db := w.open(func(o *cosmos.Options) {
			o.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
		})
		defer db.Close()
		pair := func(status, times int) error {
			w.arm(control.Rule{
				Match: control.Match{Service: "cosmos", Entity: "inventory", Operation: "batch"}, Do: "answer", Status: status, Times: times, RetryAfter: control.Duration(time.Second),
			})
			_, err := db.Inventory().Begin(t.Context(), "sku-42", sold(receipt.OutcomeApplied), receipt.Item{Stock: 97, Version: 10})
			return err
		}
		wantError(t, pair(http.StatusRequestEntityTooLarge, 1), message.ErrRefused)
		if err := pair(http.StatusTooManyRequests, 3); err != nil {
			t.Fatal(err)
		}
		wantMeasured(t, reader, map[string]int{"execute_batch 413": 1, "execute_batch 200": 1})
		if got := measured(t, reader)["oneeffect.cosmos.throttled execute_batch 429 inventory"]; got != 3 {
			t.Errorf("%d attempts were throttled, want 3: %v", got, measured(t, reader))
		}
	})
}

// A batch that was rolled back is answered with 207, and what for stands in its body.
// Throttled is throttled: the process is told, and the status is that of the operation.
func TestABatchThatWasRolledBackCountsAsWhatItWasRolledBackFor(t *testing.T) { // K8
	for _, test := range []struct {
		results         string
		want            map[string]int
		told, throttled int
	}{
		{`[{"statusCode":424},{"statusCode":429}]`, map[string]int{"execute_batch 429": 2}, 2, 2},
		{`[{"statusCode":424},{"statusCode":413}]`, map[string]int{"execute_batch 413": 2}, 0, 0},
		{`[{"statusCode":409},{"statusCode":424}]`, map[string]int{"execute_batch 409": 2}, 0, 0},
	} {
		t.Run(test.results, func(t *testing.T) {
			w := newWorld(t)
			reader, told := sdkmetric.NewManualReader(), 0
			db := w.open(func(o *cosmos.Options) {
				o.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
				o.Throttled = func() { told++ }
			})
			defer db.Close()
			rolledBack := answer(http.StatusMultiStatus, "", test.results)
			w.wire.cut(func(r *http.Request) (*http.Response, error) {
				response, err := rolledBack(r)
				if response != nil {
					response.Header.Set("X-Ms-Request-Charge", "1")
				}
				return response, err
			})
			e, entry := sampleExecution("e1")
			if _, err := db.Executions().Create(t.Context(), e, entry); err == nil {
				t.Error("an execution was created by a batch that was rolled back")
			}
			if _, err := db.Inventory().Begin(t.Context(), "sku-42", sold(receipt.OutcomeApplied), receipt.Item{Stock: 97, Version: 10}); err == nil {
				t.Error("a pair was written by a batch that was rolled back")
			}
			if told != test.told {
				t.Errorf("told of %d refusals, want %d", told, test.told)
			}
			wantMeasured(t, reader, test.want)
			seen := measured(t, reader)
			if got := seen["oneeffect.cosmos.throttled execute_batch 429 inventory"] + seen["oneeffect.cosmos.throttled execute_batch 429 executions"]; got != test.throttled {
				t.Errorf("%d attempts were throttled, want %d: %v", got, test.throttled, seen)
			}
		})
	}
}

// wantMeasured wants so many operations, by name and status, and no others.
func wantMeasured(t *testing.T, reader sdkmetric.Reader, want map[string]int) {
	t.Helper()
	seen := measured(t, reader)
	for _, name := range []string{"db.client.operation.duration", "azure.cosmosdb.client.operation.request_charge"} {
		got := map[string]int{}
		for series, times := range seen {
			if of, ok := strings.CutPrefix(series, name+" "); ok {
				got[of[:strings.LastIndex(of, " ")]] += times
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
}

// measured are counts by instrument, operation, status and container.
func measured(t *testing.T, reader sdkmetric.Reader) map[string]int {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	add := func(name string, by attribute.Set, times int) {
		for _, key := range []attribute.Key{"db.operation.name", "db.response.status_code", "db.collection.name"} {
			value, _ := by.Value(key)
			name += " " + value.AsString()
		}
		seen[name] += times
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				add(m.Name, p.Attributes, int(p.Value))
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				add(m.Name, p.Attributes, int(p.Count))
				if refused, _ := p.Attributes.Value("db.response.status_code"); p.Sum <= 0 && refused.AsString() != "413" {
					t.Errorf("%s sums up to %v", m.Name, p.Sum)
				}
			}
		}
	}
	return seen
}
