package amqp

import (
	"io"
	"runtime/debug"
	"testing"
	"time"
)

// FuzzSession: whatever follows the handshake, in whatever order, the connection
// ends when its peer does, and nothing of it stays behind: no panic, no wait for
// ever, no answer without bound. Frames that are whole reach the state machine of
// connection, sessions and links; the handler takes what comes and sends on
// every credit.
func FuzzSession(f *testing.F) {
	frame := func(channel uint16, body Performative, payload ...byte) []byte {
		b, err := AppendFrame(nil, Frame{Channel: channel, Body: body, Payload: payload})
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	open := frame(0, &Open{ContainerID: "peer"})
	begin := frame(0, &Begin{IncomingWindow: 100, OutgoingWindow: 100})
	sender, receiver := frame(0, sendsTo("s", 0)), frame(0, receivesFrom("r", 1))
	transfer := frame(0, &Transfer{DeliveryID: Some[uint32](0), DeliveryTag: []byte{1}}, 0, 0x53, 0x75, 0xa0, 1, 7)
	more := frame(0, &Transfer{Handle: 0, DeliveryID: Some[uint32](1), DeliveryTag: []byte{2}, More: true}, 0, 0x53)
	credit := frame(0, flowOf(1, 0, 10))
	accept := frame(0, &Disposition{Role: RoleReceiver, First: 0, Last: Some[uint32](5), State: Accepted{}})
	detach, end, goodbye := frame(0, &Detach{Handle: 0, Closed: true}), frame(0, &End{}), frame(0, &Close{})
	for _, story := range [][][]byte{
		{open, begin, sender, transfer, more, transfer, receiver, credit, accept, detach, end, goodbye},
		{open, begin, receiver, credit, end, begin, sender, more, end, goodbye},
		{open, open}, {begin}, {open, transfer}, {open, begin, begin}, {open, begin, sender, sender}, {open, begin, accept, credit, detach},
		{open, goodbye, begin}, {open, begin, sender, more, detach, more}, {open, end}, {{0, 0, 0, 8, 2, 0, 0, 0}, open},
	} {
		var all []byte
		for _, b := range story {
			all = append(all, b...)
		}
		f.Add(all)
	}
	f.Fuzz(func(t *testing.T, frames []byte) {
		h := &testHandler{credit: func(l *Link) {
			for range min(l.Credit(), 10) {
				_, _ = l.Send(Outgoing{Tag: []byte{1}, Message: [][]byte{{0, 0x53, 0x75, 0xa0, 1, 7}}})
			}
			if l.Draining() {
				_ = l.Drained()
			}
		}}
		s := serveOn(t, h, Options{})
		answers := make(chan int64, 1)
		go func() {
			n, _ := io.Copy(io.Discard, s.conn)
			answers <- n
		}()
		for _, b := range [][]byte{headerSASLWire, saslInit("ANONYMOUS"), headerAMQPWire, frames} {
			if _, err := s.conn.Write(b); err != nil {
				break // the server has had enough
			}
		}
		_ = s.conn.Close()
		ended := make(chan struct{})
		go func() {
			_ = s.wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			debug.SetTraceback("all")
			panic("the connection does not end with its peer")
		}
		if n := <-answers; n > 1<<20+64*int64(len(frames)) {
			t.Errorf("%d bytes were answered to %d", n, len(frames))
		}
	})
}
