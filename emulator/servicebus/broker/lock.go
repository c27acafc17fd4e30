package broker

import (
	"fmt"
	"maps"
	"time"
)

// lock gives a reserved entry a new lock that starts now.
func (q *Queue) lock(e *entry, client string, now time.Time) {
	e.state, e.custody = Locked, &custody{token: NewToken(), client: client}
	defer q.note(Altered, e)
	q.locks[e.token] = e
	if s := e.session; s != nil {
		// Its lock is the session's and has no end of its own.
		e.lockedUntil = s.lockedUntil
		s.held[e] = struct{}{}
		q.setDeadline(e, time.Time{})
		return
	}
	e.lockedUntil = now.Add(q.config.LockDuration)
	q.setDeadline(e, e.lockedUntil)
}

func (q *Queue) unlock(e *entry) {
	if e.custody != nil {
		delete(q.locks, e.token)
		if e.session != nil {
			delete(e.session.held, e)
		}
		e.custody = nil
	}
}

// lockExpired ends a lock whose time has come.
func (q *Queue) lockExpired(e *entry, now time.Time) {
	if q.hub.Off("servicebus.lock-expiry") {
		q.setDeadline(e, now.Add(q.config.LockDuration))
		return
	}
	q.lockEnded(e, now)
}

// lockEnded is the failure that the end of a lock is.
func (q *Queue) lockEnded(e *entry, now time.Time) {
	event, until := q.event("lock-expired", e.client, e), e.lockedUntil
	event.Delivery, event.LockedUntil = int(e.failures)+1, &until
	q.hub.Record(event)
	if q.hub.Off("servicebus.lock-expiry-counted") {
		q.giveBack(e, now)
		return
	}
	q.fail(e, now)
}

// Lose ends a lock as if its time had come, or that of the session it is under. A lock that is over already stays so.
func (q *Queue) Lose(t Token) {
	now := q.begin()
	defer q.end()
	switch e := q.locks[t]; {
	case e == nil:
	case e.session != nil:
		q.endSession(e.session, now)
	default:
		q.lockEnded(e, now)
	}
	q.serve()
}

// fail counts a delivery that came to nothing. The message is available again, or a dead letter if that was its last.
func (q *Queue) fail(e *entry, now time.Time) {
	if q.isDeadLetter && !q.hub.Off("servicebus.dead-letter-uncounted") || q.hub.Off("servicebus.delivery-count") {
		q.giveBack(e, now)
		return
	}
	e.failures++
	if e.failures >= uint32(q.config.MaxDelivery) && !q.isDeadLetter && !q.hub.Off("servicebus.max-delivery") {
		q.deadLetter(e, "MaxDeliveryCountExceeded", "Message could not be consumed after maximum delivery attempts.")
		return
	}
	q.giveBack(e, now)
}

// giveBack puts a reserved or locked entry back at its old place, unless its time to live has ended meanwhile.
func (q *Queue) giveBack(e *entry, now time.Time) {
	if e.state != Reserved { // of which nobody has heard
		defer q.note(Altered, e)
	}
	q.unlock(e)
	if q.gone {
		q.forget(e)
		return
	}
	if e.deferred {
		q.shelve(e)
		return
	}
	e.state = Available
	expires := e.expires()
	if q.isDeadLetter {
		expires = time.Time{}
	}
	if !expires.IsZero() && !expires.After(now) {
		q.expire(e)
		return
	}
	if q.config.ForwardTo != "" && !q.isDeadLetter {
		q.send(e) // the queue has begun to forward since
		return
	}
	q.setDeadline(e, expires)
	if e.session != nil {
		q.offer(e)
		return
	}
	q.shelf.giveBack(e)
}

// Renew extends locks to a full duration from now, all or none, and returns when they end.
func (q *Queue) Renew(client string, tokens ...Token) ([]time.Time, error) {
	now := q.begin()
	defer q.end()
	for _, t := range tokens {
		switch e := q.locks[t]; {
		case e == nil:
			return nil, fmt.Errorf("renew lock: %w", ErrLockLost)
		case e.session != nil:
			return nil, fmt.Errorf("renew lock of a message in a session: %w: renew the lock of the session", ErrInvalid)
		}
	}
	until, lasts := now.Add(q.config.LockDuration), !q.hub.Off("servicebus.lock-renewal")
	ends := make([]time.Time, len(tokens))
	for i, t := range tokens {
		e := q.locks[t]
		ends[i] = until
		if lasts {
			e.lockedUntil = until
			q.setDeadline(e, until)
			q.note(Altered, e)
		}
		event := q.event("lock-renewed", client, e)
		event.Delivery, event.LockedUntil = int(e.failures)+1, &until
		q.hub.Record(event)
	}
	return ends, nil
}

