package message

import "errors"

// What is known after a call to another system. An adapter translates once, at
// the border; everything above it asks errors.Is.
var (
	// ErrExists: a create found a record under that key. Nothing was written.
	ErrExists = errors.New("exists already")
	// ErrNotFound: there is no such record, or none visible yet at that replica.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the record is not the one the condition named. Nothing was written.
	ErrConflict = errors.New("changed meanwhile")
	// ErrTransient: not applied, and worth another try: throttled, or refused for now.
	ErrTransient = errors.New("not applied, try again")
	// ErrUnknown: the answer was lost. It may have been applied, or may be still.
	ErrUnknown = errors.New("outcome unknown")
	// ErrRefused: not applied, and no repetition will change that: a bad request,
	// missing rights, a record too large.
	ErrRefused = errors.New("refused")
	// ErrPoison: the message itself can never be processed.
	ErrPoison = errors.New("poison message")
)
