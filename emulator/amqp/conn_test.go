package amqp

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/Azure/go-amqp"
)

func TestTheHandshakeIsTheOneOfTheRealService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &testHandler{open: func(c *Conn) *Error {
			if agent, _ := c.Peer.Properties.Get(Symbol("user-agent")); c.Peer.ContainerID != "cid" || c.Peer.Hostname != "host" || agent != "me" {
				t.Errorf("opened by %+v", c.Peer)
			}
			return nil
		}}
		s := serveOn(t, h, Options{ContainerID: "us"})
		p := rawPeer(t, s)
		p.write(headerSASLWire)
		p.bytes(headerSASLWire)
		// A frame of type 1 with sasl-mechanisms: a list8 of one field, an array8 of four sym8.
		p.bytes(unhex(`
			00000033 02010000
			00 53 40 c0 26 01
			e0 23 04 a3
			07 4d535342434253 05 504c41494e 09 414e4f4e594d4f5553 08 45585445524e414c`))
		p.write(unhex("00000025 02010000 00 53 41 c0 18 03 a3 09 414e4f4e594d4f5553 a0 09 616e6f6e796d6f7573 40"))
		p.bytes(unhex("00000011 02010000 00 53 44 c0 04 02 50 00 40"))
		p.write(headerAMQPWire)
		p.bytes(headerAMQPWire)
		p.write(unhex(`
			0000003d 02000000 00 53 10 c0 30 0a
			a1 03 636964  a1 04 686f7374  70 00010000  60 ffff  70 00007530  40 40 40 40
			c1 11 02 a3 0a 757365722d6167656e74 a1 02 6d65`))
		p.bytes(unhex(`
			00000021 02000000 00 53 10 c0 14 0a
			a1 02 7573  40  70 00010000  60 1387  40 40 40 40 40 40`))
		p.write(unhex("0000000f 02000000 00 53 18 c0 02 01 40")) // close
		p.bytes(unhex("0000000f 02000000 00 53 18 c0 02 01 40"))
		p.ended()
		if err := s.wait(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestOtherProtocolsAreAnsweredWithOurHeaderAndNoMore(t *testing.T) {
	for name, header := range map[string]string{"bare AMQP": "AMQP\x00\x01\x00\x00", "TLS": "AMQP\x02\x01\x00\x00", "HTTP": "GET / HT"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serveOn(t, &testHandler{}, Options{})
				p := rawPeer(t, s)
				p.write([]byte(header))
				p.bytes(headerSASLWire)
				p.ended() // the mechanisms are not sent
				if err := s.wait(); !errors.Is(err, ErrMalformed) {
					t.Errorf("Serve: %v", err)
				}
			})
		})
	}
}

func TestOnlyAnonymousIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveOn(t, &testHandler{}, Options{})
		_, err := client.NewConn(t.Context(), s.conn, &client.ConnOptions{SASLType: client.SASLTypePlain("me", "secret")})
		if err == nil {
			t.Error("PLAIN was accepted")
		}
		if err := s.wait(); !errors.Is(err, errAuthentication) {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestTheHandlerMayAcceptOtherMechanisms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveOn(t, &testHandler{}, Options{Authenticate: func(mechanism Symbol, response []byte) error {
			if mechanism != "PLAIN" || string(response) != "\x00me\x00secret" {
				t.Errorf("mechanism %s, response %q", mechanism, response)
			}
			return nil
		}})
		conn, err := client.NewConn(t.Context(), s.conn, &client.ConnOptions{SASLType: client.SASLTypePlain("me", "secret")})
		if err != nil {
			t.Fatal(err)
		}
		hangUp(t, s, conn)
	})
}

func TestARefusedOpenIsClosedWithTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &testHandler{open: func(*Conn) *Error { return Errorf(ErrCondResourceLimitExceeded, "10 connections are enough") }}
		s := serveOn(t, h, Options{})
		p := newPeer(t, s, Open{})
		next[*Open](p)
		_, c := next[*Close](p)
		if c.Error == nil || c.Error.Condition != ErrCondResourceLimitExceeded {
			t.Errorf("closed with %v", c.Error)
		}
		p.send(0, &Close{}, nil)
		p.ended()
		if e, ok := errors.AsType[*Error](s.wait()); !ok || e.Condition != ErrCondResourceLimitExceeded {
			t.Errorf("Serve: %v", e)
		}
	})
}

func TestHeartbeatsKeepAnIdleConnectionOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The client gives up after a minute of silence, and so does the server.
		s := serveOn(t, &testHandler{}, Options{IdleTimeout: time.Minute})
		conn := dial(t, s, nil)
		session := newSession(t, conn)
		time.Sleep(10 * time.Minute)
		sender := newSender(t, session, "tasks", nil)
		if err := sender.Send(t.Context(), client.NewMessage([]byte("x")), nil); err != nil {
			t.Fatal(err)
		}
		hangUp(t, s, conn)
	})
}

func TestHeartbeatsComeAtHalfOfTheIdleTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveOn(t, &testHandler{}, Options{})
		p := newPeer(t, s, Open{IdleTimeOut: Some[uint32](30_000)})
		next[*Open](p)
		var waits []time.Duration
		for range 4 {
			start := time.Now()
			p.bytes(unhex("00000008 02000000"))
			waits = append(waits, time.Since(start))
		}
		half := 15 * time.Second
		if !slices.Equal(waits, []time.Duration{half, half, half, half}) {
			t.Errorf("heartbeats after %v", waits)
		}
		_ = p.conn.Close()
		if err := s.wait(); !errors.Is(err, io.EOF) {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestASilentPeerIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveOn(t, &testHandler{}, Options{IdleTimeout: time.Minute})
		p := newPeer(t, s, Open{})
		if _, open := next[*Open](p); open.IdleTimeOut.Value != 30_000 {
			t.Errorf("announced %v ms", open.IdleTimeOut)
		}
		start := time.Now()
		if _, c := next[*Close](p); c.Error == nil || c.Error.Condition != ErrCondResourceLimitExceeded {
			t.Errorf("closed with %v", c.Error)
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("closed after %v", d)
		}
		_ = s.wait()
	})
}

func TestAPeerThatNeverOpensIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveOn(t, &testHandler{}, Options{OpenTimeout: 20 * time.Second})
		start := time.Now()
		if err := s.wait(); err == nil || time.Since(start) != 20*time.Second {
			t.Errorf("Serve: %v after %v", err, time.Since(start))
		}
	})
}

func TestTheEndOfTheContextClosesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed error
		var link *Link
		detached := false
		h := &testHandler{
			attach:   func(l *Link) { link = l; _ = l.Accept(Acceptance{Credit: 1}) },
			detached: func(*Link, *Error) { detached = true },
			closed: func(c *Conn, err error) {
				closed = err
				if !detached {
					t.Error("closed before its links were detached")
				}
				if c.Context().Err() == nil {
					t.Error("the context of the connection goes on")
				}
			},
		}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		receiver := newReceiver(t, newSession(t, conn), "tasks", nil)
		synctest.Wait()
		if link.Credit() != 1 {
			t.Errorf("credit %d, want what the client gives by default", link.Credit())
		}
		s.cut()
		if err := s.wait(); !errors.Is(err, context.Canceled) || !errors.Is(closed, context.Canceled) {
			t.Errorf("Serve: %v, the handler was told %v", err, closed)
		}
		_, err := receiver.Receive(t.Context(), nil)
		if e, ok := errors.AsType[*client.ConnError](err); !ok || e.RemoteErr == nil || e.RemoteErr.Condition != client.ErrCondConnectionForced {
			t.Errorf("receive: %v", err)
		}
		if _, err := link.Send(Outgoing{}); !errors.Is(err, ErrGone) {
			t.Errorf("send after the end: %v", err)
		}
		if link.Credit() != 0 {
			t.Errorf("credit %d after the end", link.Credit())
		}
	})
}

func TestAPeerThatDoesNotAnswerACloseIsLeftAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *Conn
		s := serveOn(t, &testHandler{open: func(conn *Conn) *Error { c = conn; return nil }}, Options{})
		p := newPeer(t, s, Open{})
		next[*Open](p)
		start := time.Now()
		c.Close(Errorf(ErrCondConnectionForced, "maintenance"))
		if err := s.wait(); time.Since(start) != time.Second || err == nil || err.Error() != "amqp:connection:forced: maintenance" {
			t.Errorf("Serve: %v after %v", err, time.Since(start))
		}
	})
}

func TestACutConnectionEndsWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &testHandler{transfer: func(d *Delivery) { d.Link.Conn().Cut() }}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		sender := newSender(t, newSession(t, conn), "tasks", nil)
		err := sender.Send(t.Context(), client.NewMessage([]byte("x")), nil)
		if e, ok := errors.AsType[*client.ConnError](err); !ok || e.RemoteErr != nil {
			t.Errorf("send: %v", err)
		}
		if err := s.wait(); !errors.Is(err, errCut) {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestAPeerThatVanishesLeavesNothingBehind(t *testing.T) { // A3, A8
	// The bubble fails the test if a goroutine is left.
	for _, stage := range []string{"connected", "opened", "sending", "receiving"} {
		t.Run(stage, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var detached, closed int
				h := &testHandler{
					credit: func(l *Link) {
						for l.Credit() > 0 {
							_, _ = l.Send(Outgoing{Message: data(make([]byte, 100_000))})
						}
					},
					transfer: func(*Delivery) {},
					detached: func(*Link, *Error) { detached++ },
					closed:   func(*Conn, error) { closed++ },
				}
				s := serveOn(t, h, Options{})
				switch stage {
				case "opened":
					dial(t, s, nil)
				case "sending":
					sender := newSender(t, newSession(t, dial(t, s, nil)), "tasks", nil)
					go func() { _ = sender.Send(t.Context(), client.NewMessage([]byte("x")), nil) }()
				case "receiving":
					p := inSession(t, s)
					p.send(0, &Attach{Name: "l", Role: RoleReceiver, Source: &Source{Address: "q"}}, nil)
					next[*Attach](p)
					p.send(0, &Flow{NextIncomingID: Some[uint32](0), IncomingWindow: 100, Handle: Some[uint32](0), LinkCredit: Some[uint32](1000)}, nil)
				}
				synctest.Wait()
				_ = s.conn.Close()
				if err := s.wait(); err == nil {
					t.Error("Serve took it for a clean end")
				}
				synctest.Wait()
				if opened := stage != "connected"; opened != (closed == 1) || (stage == "sending" || stage == "receiving") != (detached == 1) {
					t.Errorf("%d detached, %d closed", detached, closed)
				}
			})
		})
	}
}

func TestServeWorksOverTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		nc, err := listener.Accept()
		if err != nil {
			served <- err
			return
		}
		served <- Serve(t.Context(), nc, &testHandler{}, Options{})
	}()
	conn, err := client.Dial(t.Context(), "amqp://"+listener.Addr().String(), &client.ConnOptions{SASLType: client.SASLTypeAnonymous()})
	if err != nil {
		t.Fatal(err)
	}
	sender := newSender(t, newSession(t, conn), "tasks", nil)
	for range 100 {
		if err := sender.Send(t.Context(), client.NewMessage(make([]byte, 10_000)), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}
