package broker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// The refusals of the engine. A dialect gives each its own words on the wire.
var (
	// ErrLockLost: the lock has expired, or the message has been settled already.
	ErrLockLost = errors.New("the lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue")
	// ErrNotFound: no entity, or no scheduled message, of that name or number.
	ErrNotFound = errors.New("not found")
	// ErrNoMessage: no scheduled or deferred message of that number. It is an ErrNotFound.
	ErrNoMessage = fmt.Errorf("message %w", ErrNotFound)
	// ErrTooLarge: a message or a batch is larger than its entity takes.
	ErrTooLarge = errors.New("message too large")
	// ErrFull: the entity holds as much as it may.
	ErrFull = errors.New("the maximum entity size has been reached or exceeded")
	// ErrExists: there is an entity or a rule of that name.
	ErrExists = errors.New("already exists")
	// ErrDisabled: the entity's status does not allow it.
	ErrDisabled = errors.New("messaging entity is currently disabled")
	// ErrSessionLocked: somebody else has the lock of the session.
	ErrSessionLocked = errors.New("the requested session cannot be accepted. It may be locked by another receiver")
	// ErrSessionLockLost: nobody has the lock of the session, or not any more.
	ErrSessionLockLost = errors.New("the session lock has expired on the session, or was never taken. Accept the session again")
	// ErrInvalid: the message or the request breaks a rule of the service.
	ErrInvalid = errors.New("invalid")
	// ErrUnsupported: the service does it, this emulator does not yet.
	ErrUnsupported = errors.New("not supported by this emulator yet")
)

// Message is what a sender gave. It never changes and is shared by all its copies.
type Message struct {
	ID            string
	CorrelationID string
	Subject       string
	SessionID     string        // which may be the empty string
	InSession     bool          // it has a SessionID
	TimeToLive    time.Duration // 0: the entity's
	ScheduledFor  time.Time     // zero: at once
	Size          int           // in bytes, as limits count it
	HeaderSize    int           // that of its properties and annotations

	// Content is the message itself, which the engine carries and never reads.
	Content any
}

// Token names one lock. It is a random UUID in the byte order of RFC 9562.
type Token [16]byte

// NewToken makes a token that no lock has had.
func NewToken() Token {
	var t Token
	_, _ = rand.Read(t[:]) // it never fails: crypto/rand ends the program instead
	t[6] = t[6]&0x0f | 0x40
	t[8] = t[8]&0x3f | 0x80
	return t
}

// State is where a message stands.
type State uint8

const (
	// Available waits for a consumer.
	Available State = iota
	// Reserved is promised to a consumer and not delivered yet.
	Reserved
	// Locked is delivered and not settled.
	Locked
	// Scheduled waits for its time.
	Scheduled
	// Deferred was put aside by a consumer and is received by its sequence number only.
	Deferred
	// Forwarding is on its way to where its queue forwards.
	Forwarding
	// Gone is completed, expired, moved or cancelled.
	Gone
)

// Delivery is a message as a consumer or a peek sees it.
type Delivery struct {
	Message          *Message
	State            State
	Deferred         bool // received by its sequence number, or waiting for that
	SequenceNumber   int64
	EnqueuedNumber   int64 // the sequence number where it was sent first, if it was forwarded since
	EnqueuedAt       time.Time
	TimeToLive       time.Duration // the smaller of message's and entity's; Forever if neither has one
	Failures         uint32        // deliveries that have failed before this one
	Token            Token         // of a locked delivery
	LockedUntil      time.Time     // of a locked delivery
	DeadLetterSource string        // the path it was dead-lettered from

	// Changes are application properties that settlements and dead-lettering have set since the message was sent.
	// The map is shared: do not change it.
	Changes map[string]any
}

// entry is a message in one queue. All fields belong to the queue's mutex. A queue may hold a million of them, of which
// few are locked.
type entry struct {
	message  *Message
	seq      int64
	enqueued time.Time
	ttl      time.Duration
	state    State
	deferred bool // it was put aside, and is deferred again when its lock ends
	failures uint32
	*custody // while it is Locked, and nil otherwise
	session  *session
	hops     int    // how often it was forwarded
	number   int64  // its sequence number where it was sent first, if it was forwarded since
	source   string // the path it was dead-lettered from
	changes  map[string]any

	deadline deadline // the end of the time to live, of the lock, or of the schedule
}

// custody is the lock of an entry.
type custody struct {
	token       Token
	lockedUntil time.Time
	client      string // who holds it
}

func (e *entry) due() *deadline { return &e.deadline }

func (e *entry) delivery() *Delivery {
	d := &Delivery{
		Message:          e.message,
		State:            e.state,
		Deferred:         e.deferred,
		SequenceNumber:   e.seq,
		EnqueuedNumber:   e.number,
		EnqueuedAt:       e.enqueued,
		TimeToLive:       e.ttl,
		Failures:         e.failures,
		DeadLetterSource: e.source,
		Changes:          e.changes,
	}
	if e.state == Locked {
		d.Token, d.LockedUntil = e.token, e.lockedUntil
	}
	return d
}

// expires is the end of the time to live; the zero time means never.
func (e *entry) expires() time.Time {
	if e.ttl == Forever {
		return time.Time{}
	}
	return e.enqueued.Add(e.ttl)
}
