package amqp

// session is one session: its windows, links and unsettled deliveries. The
// mutex of the connection guards it. Channel and handles of our side are the same numbers as the peer's.
type session struct {
	c       *Conn
	channel uint16
	ended   bool // our end is sent; everything but the peer's end is ignored

	links    map[uint32]*Link     // by handle
	incoming map[uint32]*Delivery // unsettled, by delivery-id
	outgoing map[uint32]*Delivery // unsettled, by delivery-id

	// Session flow control (2.5.6). A transfer-id counts transfer frames.
	nextIncomingID uint32
	incomingWindow uint32 // frames the peer may still send
	nextOutgoingID uint32
	remoteWindow   uint32 // frames we may still send
	nextDeliveryID uint32

	pending      []outbound // deliveries, or rests of them, that wait for the window or for room
	pendingBytes int
	waiting      bool // in Conn.waiting
}

// onSession handles a frame that belongs to a session. An *Error closes the connection.
func (c *Conn) onSession(channel uint16, p Performative, payload []byte) error {
	c.mu.Lock()
	s := c.sessions[channel]
	alive := c.alive()
	ended := s != nil && s.ended
	c.mu.Unlock()
	begin, begins := p.(*Begin)
	switch {
	case !alive:
		return nil
	case begins && s != nil:
		return Errorf(ErrCondNotAllowed, "channel %d has a session", channel)
	case begins:
		return c.onBegin(channel, begin)
	case s == nil && leaves(p):
		return nil // a late word about a session that is over: peers send one when both sides end it at once
	case s == nil:
		return Errorf(ErrCondNotAllowed, "%T on channel %d, which has no session", p, channel)
	}
	if end, ok := p.(*End); ok {
		s.onEnd(end)
		return nil
	}
	if ended {
		return nil
	}
	var e *Error
	switch p := p.(type) {
	case *Attach:
		if p.Handle > c.o.HandleMax {
			return Errorf(ErrCondFramingError, "handle %d is above handle-max %d", p.Handle, c.o.HandleMax)
		}
		e = s.onAttach(p)
	case *Flow:
		e = s.onFlow(p)
	case *Transfer:
		e = s.onTransfer(p, payload)
	case *Disposition:
		e = s.onDisposition(p)
	case *Detach:
		e = s.onDetach(p)
	}
	if e != nil {
		s.fail(e)
	}
	return nil
}

// leaves reports whether a performative only takes leave.
func leaves(p Performative) bool {
	switch p.(type) {
	case *End, *Detach:
		return true
	}
	return false
}

func (c *Conn) onBegin(channel uint16, p *Begin) error {
	if channel > c.o.ChannelMax {
		return Errorf(ErrCondFramingError, "channel %d is above channel-max %d", channel, c.o.ChannelMax)
	}
	if p.RemoteChannel.Set {
		return Errorf(ErrCondNotAllowed, "begin answers channel %d, where nothing was begun", p.RemoteChannel.Value)
	}
	s := &session{
		c: c, channel: channel,
		links:          make(map[uint32]*Link),
		incoming:       make(map[uint32]*Delivery),
		outgoing:       make(map[uint32]*Delivery),
		nextIncomingID: p.NextOutgoingID,
		incomingWindow: c.o.IncomingWindow,
		remoteWindow:   p.IncomingWindow,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.alive() {
		return nil
	}
	c.sessions[channel] = s
	return c.queue(channel, &Begin{
		RemoteChannel:  Some(channel),
		NextOutgoingID: s.nextOutgoingID,
		IncomingWindow: s.incomingWindow,
		OutgoingWindow: c.o.IncomingWindow,
		HandleMax:      Some(c.o.HandleMax),
	})
}

// onEnd: the peer ends the session, or answers our end. The handler hears of it before the peer has its answer.
func (s *session) onEnd(p *End) {
	s.c.mu.Lock()
	answered := s.ended
	s.finish()
	s.c.mu.Unlock()

	s.tellDetached(p.Error)

	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !answered && s.c.alive() {
		_ = s.c.queue(s.channel, &End{}) // an empty end always encodes
	}
	delete(s.c.sessions, s.channel)
}

// fail ends the session with an error.
func (s *session) fail(e *Error) {
	s.c.log.Info("end a session for a protocol error", "container", s.c.Peer.ContainerID, "channel", s.channel, "error", e)
	s.c.mu.Lock()
	if s.c.alive() {
		_ = s.c.queue(s.channel, &End{Error: e}) // the errors of this package encode
	}
	s.finish()
	s.c.mu.Unlock()
	s.tellDetached(nil)
}

// finish ends everything in the session; nothing of it is sent any more.
func (s *session) finish() {
	s.ended = true
	for _, l := range s.links {
		l.finish()
	}
	s.pending, s.pendingBytes = nil, 0
	clear(s.incoming)
	clear(s.outgoing)
}

// tellDetached tells the handler of the links that have ended with their session. Called by the reader only.
func (s *session) tellDetached(e *Error) {
	s.c.mu.Lock()
	var ended []*Link
	for handle, l := range s.links {
		delete(s.links, handle)
		if !l.refused {
			ended = append(ended, l)
		}
	}
	s.c.mu.Unlock()
	for _, l := range ended {
		s.c.h.Detached(l, e)
	}
}

// onFlow updates the windows of the session and the credit of a link (2.5.6, 2.6.7).
func (s *session) onFlow(p *Flow) *Error {
	c := s.c
	c.mu.Lock()
	s.nextIncomingID = p.NextOutgoingID
	// What the peer had received when it wrote this, plus its window, minus what we have sent since.
	// Before it knows of our begin it has received nothing, and our ids began at 0.
	s.remoteWindow = p.NextIncomingID.Value + p.IncomingWindow - s.nextOutgoingID
	if int32(s.remoteWindow) < 0 && p.IncomingWindow < 1<<31 {
		s.remoteWindow = 0 // the peer has shrunk its window
	}
	if s.remoteWindow > 0 && len(s.pending) > 0 {
		c.nudge()
	}
	if !p.Handle.Set {
		if p.Echo {
			s.queueFlow(nil, false)
		}
		c.mu.Unlock()
		return nil
	}
	l := s.links[p.Handle.Value]
	if l == nil {
		c.mu.Unlock()
		return Errorf(ErrCondUnattachedHandle, "flow on handle %d", p.Handle.Value)
	}
	tell := l.onFlow(p)
	c.mu.Unlock()
	if tell {
		c.h.Credit(l)
	}
	return nil
}

// queueFlow queues the state of the session, and of a link if there is one.
func (s *session) queueFlow(l *Link, drain bool) {
	f := &s.c.flow
	*f = Flow{
		NextIncomingID: Some(s.nextIncomingID),
		IncomingWindow: s.incomingWindow,
		NextOutgoingID: s.nextOutgoingID,
		OutgoingWindow: s.c.o.IncomingWindow,
		Drain:          drain,
	}
	if l != nil {
		f.Handle = Some(l.Peer.Handle)
		if l.Outgoing() {
			f.DeliveryCount = Some(l.count - l.queued)
			f.LinkCredit = Some(l.granted() + l.queued)
		} else {
			f.DeliveryCount = Some(l.count)
			f.LinkCredit = Some(l.granted())
		}
	}
	_ = s.c.queue(s.channel, f) // numbers always encode
}
