package amqp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// frameReader takes frames off the connection. A frame is a view of the buffer until it is discarded.
type frameReader struct {
	br  *bufio.Reader
	max uint32
}

type frame struct {
	size    int
	channel uint16
	payload []byte
}

func newFrameReader(c *Conn) *frameReader {
	more, _ := c.nc.(tryReader)
	return &frameReader{br: bufio.NewReaderSize(&armedReader{c: c, more: more}, int(c.o.MaxFrameSize)), max: c.o.MaxFrameSize}
}

// armedReader sets the read deadline before every read from the network that may wait, and sees to it that what is queued
// is written before: from there on the reader waits.
type armedReader struct {
	c      *Conn
	more   tryReader // nil if the connection cannot
	putOff int       // bytes that were read since answers were written last
}

// tryReader is a network connection that can read without waiting: what there is, which may be nothing.
type tryReader interface {
	TryRead(p []byte) int
}

func (r *armedReader) Read(p []byte) (int, error) {
	if n := r.readOn(p); n > 0 {
		return n, nil
	}
	r.c.arm()
	n, err := r.c.nc.Read(p)
	r.putOff = n
	r.c.mu.Lock()
	r.c.reading = true
	r.c.mu.Unlock()
	return n, err
}

// readOn reads what has come meanwhile, if answers are owed, so that its answers share the write with theirs. They are
// put off until as much has been handled as one read can bring.
func (r *armedReader) readOn(p []byte) int {
	if r.more == nil || r.putOff >= int(r.c.o.MaxFrameSize) {
		return 0
	}
	r.c.mu.Lock()
	owed := r.c.owed && r.c.phase == running
	r.c.mu.Unlock()
	if !owed {
		return 0
	}
	n := r.more.TryRead(p)
	r.putOff += n
	return n
}

// arm sets the read deadline that fits the phase of the connection, and does what is owed to the writer.
func (c *Conn) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	if c.owed {
		c.owed = false
		if !c.writeNow() {
			c.signal()
		}
	}
	var deadline time.Time
	switch {
	case c.phase == handshaking:
		deadline = c.opened.Add(c.o.OpenTimeout)
	case c.phase == closing:
		deadline = c.closeBy
	case c.o.IdleTimeout > 0:
		deadline = time.Now().Add(c.o.IdleTimeout)
	}
	_ = c.nc.SetReadDeadline(deadline) // the read will say what is wrong
}

func (r *frameReader) header() (h [8]byte, err error) {
	if _, err := io.ReadFull(r.br, h[:]); err != nil {
		return h, fmt.Errorf("read a protocol header: %w", err)
	}
	return h, nil
}

// next waits for a whole frame. The caller must discard it.
func (r *frameReader) next(kind byte) (frame, error) {
	head, err := r.br.Peek(4)
	if err != nil {
		return frame{}, fmt.Errorf("read a frame: %w", eof(err, len(head)))
	}
	size := binary.BigEndian.Uint32(head)
	if size < frameHead || size > r.max {
		return frame{}, Errorf(ErrCondFramingError, "a frame of %d bytes, where the largest is %d", size, r.max)
	}
	b, err := r.br.Peek(int(size))
	if err != nil {
		return frame{}, fmt.Errorf("read a frame: %w", eof(err, len(b)))
	}
	channel, payload, err := splitFrame(b, kind)
	if err != nil {
		return frame{}, Errorf(ErrCondFramingError, "%v", err)
	}
	return frame{size: int(size), channel: channel, payload: payload}, nil
}

func (r *frameReader) discard(f frame) {
	_, _ = r.br.Discard(f.size) // the frame is in the buffer
}

// eof tells the end between two frames from the end in the middle of one.
func eof(err error, have int) error {
	if errors.Is(err, io.EOF) && have > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

// read is the reader goroutine: it runs the connection until it is over, and
// says why, and whether the handler knows of the connection.
func (c *Conn) read() (opened bool, err error) {
	r := newFrameReader(c)
	if err := c.handshake(r); err != nil {
		if errors.Is(err, errAuthentication) || errors.Is(err, ErrMalformed) {
			c.linger(r)
		}
		return false, err
	}
	var own bodies
	for {
		f, err := r.next(frameAMQP)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); ok {
				c.shut(e, e)
				c.linger(r)
			} else if errors.Is(err, os.ErrDeadlineExceeded) && c.alone() {
				e := Errorf(ErrCondResourceLimitExceeded, "nothing was received for %v", c.o.IdleTimeout)
				c.shut(e, e)
			}
			return opened, err
		}
		done, err := c.frame(f, &own, &opened)
		r.discard(f)
		switch {
		case err != nil:
			e, ok := errors.AsType[*Error](err)
			if !ok {
				e = Errorf(ErrCondDecodeError, "%v", err)
			}
			c.log.Info("close a connection for a protocol error", "container", c.Peer.ContainerID, "error", e)
			c.shut(e, e)
		case done:
			return opened, nil
		}
		c.awaitSpace()
	}
}

