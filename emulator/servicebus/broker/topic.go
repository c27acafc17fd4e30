package broker

import "time"

// Topic takes messages like a queue and spreads each to all its subscriptions. Scheduled messages wait in the topic.
// The event log shows a message enqueued in the topic, then in each subscription under its number there.
type Topic struct {
	inlet         *Queue
	subscriptions []*Queue
}

var _ Entity = (*Topic)(nil)

// Path is the topic's name in the case it was configured in.
func (t *Topic) Path() string { return t.inlet.Path() }

// Enqueue takes messages from a sender, all or none: each is in every subscription when it returns, or in none.
func (t *Topic) Enqueue(client string, messages ...*Message) ([]int64, error) {
	return t.inlet.Enqueue(client, messages...)
}

// CancelScheduled forgets scheduled messages by sequence number, all or none.
func (t *Topic) CancelScheduled(numbers ...int64) error {
	return t.inlet.CancelScheduled(numbers...)
}

// Peek returns messages that are still scheduled; all others are in the subscriptions.
func (t *Topic) Peek(from int64, n int) []*Delivery { return t.inlet.Peek(from, n) }

// spread copies a message to every subscription. The caller holds the inlet's mutex, which keeps concurrent sends in
// one order for all subscriptions. Space for the copies has been taken.
func (t *Topic) spread(client string, m *Message, now time.Time) {
	ceiling := t.inlet.config.TimeToLive
	for _, s := range t.subscriptions {
		s.beginInner()
		e := s.place(client, "enqueued", m, now)
		if ceiling < e.ttl {
			e.ttl = ceiling
			s.setDeadline(e, e.expires())
		}
		s.serve()
		s.end()
	}
}
