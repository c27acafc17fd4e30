package worker

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// What spans and measurements of a worker say. docs/tracing.md lists them.
const (
	keyTask       = attribute.Key("oneeffect.task")
	keyRun        = attribute.Key("oneeffect.run")
	keyFence      = attribute.Key("oneeffect.fence")
	keyOwner      = attribute.Key("oneeffect.owner")
	keyVerdict    = attribute.Key("oneeffect.verdict")
	keyClaim      = attribute.Key("oneeffect.claim")
	keySettlement = attribute.Key("oneeffect.settlement")
	keyReason     = attribute.Key("oneeffect.reason")
	keyWait       = attribute.Key("oneeffect.wait_seconds")
	keyType       = attribute.Key("oneeffect.task_type")
	keyOutcome    = attribute.Key("oneeffect.outcome")
)

// Counters are what an operator watches of a worker. Their zero counts nothing.
type Counters struct {
	deliveries metric.Int64Counter
	claims     metric.Int64Counter
	renewals   metric.Int64Counter
	unknown    metric.Int64Counter
	panics     metric.Int64Counter

	known *sync.Map // of series: the options for it
}

// NewCounters makes them.
func NewCounters(meter metric.Meter) (Counters, error) {
	c := Counters{known: new(sync.Map)}
	var errs [5]error
	c.deliveries, errs[0] = meter.Int64Counter("oneeffect.worker.deliveries", metric.WithUnit("{delivery}"),
		metric.WithDescription("Deliveries by verdict, and by what is to become of their messages."))
	c.claims, errs[1] = meter.Int64Counter("oneeffect.worker.claims", metric.WithUnit("{claim}"),
		metric.WithDescription("Claims asked for, by outcome; and writes that were fenced."))
	c.renewals, errs[2] = meter.Int64Counter("oneeffect.worker.lease_renewals", metric.WithUnit("{renewal}"),
		metric.WithDescription("Renewals of leases: renewed, or failed."))
	c.unknown, errs[3] = meter.Int64Counter("oneeffect.worker.unknown_outcomes", metric.WithUnit("{call}"),
		metric.WithDescription("Calls after which nobody knows whether they had an effect."))
	c.panics, errs[4] = meter.Int64Counter("oneeffect.worker.panics", metric.WithUnit("{panic}"),
		metric.WithDescription("Handlers that panicked."))
	return c, errors.Join(errs[:]...)
}

// series is what counts differ by. There are as many as verdicts, settlements, outcomes
// and task types, so what they are counted by is made once for each.
type series struct{ one, other attribute.KeyValue }

// count adds one, if anybody counts.
func (c Counters) count(ctx context.Context, in metric.Int64Counter, by series) {
	if in == nil || !in.Enabled(ctx) {
		return
	}
	options, ok := c.known.Load(by)
	if !ok {
		says := []attribute.KeyValue{by.one}
		if by.other.Valid() {
			says = append(says, by.other)
		}
		options, _ = c.known.LoadOrStore(by, []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(says...))})
	}
	in.Add(ctx, 1, options.([]metric.AddOption)...)
}

// Renewed counts a renewal, for the desk of claims.
func (c Counters) Renewed(ctx context.Context, err error) {
	outcome := "renewed"
	if err != nil {
		outcome = "failed"
	}
	c.count(ctx, c.renewals, series{one: keyOutcome.String(outcome)})
}

// Fenced counts a write that found a newer grant, for the desk of claims.
func (c Counters) Fenced(ctx context.Context) {
	c.count(ctx, c.claims, series{one: keyOutcome.String("fenced")})
}

func (c Counters) unknownOutcome(ctx context.Context, taskType string) {
	c.count(ctx, c.unknown, series{one: keyType.String(taskType)})
}

func (c Counters) panicked(ctx context.Context, taskType string) {
	c.count(ctx, c.panics, series{one: keyType.String(taskType)})
}

// claimed says in the delivery's span and counts what came of asking for the claim.
// A suppressed duplicate links to the work that it repeats, and a takeover to the
// work that it takes over.
func (w *Worker) claimed(ctx context.Context, v claim.Verdict, err error) {
	outcome := "error"
	if err == nil {
		outcome = v.Kind.String()
	}
	before, known := earlier(v)
	if v.Kind == claim.Granted && known && before.End == claim.EndExpired {
		outcome = "takeover"
	}
	w.Counters.count(ctx, w.Counters.claims, series{one: keyOutcome.String(outcome)})
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(keyClaim.String(outcome), keyFence.Int64(v.Claim.Fence), keyOwner.String(v.Claim.Owner))
	if origin := spanContext(before.Trace); known && origin.IsValid() {
		span.AddLink(trace.Link{SpanContext: origin})
	}
}

// earlier is the attempt that a verdict refers to: of a grant the one before it, of
// all others the last, which made the result or holds the claim.
func earlier(v claim.Verdict) (claim.Attempt, bool) {
	last := len(v.Claim.Attempts) - 1
	if v.Kind == claim.Granted {
		last--
	}
	if last < 0 {
		return claim.Attempt{}, false
	}
	return v.Claim.Attempts[last], true
}

// told says in the delivery's span, and counts, how it ended.
func (w *Worker) told(ctx context.Context, v claim.Verdict, s message.Settlement, err error) {
	verdict := v.Kind.String()
	if err != nil {
		verdict = "error"
	}
	w.Counters.count(ctx, w.Counters.deliveries, series{keyVerdict.String(verdict), keySettlement.String(s.Action.String())})
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(keyVerdict.String(verdict), keyFence.Int64(v.Claim.Fence), keySettlement.String(s.Action.String()))
	if s.Action == message.CopyLater {
		span.SetAttributes(keyWait.Float64(s.Delay.Seconds()))
	}
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, message.Line(err.Error()))
	} else if v.Kind == claim.Over {
		span.SetAttributes(keyReason.String(v.Claim.Failure.Reason))
	}
}

// began says in the delivery's span what it is about.
func (j job) began(ctx context.Context) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(keyTask.String(j.task.ExecutionID), keyRun.Int(j.task.Run), keyType.String(j.task.Type))
	}
}

// traceOf is the delivery's span as an attempt keeps it, for links. Of a trace that
// nobody keeps there is nothing to link to.
func traceOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

func spanContext(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
