package broker

import (
	"fmt"
	"time"
)

// shelve puts an entry aside: from now on it is received by its sequence number only, and it does not expire.
func (q *Queue) shelve(e *entry) {
	q.unlock(e)
	e.state, e.deferred = Deferred, true
	q.setDeadline(e, time.Time{})
	if q.hub.Off("servicebus.deferred-unexpired") {
		q.setDeadline(e, e.expires())
	}
}

// ReceiveDeferred takes deferred messages by sequence number, all or none, locked or removed as the mode says. They
// stay deferred until they are settled otherwise.
func (q *Queue) ReceiveDeferred(client string, mode Mode, numbers ...int64) ([]*Delivery, error) {
	now := q.begin()
	defer q.end()
	entries := make([]*entry, len(numbers))
	asked := make(map[int64]bool, len(numbers))
	for i, seq := range numbers {
		e := q.shelf.find(seq)
		if e == nil || e.state != Deferred || asked[seq] {
			return nil, fmt.Errorf("deferred message %d in %s: %w", seq, q.config.Name, ErrNoMessage)
		}
		if e.session != nil && e.session.holder == nil {
			return nil, fmt.Errorf("deferred message %d in %s: %w", seq, q.config.Name, ErrSessionLockLost)
		}
		asked[seq], entries[i] = true, e
	}
	q.times.accessed = now
	deliveries := make([]*Delivery, len(entries))
	for i, e := range entries {
		deliveries[i] = q.deliver(e, client, mode, now)
	}
	return deliveries, nil
}

// deliver gives an entry to a client: the lock starts now, or the message is removed.
func (q *Queue) deliver(e *entry, client string, mode Mode, now time.Time) *Delivery {
	if mode == PeekLock {
		q.lock(e, client, now)
	}
	d := e.delivery()
	event := q.event("delivered", client, e)
	event.Delivery = int(e.failures) + 1
	if mode == PeekLock {
		event.LockedUntil = &d.LockedUntil
	}
	q.hub.Record(event)
	switch {
	case mode == PeekLock:
	case q.hub.Off("servicebus.receive-and-delete"):
		q.giveBack(e, now)
	default:
		q.forget(e)
	}
	return d
}
