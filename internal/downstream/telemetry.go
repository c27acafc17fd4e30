package downstream

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	nometric "go.opentelemetry.io/otel/metric/noop"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"

	"oneeffect/internal/message"
)

// watched is what telemetry sees of one kind of call. It is made here and not by
// otelhttp, which tells the whole URL: a declared query may hold a secret.
type watched struct {
	tracer   trace.Tracer
	duration httpconv.ClientRequestDuration
	says     []attribute.KeyValue // of every span
	measured []attribute.KeyValue // and of every measurement
	known    *sync.Map            // of statuses: the options for it
}

func (h *caller) watch(o Options) error {
	h.tracer, h.known = o.Tracer, new(sync.Map)
	if h.tracer == nil {
		h.tracer = notrace.Tracer{}
	}
	meter := o.Meter
	if meter == nil {
		meter = nometric.Meter{}
	}
	h.measured = []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(h.declared.Method), semconv.ServerAddress(h.same.URL.Hostname())}
	if port, err := strconv.Atoi(h.same.URL.Port()); err == nil {
		h.measured = append(h.measured, semconv.ServerPort(port))
	}
	// The peer is told by the name that was asked for: Application Insights takes the
	// target of a dependency from it.
	h.says = append(h.measured[:len(h.measured):len(h.measured)], semconv.NetworkPeerAddress(h.same.URL.Hostname()), semconv.URLFull(h.target))
	var err error
	h.duration, err = httpconv.NewClientRequestDuration(meter,
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10))
	return err
}

var callSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}

func (h *watched) start(ctx context.Context, method string) (context.Context, trace.Span) {
	ctx, span := h.tracer.Start(ctx, method, callSpan...)
	if span.IsRecording() {
		span.SetAttributes(h.says...)
	}
	return ctx, span
}

// keyEffect is what is known of the effect of a call.
const keyEffect = attribute.Key("oneeffect.effect")

// ended says in span and metric what came of a call. A status of 0 is no reply.
func (h *watched) ended(ctx context.Context, span trace.Span, began time.Time, status int, o message.Outcome) {
	recording := span.IsRecording()
	if !recording && !h.duration.Enabled(ctx) {
		return
	}
	options, ok := h.known.Load(status)
	if !ok {
		set := attribute.NewSet(slices.Concat(replied(status), h.measured)...)
		options, _ = h.known.LoadOrStore(status, []metric.RecordOption{metric.WithAttributeSet(set)})
	}
	h.duration.Inst().Record(ctx, time.Since(began).Seconds(), options.([]metric.RecordOption)...)
	if !recording {
		return
	}
	span.SetAttributes(append(replied(status), keyEffect.String(o.Effect.String()))...)
	if o.Effect != message.EffectApplied {
		span.SetStatus(codes.Error, o.Description)
		span.AddEvent(semconv.ExceptionEventName, trace.WithAttributes(
			semconv.ExceptionType("downstream."+class(status)), semconv.ExceptionMessage(o.Description)))
	}
}

// replied is what a status says, or that there was none.
func replied(status int) (says []attribute.KeyValue) {
	if status != 0 {
		says = append(says, semconv.HTTPResponseStatusCode(status))
	}
	if status == 0 || status >= http.StatusBadRequest {
		says = append(says, semconv.ErrorTypeKey.String(class(status)))
	}
	return says
}

// class is the class of a failure: the status, where that is what says so.
func class(status int) string {
	if status >= http.StatusBadRequest {
		return strconv.Itoa(status)
	}
	return "no_reply"
}
