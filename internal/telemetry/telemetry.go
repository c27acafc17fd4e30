// Package telemetry turns the standard OpenTelemetry variables into providers
// that a command passes on to whatever it wires. It promises three things:
//
//  1. Off unless configured. A signal (traces, metrics, logs) is on only if
//     OTEL_<SIGNAL>_EXPORTER names an exporter other than "none", or if that
//     variable is unset and OTEL_EXPORTER_OTLP_ENDPOINT or
//     OTEL_EXPORTER_OTLP_<SIGNAL>_ENDPOINT is set (exporter "otlp").
//     OTEL_SDK_DISABLED=true turns everything off. A signal that is off has a
//     no-op provider: no exporter, no goroutine, no connection.
//  2. No global state. Nothing is registered with the otel package; two
//     commands in one test process do not see each other.
//  3. Bounded. Shutdown sends what is buffered and returns within
//     Options.Flush, also when the collector does not answer.
//
// <SIGNAL> is TRACES, METRICS or LOGS. The exporters are otlp, console and
// none, and prometheus for metrics. Protocol (grpc or http/protobuf), headers,
// TLS, sampler, batch sizes and resource attributes are the SDK's own
// variables and mean here what they mean everywhere. So is the filter of
// exemplars, but that it is always_off unless it is set.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	nolog "go.opentelemetry.io/otel/log/noop"
	"go.opentelemetry.io/otel/metric"
	nometric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"
)

// DefaultFlush bounds Shutdown when Options.Flush is zero. It is short enough
// for a program that is being stopped and long enough for one batch.
const DefaultFlush = 5 * time.Second

// Options say who is reporting.
type Options struct {
	Service  string // service.name; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over it
	Instance string // service.instance.id: one per process
	Version  string // service.version; left out when empty

	// Getenv, required, answers for the variables that switch a signal on. The exporters
	// behind them read the process's own environment, so a command passes
	// os.Getenv; a test that passes an empty one gets telemetry off whatever its
	// machine has set.
	Getenv func(string) string

	Flush time.Duration // the bound of Shutdown; zero means DefaultFlush
}

// Providers are what a command hands to the parts it wires. All of them are
// usable whether telemetry is on or off.
type Providers struct {
	Traces  trace.TracerProvider
	Metrics metric.MeterProvider
	Logs    log.LoggerProvider

	// Propagator is W3C trace context, always: what travels in a message is
	// part of the message's format and no operator's choice.
	Propagator propagation.TextMapPropagator

	flush time.Duration
	stops []func(context.Context) error
}

// Start makes the providers that the variables ask for. A variable that asks
// for something impossible is an error naming it; a collector that cannot be
// reached is not, since a program must run without one.
func Start(ctx context.Context, o Options) (Providers, error) {
	p := Providers{
		Traces:     sparing{notrace.NewTracerProvider(), true},
		Metrics:    nometric.NewMeterProvider(),
		Logs:       nolog.NewLoggerProvider(),
		Propagator: propagation.TraceContext{},
		flush:      cmp.Or(o.Flush, DefaultFlush),
	}
	signals := []struct {
		name string
		on   func(context.Context, *resource.Resource) error
	}{
		{"TRACES", p.traces},
		{"METRICS", func(ctx context.Context, who *resource.Resource) error {
			return p.metrics(ctx, who, o.Getenv(exemplarFilter) != "")
		}},
		{"LOGS", p.logs},
	}

	exporters := make([]string, len(signals))
	errs := make([]error, len(signals))
	for i, signal := range signals {
		exporters[i], errs[i] = wanted(o.Getenv, signal.name)
	}
	if err := errors.Join(errs...); err != nil {
		return Providers{}, err
	}
	if !slices.ContainsFunc(exporters, func(e string) bool { return e != none }) {
		return p, nil
	}
	who, err := describe(ctx, o)
	if err != nil {
		return Providers{}, err
	}
	for i, signal := range signals {
		if exporters[i] == none {
			continue
		}
		if err := signal.on(ctx, who); err != nil {
			errs[i] = fmt.Errorf("set up OTEL_%s_EXPORTER=%s (exporters are otlp, console and none, for metrics prometheus too; OTLP protocols are grpc and http/protobuf): %w", signal.name, exporters[i], err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Providers{}, errors.Join(err, p.Shutdown(ctx))
	}
	return p, nil
}

const none = "none"

// wanted is the exporter that the variables name for a signal. autoexport reads
// an unset variable as "otlp" and would dial localhost:4318 from every laptop
// and every test; here an unset variable is off unless an endpoint is given.
func wanted(getenv func(string) string, signal string) (string, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return none, nil
	}
	exporter := getenv("OTEL_" + signal + "_EXPORTER")
	if exporter != "" && exporter != "otlp" {
		return exporter, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT"} {
		endpoint := getenv(name)
		if endpoint == "" {
			continue
		}
		if err := checkEndpoint(endpoint); err != nil {
			return "", fmt.Errorf("read %s=%q: %w", name, endpoint, err)
		}
		exporter = "otlp"
	}
	return cmp.Or(exporter, none), nil
}

// checkEndpoint refuses what the exporters would quietly replace by their
// default: a bare "collector:4317" parses as a URL with the scheme "collector".
func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return fmt.Errorf("parse the endpoint: %w", err)
	}
	switch {
	case u.Scheme == "unix":
		return nil
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("an endpoint is a URL such as http://collector:4318")
	}
	return nil
}