// Locked returns the message that a token locks, and nil if the lock is over.
func (q *Queue) Locked(t Token) *Message {
	q.begin()
	defer q.end()
	if e := q.locks[t]; e != nil {
		return e.message
	}
	return nil
}

// Disposition is how a consumer settles a message. Its text is what events show.
type Disposition string

// The dispositions.
const (
	Complete   Disposition = "completed"
	Abandon    Disposition = "abandoned"
	DeadLetter Disposition = "dead-lettered"
	Release    Disposition = "released"
	Defer      Disposition = "deferred"
)

// Settlement is what a consumer decides about a message it has locked.
type Settlement struct {
	Disposition Disposition
	Client      string
	MessageID   string         // if known; only for the event of a refusal
	Changes     map[string]any // application properties to set
	Reason      string         // of DeadLetter; only for the event, Changes carries it to the message
}

// Settle applies a settlement to the message that the token locks, or returns ErrLockLost and changes nothing.
func (q *Queue) Settle(t Token, s Settlement) error {
	now := q.begin()
	defer q.end()
	err := q.settle(t, s, now)
	if err != nil {
		e := q.locks[t]
		if e == nil {
			e = &entry{message: &Message{ID: s.MessageID}}
		}
		event := q.event("settle-refused", s.Client, e)
		event.Disposition, event.Reason = string(s.Disposition), err.Error()
		q.hub.Record(event)
		return fmt.Errorf("settle in %s: %w", q.config.Name, err)
	}
	q.serve()
	return nil
}

// outgrown reports whether the properties of a message have become larger than they may be. In a dead letter queue they
// may: there is no other place for it.
func (q *Queue) outgrown(e *entry) bool {
	size := e.message.HeaderSize
	for name, value := range e.changes {
		size += len(name) + 16 // of a number, and what goes around it
		switch v := value.(type) {
		case string:
			size += len(v)
		case []byte:
			size += len(v)
		}
	}
	return size > MaxHeader && !q.isDeadLetter && !q.hub.Off("servicebus.header-limit")
}

func (q *Queue) settle(t Token, s Settlement, now time.Time) error {
	e := q.locks[t]
	if e != nil && q.hub.Off("servicebus.locked-unexpired") && e.ttl != Forever && !e.expires().After(now) {
		q.expire(e)
		e = nil
	}
	switch {
	case e == nil && q.hub.Off("servicebus.lock-lost"):
		return nil
	case e == nil:
		return ErrLockLost
	case s.Disposition == DeadLetter && q.isDeadLetter:
		return fmt.Errorf("dead-letter from a dead letter queue: %w", ErrInvalid)
	}
	event := q.event("settled", s.Client, e)
	event.Disposition, event.Reason = string(s.Disposition), s.Reason
	event.Delivery = int(e.failures) + 1
	q.hub.Record(event)
	if len(s.Changes) > 0 && !q.hub.Off("servicebus.modified-properties") {
		// Copied, because deliveries share the old map.
		changes := maps.Clone(e.changes)
		if changes == nil {
			changes = make(map[string]any, len(s.Changes))
		}
		maps.Copy(changes, s.Changes)
		e.changes = changes
		if q.outgrown(e) && (s.Disposition == Abandon || s.Disposition == Defer) {
			q.deadLetter(e, "HeaderSizeExceeded", "The size quota for this stream has been exceeded.")
			return nil
		}
	}
	switch {
	case s.Disposition == Complete:
		q.forget(e)
	case s.Disposition == DeadLetter:
		q.move(e, s.Reason, s.Client, int(e.failures)+1)
	case s.Disposition == Defer && !q.hub.Off("servicebus.deferral"):
		q.shelve(e)
		q.note(Altered, e)
	case q.counts(s.Disposition):
		q.fail(e, now)
	default:
		q.giveBack(e, now)
	}
	return nil
}

// counts reports whether a settlement is a failed delivery.
func (q *Queue) counts(d Disposition) bool {
	switch d {
	case Abandon:
		return !q.hub.Off("servicebus.abandon-counted")
	case Release:
		return q.hub.Off("servicebus.release-uncounted")
	}
	return false
}
