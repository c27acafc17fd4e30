package broker

import (
	"errors"
	"fmt"
	"time"
)

// maxHops is how often a message is forwarded; then it is a dead letter where it stands.
const maxHops = 4

// TransferSuffix follows an entity's path in the path of its transfer dead letter queue, which keeps what a client sent
// via the entity and what could not go on. This emulator does not send via an entity, so nothing ever comes there.
const TransferSuffix = "/$Transfer" + DeadLetterSuffix

// passage is what a message has behind it when it comes to a queue.
type passage struct {
	client  string         // who sent it; empty for the broker
	hops    int            // how often it was forwarded
	number  int64          // its sequence number where it was sent first; 0: here
	source  string         // where it became a dead letter
	changes map[string]any // application properties set since it was sent
}

// send puts a message of a forwarding queue where the timekeeper finds it. Nobody else sees it there.
func (q *Queue) send(e *entry) {
	e.state = Forwarding
	q.setDeadline(e, time.Time{})
	q.outbox = append(q.outbox, e)
}

// divert forwards what is available already, because the queue has begun to forward.
func (q *Queue) divert() {
	for e := range q.shelf.from(0) {
		if e.state == Available && e.hops < maxHops {
			q.send(e)
			q.note(Altered, e)
		}
	}
}

// forward sends everything in the outbox to where it has to go. The timekeeper calls it, with no lock held: the locks
// of two queues that may forward to each other are never held together.
func (q *Queue) forward() {
	for q.forwardNext() {
	}
}

// forwardNext forwards one message. To the journal that is one operation: the message is never in both places.
func (q *Queue) forwardNext() bool {
	q.namespace.enter()
	defer q.namespace.leave()
	e, m, p, to := q.nextToForward()
	if e == nil {
		return false
	}
	q.forwarded(e, to, q.namespace.carry(to, m, p))
	return true
}

// nextToForward takes the first message out of the outbox.
func (q *Queue) nextToForward() (*entry, *Message, passage, string) {
	q.mu.Lock()
	defer q.endInner()
	for len(q.outbox) > 0 {
		e := q.outbox[0]
		q.outbox[0] = nil
		q.outbox = q.outbox[1:]
		switch {
		case e.state != Forwarding:
		case q.config.ForwardTo == "":
			q.keep(e)
		case e.hops >= maxHops && !q.hub.Off("servicebus.hop-limit"):
			q.stay(e, "MaxTransferHopCountExceeded", fmt.Sprintf("The message has been forwarded %d times, the most that is allowed.", maxHops))
		default:
			p := passage{hops: e.hops + 1, number: e.number, source: e.source, changes: e.changes}
			if p.number == 0 && !q.hub.Off("servicebus.enqueued-number") {
				p.number = e.seq
			}
			return e, e.message, p, q.config.ForwardTo
		}
	}
	q.outbox = nil
	return nil, nil, passage{}, ""
}

// carry puts a forwarded message into another entity, as a send would.
func (n *Namespace) carry(to string, m *Message, p passage) error {
	e, err := n.Find(to)
	if err != nil {
		return err
	}
	q, _ := e.(*Queue)
	if t, ok := e.(*Topic); ok {
		q = t.inlet
	}
	if !q.TakesSends() {
		return fmt.Errorf("forward to %s: %w: it takes no messages from others", to, ErrInvalid)
	}
	now := q.beginInner()
	defer q.endInner()
	if err := q.admit(m.Size, now); err != nil {
		return fmt.Errorf("forward to %s: %w", to, err)
	}
	q.used = now
	q.accept(p, m, now)
	q.serve()
	return nil
}

// forwarded ends a message's stay, or makes a dead letter of what could not go on.
func (q *Queue) forwarded(e *entry, to string, err error) {
	q.mu.Lock()
	defer q.endInner()
	if e.state != Forwarding {
		return // the queue is deleted
	}
	if err != nil {
		q.stay(e, forwardReason(err), err.Error())
		return
	}
	event := q.event("forwarded", "", e)
	event.Reason = to
	q.hub.Record(event)
	q.forget(e)
}

// forwardReason names a failure as the service's exceptions do.
func forwardReason(err error) string {
	switch {
	case errors.Is(err, ErrNotFound):
		return "MessagingEntityNotFoundException"
	case errors.Is(err, ErrDisabled):
		return "MessagingEntityDisabledException"
	case errors.Is(err, ErrFull):
		return "QuotaExceededException"
	}
	return "InvalidOperationException"
}

// stay makes a dead letter of a message that cannot be forwarded; a dead letter stays where it is.
func (q *Queue) stay(e *entry, reason, description string) {
	if !q.isDeadLetter {
		q.deadLetter(e, reason, description)
		return
	}
	q.keep(e)
}

// keep makes a message available that was to be forwarded.
func (q *Queue) keep(e *entry) {
	q.giveBack(e, q.hub.Now())
	q.serve()
}

// checkForwarding refuses entities that forward to what is not there, except those that were known before: what they
// forward to may have been deleted since.
func (n *Namespace) checkForwarding(known map[string]bool) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var errs []error
	for _, e := range n.entities {
		q, ok := e.(*Queue)
		if !ok || q.config.ForwardTo == "" || known[key(q.Path())] {
			continue
		}
		if _, ok := n.entities[key(q.config.ForwardTo)]; !ok {
			errs = append(errs, fmt.Errorf("%s forwards to %q: %w", q.config.Name, q.config.ForwardTo, ErrNotFound))
		}
	}
	return errors.Join(errs...)
}
