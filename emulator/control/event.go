package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Event is one thing that happened, one line of GET /control/events. Which
// fields are filled depends on Service and Kind; empty ones are left out of the
// JSON.
//
//	servicebus: connected, disconnected, enqueued, duplicate-dropped, scheduled, activated,
//	            delivered, lock-renewed, lock-expired, settled, settle-refused, dead-lettered,
//	            session-locked, session-lock-renewed, session-lock-expired, session-released
//	cosmos:     request
//	downstream: call (arrived), effect (it was done, whatever becomes of the reply), reply
//	any:        rule-reached, rule-released, peer-gone
type Event struct {
	Seq     uint64    `json:"seq"` // 1, 2, 3, …; set by Record
	At      time.Time `json:"at"`  // the servers' clock; set by Record
	Service string    `json:"service,omitempty"`
	Kind    string    `json:"kind"`
	Entity  string    `json:"entity,omitempty"`
	Client  string    `json:"client,omitempty"`
	Key     string    `json:"key,omitempty"`

	// Service Bus.
	CorrelationID  string     `json:"correlationId,omitempty"`
	Subject        string     `json:"subject,omitempty"`
	Session        string     `json:"session,omitempty"` // SessionID
	SequenceNumber int64      `json:"sequenceNumber,omitempty"`
	Delivery       int        `json:"delivery,omitempty"` // as the receiver counts, 1 is the first
	LockedUntil    *time.Time `json:"lockedUntil,omitempty"`
	Disposition    string     `json:"disposition,omitempty"` // completed, abandoned, dead-lettered, released, deferred
	Reason         string     `json:"reason,omitempty"`
	Until          *time.Time `json:"until,omitempty"` // of scheduled: when it becomes active

	// Cosmos.
	Operation  string  `json:"operation,omitempty"`
	ETagBefore string  `json:"etagBefore,omitempty"`
	ETagAfter  string  `json:"etagAfter,omitempty"`
	BodyStatus string  `json:"bodyStatus,omitempty"` // the body's "status" member; of a batch: each operation's, joined by ","
	Charge     float64 `json:"charge,omitempty"`     // request units

	// Downstream, and Status of Cosmos too.
	Method   string `json:"method,omitempty"`
	Path     string `json:"path,omitempty"`
	Status   int    `json:"status,omitempty"`
	Effects  int    `json:"effects,omitempty"` // distinct effects so far under this key or path
	Replayed bool   `json:"replayed,omitempty"`
	Resource string `json:"resource,omitempty"`

	Traceparent string `json:"traceparent,omitempty"` // of the call: what tells calls without a key apart

	// Rules.
	Rule string `json:"rule,omitempty"`
}

const (
	eventsKept = 65536
	chunkSize  = 1024
)

// eventLog is a ring of the newest events. It is cut in chunks made at need, so
// that an idle hub is small.
type eventLog struct {
	mu     sync.Mutex
	chunks [eventsKept / chunkSize]*[chunkSize]Event
	last   uint64
	grown  chan struct{} // closed and replaced by every event while somebody waits
	waited bool          // somebody has asked for grown
}

// Record appends an event to the log and sets its Seq and At.
func (h *Hub) Record(e Event) {
	l := &h.log
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = h.Now() // under the lock, so that a later event is never earlier unless the clock jumped back
	l.last++
	e.Seq = l.last
	i := (e.Seq - 1) % eventsKept
	if l.chunks[i/chunkSize] == nil {
		l.chunks[i/chunkSize] = new([chunkSize]Event)
	}
	l.chunks[i/chunkSize][i%chunkSize] = e
	if l.waited {
		close(l.grown)
		l.grown, l.waited = make(chan struct{}), false
	}
}

// Last is the number of the newest event, 0 if there is none.
func (h *Hub) Last() uint64 {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	return h.log.last
}

// Events returns the events after a number, as far as they are kept: a first
// event with a greater number than after+1 shows that some were forgotten.
func (h *Hub) Events(after uint64) []Event {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	return h.log.page(after, eventsKept)
}

// page copies at most limit events after a number. The caller holds l.mu.
func (l *eventLog) page(after uint64, limit int) []Event {
	if l.last > eventsKept {
		after = max(after, l.last-eventsKept)
	}
	if after >= l.last {
		return nil
	}
	events := make([]Event, min(l.last-after, uint64(limit)))
	for n := range events {
		i := (after + uint64(n)) % eventsKept
		events[n] = l.chunks[i/chunkSize][i%chunkSize]
	}
	return events
}

// next returns at most limit events after a number or, if there are none, a
// channel that is closed when there are.
func (l *eventLog) next(after uint64, limit int) (events []Event, grown <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if events = l.page(after, limit); len(events) > 0 {
		return events, nil
	}
	l.waited = true
	return nil, l.grown
}

// ErrForgotten is returned by WaitEvent when events it should have looked at are
// not kept any more. Wait from a later event, Last for example.
var ErrForgotten = errors.New("events have been forgotten")

// WaitEvent returns the first event after a number that matches, and waits for
// it if need be. A nil match takes any.
func (h *Hub) WaitEvent(ctx context.Context, after uint64, match func(Event) bool) (Event, error) {
	// Small pages at first, since the match is mostly near; larger ones for a reader
	// that has fallen behind.
	for limit := 8; ; limit = min(2*limit, chunkSize) {
		events, grown := h.log.next(after, limit)
		for _, e := range events {
			if e.Seq != after+1 {
				return Event{}, fmt.Errorf("wait for an event: %d to %d: %w", after+1, e.Seq-1, ErrForgotten)
			}
			after = e.Seq
			if match == nil || match(e) {
				return e, nil
			}
		}
		if grown == nil {
			continue
		}
		select {
		case <-grown:
		case <-h.closed:
			return Event{}, fmt.Errorf("wait for an event: %w", ErrClosed)
		case <-ctx.Done():
			return Event{}, fmt.Errorf("wait for an event: %w", context.Cause(ctx))
		}
	}
}
