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
	var spare []byte
	beat := time.NewTimer(0)
	defer beat.Stop()
	last := c.opened // of the last write
	for {
		c.mu.Lock()
		c.pump()
		buf := c.out
		c.out, spare = spare[:0], nil
		c.writing = len(buf)
		finished := c.phase == finishing && len(buf) == 0
		heartbeat := c.heartbeat
		c.mu.Unlock()

		if finished {
			return
		}
		if len(buf) == 0 {
			spare = buf
			if !c.idle(beat, last, heartbeat) {
				continue
			}
			buf, _ = AppendFrame(buf, Frame{}) // without a body nothing can fail
		}
		if err := c.put(buf); err != nil {
			c.breakOff(fmt.Errorf("write: %w", err))
			return
		}
		last = time.Now()
		if cap(buf) <= keepBuffer {
			spare = buf
		}
		c.wrote()
	}
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

// wrote tells those who wait for room.
func (c *Conn) wrote() {
	c.mu.Lock()
	c.writing = 0
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
	c.freed()
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
