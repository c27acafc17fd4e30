package projector

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/internal/message"
	"oneeffect/internal/receipt"
)

// What spans and measurements of a projector say. docs/tracing.md lists them.
const (
	keyEvent   = attribute.Key("oneeffect.event")
	keyClass   = attribute.Key("oneeffect.class")
	keySource  = attribute.Key("oneeffect.source")
	keyVersion = attribute.Key("oneeffect.version")
)

// mark says in the delivery's span what became of its event. One that is suppressed
// links to the delivery that wrote the receipt.
func mark(ctx context.Context, e receipt.Event, class string, d receipt.Decision, err error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(keyEvent.String(e.Key), keyVersion.Int64(e.Version), keyClass.String(class))
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, message.Line(err.Error()))
		return
	}
	if d.Class == receipt.Applied || d.Receipt.Trace == "" {
		return
	}
	carrier := propagation.MapCarrier{"traceparent": d.Receipt.Trace}
	origin := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	if origin.IsValid() && origin.SpanID() != span.SpanContext().SpanID() {
		span.AddLink(trace.Link{SpanContext: origin})
	}
}

// traceOf is the delivery's span as a receipt keeps it, for links. Of a trace that
// nobody keeps there is nothing to link to.
func traceOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// Counters are what a projector counts.
type Counters struct {
	events, races, gaps metric.Int64Counter
}

// NewCounters makes them.
func NewCounters(meter metric.Meter) (*Counters, error) {
	var c Counters
	var errs [3]error
	c.events, errs[0] = meter.Int64Counter("oneeffect.projector.events", metric.WithDescription("Events by what became of them."), metric.WithUnit("{event}"))
	c.races, errs[1] = meter.Int64Counter("oneeffect.projector.races", metric.WithDescription("Writes that found their item changed."), metric.WithUnit("{write}"))
	c.gaps, errs[2] = meter.Int64Counter("oneeffect.projector.gaps", metric.WithDescription("Versions that were skipped."), metric.WithUnit("{version}"))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make counters: %w", err)
	}
	return &c, nil
}

func (c *Counters) count(ctx context.Context, source, class string, d receipt.Decision) {
	if !c.events.Enabled(ctx) {
		return
	}
	from := keySource.String(source)
	c.events.Add(ctx, 1, metric.WithAttributes(from, keyClass.String(class)))
	if d.Races > 0 {
		c.races.Add(ctx, int64(d.Races), metric.WithAttributes(from))
	}
	if d.Class == receipt.Applied && d.Receipt.Gap > 0 {
		c.gaps.Add(ctx, d.Receipt.Gap, metric.WithAttributes(from))
	}
}
