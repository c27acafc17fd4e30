package cosmos

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	nometric "go.opentelemetry.io/otel/metric/noop"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/dbconv"
	"go.opentelemetry.io/otel/trace"
)

// meters are the standard instruments of a database: how long operations take, and
// the request units that they are charged, attempts that were throttled included. And
// one of ours: an operation that was throttled and then succeeded shows that in no other.
type meters struct {
	duration  dbconv.ClientOperationDuration
	charge    metric.Float64Histogram
	throttled metric.Int64Counter

	common []attribute.KeyValue
	known  sync.Map // of series: the options for it. There are as many as containers, operations and statuses
}

// series is what measurements differ by.
type series struct {
	container, operation string
	status               int
}

func newMeters(o Options) (*meters, error) {
	m := &meters{common: []attribute.KeyValue{semconv.DBSystemNameAzureCosmosDB, semconv.DBNamespace(o.Database)}}
	if at, err := url.Parse(o.Endpoint); err == nil {
		m.common = append(m.common, semconv.ServerAddress(at.Hostname()))
	}
	meter := o.Meter
	if meter == nil {
		meter = nometric.Meter{}
	}
	var errs [3]error
	m.duration, errs[0] = dbconv.NewClientOperationDuration(meter, metric.WithExplicitBucketBoundaries(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10))
	m.charge, errs[1] = meter.Float64Histogram("azure.cosmosdb.client.operation.request_charge", metric.WithUnit("{request_unit}"),
		metric.WithDescription("Request units that operations are charged."),
		metric.WithExplicitBucketBoundaries(1, 5, 10, 25, 50, 100, 250, 500, 1000))
	m.throttled, errs[2] = meter.Int64Counter("oneeffect.cosmos.throttled", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts that were answered with 429, also where a later one succeeded."))
	return m, errors.Join(errs[:]...)
}

// begin says whether an operation is to be measured, and when it began.
func (m *meters) begin(ctx context.Context, o *operation) (time.Time, bool) {
	if o.measured = m.duration.Enabled(ctx) || m.charge.Enabled(ctx); !o.measured {
		return time.Time{}, false
	}
	return time.Now(), true
}

// measure records an operation that has ended.
func (m *meters) measure(ctx context.Context, o *operation, began time.Time) {
	if !o.reached {
		return
	}
	options := m.by(series{o.container, o.verb, o.status})
	m.duration.Inst().Record(ctx, time.Since(began).Seconds(), options.record...)
	m.charge.Record(ctx, o.charge, options.record...)
	if o.throttled > 0 {
		m.throttled.Add(ctx, o.throttled, m.by(series{o.container, o.verb, http.StatusTooManyRequests}).add...)
	}
}

// options say what a measurement is of.
type options struct {
	record []metric.RecordOption
	add    []metric.AddOption
}

// by is made once for each series.
func (m *meters) by(key series) *options {
	known, ok := m.known.Load(key)
	if !ok {
		says := append(m.common[:len(m.common):len(m.common)], semconv.DBCollectionName(key.container), semconv.DBOperationName(key.operation))
		status := strconv.Itoa(key.status)
		switch {
		case key.status == 0:
			says = append(says, semconv.ErrorTypeKey.String("no_answer"))
		case key.status >= http.StatusBadRequest:
			says = append(says, semconv.DBResponseStatusCode(status), semconv.ErrorTypeKey.String(status))
		default:
			says = append(says, semconv.DBResponseStatusCode(status))
		}
		set := metric.WithAttributeSet(attribute.NewSet(says...))
		known, _ = m.known.LoadOrStore(key, &options{[]metric.RecordOption{set}, []metric.AddOption{set}})
	}
	return known.(*options)
}

// Headers that tell what was asked for, and what it has cost.
const (
	headerCharge = "X-Ms-Request-Charge"
	headerBatch  = "X-Ms-Cosmos-Is-Batch-Request"
	headerQuery  = "X-Ms-Documentdb-Query"
)

// verbOf is what the SDK calls the operation that a request makes.
func verbOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet:
		return "read_item"
	case http.MethodPut:
		return "replace_item"
	case http.MethodPatch:
		return "patch_item"
	case http.MethodDelete:
		return "delete_item"
	}
	switch {
	case r.Header.Get(headerBatch) != "":
		return "execute_batch"
	case r.Header.Get(headerQuery) != "":
		return "query_items"
	}
	return "create_item"
}

// annotate puts into the operation's span what the SDK leaves out of it.
func annotate(ctx context.Context, response *http.Response) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() || response == nil {
		return
	}
	if sub, err := strconv.Atoi(response.Header.Get(headerSubstatus)); err == nil && sub != 0 {
		span.SetAttributes(semconv.AzureCosmosDBResponseSubStatusCode(sub))
	}
}
