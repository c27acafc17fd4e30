package orchestrator

import (
	"context"

	"oneeffect/internal/message"
)

// DeadLetter is a message that was given up: a hint that its execution may need a
// look, and no more than that.
type DeadLetter = message.Dead

// DeadLetters are those of the queue of tasks. Every error is one of message.Err….
type DeadLetters interface {
	// Browse returns dead letters whose sequence numbers are from the given one on,
	// in their order, at most limit; none is the end. It takes nothing and locks nothing.
	Browse(ctx context.Context, fromSequence int64, limit int) ([]DeadLetter, error)
	// Discard removes those that are meant, of the first that are met, at most most;
	// the others go back. Where it ends early, it says how many it has removed.
	Discard(ctx context.Context, meant func(DeadLetter) bool, most int) (removed int, err error)
}