// alone reports whether the connection is open and has fallen silent.
func (c *Conn) alone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.phase == running
}

// linger reads on for a while after the last word, so that a peer that is
// still writing gets to read it: closing a TCP connection with unread input takes back what was sent.
func (c *Conn) linger(r *frameReader) {
	c.mu.Lock()
	c.phase = max(c.phase, closing)
	c.closeBy = time.Now().Add(c.o.CloseTimeout)
	c.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.br) // ends with the peer or the deadline, both of which are fine
}

// awaitSpace stops reading while the peer does not read what its frames are
// answered with: that is what keeps the queue of answers bounded.
func (c *Conn) awaitSpace() {
	for {
		c.mu.Lock()
		behind := len(c.out)+c.writing > 4*c.o.MaxQueued
		c.mu.Unlock()
		if !behind {
			return
		}
		select {
		case <-c.space:
		case <-c.ctx.Done():
			return
		}
	}
}

// frame handles one frame; done: it was the peer's close. An *Error closes the connection.
func (c *Conn) frame(f frame, own *bodies, opened *bool) (done bool, err error) {
	if len(f.payload) == 0 {
		return false, nil // a heartbeat
	}
	p, payload, err := own.decode(f.payload)
	if err != nil {
		return false, err
	}
	switch p := p.(type) {
	case *Open:
		if *opened {
			return false, Errorf(ErrCondNotAllowed, "a second open")
		}
		return false, c.onOpen(p, opened)
	case *Close:
		c.onClose(p)
		return true, nil
	}
	if !*opened {
		return false, Errorf(ErrCondNotAllowed, "%T before open", p)
	}
	return false, c.onSession(f.channel, p, payload)
}

func (c *Conn) onOpen(p *Open, opened *bool) error {
	c.Peer = *p
	maxFrame := p.MaxFrameSize.Or(c.o.MaxFrameSize)
	if maxFrame < minFrameSize {
		return Errorf(ErrCondInvalidField, "max-frame-size %d is less than %d", maxFrame, minFrameSize)
	}
	refusal := c.h.Open(c)
	*opened = true

	reply := Open{
		ContainerID:  c.o.ContainerID,
		MaxFrameSize: Some(c.o.MaxFrameSize),
		ChannelMax:   Some(c.o.ChannelMax),
		Properties:   c.o.Properties,
	}
	if c.o.IdleTimeout > 0 {
		// The specification asks to announce half of what is enforced.
		reply.IdleTimeOut = Some(uint32(c.o.IdleTimeout.Milliseconds() / 2))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxFrame = int(min(maxFrame, c.o.MaxFrameSize))
	if err := c.queue(0, &reply); err != nil {
		return fmt.Errorf("answer open: %w", err)
	}
	if ms := p.IdleTimeOut.Value; ms > 0 {
		c.heartbeat = max(time.Duration(ms)*time.Millisecond/2, time.Millisecond)
	}
	if c.ctx.Err() == nil {
		c.phase = running
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

// onClose answers the peer's close, or takes it as the answer to ours. The
// handler hears that the links are gone before the peer has its answer.
func (c *Conn) onClose(p *Close) {
	var cause error
	if p.Error != nil {
		cause = p.Error
	}
	c.mu.Lock()
	c.endLocked(cause)
	c.mu.Unlock()

	c.tellDetached()

	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.queue(0, &Close{}) // an empty close always encodes; after our own close there is none
	c.phase = max(c.phase, closing)
}

// tellDetached tells the handler of the links that have ended with the connection. Called by the reader only.
func (c *Conn) tellDetached() {
	for _, s := range c.sessions { // which only the reader changes
		s.tellDetached(nil)
	}
}
