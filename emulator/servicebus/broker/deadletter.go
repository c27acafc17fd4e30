package broker

import "maps"

// Application properties of a dead letter.
const (
	ReasonProperty      = "DeadLetterReason"
	DescriptionProperty = "DeadLetterErrorDescription"
)

// expire ends a message whose time to live is over.
func (q *Queue) expire(e *entry) {
	if q.config.DeadLetterExpired && q.deadLetters != nil && !q.hub.Off("servicebus.dead-letter-expired") {
		q.deadLetter(e, "TTLExpiredException", "The message expired and was dead lettered.")
		return
	}
	q.forget(e)
}

// deadLetter makes the broker's own decision: the message moves with the reason in its application properties.
func (q *Queue) deadLetter(e *entry, reason, description string) {
	changes := maps.Clone(e.changes)
	if changes == nil {
		changes = make(map[string]any, 2)
	}
	if !q.hub.Off("servicebus.dead-letter-reason") {
		changes[ReasonProperty], changes[DescriptionProperty] = reason, description
	}
	e.changes = changes
	q.move(e, reason, "", int(e.failures))
}

// move takes a message to the dead letter queue. It keeps its delivery count and enqueued time, and gets a new
// sequence number. The space it takes stays taken. delivery is the last one there was, for the event.
func (q *Queue) move(e *entry, reason, client string, delivery int) {
	event := q.event("dead-lettered", client, e)
	event.Reason, event.Delivery = reason, delivery
	q.hub.Record(event)
	moved := &entry{
		message:  e.message,
		enqueued: e.enqueued,
		ttl:      e.ttl,
		failures: e.failures,
		changes:  e.changes,
		source:   q.config.Name,
		hops:     e.hops,
		number:   e.number,
		deadline: deadline{index: -1},
	}
	if q.hub.Off("servicebus.dead-letter-count") {
		moved.failures = 0
	}
	q.remove(e)
	dead := q.deadLetters
	dead.beginInner()
	defer dead.endInner()
	dead.sequence++
	moved.seq = dead.sequence
	dead.shelf.add(moved)
	if q.hub.Off("servicebus.dead-letter-unexpired") {
		dead.setDeadline(moved, moved.expires())
	}
	if dead.config.ForwardTo != "" && moved.hops < maxHops && !q.hub.Off("servicebus.dead-letter-forward") {
		dead.send(moved)
	}
	dead.note(Added, moved)
	dead.serve()
}
