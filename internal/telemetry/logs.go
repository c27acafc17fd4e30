package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	nolog "go.opentelemetry.io/otel/log/noop"
	"go.opentelemetry.io/otel/trace"
)

// Logger adds to a log what telemetry knows: a line names the trace and the span that
// it was written in, and goes out as a record as well, if logs are on.
func (p Providers) Logger(log *slog.Logger) *slog.Logger {
	local := slog.Handler(correlated{log.Handler()})
	if _, off := p.Logs.(nolog.LoggerProvider); off || p.Logs == nil {
		return slog.New(local)
	}
	level := enabledAs{local, otelslog.NewHandler("oneeffect", otelslog.WithLoggerProvider(p.Logs))}
	return slog.New(slog.NewMultiHandler(local, level))
}

// correlated writes the trace that a line belongs to.
type correlated struct{ slog.Handler }

func (h correlated) Handle(ctx context.Context, r slog.Record) error {
	if at := trace.SpanContextFromContext(ctx); at.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", at.TraceID().String()), slog.String("span_id", at.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h correlated) WithAttrs(attrs []slog.Attr) slog.Handler {
	return correlated{h.Handler.WithAttrs(attrs)}
}
func (h correlated) WithGroup(name string) slog.Handler { return correlated{h.Handler.WithGroup(name)} }

// enabledAs is a handler that takes what another one takes: one level for both.
type enabledAs struct {
	as slog.Handler
	slog.Handler
}

func (h enabledAs) Enabled(ctx context.Context, level slog.Level) bool {
	return h.as.Enabled(ctx, level)
}
func (h enabledAs) WithAttrs(attrs []slog.Attr) slog.Handler {
	return enabledAs{h.as, h.Handler.WithAttrs(attrs)}
}
func (h enabledAs) WithGroup(name string) slog.Handler {
	return enabledAs{h.as, h.Handler.WithGroup(name)}
}
