package telemetry

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func from(remote bool, flags trace.TraceFlags) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: remote})
}

func TestNoSpanIsMadeThatNobodyWouldSee(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	on := sparing{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))}
	silent, err := Start(t.Context(), Options{Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	silence := silent.Traces.(sparing)
	within := func(c trace.SpanContext) context.Context { return trace.ContextWithSpanContext(t.Context(), c) }
	for name, tc := range map[string]struct {
		by     sparing
		in     context.Context
		with   []trace.SpanStartOption
		span   bool // is recorded
		handed bool // the context is the one that was given
	}{
		"off, a trace would begin":                          {by: silence, in: t.Context(), handed: true},
		"off, within a trace from elsewhere":                {by: silence, in: within(from(true, trace.FlagsSampled)), handed: true},
		"off, a trace that has another root":                {by: silence, in: t.Context(), with: []trace.SpanStartOption{trace.WithNewRoot()}, handed: true},
		"on, a trace begins":                                {by: on, in: t.Context(), span: true},
		"on, within a trace that is kept elsewhere":         {by: on, in: within(from(true, trace.FlagsSampled)), span: true},
		"on, within a trace that is not kept elsewhere":     {by: on, in: within(from(true, 0))}, // which is the sampler's to decide
		"on, within a span of this process, kept":           {by: on, in: within(from(false, trace.FlagsSampled)), span: true},
		"on, within a span of this process, not kept":       {by: on, in: within(from(false, 0)), handed: true},
		"on, another root within a span that is not kept":   {by: on, in: within(from(false, 0)), with: []trace.SpanStartOption{trace.WithNewRoot()}, span: true},
		"on, of a kind, within a span that is not kept":     {by: on, in: within(from(false, 0)), with: []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}, handed: true},
		"on, of a kind, within a span from before, is kept": {by: on, in: within(from(false, trace.FlagsSampled)), with: []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}, span: true},
	} {
		before := trace.SpanContextFromContext(tc.in)
		ctx, span := tc.by.Tracer("test").Start(tc.in, "send tasks", tc.with...)
		if span.IsRecording() != tc.span || (ctx == tc.in) != tc.handed {
			t.Errorf("%s: recording %v, the same context %v", name, span.IsRecording(), ctx == tc.in)
		}
		if at := trace.SpanContextFromContext(ctx); tc.handed && !at.Equal(before) || !tc.handed && at.SpanID() == before.SpanID() {
			t.Errorf("%s: within %v came %v", name, before, at)
		}
		span.End()
	}
	if n := len(spans.Ended()); n != 5 {
		t.Errorf("%d spans were recorded, want 5", n)
	}
}

// What a span costs that nobody would see.
func TestASpanThatNobodyWouldSeeCostsNoMemory(t *testing.T) {
	none := sparing{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))}
	tracer, kind := none.Tracer("test"), []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}
	ctx, span := tracer.Start(t.Context(), "process tasks")
	defer span.End()
	made := testing.AllocsPerRun(100, func() {
		_, span := tracer.Start(ctx, "send tasks", kind...)
		span.End()
	})
	if made > 0 {
		t.Errorf("%v allocations, want none", made)
	}
}
