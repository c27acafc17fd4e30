package broker

import "time"

// What keeps an entity that is deleted on idle, as the service documents it:
//
//	a queue          sends, also by forwarding; receives, settlements, peeks, also of its dead letters; changes of it;
//	                 messages that are scheduled
//	a topic          sends, peeks, changes, scheduled messages; whatever keeps one of its subscriptions
//	a subscription   receives, settlements, peeks; changes of it and of its rules; but not what its topic puts into it
//
// A consumer, and who waits for a session, is receiving all the time. An entity that forwards always has one.

// idleAt is when the queue has been idle for as long as it may; the zero time means that it never will be as things are.
func (q *Queue) idleAt() time.Time {
	if q.config.AutoDelete == Forever || q.gone || q.attended() || q.hub.Off("servicebus.auto-delete") {
		return time.Time{}
	}
	return q.used.Add(q.config.AutoDelete)
}

// attended reports whether somebody is receiving.
func (q *Queue) attended() bool {
	return q.consumers > 0 || len(q.applicants) > 0 || q.config.ForwardTo != ""
}

// holdsScheduled reports whether a message waits for its time.
func (q *Queue) holdsScheduled() bool {
	for e := range q.shelf.from(0) {
		if e.state == Scheduled {
			return true
		}
	}
	return false
}

// lastUse is when the queue was used last: now, if it still is.
func (q *Queue) lastUse() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.attended() {
		return q.hub.Now()
	}
	return q.used
}

// idle reports whether the queue may have been idle for too long.
func (q *Queue) idle() bool {
	q.mu.Lock()
	defer q.endInner() // which announces a time that is still to come
	at := q.idleAt()
	return !at.IsZero() && !at.After(q.hub.Now())
}

// use notes a use that is no operation on the queue itself, within one that has begun.
func (q *Queue) use() {
	q.used = q.beginInner()
	q.endInner()
}

// wind has the timekeeper know when a new queue will have been idle for too long.
func (q *Queue) wind() {
	q.mu.Lock()
	q.endInner()
}

// reap deletes the entity of a queue, or of a topic's inlet, if nobody has used it for too long. The timekeeper calls it,
// with no lock held.
func (n *Namespace) reap(q *Queue) {
	if !q.idle() {
		return
	}
	n.changes.Lock()
	defer n.changes.Unlock()
	e, err := n.Find(q.Path())
	if err != nil {
		return
	}
	var parts []*Queue
	switch e := e.(type) {
	case *Topic:
		for _, s := range e.list() {
			parts = append(parts, s.queue, s.queue.deadLetters, s.queue.transferred)
		}
	case *Queue:
		parts = []*Queue{e.deadLetters, e.transferred}
	}
	var used time.Time
	for _, p := range parts {
		if at := p.lastUse(); at.After(used) {
			used = at
		}
	}
	n.enter()
	defer n.leave()
	if q.discardIdle(used) {
		n.drop(e)
	}
}

// discardIdle ends the queue if it is idle still, given when its parts were used last. What comes later is refused.
func (q *Queue) discardIdle(used time.Time) bool {
	now := q.beginInner()
	defer q.endInner()
	if used.After(q.used) {
		q.used = used
	}
	if q.holdsScheduled() {
		q.used = now
	}
	at := q.idleAt()
	if at.IsZero() || at.After(now) {
		return false
	}
	q.discardLocked()
	return true
}
