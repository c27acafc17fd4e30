package amqp

import (
	"net"
	"sync"
	"testing"

	client "github.com/Azure/go-amqp"
)

func tcpClient(b *testing.B, h Handler) *client.Conn {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		nc, err := listener.Accept()
		if err == nil {
			_ = Serve(b.Context(), nc, h, Options{})
		}
	})
	conn, err := client.Dial(b.Context(), "amqp://"+listener.Addr().String(), &client.ConnOptions{SASLType: client.SASLTypeAnonymous()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		_ = listener.Close()
		wg.Wait()
	})
	return conn
}

// BenchmarkSend is one message of 1 kB sent by the real client and accepted; client and server share the processors.
func BenchmarkSend(b *testing.B) {
	h := &testHandler{attach: func(l *Link) { _ = l.Accept(Acceptance{MaxMessageSize: 1 << 20, Credit: 1_000}) }}
	session, err := tcpClient(b, h).NewSession(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	sender, err := session.NewSender(b.Context(), "tasks", nil)
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 1_000)
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := sender.Send(b.Context(), client.NewMessage(body), nil); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkReceive is one message of 1 kB delivered to the real client, and its settlement answered.
func BenchmarkReceive(b *testing.B) {
	message := data(make([]byte, 1_000))
	h := &testHandler{credit: func(l *Link) {
		for l.Credit() > 0 {
			if _, err := l.Send(Outgoing{Message: message}); err != nil {
				return
			}
		}
	}}
	session, err := tcpClient(b, h).NewSession(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	receiver, err := session.NewReceiver(b.Context(), "tasks", peekLock(1_000))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m, err := receiver.Receive(b.Context(), nil)
			if err == nil {
				err = receiver.AcceptMessage(b.Context(), m)
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkServer is the server alone: one transfer decoded and settled, over a network that costs nothing.
func BenchmarkServer(b *testing.B) {
	transfer, err := AppendFrame(nil, Frame{Body: &Transfer{
		DeliveryID: Some[uint32](1 << 20), DeliveryTag: make([]byte, 8), MessageFormat: Some[uint32](0), Settled: Some(false),
	}, Payload: make([]byte, 1_000)})
	if err != nil {
		b.Fatal(err)
	}
	c := &Conn{
		ctx: b.Context(), cancel: func(error) {}, h: &testHandler{}, o: Options{}.withDefaults(), wake: make(chan struct{}, 1),
		sessions: make(map[uint16]*session), names: make(map[linkName]*Link), maxFrame: 65_536, phase: running,
	}
	if err := c.onBegin(0, &Begin{}); err != nil {
		b.Fatal(err)
	}
	if e := c.sessions[0].onAttach(sendsTo("l", 0)); e != nil {
		b.Fatal(e)
	}
	var own bodies
	opened := true
	b.ReportAllocs()
	for b.Loop() {
		channel, payload, err := splitFrame(transfer, frameAMQP)
		if err == nil {
			_, err = c.frame(frame{len(transfer), channel, payload}, &own, &opened)
		}
		if err != nil {
			b.Fatal(err)
		}
		c.out = c.out[:0]
	}
}
