package claim

import (
	"context"
	"time"
)

// ETag names one version of a record; only a store makes one.
type ETag string

// Stored is a record as one answer of the store showed it.
type Stored struct {
	Claim Claim
	ETag  ETag
	Age   time.Duration // Date less _ts of that answer (C6)
}

// Store is what the guard asks of a database. Every call is one operation whose
// error is one of message.Err…; a call without an answer is message.ErrUnknown.
type Store interface {
	// Record opens the conversation about one key. It remembers the session token
	// of the last answer, errors included, so that each read sees at least what the
	// conversation has seen before.
	Record(id string) Record
}

// Record is one key's record. It is used by one goroutine at a time.
type Record interface {
	Read(ctx context.Context) (Stored, error)
	// Create writes the first version, or message.ErrExists.
	Create(ctx context.Context, c Claim) (ETag, error)
	// Replace writes over the version that the ETag names, or message.ErrConflict.
	Replace(ctx context.Context, c Claim, unchanged ETag) (ETag, error)
}
