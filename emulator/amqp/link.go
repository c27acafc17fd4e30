package amqp

import (
	"fmt"
)

// Link is one link, from the peer's attach on.
type Link struct {
	// Peer is the attach performative of the peer. Do not change it.
	Peer Attach
	// Data is the handler's own, to be set in Handler.Attach.
	Data any

	s    *session
	done chan struct{}

	// The mutex of the connection guards what follows.
	phase   linkPhase
	refused bool // so that Detached is not called

	// Credit is limit - count, in the arithmetic of serial numbers (2.6.7).
	count uint32 // delivery-count: messages sent, or taken by Send; messages received
	limit uint32 // delivery-count up to which credit is granted

	// Of outgoing links:
	queued   uint32 // messages taken by Send and not written to the connection's queue yet
	draining bool   // the peer waits for Drained
	drain    bool   // Drained was called and waits for the queued messages
	starved  bool   // in Conn.starved

	// Of incoming links:
	window    uint32    // see Acceptance.Credit
	unsettled uint32    // messages received and not settled
	maxSize   uint64    // of a message
	partial   *Delivery // a message whose last frame has not come
}

type linkPhase int

const (
	attaching linkPhase = iota // the peer waits for an answer
	attached
	detaching // our detach is sent; everything but the peer's detach is ignored
	detached
)

// Acceptance is how a link is accepted. Name, handle and settle modes are those of the peer.
type Acceptance struct {
	Source         *Source // nil: the peer's, echoed
	Target         *Target // nil: the peer's, echoed
	Properties     Map
	MaxMessageSize uint64 // enforced on incoming links; 0: not sent, no limit but Options.MaxDelivery
	// Credit is the credit window of an incoming link: credit is renewed by itself so that
	// messages on their way and messages not settled yet are never more than this.
	Credit uint32
}

// Conn returns the connection of the link.
func (l *Link) Conn() *Conn { return l.s.c }

// Outgoing reports whether messages go to the peer on this link, that is, whether the peer is its receiver.
func (l *Link) Outgoing() bool { return l.Peer.Role == RoleReceiver }

// Done is closed when the link has ended: nothing can be sent on it any more.
func (l *Link) Done() <-chan struct{} { return l.done }

// onAttach makes the link and leaves the answer to the handler.
func (s *session) onAttach(p *Attach) *Error {
	c := s.c
	l := &Link{Peer: *p, s: s, done: make(chan struct{})}
	if !l.Outgoing() {
		l.count = p.InitialDeliveryCount.Value
		l.limit = l.count
	}
	name := linkName{p.Name, p.Role}
	c.mu.Lock()
	if !c.alive() {
		c.mu.Unlock()
		return nil
	}
	if s.links[p.Handle] != nil {
		c.mu.Unlock()
		return Errorf(ErrCondHandleInUse, "handle %d is in use", p.Handle)
	}
	if old := c.names[name]; old != nil {
		// 2.6.1: the name can belong to one link only, and the newer one has it.
		_ = old.end(Errorf(ErrCondStolen, "the link %q was attached again", p.Name)) // which encodes
	}
	s.links[p.Handle] = l
	c.names[name] = l
	c.mu.Unlock()
	c.h.Attach(l)
	return nil
}

// Accept answers the attach. An incoming link gets its credit.
func (l *Link) Accept(a Acceptance) error {
	c := l.s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.phase != attaching {
		return l.late()
	}
	reply := l.reply()
	reply.Source, reply.Target, reply.Coordinator = l.Peer.Source, l.Peer.Target, l.Peer.Coordinator
	if a.Source != nil {
		reply.Source = a.Source
	}
	if a.Target != nil {
		reply.Target, reply.Coordinator = a.Target, false
	}
	reply.Properties = a.Properties
	l.maxSize = c.o.MaxDelivery
	if a.MaxMessageSize > 0 {
		reply.MaxMessageSize = Some(a.MaxMessageSize)
		l.maxSize = min(l.maxSize, a.MaxMessageSize)
	}
	if err := c.queue(l.s.channel, &reply); err != nil {
		return fmt.Errorf("accept link %q: %w", l.Peer.Name, err)
	}
	l.phase = attached
	if !l.Outgoing() {
		l.window = a.Credit
		l.renew()
	} else if l.granted() > 0 || l.draining {
		l.starve() // credit came before the answer
	}
	return nil
}

