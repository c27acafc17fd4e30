package orchestrator

import (
	"context"

	"oneeffect/internal/message"
)

// DeadLetter is a message that was given up: a hint that its execution may need a
// look, and no more than that.
type DeadLetter = message.Dead

// DeadLetters shows the dead letters of the queue of tasks. Looking takes nothing
// and locks nothing. Every error is one of message.Err….
type DeadLetters interface {
	// Browse returns dead letters whose sequence numbers are from the given one on,
	// in their order, at most limit; none is the end.
	Browse(ctx context.Context, fromSequence int64, limit int) ([]DeadLetter, error)
}
