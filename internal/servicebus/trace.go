package servicebus

import (
	"context"
	"maps"
	"slices"

	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/internal/message"
)

// inject returns the trace context as application properties, beside those that are
// given. Without one, those are all.
func (c *Client) inject(ctx context.Context, properties map[string]any) map[string]any {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return properties
	}
	with := make(carrier, len(properties)+3)
	maps.Copy(with, properties)
	c.propagator.Inject(ctx, with)
	if parent, ok := with[traceparent].(string); ok {
		with[diagnosticID] = parent
	}
	return with
}

// extract puts the sender's trace context into ctx: from traceparent, or from
// Diagnostic-Id if the first is missing or says nothing.
func (c *Client) extract(ctx context.Context, properties map[string]any) context.Context {
	if len(properties) == 0 {
		return ctx
	}
	with := c.propagator.Extract(ctx, carrier(properties))
	if trace.SpanContextFromContext(with).IsValid() {
		return with
	}
	if id, ok := properties[diagnosticID].(string); ok {
		older := maps.Clone(properties)
		older[traceparent] = id
		with = c.propagator.Extract(ctx, carrier(older))
	}
	return with
}

// carrier are application properties, some of which carry a trace context.
type carrier map[string]any

var _ propagation.TextMapCarrier = carrier(nil)

func (c carrier) Get(name string) string {
	text, _ := c[name].(string)
	return text
}
func (c carrier) Set(name, value string) { c[name] = value }
func (c carrier) Keys() []string         { return slices.Collect(maps.Keys(c)) }

// The kinds of spans, as options that are made once.
var (
	producer = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer)}
	client   = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}
	consumer = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}
)

// startSend opens the span whose context goes with the message.
func (c *Client) startSend(ctx context.Context, s *station, id, correlation string) (context.Context, trace.Span) {
	named := s.spans[opSend]
	ctx, span := c.tracer.Start(ctx, named.span, producer...)
	if span.IsRecording() {
		span.SetAttributes(named.says...)
		span.SetAttributes(about(id, correlation)...)
	}
	return ctx, span
}

// startProcess opens the span of one delivery, a child of the span that sent the
// message: every redelivery is in the trace of the request that began it all. It
// also links to that span, which is where others look for what caused it.
func (p *pump) startProcess(ctx context.Context, d *delivery) (context.Context, trace.Span) {
	c := p.Client
	ctx = c.extract(ctx, d.sdk.ApplicationProperties)
	cause := trace.SpanContextFromContext(ctx)
	named := p.station.spans[opProcess]
	ctx, span := c.tracer.Start(ctx, named.span, consumer...)
	if span.IsRecording() {
		span.SetAttributes(named.says...)
		span.SetAttributes(d.delivered()...)
		if cause.IsValid() {
			span.AddLink(trace.Link{SpanContext: cause})
		}
	}
	return ctx, span
}

func (p *pump) startSettle(ctx context.Context, d *delivery, operation string) (context.Context, trace.Span) {
	named := p.station.spans[operation]
	ctx, span := p.Client.tracer.Start(ctx, named.span, client...)
	if span.IsRecording() {
		span.SetAttributes(named.says...)
		span.SetAttributes(about(d.MessageID, d.CorrelationID)...)
	}
	return ctx, span
}

// fail marks a span as failed, if there is an error.
func fail(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		span.RecordError(err)
		span.SetStatus(otelcodes.Error, err.Error())
		span.SetAttributes(errorType(err))
	}
}

// refused says in the span of a delivery why its message is dead-lettered.
func refused(span trace.Span, s message.Settlement) {
	if s.Action == message.DeadLetter && span.IsRecording() {
		span.SetAttributes(keyReason.String(s.Reason))
		span.SetStatus(otelcodes.Error, s.Reason+": "+s.Description)
	}
}
