package servicebus

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
)

// receiver is a link on which a client receives from a queue, a subscription or a dead letter queue. Its goroutine
// takes messages from the engine as the client's credit allows and puts them on the link.
type receiver struct {
	*attachment
	connection *connection
	queue      *broker.Queue
	mode       broker.Mode
	consumer   *broker.Consumer // of a session receiver only once it has its session
	wake       chan struct{}

	held      atomic.Int64 // deliveries that rules hold; each will use one credit
	unsent    atomic.Int64 // deliveries that wait for the journal; each will use one credit
	swallowed atomic.Int64 // deliveries that rules have ended in silence; each has used one, until the client's next flow

	mu      sync.Mutex
	ended   bool
	waiting []*broker.Delivery // begun, but the link had no credit for them any more
}

var (
	_ outgoing = (*receiver)(nil)
	_ settled  = (*receiver)(nil)
	_ closable = (*receiver)(nil)
)

// receipt is what the receiver remembers of a message until it is settled.
type receipt struct {
	token    broker.Token
	message  *broker.Message
	settling atomic.Bool
}

// attachReceiver makes a receiver of messages, or, with a session filter, of one session's messages.
func (c *connection) attachReceiver(l *amqp.Link, entity broker.Entity) (accept func(), err error) {
	q, ok := entity.(*broker.Queue)
	if !ok {
		return nil, fmt.Errorf("receive from topic %s: %w: receive from one of its subscriptions", entity.Path(), broker.ErrInvalid)
	}
	wanted, err := sessionWanted(l)
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", entity.Path(), err)
	}
	r := &receiver{attachment: attachmentTo(l, entityText(q.Path()), Listen), connection: c, queue: q, wake: make(chan struct{}, 1)}
	if l.Peer.SndSettleMode.Or(amqp.SendMixed) == amqp.SendSettled {
		r.mode = broker.ReceiveAndDelete
	}
	l.Data = r
	switch {
	case wanted != nil:
		return func() { r.acceptSession(wanted) }, nil
	case q.RequiresSession():
		return nil, fmt.Errorf("%w: %s", broker.ErrInvalid, sessionNeeded)
	}
	return func() {
		r.adopt(q.Consume(c.client, r.mode, r.wake))
		r.start(amqp.Acceptance{})
	}, nil
}

// start accepts the link and serves it, if the receiver has a consumer still.
func (r *receiver) start(how amqp.Acceptance) {
	c := r.connection
	if c.server.enter() != nil {
		r.close()
		return // the server is closing, and the connection with it
	}
	if err := c.accept(r.link, r.attachment, r.queue, how); err != nil {
		c.server.work.Done()
		r.close()
		c.log("accept receiver", err)
		return
	}
	go func() {
		defer c.server.work.Done()
		r.run()
	}()
}

// adopt gives the receiver its consumer.
func (r *receiver) adopt(consumer *broker.Consumer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.consumer = consumer
	if r.ended {
		consumer.Close()
	}
}

// close ends the consumer, and with it the lock of its session: at the latest before the client knows of the end.
func (r *receiver) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.consumer != nil {
		r.consumer.Close()
	}
}

// credit is called when the client has stated its credit anew, or reads again.
func (r *receiver) credit() {
	r.swallowed.Store(0)
	r.signal()
}

func (r *receiver) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run serves the link until it ends. Locks that it gave out stay.
func (r *receiver) run() {
	defer r.close()
	for {
		select {
		case <-r.wake:
			r.deliver()
		case <-r.consumer.Lost():
			r.connection.detach(r.link, wireError(broker.ErrSessionLockLost))
			return
		case <-r.link.Done():
			return
		}
	}
}

// deliver puts on the link what there is and what the credit allows.
func (r *receiver) deliver() {
	if !r.resend() {
		if r.unsent.Load() == 0 {
			r.connection.log("drain", r.link.Drained()) // if the client has taken its credit back that way
		}
		return
	}
	for {
		draining := r.link.Draining()
		reserved := r.consumer.Collect(r.room())
		for i, reservation := range reserved {
			if r.room() == 0 {
				r.giveBack(reserved[i:])
				return // the link tells when there is room again
			}
			r.begin(reservation)
			r.pause()
		}
		switch {
		case len(reserved) > 0:
		case draining:
			r.drained()
			return
		default:
			return
		}
	}
}

// giveBack returns what was reserved and cannot go out now, since the client is slow to read. What is begun may be lost
// with the link: messages that are received and deleted for good, others until their locks end.
func (r *receiver) giveBack(reserved []broker.Reservation) {
	for _, reservation := range reserved {
		reservation.Cancel()
	}
}

// pause keeps the pace between two deliveries.
func (r *receiver) pause() {
	if r.connection.server.pace <= 0 {
		return
	}
	timer := time.NewTimer(r.connection.server.pace)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.link.Done():
	}
}

// room is the credit that is not spoken for. What rules and the journal hold is read before the credit: a delivery that goes out
// between the two counts twice, which the wake-up that follows it sets right; the other order could promise too much.
func (r *receiver) room() int {
	spoken := r.held.Load() + r.unsent.Load() + r.swallowed.Load()
	r.mu.Lock()
	spoken += int64(len(r.waiting))
	r.mu.Unlock()
	return int(max(0, int64(r.link.Credit())-spoken))
}

