package amqp

import (
	"encoding/binary"
	"errors"
)

// Outgoing is a message to be sent.
type Outgoing struct {
	Tag     []byte   // delivery-tag, at most 32 bytes; nil: one is made
	Format  uint32   // message-format, 0 for an AMQP message
	Settled bool     // sent settled: no disposition will follow
	Message [][]byte // the encoded message in consecutive parts; kept until written, so must not be changed
	Data    any      // becomes Delivery.Data
}

// outbound is a message, or what is left of it, on its way into the queue of the connection.
type outbound struct {
	d       *Delivery
	parts   [][]byte // the first of which holds the next byte to be written
	off     int      // of that byte
	left    int      // bytes in parts
	started bool     // the first frame is queued
}

// headroom is what a transfer frame takes at most besides the payload: the frame head (8), the
// performative's descriptor and list head (6), handle (5), delivery-id (5), delivery-tag (34), message-format
// (5) and seven fields of one byte.
const headroom = 8 + 6 + 5 + 5 + 34 + 5 + 7

var (
	errTag       = errors.New("a delivery-tag has at most 32 bytes")
	errDirection = errors.New("messages come in on this link, they do not go out")
)

// Send takes one credit and sends a message on an outgoing link; it is written
// as soon as the windows of the session allow. ErrNoCredit: nothing was taken
// or sent; Handler.Credit will be called. Disposition may be called before Send returns.
func (l *Link) Send(m Outgoing) (*Delivery, error) {
	s, c := l.s, l.s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case l.phase != attached:
		return nil, l.late()
	case !l.Outgoing():
		return nil, errDirection
	case len(m.Tag) > 32:
		return nil, errTag
	case l.granted() == 0:
		return nil, ErrNoCredit
	case !l.hasRoom():
		l.starve()
		return nil, ErrNoCredit
	}
	l.count++
	if m.Tag == nil {
		m.Tag = binary.BigEndian.AppendUint32(nil, l.count)
	}
	d := &Delivery{Link: l, Tag: m.Tag, Format: m.Format, Settled: m.Settled, Data: m.Data}
	o := outbound{d: d, parts: m.Message}
	for _, part := range m.Message {
		o.left += len(part)
	}
	l.queued++
	if len(s.pending) > 0 || !s.emit(&o) {
		s.pending = append(s.pending, o)
		s.pendingBytes += o.left
		if !s.waiting {
			s.waiting = true
			c.waiting = append(c.waiting, s)
		}
	}
	c.nudge()
	return d, nil
}

// pump queues pending messages as far as the window and the room in the queue go.
func (s *session) pump() {
	n := 0
	for ; n < len(s.pending); n++ {
		o := &s.pending[n]
		before := o.left
		whole := s.emit(o)
		s.pendingBytes -= before - o.left
		if !whole {
			break
		}
		*o = outbound{}
	}
	s.pending = s.pending[n:]
}

// emit queues transfer frames of a message until it is whole, the peer's window is used up or the queue is full.
func (s *session) emit(o *outbound) (whole bool) {
	c, l := s.c, o.d.Link
	for s.remoteWindow > 0 && !c.full() {
		out, mark := beginFrame(c.out, frameAMQP, s.channel)
		t := Transfer{Handle: l.Peer.Handle}
		if !o.started {
			o.started = true
			o.d.id = s.nextDeliveryID
			s.nextDeliveryID++
			if !o.d.Settled {
				s.outgoing[o.d.id] = o.d
			}
			t.DeliveryID, t.DeliveryTag, t.MessageFormat = Some(o.d.id), o.d.Tag, Some(o.d.Format)
			t.Settled = Some(o.d.Settled)
		}
		chunk := min(o.left, c.maxFrame-headroom)
		t.More = chunk < o.left
		out, _ = t.appendTo(out) // numbers and a tag always encode
		c.out = endFrame(o.take(out, chunk), mark)
		s.remoteWindow--
		s.nextOutgoingID++
		if !t.More {
			l.queued--
			if l.drain && l.queued == 0 {
				l.useUp()
			}
			return true
		}
	}
	return false
}

// take moves the next n bytes of the message to dst.
func (o *outbound) take(dst []byte, n int) []byte {
	o.left -= n
	for n > 0 {
		part := o.parts[0][o.off:]
		if len(part) > n {
			o.off += n
			return append(dst, part[:n]...)
		}
		dst = append(dst, part...)
		n -= len(part)
		o.parts, o.off = o.parts[1:], 0
	}
	return dst
}
