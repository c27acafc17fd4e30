package execution

import (
	"context"
	"time"
)

// ETag names one version of an execution; only a store makes one.
type ETag string

// Stored is an execution as one answer of the store showed it.
type Stored struct {
	Execution Execution
	ETag      ETag
}

// Store is what the orchestrator asks of a database. Every error is one of
// message.Err…; a call without an answer is message.ErrUnknown.
type Store interface {
	// Create writes execution and outbox entry in one transactional batch, or
	// neither, and returns the execution's ETag: message.ErrExists if there is one.
	Create(ctx context.Context, e Execution, entry Entry) (ETag, error)
	Load(ctx context.Context, id string) (Stored, error)
	// Change applies a transition in one conditional patch, or message.ErrConflict.
	Change(ctx context.Context, id string, change Change, unchanged ETag) (ETag, error)
	// Reopen applies a replay and writes the outbox entry of its run in one
	// transactional batch, or neither: message.ErrConflict if what stands has changed.
	Reopen(ctx context.Context, id string, change Change, entry Entry, unchanged ETag) (ETag, error)
	// Sent removes an outbox entry; removing one that is gone is no error.
	Sent(ctx context.Context, entry Entry) error
	// Unsent lists outbox entries older than age by the store's clock, at most limit.
	Unsent(ctx context.Context, age time.Duration, limit int) ([]Entry, error)
}
