package servicebus

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/internal/message"
)

// The names under which a trace context travels. Diagnostic-Id is what older
// Azure SDKs and the portal read; its value is that of traceparent.
const (
	traceparent  = "traceparent"
	diagnosticID = "Diagnostic-Id"
)

// inject returns the trace context as application properties, or nil if there is none.
func (c *Client) inject(ctx context.Context) map[string]any {
	carrier := propagation.MapCarrier{}
	c.propagator.Inject(ctx, carrier)
	if len(carrier) == 0 {
		return nil
	}
	properties := make(map[string]any, len(carrier)+1)
	for name, value := range carrier {
		properties[name] = value
	}
	if parent := carrier[traceparent]; parent != "" {
		properties[diagnosticID] = parent
	}
	return properties
}

// extract puts the sender's trace context into ctx: from traceparent, or from
// Diagnostic-Id if the first is missing or says nothing.
func (c *Client) extract(ctx context.Context, properties map[string]any) context.Context {
	carrier := propagation.MapCarrier{}
	for _, name := range c.propagator.Fields() {
		if value, ok := properties[name].(string); ok {
			carrier[name] = value
		}
	}
	with := c.propagator.Extract(ctx, carrier)
	if trace.SpanContextFromContext(with).IsValid() {
		return with
	}
	if id, ok := properties[diagnosticID].(string); ok {
		carrier[traceparent] = id
		with = c.propagator.Extract(ctx, carrier)
	}
	return with
}

func (c *Client) startSend(ctx context.Context, entity string, m message.Message) (context.Context, trace.Span) {
	return c.tracer.Start(ctx, "send "+entity, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		semconv.MessagingSystemServiceBus,
		semconv.MessagingOperationTypeSend,
		semconv.MessagingOperationName("send"),
		semconv.MessagingDestinationName(entity),
		semconv.MessagingMessageID(m.ID),
		semconv.MessagingMessageConversationID(m.CorrelationID),
	))
}

// startProcess opens the span of one delivery, a child of the span that sent the
// message: every redelivery is in the trace of the request that began it all.
func (c *Client) startProcess(ctx context.Context, entity string, d *delivery) (context.Context, trace.Span) {
	ctx = c.extract(ctx, d.sdk.ApplicationProperties)
	return c.tracer.Start(ctx, "process "+entity, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		semconv.MessagingSystemServiceBus,
		semconv.MessagingOperationTypeProcess,
		semconv.MessagingOperationName("process"),
		semconv.MessagingDestinationName(entity),
		semconv.MessagingMessageID(d.MessageID),
		semconv.MessagingMessageConversationID(d.CorrelationID),
		semconv.MessagingServiceBusMessageDeliveryCount(d.Count),
	))
}

func (c *Client) startSettle(ctx context.Context, entity string, a message.Action) (context.Context, trace.Span) {
	return c.tracer.Start(ctx, "settle "+entity, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		semconv.MessagingSystemServiceBus,
		semconv.MessagingOperationTypeSettle,
		semconv.MessagingOperationName("settle"),
		semconv.MessagingDestinationName(entity),
		semconv.MessagingServiceBusDispositionStatusKey.String(a.String()),
	))
}

// fail marks a span as failed, if there is an error.
func fail(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(otelcodes.Error, err.Error())
	}
}

// counters are what an operator watches to see that trouble is survived and how
// much of it there is.
type counters struct {
	settlements     metric.Int64Counter // by entity, disposition and failed
	locksLost       metric.Int64Counter // by entity
	receiveFailures metric.Int64Counter // by entity
}

func newCounters(meter metric.Meter) (counters, error) {
	var c counters
	for name, counter := range map[string]struct {
		what string
		in   *metric.Int64Counter
	}{
		"oneeffect.servicebus.settlements":      {"Deliveries settled, or not: see failed.", &c.settlements},
		"oneeffect.servicebus.locks_lost":       {"Locks lost while a handler worked.", &c.locksLost},
		"oneeffect.servicebus.receive_failures": {"Receives that ended in an error or with a dead link.", &c.receiveFailures},
	} {
		made, err := meter.Int64Counter(name, metric.WithDescription(counter.what))
		if err != nil {
			return counters{}, err
		}
		*counter.in = made
	}
	return c, nil
}

func entityAttribute(entity string) metric.AddOption {
	return metric.WithAttributes(semconv.MessagingDestinationName(entity))
}

func settlementAttributes(entity string, a message.Action, failed bool) metric.AddOption {
	return metric.WithAttributes(
		semconv.MessagingDestinationName(entity),
		semconv.MessagingServiceBusDispositionStatusKey.String(a.String()),
		attribute.Bool("failed", failed),
	)
}
