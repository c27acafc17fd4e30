package broker

import (
	"slices"
	"time"
)

// Topic takes messages like a queue and spreads each to its subscriptions, as their rules say. Scheduled messages wait
// in the topic. The event log shows a message enqueued in the topic, then in each subscription under its number there.
type Topic struct {
	inlet         *Queue
	subscriptions []*subscription // belongs to the inlet's mutex, and is never changed in place
}

// subscription is a topic's queue with the rules that fill it, which belong to the inlet's mutex.
type subscription struct {
	name                  string
	queue                 *Queue
	rules                 []Rule // in the order of their creation; never changed in place
	deadLetterUnevaluated bool
}

var _ Entity = (*Topic)(nil)

// Path is the topic's name in the case it was configured in.
func (t *Topic) Path() string { return t.inlet.Path() }

// Enqueue takes messages from a sender, all or none: each is in every subscription whose rules want it when it returns,
// or in none.
func (t *Topic) Enqueue(client string, messages ...*Message) ([]int64, error) {
	return t.inlet.Enqueue(client, messages...)
}

// CancelScheduled forgets scheduled messages by sequence number, all or none.
func (t *Topic) CancelScheduled(numbers ...int64) error {
	return t.inlet.CancelScheduled(numbers...)
}

// Peek returns messages that are still scheduled; all others are in the subscriptions.
func (t *Topic) Peek(from int64, n int) []*Delivery { return t.inlet.Peek(from, n) }

// MaxMessage is the largest message or batch the topic takes, in bytes.
func (t *Topic) MaxMessage() int { return t.inlet.MaxMessage() }

// Changed is closed when the topic's configuration has changed or it is deleted.
func (t *Topic) Changed() <-chan struct{} { return t.inlet.Changed() }

// list returns the subscriptions as they are now.
func (t *Topic) list() []*subscription {
	t.inlet.mu.Lock()
	defer t.inlet.mu.Unlock()
	return t.subscriptions
}

// link sets the topic's subscriptions. The caller holds the namespace's changes.
func (t *Topic) link(subscriptions []*subscription) {
	t.inlet.mu.Lock()
	defer t.inlet.mu.Unlock()
	t.subscriptions, t.inlet.copies = subscriptions, len(subscriptions)
}

// spread gives a message to every subscription whose rules want it. The caller holds the inlet's mutex, which keeps
// concurrent sends in one order for all subscriptions, and the space that the message itself takes.
func (t *Topic) spread(p passage, m *Message, now time.Time) {
	for i, s := range t.subscriptions {
		if i > 0 && t.inlet.hub.Off("servicebus.topic-fan-out") {
			break
		}
		copies, err := s.chosen(m)
		if len(copies) == 0 && err == nil {
			continue
		}
		s.queue.beginInner()
		for _, c := range copies {
			t.place(s.queue, p, c, now)
		}
		if err != nil {
			if e := t.place(s.queue, p, m, now); e.state != Gone {
				s.queue.deadLetter(e, "FilterException", err.Error())
			}
		}
		s.queue.serve()
		s.queue.endInner()
	}
}

// place puts a copy into a subscription, where it lives no longer than the topic allows.
func (t *Topic) place(q *Queue, p passage, m *Message, now time.Time) *entry {
	q.quota.add(int64(m.Size))
	e := q.place(p, "enqueued", m, now)
	if ceiling := t.inlet.lifetime(m); ceiling < e.ttl {
		e.ttl = ceiling
		if e.state == Available {
			q.setDeadline(e, e.expires())
		}
		q.note(Added, e) // with the time to live it has now
	}
	return e
}

// chosen returns the copies of a message that the subscription gets: one for all matching rules that leave it as it
// is, and one for each matching rule that acts. A rule that cannot be evaluated does not match; the error says so if
// the subscription keeps such messages as dead letters.
func (s *subscription) chosen(m *Message) (copies []*Message, err error) {
	plain := s.queue.hub.Off("servicebus.subscription-rules")
	for _, r := range s.rules {
		if r.Apply == nil {
			plain = true
			continue
		}
		c, failed := r.Apply(m)
		switch {
		case failed != nil:
			if s.deadLetterUnevaluated && err == nil {
				err = failed
			}
		case c == nil:
		case r.Acts && !s.queue.hub.Off("servicebus.rule-actions"):
			copies = append(copies, c)
		default:
			plain = true
		}
	}
	if plain {
		copies = slices.Insert(copies, 0, m)
	}
	return copies, err
}
