package orchestrator

import (
	"context"
	"time"

	"oneeffect/internal/execution"
)

// Views is what the API shows of executions besides one by its id. Every error is
// one of message.Err….
type Views interface {
	// Changed returns executions at their newest version, in the order in which they
	// changed: from a time on, or from where an earlier page ended. A page may hold
	// fewer than were asked for, or none. end says that nothing has changed since.
	Changed(ctx context.Context, since time.Time, after string, limit int) (page []execution.Summary, next string, end bool, err error)
	// Older returns executions that were created before a whole second, in no promised
	// order; next is empty at their end. A page may hold fewer than were asked for, or
	// none. message.ErrRefused: after is none of its own.
	Older(ctx context.Context, below time.Time, f execution.Filter, after string, limit int) (page []execution.Summary, next string, err error)
	// Outbox returns the messages of one execution that were not sent yet.
	Outbox(ctx context.Context, id string) ([]execution.Entry, error)
}
