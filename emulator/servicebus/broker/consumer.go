package broker

import (
	"slices"
	"time"
)

// Mode is how a consumer takes messages.
type Mode int

const (
	// PeekLock locks a message when it is delivered and waits for its settlement.
	PeekLock Mode = iota
	// ReceiveAndDelete removes a message when it is delivered.
	ReceiveAndDelete
)

// inboxSize is how many messages are reserved for a consumer at once, whatever its credit, so that a consumer that
// does not read keeps few messages from the others.
const inboxSize = 64

// Consumer takes messages of a queue, as many as it has credit for. Consumers are served in the order in which they
// came to want messages. A consumer is used by one goroutine, but Close may be called from any.
type Consumer struct {
	queue  *Queue
	client string
	mode   Mode
	wake   chan<- struct{}

	session *session      // whose lock it has; nil in a queue without sessions
	lost    chan struct{} // closed when that lock has run out

	// What follows belongs to the queue's mutex.
	credit int  // what may still be reserved
	hungry bool // is in the queue's line
	closed bool
	inbox  []*entry
	taken  []Reservation // the slice that Collect returns
}

// Consume makes a consumer without credit. Whenever it has reason to Collect, a value is put into wake, which must
// have room for one.
func (q *Queue) Consume(client string, mode Mode, wake chan<- struct{}) *Consumer {
	q.begin()
	defer q.end()
	q.consumers++
	return &Consumer{queue: q, client: client, mode: mode, wake: wake}
}

// Reservation is a message that is promised to a consumer. Exactly one of Begin and Cancel must be called, once.
type Reservation struct {
	consumer *Consumer
	entry    *entry
}

// Collect states how many messages the consumer takes now and returns those there are, at most that many. The rest of
// the credit stays: what it reserves later is announced by wake and is part of the next Collect. The slice is valid
// until then. Once the consumer is closed, Collect returns nothing.
func (c *Consumer) Collect(credit int) []Reservation {
	q := c.queue
	q.begin()
	defer q.end()
	c.taken = c.taken[:0]
	if c.closed {
		return nil
	}
	c.credit = credit - len(c.inbox)
	q.seat(c)
	if c.session != nil {
		q.mark(c.session)
	}
	q.serve()
	for _, e := range c.inbox {
		c.taken = append(c.taken, Reservation{c, e})
	}
	clear(c.inbox)
	c.inbox = c.inbox[:0]
	q.seat(c)
	return c.taken
}

// Close takes the consumer off the queue. What was reserved for it and not collected is available again at once, the
// rest when its Begin or Cancel is called. Its locks stay; but the lock of a session, and every lock under it, ends with
// the consumer that has it.
func (c *Consumer) Close() {
	q := c.queue
	now := q.begin()
	defer q.end()
	if c.closed {
		return
	}
	q.retire(c, now)
	if s := c.session; s != nil && s.holder == c && !q.hub.Off("servicebus.session-freed") {
		q.release(s, now)
	}
	if q.hub.Off("servicebus.locks-survive") {
		q.dropLocks(c.client, now)
	}
	q.serve()
}

// dropLocks ends what a client has locked, as the service does not.
func (q *Queue) dropLocks(client string, now time.Time) {
	for _, e := range q.locks {
		if e.client == client {
			q.giveBack(e, now)
		}
	}
}

// retire closes a consumer and gives back what it has not collected.
func (q *Queue) retire(c *Consumer, now time.Time) {
	if !c.closed {
		q.consumers--
	}
	c.closed = true
	q.unseat(c)
	for _, e := range c.inbox {
		q.giveBack(e, now)
	}
	c.inbox = nil
}

// wants reports whether the consumer has credit and room.
func (c *Consumer) wants() bool {
	return !c.closed && c.credit > 0 && len(c.inbox) < inboxSize
}

// seat puts a consumer that wants messages at the end of the line.
func (q *Queue) seat(c *Consumer) {
	if !c.hungry && c.session == nil && c.wants() {
		c.hungry = true
		if q.hub.Off("servicebus.receivers-in-turn") {
			q.hungry = slices.Insert(q.hungry, 0, c)
			return
		}
		q.hungry = append(q.hungry, c)
	}
}

func (q *Queue) unseat(c *Consumer) {
	if c.hungry {
		c.hungry = false
		q.hungry = slices.DeleteFunc(q.hungry, func(other *Consumer) bool { return other == c })
	}
}

// serve reserves available messages, in order, for the consumers in the line.
func (q *Queue) serve() {
	if q.config.RequiresSession {
		q.serveSessions()
		return
	}
	for len(q.hungry) > 0 {
		c := q.hungry[0]
		if !c.wants() { // its credit was lowered
			q.unseat(c)
			continue
		}
		e := q.shelf.first(q.hub.Off("servicebus.old-place"))
		if e == nil {
			return
		}
		c.reserve(e)
		if !c.wants() {
			q.unseat(c)
		}
	}
}

// reserve promises an entry to the consumer.
func (c *Consumer) reserve(e *entry) {
	e.state = Reserved
	c.queue.setDeadline(e, time.Time{})
	c.inbox = append(c.inbox, e)
	c.credit--
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Message is the reserved message.
func (r Reservation) Message() *Message { return r.entry.message }

// Begin makes the delivery: the lock starts now, or the message is removed, as the consumer's mode says. It returns
// nil if the consumer has been closed; the message is then available again.
func (r Reservation) Begin() *Delivery {
	c, e, q := r.consumer, r.entry, r.consumer.queue
	now := q.begin()
	defer q.end()
	if c.closed || q.gone {
		q.giveBack(e, now)
		q.serve()
		return nil
	}
	q.times.accessed = now
	return q.deliver(e, c.client, c.mode, now)
}

// Cancel makes the message available again, at its old place. The credit it used stays used until the next Collect.
func (r Reservation) Cancel() {
	q := r.consumer.queue
	now := q.begin()
	defer q.end()
	q.giveBack(r.entry, now)
	q.serve()
}
