package orchestrator

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
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
	conflicts    metric.Int64Counter // by cause
	outboxAge    metric.Float64Gauge
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
		"oneeffect.orchestrator.conflicts":    {"Transitions that had to look again: somebody else wrote, or an answer was lost.", &c.conflicts},
	} {
		made, err := meter.Int64Counter(name, metric.WithDescription(counter.what))
		if err != nil {
			return Counters{}, err
		}
		*counter.in = made
	}
	var err error
	c.outboxAge, err = meter.Float64Gauge("oneeffect.orchestrator.outbox_age", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest task has waited to be sent that the relay found in its last round; 0: it found none."))
	return c, err
}

// What spans and measurements of an orchestrator say. docs/tracing.md lists them.
const (
	keyTask     = attribute.Key("oneeffect.task")
	keyRun      = attribute.Key("oneeffect.run")
	keyEvent    = attribute.Key("oneeffect.event")
	keyDecision = attribute.Key("oneeffect.decision")
	keyReason   = attribute.Key("oneeffect.reason")
	keyStatus   = attribute.Key("oneeffect.status")
)

// event counts one delivery of an event, and says in its span what came of it.
func (c Counters) event(ctx context.Context, e message.Event, d execution.Decision, err error) {
	what := d.String()
	if err != nil {
		what = "error"
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(keyTask.String(e.ExecutionID()), keyRun.Int(e.Run()), keyEvent.String(e.Type()), keyDecision.String(what))
		if e.Failed != nil {
			span.SetAttributes(keyReason.String(e.Failed.Reason))
		}
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, message.Line(err.Error()))
		}
	}
	count(ctx, c.events, keyEvent.String(e.Type()), keyDecision.String(what))
}

// lookingAgain counts a transition that did not fit what stood.
func (c Counters) lookingAgain(ctx context.Context, err error) {
	cause := "unknown"
	switch {
	case errors.Is(err, message.ErrConflict):
		cause = "conflict"
	case errors.Is(err, message.ErrNotFound):
		cause = "not_found"
	}
	count(ctx, c.conflicts, keyReason.String(cause))
}

// waiting shows how long the oldest entry of the outbox has waited.
func (c Counters) waiting(ctx context.Context, oldest time.Duration) {
	if c.outboxAge != nil {
		c.outboxAge.Record(ctx, oldest.Seconds())
	}
}

// about says in a request's span which execution it was about. A request that did not
// begin it, as one that is repeated, or a replay, links to the one that did.
func about(ctx context.Context, e execution.Execution) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(keyTask.String(e.ExecutionID), keyRun.Int(e.Run), keyStatus.String(string(e.Status)))
		linkTo(span, e)
	}
}

// suppressed links a delivery that changed nothing to the request whose execution it
// repeats.
func suppressed(ctx context.Context, stands execution.Execution) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		linkTo(span, stands)
	}
}

func linkTo(span trace.Span, e execution.Execution) {
	origin := trace.SpanContextFromContext(withTraceparent(context.Background(), e.TraceParent))
	if origin.IsValid() && origin.SpanID() != span.SpanContext().SpanID() {
		span.AddLink(trace.Link{SpanContext: origin})
	}
}

// routed names a request's span, and its measurement, by the route that took it.
func routed(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r)
		if r.Pattern == "" {
			return
		}
		_, path, found := strings.Cut(r.Pattern, " ")
		if !found {
			path = r.Pattern
		}
		if labels, ok := otelhttp.LabelerFromContext(r.Context()); ok {
			labels.Add(semconv.HTTPRoute(path))
		}
		if span := trace.SpanFromContext(r.Context()); span.IsRecording() {
			span.SetName(r.Method + " " + path)
			span.SetAttributes(semconv.HTTPRoute(path))
		}
	})
}

func count(ctx context.Context, in metric.Int64Counter, attributes ...attribute.KeyValue) {
	if in != nil && in.Enabled(ctx) {
		in.Add(ctx, 1, metric.WithAttributes(attributes...))
	}
}