func describe(ctx context.Context, o Options) (*resource.Resource, error) {
	var attrs []attribute.KeyValue
	for _, kv := range []attribute.KeyValue{
		semconv.ServiceName(o.Service),
		semconv.ServiceInstanceID(o.Instance),
		semconv.ServiceVersion(o.Version),
	} {
		if kv.Value.AsString() != "" {
			attrs = append(attrs, kv)
		}
	}
	// The environment comes last and therefore wins.
	who, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(attrs...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe this process from OTEL_RESOURCE_ATTRIBUTES (form: key=value,key=value): %w", err)
	}
	return who, nil
}

func (p *Providers) traces(ctx context.Context, who *resource.Resource) error {
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return err
	}
	sdk := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(who))
	p.Traces, p.stops = sparing{TracerProvider: sdk}, append(p.stops, sdk.Shutdown)
	return nil
}

// exemplarFilter is the SDK's variable for what measurements are kept with their trace.
const exemplarFilter = "OTEL_METRICS_EXEMPLAR_FILTER"

// metrics makes the provider of metrics. Every measurement would be asked whether it is
// an exemplar; Application Insights has no place for one, so that none is unless the
// filter is chosen.
func (p *Providers) metrics(ctx context.Context, who *resource.Resource, filterChosen bool) error {
	reader, err := autoexport.NewMetricReader(ctx)
	if err != nil {
		return err
	}
	options := []sdkmetric.Option{sdkmetric.WithReader(reader), sdkmetric.WithResource(who)}
	if !filterChosen {
		options = append(options, sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter))
	}
	sdk := sdkmetric.NewMeterProvider(options...)
	p.Metrics, p.stops = sdk, append(p.stops, sdk.Shutdown)
	return nil
}

func (p *Providers) logs(ctx context.Context, who *resource.Resource) error {
	exporter, err := autoexport.NewLogExporter(ctx)
	if err != nil {
		return err
	}
	sdk := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)), sdklog.WithResource(who))
	p.Logs, p.stops = sdk, append(p.stops, sdk.Shutdown)
	return nil
}

// Unwatched reports whether neither spans nor measurements go anywhere.
func (p Providers) Unwatched() bool {
	_, unmeasured := p.Metrics.(nometric.MeterProvider)
	return unmeasured && p.untraced()
}

func (p Providers) untraced() bool {
	made, is := p.Traces.(sparing)
	return is && made.off
}

// Shutdown sends what is buffered and ends the providers, within Options.Flush.
// It keeps the values of ctx and not its cancellation: a program flushes while it
// is being stopped. The signals are flushed side by side, so that one dead endpoint
// does not eat the time of the others.
func (p Providers) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.flush)
	defer cancel()
	errs := make([]error, len(p.stops))
	var flushing sync.WaitGroup
	for i, stop := range p.stops {
		flushing.Go(func() { errs[i] = stop(ctx) })
	}
	flushing.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("flush telemetry: %w", err)
	}
	return nil
}
