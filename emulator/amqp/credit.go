package amqp

import "math"

// granted is the credit that is left, by the count of messages taken (2.6.7).
func (l *Link) granted() uint32 {
	if int32(l.limit-l.count) <= 0 {
		return 0
	}
	return l.limit - l.count
}

// Credit is how many more messages the peer takes now on an outgoing link: what it granted minus what
// Send took. It is 0 while too much waits for the peer to read.
func (l *Link) Credit() uint32 {
	c := l.s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.phase != attached || !l.Outgoing() {
		return 0
	}
	n := l.granted()
	if n > 0 && !l.hasRoom() {
		l.starve()
		return 0
	}
	return n
}

// hasRoom reports whether another message may be taken, given what waits already.
func (l *Link) hasRoom() bool {
	return !l.s.c.full() && l.s.pendingBytes < l.s.c.o.MaxQueued
}

// starve has the writer call Handler.Credit after its next write that leaves room.
func (l *Link) starve() {
	if !l.starved {
		l.starved = true
		l.s.c.starved = append(l.s.c.starved, l)
	}
}

// Draining reports whether the peer waits for Drained.
func (l *Link) Draining() bool {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	return l.phase == attached && l.draining && !l.drain
}

// Drained tells a draining peer that nothing more is there: its remaining
// credit is used up. It does nothing if the peer does not drain.
func (l *Link) Drained() error {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	switch {
	case l.phase != attached:
		return l.late()
	case !l.draining:
		return nil
	case l.queued > 0: // the flow must not overtake them
		l.drain = true
		return nil
	}
	l.useUp()
	return nil
}

// useUp advances the delivery-count over the remaining credit and tells the peer.
func (l *Link) useUp() {
	l.draining, l.drain = false, false
	l.count += l.granted()
	l.s.queueFlow(l, true)
}

// onFlow takes the peer's view of the link. It reports true if the handler is to be told.
func (l *Link) onFlow(p *Flow) bool {
	if l.phase != attaching && l.phase != attached {
		return false
	}
	if !l.Outgoing() {
		if p.Echo && l.phase == attached {
			l.s.queueFlow(l, false)
		}
		return false
	}
	if p.LinkCredit.Set {
		// The peer's count is absent before it knows ours, which began at 0. Serial
		// numbers compare within half of their range, so no more than that is ever granted.
		l.limit = p.DeliveryCount.Value + min(p.LinkCredit.Value, math.MaxInt32)
	}
	l.draining = p.Drain
	if !p.Drain {
		l.drain = false
	}
	if l.phase == attaching {
		return false // Accept sees to it
	}
	if p.Echo && !p.Drain {
		l.s.queueFlow(l, false)
	}
	return l.granted() > 0 || l.draining
}

// SetCredit changes the credit window of an incoming link. A smaller one takes effect as messages come; 0 stops renewal.
func (l *Link) SetCredit(window uint32) error {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	if l.phase != attached {
		return l.late()
	}
	l.window = window
	l.renew()
	return nil
}

// renew grants the peer of an incoming link new credit, once it has used half of what it may have.
func (l *Link) renew() {
	if l.window <= l.unsettled {
		return
	}
	want, have := l.window-l.unsettled, l.granted()
	if want <= have || want-have < max(1, want/2) {
		return
	}
	l.limit = l.count + want
	l.s.queueFlow(l, false)
}
