package broker

import (
	"fmt"
	"time"
)

// schedule keeps a message until its time. It has a sequence number, by which it can be cancelled and peeked.
func (q *Queue) schedule(client string, m *Message, now time.Time) int64 {
	e := q.newEntry(m, now)
	e.state = Scheduled
	q.shelf.add(e)
	q.setDeadline(e, m.ScheduledFor)
	q.note(Added, e)
	event := q.event("scheduled", client, e)
	event.Until = &m.ScheduledFor
	q.hub.Record(event)
	return e.seq
}

// activate makes a scheduled message visible under a new number. Duplicates are looked for now: another message with
// its id may have become visible in the meantime.
func (q *Queue) activate(e *entry, now time.Time) {
	m := e.message
	q.used = now
	if q.spread == nil && !q.config.RequiresSession && q.hub.Off("servicebus.activation-number") {
		q.giveBack(e, now)
		return
	}
	q.remove(e)
	if q.isDuplicate(m, now) {
		q.drop("", m)
		return
	}
	q.remember(m, now)
	q.place(passage{}, "activated", m, now)
}

// CancelScheduled forgets scheduled messages by the numbers they were scheduled under, all or none.
func (q *Queue) CancelScheduled(numbers ...int64) error {
	q.begin()
	defer q.end()
	for _, seq := range numbers {
		if e := q.shelf.find(seq); e == nil || e.state != Scheduled {
			return fmt.Errorf("scheduled message %d in %s: %w", seq, q.config.Name, ErrNoMessage)
		}
	}
	for _, seq := range numbers {
		if e := q.shelf.find(seq); e != nil && !q.hub.Off("servicebus.cancel-scheduled") { // a number may be given twice
			q.forget(e)
		}
	}
	q.serve()
	return nil
}
