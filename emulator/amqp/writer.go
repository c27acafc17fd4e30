package amqp

import (
	"fmt"
	"slices"
	"time"
)

// keepBuffer is the largest write buffer that is kept for the next round.
const keepBuffer = 256 << 10

// write is the writer goroutine: it takes everything that is queued and writes
// it at once, so that frames queued meanwhile share the next write. It
// ends when writing fails, or, after the reader, when nothing is left.
func (c *Conn) write() {
	beat := time.NewTimer(0)
	defer beat.Stop()
	last := c.opened // of the last write
	for {
		c.mu.Lock()
		if !c.busy {
			c.pump()
		}
		buf := c.take()
		finished := c.phase == finishing && len(buf) == 0
		heartbeat := c.heartbeat
		c.mu.Unlock()

		if finished {
			return
		}
		if len(buf) == 0 {
			c.resume() // whom the reader's own write has made room for
			if !c.idle(beat, last, heartbeat) {
				continue
			}
			if buf = c.heartbeatFrame(); len(buf) == 0 {
				continue
			}
		}
		if err := c.put(buf); err != nil {
			c.breakOff(fmt.Errorf("write: %w", err))
			return
		}
		last = time.Now()
		c.wrote(buf)
	}
}

// take takes what is queued, for somebody who writes it now. It takes nothing while somebody else
// writes, who will wake the writer if there is reason to. The caller holds mu.
func (c *Conn) take() []byte {
	if c.busy || len(c.out) == 0 {
		return nil
	}
	buf := c.out
	c.out, c.spare = c.spare[:0], nil
	c.busy, c.writing = true, len(buf)
	c.settled.s = nil // its frame has gone with the others
	return buf
}

// putBack is the end of what take began. The caller holds mu.
func (c *Conn) putBack(buf []byte) {
	c.busy, c.writing = false, 0
	if cap(buf) <= keepBuffer {
		c.spare = buf[:0]
	}
}

// heartbeatFrame queues an empty frame and takes it, unless it is not needed: somebody writes, or is about to.
func (c *Conn) heartbeatFrame() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy || len(c.out) > 0 {
		return nil
	}
	c.out, _ = AppendFrame(c.out, Frame{}) // without a body nothing can fail
	return c.take()
}

// tryWriter is a network connection that can write without waiting: as much as there is room for.
type tryWriter interface {
	TryWrite(p []byte) (n int, err error)
}

// writeNow writes for the reader what is queued, as far as that needs no waiting, and leaves the rest to the
// writer: it is cheaper than to wake another goroutine for every answer. It reports false if the writer has
// to do it all. The caller holds mu, which is free while the network has it.
func (c *Conn) writeNow() bool {
	now, ok := c.nc.(tryWriter)
	if !ok || c.phase != running || len(c.waiting)+len(c.starved) > 0 {
		return false
	}
	buf := c.take()
	if len(buf) == 0 {
		return false
	}
	c.mu.Unlock()
	n, _ := now.TryWrite(buf) // the writer's own write will say what is wrong
	c.mu.Lock()
	if n < len(buf) {
		// What was queued meanwhile comes behind the rest.
		c.out, buf = append(buf[:copy(buf, buf[n:])], c.out...), c.out
		c.settled.s = nil
	}
	c.putBack(buf)
	if len(c.out)+len(c.starved) > 0 {
		c.signal()
	}
	return true
}

// idle waits for something to write. It reports true if it is time for a heartbeat instead.
func (c *Conn) idle(beat *time.Timer, last time.Time, heartbeat time.Duration) bool {
	if heartbeat == 0 {
		<-c.wake
		return false
	}
	beat.Reset(time.Until(last.Add(heartbeat)))
	select {
	case <-c.wake:
		return false
	case <-beat.C:
		return true
	}
}

func (c *Conn) put(buf []byte) error {
	c.mu.Lock()
	if c.phase != finishing { // which has its own, shorter deadline
		_ = c.nc.SetWriteDeadline(time.Now().Add(c.o.WriteTimeout)) // the write will say what is wrong
	}
	c.mu.Unlock()
	_, err := c.nc.Write(buf)
	return err
}

// wrote is the end of a write of the writer's: there is room again.
func (c *Conn) wrote(buf []byte) {
	c.mu.Lock()
	c.putBack(buf)
	c.mu.Unlock()
	c.freed()
	c.resume()
}

// resume tells the links that found no room, if there is some.
func (c *Conn) resume() {
	c.mu.Lock()
	var roomy []*Link
	c.starved = slices.DeleteFunc(c.starved, func(l *Link) bool {
		if l.phase == attached && !l.hasRoom() {
			return false
		}
		l.starved = false
		if l.phase == attached {
			roomy = append(roomy, l)
		}
		return true
	})
	c.mu.Unlock()
	for _, l := range roomy {
		c.h.Credit(l)
	}
}

// breakOff ends the connection because it cannot be written to. The reader has
// the last word on why it ended: the peer's close may be among what it has read already.
func (c *Conn) breakOff(err error) {
	c.mu.Lock()
	c.broken = err
	c.out, c.writing = nil, 0
	c.mu.Unlock()
	c.freed()
	c.sever()
}

// freed wakes the reader if it waits for the queue to become shorter.
func (c *Conn) freed() {
	select {
	case c.space <- struct{}{}:
	default:
	}
}

// pump queues deliveries that wait, as far as windows and room allow.
func (c *Conn) pump() {
	c.waiting = slices.DeleteFunc(c.waiting, func(s *session) bool {
		s.pump()
		s.waiting = len(s.pending) > 0
		return !s.waiting
	})
}
