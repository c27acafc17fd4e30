package telemetry

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/tracing"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"
)

// Azure is what an SDK of Azure makes its spans with: the same spans, under the
// names that the conventions have now. Off, it is the SDKs' own nothing. A span for
// each attempt over HTTP is not made: it has names that no backend reads any more,
// and what it says stands in the operation's span.
func (p Providers) Azure() tracing.Provider {
	if _, off := p.Traces.(notrace.TracerProvider); off {
		return tracing.Provider{}
	}
	return tracing.NewProvider(func(module, version string) tracing.Tracer {
		tracer := p.Traces.Tracer(module, trace.WithInstrumentationVersion(version), trace.WithSchemaURL(semconv.SchemaURL))
		return tracing.NewTracer(func(ctx context.Context, name string, o *tracing.SpanOptions) (context.Context, tracing.Span) {
			if strings.HasPrefix(name, "HTTP ") {
				return ctx, tracing.Span{}
			}
			ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(kinds[o.Kind]))
			bridged := bridge(span)
			bridged.SetAttributes(o.Attributes...)
			return ctx, bridged
		}, &tracing.TracerOptions{SpanFromContext: func(ctx context.Context) tracing.Span { return bridge(trace.SpanFromContext(ctx)) }})
	}, nil)
}

var kinds = map[tracing.SpanKind]trace.SpanKind{
	tracing.SpanKindInternal: trace.SpanKindInternal, tracing.SpanKindServer: trace.SpanKindServer, tracing.SpanKindClient: trace.SpanKindClient,
	tracing.SpanKindProducer: trace.SpanKindProducer, tracing.SpanKindConsumer: trace.SpanKindConsumer,
}

// bridge is a span as the SDKs see it. One that nobody records is the SDKs' nothing.
func bridge(span trace.Span) tracing.Span {
	if !span.IsRecording() {
		return tracing.Span{}
	}
	return tracing.NewSpan(tracing.SpanImpl{
		End: func() { span.End() },
		SetAttributes: func(told ...tracing.Attribute) {
			for _, a := range told {
				span.SetAttributes(current(a)...)
			}
		},
		AddEvent: func(name string, told ...tracing.Attribute) {
			var attributes []attribute.KeyValue
			for _, a := range told {
				attributes = append(attributes, current(a)...)
			}
			span.AddEvent(name, trace.WithAttributes(attributes...))
		},
		SetStatus: func(s tracing.SpanStatus, why string) {
			switch s {
			case tracing.SpanStatusError:
				span.SetStatus(codes.Error, firstWords(why))
			case tracing.SpanStatusOK:
				span.SetStatus(codes.Ok, "")
			}
		},
	})
}

// current is an attribute under its name of now. The peer is told beside the server:
// Application Insights takes the target of a dependency from it and from nothing else.
func current(a tracing.Attribute) []attribute.KeyValue {
	text := fmt.Sprint(a.Value)
	switch a.Key {
	case "db.system":
		return []attribute.KeyValue{semconv.DBSystemNameAzureCosmosDB}
	case "db.cosmosdb.connection_mode":
		return []attribute.KeyValue{semconv.AzureCosmosDBConnectionModeKey.String(text)}
	case "db.cosmosdb.request_charge": // a float32, whose digits are to stay what they are
		if units, err := strconv.ParseFloat(text, 64); err == nil {
			return []attribute.KeyValue{semconv.AzureCosmosDBOperationRequestCharge(units)}
		}
	case "db.cosmosdb.status_code":
		status := []attribute.KeyValue{semconv.DBResponseStatusCode(text)}
		if code, ok := a.Value.(int); ok && code >= 400 {
			status = append(status, semconv.ErrorTypeKey.String(text))
		}
		return status
	case "az.namespace":
		return []attribute.KeyValue{semconv.AzureResourceProviderNamespace(text)}
	case "server.address":
		return []attribute.KeyValue{semconv.ServerAddress(text), semconv.NetworkPeerAddress(text)}
	case "server.port":
		if port, err := strconv.Atoi(text); err == nil {
			return []attribute.KeyValue{semconv.ServerPort(port)}
		}
		return nil
	}
	switch v := a.Value.(type) {
	case bool:
		return []attribute.KeyValue{attribute.Bool(a.Key, v)}
	case int:
		return []attribute.KeyValue{attribute.Int(a.Key, v)}
	case int64:
		return []attribute.KeyValue{attribute.Int64(a.Key, v)}
	case float64:
		return []attribute.KeyValue{attribute.Float64(a.Key, v)}
	}
	return []attribute.KeyValue{attribute.String(a.Key, text)}
}

// firstWords is what the SDKs tell in twenty lines of an error, as one short one.
func firstWords(text string) string {
	line := strings.Join(strings.Fields(text), " ")
	return strings.ToValidUTF8(line[:min(len(line), 240)], "")
}
