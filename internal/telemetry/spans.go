package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// sparing is a provider whose tracers make no span that nobody would see: none
// while traces are off, and none within a span of this process that is not sampled.
// An SDK makes one all the same, to give it an id of its own; here the span that
// stands is handed on, and what travels from it names it as its parent.
//
// All samplers of the variables decide alike for all spans of a process in one
// trace, so there is nobody left to ask. What begins a trace here, or goes on with
// one from elsewhere, is still left to the sampler.
type sparing struct {
	trace.TracerProvider
	off bool
}

func (p sparing) Tracer(name string, o ...trace.TracerOption) trace.Tracer {
	return sparingTracer{p.TracerProvider.Tracer(name, o...), p.off}
}

type sparingTracer struct {
	trace.Tracer
	off bool
}

func (t sparingTracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	within := trace.SpanFromContext(ctx)
	if !within.IsRecording() && (t.off || unsampledHere(within.SpanContext()) && !newRoot(o)) {
		return ctx, within
	}
	return t.Tracer.Start(ctx, name, o...)
}

// unsampledHere says whether this process has decided against a trace.
func unsampledHere(at trace.SpanContext) bool {
	return at.IsValid() && !at.IsRemote() && !at.IsSampled()
}

func newRoot(o []trace.SpanStartOption) bool {
	asked := trace.NewSpanStartConfig(o...)
	return asked.NewRoot()
}
