package amqp

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// hasty is a server's end that can read and write without waiting, and gets and takes as much as chance will have it.
type hasty struct {
	net.Conn
	t       *testing.T
	rand    *rand.Rand
	mu      sync.Mutex // held by whoever writes: two at a time would be a mistake
	written chan []byte
	arrived chan []byte
	rest    []byte // of what has arrived

	// What the reader alone counts:
	writes, reads int // that succeeded without waiting
	putOff        int // bytes read since it could have written
}

const hastyFrame = 512 // so that a read brings little

func newHasty(t *testing.T, nc net.Conn, seed uint64) *hasty {
	return &hasty{
		Conn: nc, t: t, rand: rand.New(rand.NewPCG(seed, 0)),
		written: make(chan []byte, 1<<16), arrived: make(chan []byte, 1<<16),
	}
}

// carry brings to the peer what was written, until the end.
func (h *hasty) carry() {
	for b := range h.written {
		_, _ = h.Conn.Write(b) // fails when the peer has hung up
	}
}

// fetch brings what the peer writes, until the end.
func (h *hasty) fetch() {
	defer close(h.arrived)
	for {
		b := make([]byte, hastyFrame)
		n, err := h.Conn.Read(b)
		if err != nil {
			return
		}
		h.arrived <- b[:n]
	}
}

func (h *hasty) Read(p []byte) (int, error) {
	if len(h.rest) == 0 {
		h.rest = <-h.arrived
	}
	if len(h.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, h.rest)
	h.rest, h.putOff = h.rest[n:], n
	return n, nil
}

func (h *hasty) TryRead(p []byte) int {
	chance := h.rand.IntN(8)
	if chance == 0 {
		synctest.Wait() // until something has come, if anything does
	}
	if len(h.rest) == 0 && chance < 7 {
		select {
		case h.rest = <-h.arrived:
		default:
		}
	}
	n := copy(p, h.rest)
	h.rest = h.rest[n:]
	if h.putOff += n; n > 0 {
		h.reads++
	}
	if h.putOff > 2*hastyFrame {
		h.t.Errorf("answers are put off over %d bytes", h.putOff)
	}
	return n
}

func (h *hasty) take(p []byte) {
	if !h.mu.TryLock() {
		h.t.Error("two write at the same time")
		return
	}
	defer h.mu.Unlock()
	h.written <- bytes.Clone(p)
}

func (h *hasty) Write(p []byte) (int, error) {
	h.take(p)
	return len(p), nil
}

func (h *hasty) TryWrite(p []byte) (int, error) {
	h.writes++
	n := h.rand.IntN(len(p) + 1)
	h.take(p[:n])
	return n, nil
}

func TestWhatReaderAndWriterWriteStaysInOrder(t *testing.T) {
	const each = 500
	writes, reads := 0, 0
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				server := newHasty(t, far, seed)
				out := make(chan *Link, 1)
				h := &testHandler{
					attach: func(l *Link) { _ = l.Accept(Acceptance{Credit: 2 * each}) },
					credit: func(l *Link) {
						select {
						case out <- l:
						default: // it knows already
						}
					},
					transfer: func(d *Delivery) { _ = d.Settle(Released{}) }, // which no other answer is joined with
				}
				s := &served{conn: &pipeEnd{Conn: near}}
				s.wg.Go(func() {
					s.err = Serve(t.Context(), server, h, Options{MaxFrameSize: hastyFrame})
					close(server.written)
				})
				s.wg.Go(server.carry)
				s.wg.Go(server.fetch)
				p := inSession(t, s)
				p.send(0, sendsTo("in", 0), nil)
				next[*Attach](p)
				next[*Flow](p)
				p.send(0, receivesFrom("out", 1), nil)
				next[*Attach](p)
				p.send(0, &Flow{IncomingWindow: 2 * each, OutgoingWindow: 100, Handle: Some[uint32](1), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](each)}, nil)

				var sending sync.WaitGroup
				l := <-out
				sending.Go(func() {
					for i := range each {
						if _, err := l.Send(Outgoing{Message: [][]byte{{byte(i), byte(i >> 8)}}, Settled: true}); err != nil {
							t.Error(err)
						}
					}
				})
				sending.Go(func() {
					var burst []byte
					for i := range uint32(each) {
						burst, _ = AppendFrame(burst, Frame{Body: &Transfer{DeliveryID: Some(i), DeliveryTag: []byte{1}}})
						if i%7 == 0 || i == each-1 {
							if _, err := p.conn.Write(burst); err != nil {
								t.Error(err)
							}
							burst = burst[:0]
						}
					}
				})
				answers, messages := received(p, each)
				sending.Wait()
				if !slices.IsSorted(answers) || len(slices.Compact(answers)) != each || !slices.IsSorted(messages) || len(slices.Compact(messages)) != each {
					t.Errorf("answers %v and messages %v are not in order", answers, messages)
				}
				_ = p.conn.Close()
				s.wg.Wait()
				writes, reads = writes+server.writes, reads+server.reads
			})
		})
	}
	// How often depends on who gets to run: a single seed may have it read on not once.
	if writes == 0 || reads == 0 {
		t.Errorf("the reader wrote %d times and read on %d times by itself", writes, reads)
	}
}

// received reads so many dispositions and so many numbered messages, and gives them in their order.
func received(p *peer, each int) (answers []uint32, messages []int) {
	p.t.Helper()
	for len(answers) < each || len(messages) < each {
		b, err := p.frame()
		if err != nil {
			p.t.Fatal(err)
		}
		f, err := DecodeFrame(b)
		if err != nil {
			p.t.Fatalf("decode % x: %v", b, err)
		}
		switch body := f.Body.(type) {
		case *Disposition:
			answers = append(answers, body.First)
		case *Transfer:
			messages = append(messages, int(f.Payload[0])|int(f.Payload[1])<<8)
		}
	}
	return answers, messages
}