// reply is an attach that answers the peer's, without termini.
func (l *Link) reply() Attach {
	a := Attach{
		Name:          l.Peer.Name,
		Handle:        l.Peer.Handle,
		Role:          !l.Peer.Role,
		SndSettleMode: l.Peer.SndSettleMode,
		RcvSettleMode: l.Peer.RcvSettleMode,
	}
	if l.Outgoing() {
		a.InitialDeliveryCount = Some[uint32](0)
	}
	return a
}

// Refuse answers the attach with a link that has neither source nor target, and detaches it with the error.
func (l *Link) Refuse(e *Error) error {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	if l.phase != attaching {
		return l.late()
	}
	return l.end(e)
}

// Detach ends the link (closed, as opposed to suspended) with an error or nil. A
// link whose attach is not answered yet is refused. Messages that wait for the peer's window are lost.
func (l *Link) Detach(e *Error) error {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	if l.phase != attaching && l.phase != attached {
		return ErrGone
	}
	return l.end(e)
}

// late is the answer to a call that is not possible any more, or not yet.
func (l *Link) late() error {
	if l.phase == detaching || l.phase == detached {
		return ErrGone
	}
	return ErrAnswered
}

// end queues our detach, after an attach without termini if the peer still waits for its answer.
func (l *Link) end(e *Error) error {
	c := l.s.c
	if !c.alive() {
		return ErrGone
	}
	if l.phase == attaching {
		reply := l.reply()
		if err := c.queue(l.s.channel, &reply); err != nil {
			return fmt.Errorf("refuse link %q: %w", l.Peer.Name, err)
		}
		l.refused = true
	}
	err := c.queue(l.s.channel, &Detach{Handle: l.Peer.Handle, Closed: true, Error: e})
	if err != nil {
		// An error with information that does not encode; the link has to end all the same.
		_ = c.queue(l.s.channel, &Detach{Handle: l.Peer.Handle, Closed: true, Error: Errorf(e.Condition, "%s", e.Description)})
		err = fmt.Errorf("detach link %q with its error: %w", l.Peer.Name, err)
	}
	l.finish()
	l.phase = detaching
	l.s.forget(l)
	return err
}

// finish marks the link as ended. The handle stays taken until the peer's detach.
func (l *Link) finish() {
	if l.phase == detaching || l.phase == detached {
		l.phase = detached
		return
	}
	l.phase = detached
	l.partial = nil
	close(l.done)
	if name := (linkName{l.Peer.Name, l.Peer.Role}); l.s.c.names[name] == l {
		delete(l.s.c.names, name)
	}
}

// forget drops the deliveries of a link that has ended in a session that goes on.
func (s *session) forget(l *Link) {
	for _, deliveries := range []map[uint32]*Delivery{s.incoming, s.outgoing} {
		for id, d := range deliveries {
			if d.Link == l {
				delete(deliveries, id)
			}
		}
	}
	kept := s.pending[:0]
	for _, o := range s.pending {
		if o.d.Link == l {
			s.pendingBytes -= o.left
			continue
		}
		kept = append(kept, o)
	}
	clear(s.pending[len(kept):])
	s.pending = kept
}

// onDetach: the peer ends the link, or answers our detach. The handler hears of it before the peer has its answer.
func (s *session) onDetach(p *Detach) *Error {
	c := s.c
	c.mu.Lock()
	l := s.links[p.Handle]
	if l == nil {
		c.mu.Unlock()
		return Errorf(ErrCondUnattachedHandle, "detach of handle %d", p.Handle)
	}
	before, refused := l.phase, l.refused
	l.finish()
	s.forget(l)
	c.mu.Unlock()

	if !refused {
		c.h.Detached(l, p.Error)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	delete(s.links, p.Handle)
	if !c.alive() {
		return nil
	}
	if before == attaching {
		// The handshake needs an attach before the detach; without termini it promises nothing.
		reply := l.reply()
		_ = c.queue(s.channel, &reply) // which encodes: the peer has encoded the same name
	}
	if before == attaching || before == attached {
		_ = c.queue(s.channel, &Detach{Handle: p.Handle, Closed: p.Closed}) // which encodes
	}
	return nil
}
