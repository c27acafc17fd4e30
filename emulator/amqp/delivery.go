package amqp

import (
	"bytes"
	"fmt"
	"slices"
)

// Delivery is one message on its way over a link, in either direction.
type Delivery struct {
	Link    *Link
	Tag     []byte
	Format  uint32
	Settled bool   // was sent settled
	Message []byte // of an incoming delivery: the encoded message; the handler's from now on
	Data    any    // the handler's own: set it in Outgoing, or in Handler.Transfer

	id uint32 // delivery-id; of an outgoing delivery from its first frame on
}

// onTransfer takes a frame of an incoming delivery (2.6.12, 2.7.5).
func (s *session) onTransfer(p *Transfer, payload []byte) *Error {
	c := s.c
	c.mu.Lock()
	if s.incomingWindow == 0 {
		c.mu.Unlock()
		return Errorf(ErrCondWindowViolation, "a transfer outside of the incoming window")
	}
	s.nextIncomingID++
	s.incomingWindow--
	if s.incomingWindow <= c.o.IncomingWindow/2 && c.alive() {
		s.incomingWindow = c.o.IncomingWindow
		s.queueFlow(nil, false)
	}
	l := s.links[p.Handle]
	if l == nil {
		c.mu.Unlock()
		return Errorf(ErrCondUnattachedHandle, "transfer on handle %d", p.Handle)
	}
	if l.phase == detaching || l.phase == detached {
		c.mu.Unlock()
		return nil
	}
	d, e := l.receive(p, payload)
	if e != nil {
		_ = l.end(e) // the errors of this package encode
	}
	c.mu.Unlock()
	if e != nil {
		c.log.Info("detach a link for a protocol error", "container", c.Peer.ContainerID, "link", l.Peer.Name, "error", e)
	}
	if d != nil {
		c.h.Transfer(d)
	}
	return nil
}

// receive adds a frame to the delivery it belongs to, and returns the delivery if it is whole.
func (l *Link) receive(p *Transfer, payload []byte) (*Delivery, *Error) {
	if l.Outgoing() {
		return nil, Errorf(ErrCondNotAllowed, "a transfer to the sender of the link")
	}
	d := l.partial
	if d == nil {
		switch {
		case l.granted() == 0:
			return nil, Errorf(ErrCondTransferLimitExceeded, "a transfer without credit")
		case !p.DeliveryID.Set:
			return nil, Errorf(ErrCondNotAllowed, "a delivery without delivery-id")
		case len(p.DeliveryTag) > 32:
			return nil, Errorf(ErrCondInvalidField, "a delivery-tag of %d bytes", len(p.DeliveryTag))
		case l.s.incoming[p.DeliveryID.Value] != nil:
			return nil, Errorf(ErrCondNotAllowed, "delivery-id %d is in use", p.DeliveryID.Value)
		}
		l.count++
		d = &Delivery{Link: l, Tag: p.DeliveryTag, Format: p.MessageFormat.Value, id: p.DeliveryID.Value}
	} else if p.DeliveryID.Set && p.DeliveryID.Value != d.id {
		return nil, Errorf(ErrCondNotAllowed, "delivery %d begins within delivery %d", p.DeliveryID.Value, d.id)
	}
	l.partial = nil
	d.Settled = d.Settled || p.Settled.Value
	if p.Aborted {
		l.renew()
		return nil, nil
	}
	if size := uint64(len(d.Message) + len(payload)); size > l.maxSize {
		return nil, Errorf(ErrCondMessageSizeExceeded, "the message (%d bytes so far) exceeds the limit of %d bytes of the link", size, l.maxSize)
	}
	if d.Message == nil && !p.More {
		d.Message = bytes.Clone(payload) // the frame is a view of the read buffer
	} else {
		d.Message = append(d.Message, payload...)
	}
	if p.More {
		l.partial = d
		return nil, nil
	}
	if !d.Settled {
		l.unsettled++
		l.s.incoming[d.id] = d
	}
	l.renew()
	return d, nil
}