// gated is a server's end where the reader's own write lasts until the test says so, once the gate is shut.
type gated struct {
	net.Conn
	shut       atomic.Bool
	begun, end chan struct{}
}

func (g *gated) TryWrite(p []byte) (int, error) {
	if !g.shut.Load() {
		return 0, nil
	}
	g.begun <- struct{}{}
	<-g.end
	return g.Write(p)
}

func TestALinkThatFindsNoRoomWhileTheReaderWritesIsToldWhenThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		server := &gated{Conn: far, begun: make(chan struct{}), end: make(chan struct{})}
		out := make(chan *Link, 10)
		h := &testHandler{
			attach:   func(l *Link) { _ = l.Accept(Acceptance{Credit: 100}) },
			credit:   func(l *Link) { out <- l },
			transfer: func(d *Delivery) { _ = d.Settle(Released{}) },
		}
		s := &served{conn: &pipeEnd{Conn: near}}
		const room = 100
		s.wg.Go(func() { s.err = Serve(t.Context(), server, h, Options{MaxQueued: room}) })
		p := inSession(t, s)
		p.send(0, sendsTo("in", 0), nil)
		next[*Attach](p)
		next[*Flow](p)
		p.send(0, receivesFrom("out", 1), nil)
		next[*Attach](p)
		p.send(0, &Flow{IncomingWindow: 100, OutgoingWindow: 100, Handle: Some[uint32](1), DeliveryCount: Some[uint32](0), LinkCredit: Some[uint32](1)}, nil)
		l := <-out
		synctest.Wait()

		const answers = room / 20 // of more bytes than there is room for
		var burst []byte
		for i := range uint32(answers) {
			burst, _ = AppendFrame(burst, Frame{Body: &Transfer{DeliveryID: Some(i), DeliveryTag: []byte{1}}})
		}
		server.shut.Store(true)
		s.wg.Go(func() {
			if _, err := p.conn.Write(burst); err != nil {
				t.Error(err)
			}
		})
		<-server.begun
		if n := l.Credit(); n != 0 {
			t.Errorf("there is credit for %d messages although nothing more may be queued", n)
		}
		synctest.Wait() // the writer has nothing to do
		close(server.end)
		for range answers {
			next[*Disposition](p)
		}
		synctest.Wait()
		if len(out) != 1 || l.Credit() != 1 {
			t.Errorf("the link was told %d times that there is room", len(out))
		}
		_ = p.conn.Close()
		s.wg.Wait()
	})
}

// How many acceptances share a disposition depends on when the writer gets to
// write; what they may share does not: at most 32 in a row, nothing over a gap or
// over another outcome, and each answer once and in order.
func TestAcceptancesInARowShareADisposition(t *testing.T) {
	const sent = 50
	released := func(i uint32) bool { return i == 40 || i == 41 }
	for name, skip := range map[string]uint32{"all answered": sent, "one never answered": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				received := uint32(0)
				h := &testHandler{
					attach: func(l *Link) { _ = l.Accept(Acceptance{Credit: 1000}) }, // so that no flow comes in between
					transfer: func(d *Delivery) {
						var state State = Accepted{}
						if released(received) {
							state = Released{}
						}
						if received != skip {
							_ = d.Settle(state)
						}
						received++
					},
				}
				s := serveOn(t, h, Options{})
				p := inSession(t, s)
				p.send(0, sendsTo("l", 0), nil)
				next[*Attach](p)
				next[*Flow](p)
				var all []byte
				for i := range uint32(sent) {
					all, _ = AppendFrame(all, Frame{Body: &Transfer{DeliveryID: Some(i), DeliveryTag: []byte{1}}})
				}
				p.write(all) // which the server reads at once
				shared := 0
				for expected := uint32(0); expected < sent; {
					if expected == skip {
						expected++
					}
					b, err := p.frame()
					if err != nil {
						t.Fatal(err)
					}
					f, err := DecodeFrame(b)
					if err != nil {
						t.Fatal(err)
					}
					d, ok := f.Body.(*Disposition)
					if !ok {
						continue
					}
					first, last := d.First, d.Last.Or(d.First)
					_, accepted := d.State.(Accepted)
					if first != expected || last < first || last-first >= 32 || first < skip && last >= skip {
						t.Fatalf("answer to %d-%d, want from %d on, at most 32, not over %d", first, last, expected, skip)
					}
					for i := first; i <= last; i++ {
						if accepted == released(i) {
							t.Errorf("answer to %d-%d: accepted %v, wrong of %d", first, last, accepted, i)
						}
					}
					shared += int(last - first)
					expected = last + 1
				}
				if shared == 0 {
					t.Error("no two answers shared a disposition")
				}
				_ = p.conn.Close()
				_ = s.wait()
			})
		})
	}
}

func TestADispositionDoesNotGoOverTheEndOfTheNumbers(t *testing.T) {
	s := new(session)
	for _, c := range []struct {
		first, id uint32
		want      bool
	}{{5, 6, true}, {5, 7, false}, {5, 5, false}, {1<<32 - 1, 0, false}} {
		last := settlement{s: s, frame: Disposition{First: c.first, State: Accepted{}}}
		if got := last.widens(s, RoleSender, c.id); got != c.want {
			t.Errorf("%d after %d: %v", c.id, c.first, got)
		}
		if last.widens(new(session), RoleSender, c.id) || last.widens(s, RoleReceiver, c.id) {
			t.Errorf("%d after %d, of another session or role", c.id, c.first)
		}
	}
}
