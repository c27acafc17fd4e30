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
	At        time.Time // when, by the store's clock; zero if the answer did not say
}

// Cursor is where a listing goes on. The empty one is its beginning, and its end
// when a listing returns it.
type Cursor string

// Store is what the orchestrator asks of a database. Every error is one of
// message.Err…; a call without an answer is message.ErrUnknown.
type Store interface {
	// Create writes execution and outbox entries in one transactional batch, or none
	// of them, and returns the execution's ETag: message.ErrExists if there is one.
	Create(ctx context.Context, e Execution, entries ...Entry) (ETag, error)
	Load(ctx context.Context, id string) (Stored, error)
	// Change applies a transition in one conditional patch, or message.ErrConflict.
	Change(ctx context.Context, id string, change Change, unchanged ETag) (ETag, error)
	// Join writes the end of a part into its orchestration in one conditional patch, and
	// shows what stands then: message.ErrConflict unless the part stands there, at its
	// place, and as running.
	Join(ctx context.Context, id string, j Joined, n Note) (Stored, error)
	// Reopen applies a replay and writes the outbox entry of its run in one
	// transactional batch, or neither: message.ErrConflict if what stands has changed.
	Reopen(ctx context.Context, id string, change Change, entry Entry, unchanged ETag) (ETag, error)
	// Sent removes an outbox entry; removing one that is gone is no error.
	Sent(ctx context.Context, entry Entry) error
	// Unsent lists outbox entries older than age by the store's clock: some hundred at
	// a time, in no order.
	Unsent(ctx context.Context, age time.Duration, after Cursor) ([]Entry, Cursor, error)
	// Unchanged lists the ids of executions in a state, last written between least and
	// most ago by the store's clock: some hundred at a time, in no order.
	Unchanged(ctx context.Context, in Status, least, most time.Duration, after Cursor) ([]string, Cursor, error)
	// Redispatched reads how often an execution's task was sent again, and how long
	// ago the last time was: message.ErrNotFound if it never was.
	Redispatched(ctx context.Context, id string) (Redispatched, error)
	// Redispatch counts another time, if nobody else has done so: message.ErrConflict
	// or message.ErrExists otherwise. An empty ETag is the first time.
	Redispatch(ctx context.Context, r Redispatch, unchanged ETag) error
}

// Redispatched is a count of re-dispatches as one answer of the store showed it.
type Redispatched struct {
	Redispatch Redispatch
	ETag       ETag
	Age        time.Duration
}
