package amqp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Conn is one connection, as the handler sees it.
type Conn struct {
	// Peer is the open performative of the peer: its container-id, hostname and properties. Do not change it.
	Peer Open
	// Data is the handler's own, to be set in Handler.Open.
	Data any

	ctx    context.Context
	cancel context.CancelCauseFunc
	nc     net.Conn
	h      Handler
	o      Options
	log    *slog.Logger
	wake   chan struct{} // the writer has something to do; holds one
	space  chan struct{} // the writer has written something; holds one
	opened time.Time     // when Serve began

	// mu guards what follows and the state of every session, link and delivery
	// of the connection. It is held for moments only, never over I/O or a handler call.
	mu        sync.Mutex
	phase     phase
	cause     error               // why the connection is over, set with the first reason; nil is a clean close
	broken    error               // of the writer
	closeBy   time.Time           // from closing on: how long to wait for the peer
	out       []byte              // frames that wait to be written
	spare     []byte              // becomes out when that is written; nil while both are in use
	busy      bool                // somebody is writing, the writer or the reader
	writing   int                 // bytes of that
	reading   bool                // the reader has frames at hand, whose answers are worth waiting for
	owed      bool                // the writer was not woken for their sake
	maxFrame  int                 // largest frame we may send
	heartbeat time.Duration       // longest silence we may keep; 0: any
	sessions  map[uint16]*session // by channel, which is the same number in both directions
	names     map[linkName]*Link  // links that are not ended
	waiting   []*session          // sessions with deliveries that wait for a window or for room
	starved   []*Link             // links to be told Credit once there is room
	flow      Flow                // scratch of queue, saves an allocation per frame
	settled   settlement          // the last one queued
}

type phase int

const (
	handshaking phase = iota // until our open is queued
	running                  // until one side's close
	closing                  // our close is queued; everything but the peer's close is ignored
	finishing                // the reader has ended; the writer writes what is left and ends
)

type linkName struct {
	name string
	role Role
}

// Context ends when the connection does; its cause says why.
func (c *Conn) Context() context.Context { return c.ctx }

// Close tells the peer that the connection is over, with an error or nil, and
// ends it once the peer has answered or CloseTimeout has passed. What was sent before is still written.
func (c *Conn) Close(e *Error) {
	if e == nil {
		c.shut(nil, nil)
		return
	}
	c.shut(e, e)
}

// Cut ends the connection at once, without a word, as a broken network does. What waits to be written is lost.
func (c *Conn) Cut() { c.fail(errCut) }

var errCut = errors.New("the connection was cut")

// shut queues a close, if the connection is open, and cuts it otherwise.
func (c *Conn) shut(e *Error, cause error) {
	c.mu.Lock()
	if c.phase == handshaking {
		c.mu.Unlock()
		c.fail(cause)
		return
	}
	defer c.mu.Unlock()
	if c.phase == running {
		if err := c.queue(0, &Close{Error: e}); err != nil {
			// An error with information that does not encode: its condition and words do.
			_ = c.queue(0, &Close{Error: Errorf(e.Condition, "%s", e.Description)})
		}
		c.phase = closing
		c.endLocked(cause)
		c.closeBy = time.Now().Add(c.o.CloseTimeout)
		_ = c.nc.SetReadDeadline(c.closeBy) // an error means that it is closed already
	}
}

// fail ends the connection without a word.
func (c *Conn) fail(cause error) {
	c.mu.Lock()
	c.endLocked(cause)
	c.mu.Unlock()
	c.sever()
}

// sever closes the network connection, so that reads and writes end. Under TLS
// it closes what lies below: a TLS connection would first say goodbye, and wait for room to do so.
func (c *Conn) sever() {
	nc := c.nc
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	_ = nc.Close() // an error means that it is closed already
}

// endLocked records why the connection is over and ends everything on it. The first reason counts.
func (c *Conn) endLocked(cause error) {
	if c.ctx.Err() != nil {
		return
	}
	c.cause = cause
	if cause == nil {
		cause = ErrGone
	}
	c.cancel(cause)
	for _, s := range c.sessions {
		s.finish()
	}
	c.waiting, c.starved = nil, nil
}

// reason is what Serve returns.
func (c *Conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// alive reports whether frames can still be sent.
func (c *Conn) alive() bool { return c.phase == running && c.ctx.Err() == nil }

// queue appends a frame for the writer, unless a close is queued already. The caller holds mu.
func (c *Conn) queue(channel uint16, p Performative) error {
	if c.phase > running {
		return ErrGone
	}
	out, mark := beginFrame(c.out, frameAMQP, channel)
	out, err := p.appendTo(out)
	if err != nil {
		return fmt.Errorf("encode %T: %w", p, err)
	}
	if n := len(out) - mark; n > c.maxFrame {
		return fmt.Errorf("encode %T: %d bytes are more than the peer's max-frame-size of %d", p, n, c.maxFrame)
	}
	c.out = endFrame(out, mark)
	c.nudge()
	return nil
}

// gather is how much is queued at most before the writer is woken although the reader has more frames at hand.
const gather = 16 << 10

// nudge wakes the writer, unless it can as well wait until the reader has handled what it has read: one write for
// many answers. The caller holds mu.
func (c *Conn) nudge() {
	if c.reading && len(c.out) < gather {
		c.owed = true
		return
	}
	c.signal()
}

func (c *Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// full reports whether the peer is too far behind in reading for another message.
func (c *Conn) full() bool { return len(c.out)+c.writing >= c.o.MaxQueued }
