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
)

// Azure is what an SDK of Azure makes its spans with: the same spans, under the
// names that the conventions have now. Off, it is the SDKs' own nothing. A span for
// each attempt over HTTP is not made: it has names that no backend reads any more,
// and what it says stands in the operation's span.
func (p Providers) Azure() tracing.Provider {
	if p.untraced() {
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
			span.SetAttributes(current(told)...)
		},
		AddEvent: func(name string, told ...tracing.Attribute) {
			span.AddEvent(name, trace.WithAttributes(current(told)...))
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

// current are attributes under their names of now. The peer is told beside the server:
// Application Insights takes the target of a dependency from it and from nothing else.
func current(told []tracing.Attribute) []attribute.KeyValue {
	says := make([]attribute.KeyValue, 0, len(told)+2) // two become two
	for _, a := range told {
		switch a.Key {
		case "db.system":
			says = append(says, semconv.DBSystemNameAzureCosmosDB)
		case "db.cosmosdb.connection_mode":
			says = append(says, semconv.AzureCosmosDBConnectionModeKey.String(text(a)))
		case "db.cosmosdb.request_charge": // a float32, whose digits are to stay what they are
			if units, err := strconv.ParseFloat(text(a), 64); err == nil {
				says = append(says, semconv.AzureCosmosDBOperationRequestCharge(units))
			} else {
				says = append(says, asIs(a))
			}
		case "db.cosmosdb.status_code":
			says = append(says, semconv.DBResponseStatusCode(text(a)))
			if code, ok := a.Value.(int); ok && code >= 400 {
				says = append(says, semconv.ErrorTypeKey.String(text(a)))
			}
		case "az.namespace":
			says = append(says, semconv.AzureResourceProviderNamespace(text(a)))
		case "server.address":
			says = append(says, semconv.ServerAddress(text(a)), semconv.NetworkPeerAddress(text(a)))
		case "server.port":
			if port, err := strconv.Atoi(text(a)); err == nil {
				says = append(says, semconv.ServerPort(port))
			}
		default:
			says = append(says, asIs(a))
		}
	}
	return says
}

// asIs is an attribute that has kept its name.
func asIs(a tracing.Attribute) attribute.KeyValue {
	switch v := a.Value.(type) {
	case bool:
		return attribute.Bool(a.Key, v)
	case int:
		return attribute.Int(a.Key, v)
	case int64:
		return attribute.Int64(a.Key, v)
	case float64:
		return attribute.Float64(a.Key, v)
	}
	return attribute.String(a.Key, text(a))
}

func text(a tracing.Attribute) string {
	if s, ok := a.Value.(string); ok {
		return s
	}
	return fmt.Sprint(a.Value)
}

// firstWords is what the SDKs tell in twenty lines of an error, as one short one.
func firstWords(text string) string {
	line := strings.Join(strings.Fields(text), " ")
	return strings.ToValidUTF8(line[:min(len(line), 240)], "")
}
