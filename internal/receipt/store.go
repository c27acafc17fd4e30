package receipt

import "context"

// ETag names one version of an item; only a store makes one.
type ETag string

// Stored is an item as one answer of the store showed it.
type Stored struct {
	Item Item
	ETag ETag
}

// Store is what the guard asks of a database: an item and its receipts, in one
// partition for each entity. Every call is one operation whose error is one of
// message.Err…; a call without an answer is message.ErrUnknown.
//
// There is no way to write an item alone (R2).
type Store interface {
	// Item reads an item, or message.ErrNotFound.
	Item(ctx context.Context, entity string) (Stored, error)
	// Receipt reads the receipt of a key, or message.ErrNotFound.
	Receipt(ctx context.Context, entity, key string) (Receipt, error)

	// The writes. Each is message.ErrExists, and writes nothing, if the receipt
	// stands already.

	// Begin writes a receipt and the first version of its item, or
	// message.ErrConflict if there is one.
	Begin(ctx context.Context, entity string, r Receipt, first Item) (ETag, error)
	// Apply writes a receipt, and an item over the version that the ETag names, or
	// message.ErrConflict.
	Apply(ctx context.Context, entity string, r Receipt, next Item, unchanged ETag) (ETag, error)
	// Reject writes a receipt that goes alone.
	Reject(ctx context.Context, entity string, r Receipt) error
}