// Settle tells the peer the outcome and forgets the delivery. It answers ErrGone, and sends nothing, if the
// delivery was settled before (also by the peer), was sent settled, or its link has ended.
func (d *Delivery) Settle(state State) error {
	l := d.Link
	s, c := l.s, l.s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	unsettled, role := s.incoming, RoleReceiver
	if l.Outgoing() {
		unsettled, role = s.outgoing, RoleSender
	}
	if l.phase != attached || unsettled[d.id] != d {
		return ErrGone
	}
	if err := c.queueSettlement(s, role, d.id, state); err != nil {
		return fmt.Errorf("settle a delivery: %w", err)
	}
	delete(unsettled, d.id)
	if !l.Outgoing() {
		l.unsettled--
		l.renew()
	}
	return nil
}

// settlement is the disposition that was queued last, as long as its frame can still be widened.
type settlement struct {
	s          *session // nil: it cannot
	frame      Disposition
	begin, end int // of the frame in Conn.out
}

// broadest is how many deliveries one disposition of ours settles at most. Clients look
// at the whole range for each of them.
const broadest = 32

// queueSettlement queues a disposition. If it says the same as the last frame in the queue, about the
// next delivery, it becomes a part of that one.
func (c *Conn) queueSettlement(s *session, role Role, id uint32, state State) error {
	last := &c.settled
	_, accepted := state.(Accepted)
	if accepted && last.widens(s, role, id) && last.end == len(c.out) {
		last.frame.Last = Some(id)
		c.out = c.out[:last.begin]
	} else {
		last.frame = Disposition{Role: role, First: id, Settled: true, State: state}
	}
	last.s, last.begin = s, len(c.out)
	if err := c.queue(s.channel, &last.frame); err != nil {
		last.s = nil
		return err
	}
	last.end = len(c.out)
	return nil
}

// widens reports whether an acceptance of the next delivery can be added.
func (l *settlement) widens(s *session, role Role, id uint32) bool {
	_, accepted := l.frame.State.(Accepted)
	return accepted && l.s == s && l.frame.Role == role && id == l.frame.Last.Or(l.frame.First)+1 &&
		id-l.frame.First < broadest && id > l.frame.First // no client has to count over the end of the numbers
}

// onDisposition takes the peer's view of a range of deliveries.
func (s *session) onDisposition(p *Disposition) *Error {
	last := p.Last.Or(p.First)
	if int32(last-p.First) < 0 {
		return Errorf(ErrCondInvalidField, "a disposition from delivery %d back to %d", p.First, last)
	}
	c := s.c
	c.mu.Lock()
	if p.Role == RoleSender {
		// The peer settles what it has sent itself: an answer that is still to come has nobody to go to.
		for _, d := range within(s.incoming, p.First, last) {
			if p.Settled {
				delete(s.incoming, d.id)
				d.Link.unsettled--
				d.Link.renew()
			}
		}
		c.mu.Unlock()
		return nil
	}
	told := within(s.outgoing, p.First, last)
	if p.Settled {
		for _, d := range told {
			delete(s.outgoing, d.id)
		}
	}
	c.mu.Unlock()
	state, settled := p.State, p.Settled // p is reused by the next frame, and State is told to several
	for _, d := range told {
		c.h.Disposition(d, state, settled)
	}
	return nil
}

// within returns the deliveries of a range of ids, in order. A range may be much larger than what there is.
func within(deliveries map[uint32]*Delivery, first, last uint32) []*Delivery {
	var out []*Delivery
	if span := last - first; int64(span) < int64(len(deliveries)) {
		for i := range span + 1 {
			if d := deliveries[first+i]; d != nil {
				out = append(out, d)
			}
		}
		return out
	}
	for id, d := range deliveries {
		if id-first <= last-first {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *Delivery) int { return int(int32(a.id - b.id)) })
	return out
}
