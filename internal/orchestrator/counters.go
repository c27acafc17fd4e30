package orchestrator

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// Counters are what an operator watches: how often an event was no news, and how
// often executions had to be healed. The zero value counts nothing.
type Counters struct {
	events       metric.Int64Counter // by type and decision
	reconciled   metric.Int64Counter // by hint and finding
	redispatched metric.Int64Counter
}

// NewCounters makes the counters of a meter.
func NewCounters(meter metric.Meter) (Counters, error) {
	var c Counters
	for name, counter := range map[string]struct {
		what string
		in   *metric.Int64Counter
	}{
		"oneeffect.orchestrator.events":       {"Task events handled: decision no-op is a duplicate.", &c.events},
		"oneeffect.orchestrator.reconciled":   {"Claims looked at for their executions, by what was found.", &c.reconciled},
		"oneeffect.orchestrator.redispatched": {"Tasks sent again because nobody worked on them.", &c.redispatched},
	} {
		made, err := meter.Int64Counter(name, metric.WithDescription(counter.what))
		if err != nil {
			return Counters{}, err
		}
		*counter.in = made
	}
	return c, nil
}

// event counts one delivery of an event, and says in its span what came of it.
func (c Counters) event(ctx context.Context, e message.Event, d execution.Decision, err error) {
	what := d.String()
	if err != nil {
		what = "error"
	}
	decision := attribute.String("oneeffect.decision", what)
	trace.SpanFromContext(ctx).SetAttributes(decision)
	count(ctx, c.events, attribute.String("oneeffect.event", e.Type()), decision)
}

func count(ctx context.Context, in metric.Int64Counter, attributes ...attribute.KeyValue) {
	if in != nil {
		in.Add(ctx, 1, metric.WithAttributes(attributes...))
	}
}