// drained sends what came in the meantime and tells the client that there is nothing more.
func (r *receiver) drained() {
	for _, reservation := range r.consumer.Collect(0) {
		r.begin(reservation)
	}
	if r.unsent.Load() > 0 {
		return // when the last of them has gone out, the link is drained still
	}
	r.connection.log("drain", r.link.Drained())
}

// begin starts one delivery, past the rules.
func (r *receiver) begin(reservation broker.Reservation) {
	c := r.connection
	m := reservation.Message()
	op := control.Op{Operation: "deliver", Entity: r.path, Key: m.ID}
	if !c.concerned(op) {
		if d := reservation.Begin(); d != nil {
			r.sendKept(d)
		}
		return
	}
	op.Body = data(m)
	r.held.Add(1)
	c.perform(operation{
		op:   op,
		link: r.link,
		apply: func() func() {
			d := reservation.Begin()
			// The delivery has happened: whatever becomes of it now, it is not held any more. If it is not sent,
			// the client's credit stays as it is.
			return func() {
				if d != nil {
					r.send(d)
				}
			}
		},
		ended: func(how control.Kind) {
			if how == control.Silence || how == control.Answer {
				r.swallowed.Add(1)
			}
			reservation.Cancel()
		},
		done: func() {
			r.held.Add(-1)
			r.signal()
		},
	})
}

// sendKept sends a delivery once its lock outlives the process.
func (r *receiver) sendKept(d *broker.Delivery) {
	n := r.connection.server.namespace
	if !n.Lasting() {
		r.send(d)
		return
	}
	r.unsent.Add(1)
	n.Kept(func() {
		r.send(d)
		r.unsent.Add(-1)
		r.signal()
	})
}

// send puts a delivery on the link. If the client takes nothing now, the delivery waits: its lock has begun.
func (r *receiver) send(d *broker.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) > 0 || !r.sendLocked(d) {
		r.waiting = append(r.waiting, d)
	}
}

// resend sends what waits, and reports whether all of it is out.
func (r *receiver) resend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.waiting) > 0 {
		if !r.sendLocked(r.waiting[0]) {
			return false
		}
		r.waiting = r.waiting[1:]
	}
	r.waiting = nil
	return true
}

// sendLocked reports false if the link has no credit. A link that has ended, or a message that cannot be encoded,
// takes no second try.
func (r *receiver) sendLocked(d *broker.Delivery) bool {
	hub := r.connection.server.hub
	parts, err := encode(hub, d)
	if err != nil {
		r.connection.server.log.Error("message not encoded", slog.String("entity", r.path), slog.Any("err", err))
		return true
	}
	out := amqp.Outgoing{Message: parts, Settled: r.mode == broker.ReceiveAndDelete}
	if out.Settled {
		out.Tag = deliveryTag(broker.NewToken())
	} else {
		out.Tag, out.Data = deliveryTag(d.Token), &receipt{token: d.Token, message: d.Message}
	}
	if hub.Off("servicebus.delivery-tag") {
		out.Tag = d.Token[:]
	}
	r.touch()
	_, err = r.link.Send(out)
	return !errors.Is(err, amqp.ErrNoCredit)
}

// disposition settles a message as the client says and answers with the outcome.
func (r *receiver) disposition(d *amqp.Delivery, state amqp.State, isSettled bool) {
	given, ok := d.Data.(*receipt)
	if !ok || !given.settling.CompareAndSwap(false, true) {
		return // a second word about the same message while the first is considered
	}
	s, name, answer, err := settlementOf(state)
	s.Client, s.MessageID = r.connection.client, given.message.ID
	if s.Disposition == broker.DeadLetter && r.connection.server.hub.Off("servicebus.dead-letter-accepted") {
		answer = state
	}
	settle := func(outcome amqp.State) {
		if !isSettled { // who has settled already wants no answer
			r.connection.log("settle", d.Settle(outcome))
		}
	}
	finish := func(err error) {
		if err != nil {
			answer = amqp.Rejected{Error: wireError(err)}
		}
		settle(answer)
	}
	op := control.Op{Operation: name, Entity: r.path, Key: given.message.ID}
	switch {
	case err != nil:
		finish(err)
	case name == "":
		given.settling.Store(false) // not an outcome yet
	case !r.connection.concerned(op):
		err := r.queue.Settle(given.token, s)
		r.connection.server.namespace.Kept(func() { finish(err) })
	default:
		answered := false
		op.Body = data(given.message)
		r.connection.perform(operation{
			op:   op,
			link: r.link,
			apply: func() func() {
				err := r.queue.Settle(given.token, s)
				return func() { answered = true; finish(err) }
			},
			lose:   func() { r.queue.Lose(given.token) },
			refuse: func(ruling control.Decision) { answered = true; settle(amqp.Rejected{Error: ordered(ruling)}) },
			done:   func() { given.settling.Store(answered) },
		})
	}
}
