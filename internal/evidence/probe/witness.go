package probe

import (
	"context"
	"log/slog"
	"sync"

	"oneeffect/internal/evidence"
)

// witness listens to what a receiver and a projector log about one message: what an
// operator would read of it. It passes on what the handler under it wants, but for what
// became of an event: that is in the record, and none of it is unexpected.
type witness struct {
	slog.Handler
	id string

	mu    sync.Mutex // guards the rest
	class evidence.Class
	ended string // how it was settled, by what the broker confirmed
}

// Enabled has everything told, also what is of interest to nobody else.
func (w *witness) Enabled(context.Context, slog.Level) bool { return true }

// Handle notes what a line says of the message.
func (w *witness) Handle(ctx context.Context, r slog.Record) error {
	said := map[string]string{}
	r.Attrs(func(a slog.Attr) bool {
		said[a.Key] = a.Value.String()
		return true
	})
	if said["message"] == w.id {
		w.mu.Lock()
		switch r.Message {
		case "handled":
			w.class = evidence.Class(said["class"])
		case "settled":
			w.ended = said["disposition"]
		case "not settled":
			w.ended = "not settled: " + said["err"]
		}
		w.mu.Unlock()
	}
	if r.Message != "handled" && w.Handler.Enabled(ctx, r.Level) {
		return w.Handler.Handle(ctx, r)
	}
	return nil
}

// WithAttrs and WithGroup keep listening. What they add is not passed on.
func (w *witness) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup is like WithAttrs.
func (w *witness) WithGroup(string) slog.Handler { return w }
