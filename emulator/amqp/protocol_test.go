package amqp

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	client "github.com/Azure/go-amqp"
)

func sendsTo(name string, handle uint32) *Attach {
	return &Attach{Name: name, Handle: handle, Role: RoleSender, Target: &Target{Address: "q"}}
}

func receivesFrom(name string, handle uint32) *Attach {
	return &Attach{Name: name, Handle: handle, Role: RoleReceiver, Source: &Source{Address: "q"}}
}

func flowOf(handle, count, credit uint32) *Flow {
	return &Flow{
		NextIncomingID: Some[uint32](0), IncomingWindow: 100, OutgoingWindow: 100,
		Handle: Some(handle), DeliveryCount: Some(count), LinkCredit: Some(credit),
	}
}

// Both sides may end a session at once, and each then hears a last word about what it has forgotten.
func TestALateGoodbyeIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveOn(t, &testHandler{}, Options{})
		p := inSession(t, s)
		p.send(7, &End{}, nil)
		p.send(7, &Detach{}, nil)
		p.send(1, &Begin{IncomingWindow: 1, OutgoingWindow: 1}, nil)
		if f, _ := next[*Begin](p); f.Channel != 1 {
			t.Errorf("begun on channel %d, want 1", f.Channel)
		}
		p.send(0, &Close{}, nil)
		next[*Close](p)
		p.ended()
		if err := s.wait(); err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestABrokenConnectionRuleClosesTheConnection(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes []byte
		frame *Frame
		want  Symbol
	}{
		{"a frame on a channel without a session", nil, &Frame{Channel: 7, Body: flowOf(0, 0, 1)}, ErrCondNotAllowed},
		{"a second session on a channel", nil, &Frame{Body: &Begin{}}, ErrCondNotAllowed},
		{"a begin that answers nothing", nil, &Frame{Channel: 1, Body: &Begin{RemoteChannel: Some[uint16](1)}}, ErrCondNotAllowed},
		{"a second open", nil, &Frame{Body: &Open{ContainerID: "again"}}, ErrCondNotAllowed},
		{"a channel above the limit", nil, &Frame{Channel: 5_000, Body: &Begin{}}, ErrCondFramingError},
		{"a handle above the limit", nil, &Frame{Body: sendsTo("l", 5_000)}, ErrCondFramingError},
		{"a frame that is too small", unhex("00000007 02000000"), nil, ErrCondFramingError},
		{"a frame that is too large", unhex("00010001 02000000"), nil, ErrCondFramingError},
		{"a data offset outside of the frame", unhex("00000008 03000000"), nil, ErrCondFramingError},
		{"a SASL frame", unhex("00000008 02010000"), nil, ErrCondFramingError},
		{"a body that is no performative", unhex("0000000c 02000000 00 53 70 45"), nil, ErrCondDecodeError},
		{"a mandatory field that is absent", unhex("0000000c 02000000 00 53 12 45"), nil, ErrCondDecodeError},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serveOn(t, &testHandler{}, Options{})
				p := inSession(t, s)
				if c.frame != nil {
					p.send(c.frame.Channel, c.frame.Body, nil)
				} else {
					p.write(c.bytes)
				}
				if _, e := next[*Close](p); e.Error == nil || e.Error.Condition != c.want {
					t.Errorf("closed with %v, want %s", e.Error, c.want)
				}
				p.send(0, &Close{}, nil)
				p.ended()
				if e, ok := errors.AsType[*Error](s.wait()); !ok || e.Condition != c.want {
					t.Errorf("Serve: %v", e)
				}
			})
		})
	}
}

func TestABrokenSessionRuleEndsTheSession(t *testing.T) {
	for _, c := range []struct {
		name string
		body Performative
		want Symbol
	}{
		{"a transfer on an unknown handle", &Transfer{Handle: 5}, ErrCondUnattachedHandle},
		{"a flow on an unknown handle", flowOf(5, 0, 1), ErrCondUnattachedHandle},
		{"a detach of an unknown handle", &Detach{Handle: 5}, ErrCondUnattachedHandle},
		{"an attach on a handle in use", sendsTo("other", 1), ErrCondHandleInUse},
		{"a disposition from behind", &Disposition{Role: RoleReceiver, First: 4, Last: Some[uint32](3)}, ErrCondInvalidField},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				detached := 0
				h := &testHandler{detached: func(*Link, *Error) { detached++ }}
				s := serveOn(t, h, Options{})
				p := inSession(t, s)
				p.send(0, receivesFrom("l", 1), nil)
				next[*Attach](p)
				p.send(0, c.body, nil)
				if _, e := next[*End](p); e.Error == nil || e.Error.Condition != c.want {
					t.Errorf("ended with %v, want %s", e.Error, c.want)
				}
				synctest.Wait()
				if detached != 1 {
					t.Errorf("detached %d times", detached)
				}
				p.send(0, flowOf(1, 0, 1), nil) // was on its way, and is ignored
				p.send(0, &End{}, nil)
				p.send(0, &Begin{IncomingWindow: 1}, nil) // the channel is free again
				next[*Begin](p)
				_ = p.conn.Close()
				_ = s.wait()
			})
		})
	}
}

func TestABrokenLinkRuleDetachesTheLink(t *testing.T) {
	one := func(f Transfer) []Transfer { return []Transfer{f} }
	id, tag := Some[uint32](0), []byte{1}
	for _, c := range []struct {
		name  string
		frame []Transfer
		want  Symbol
	}{
		{"more than the credit", []Transfer{
			{DeliveryID: id, DeliveryTag: tag},
			{DeliveryID: Some[uint32](1), DeliveryTag: tag},
			{DeliveryID: Some[uint32](2), DeliveryTag: tag},
		}, ErrCondTransferLimitExceeded},
		{"no delivery-id", one(Transfer{DeliveryTag: tag}), ErrCondNotAllowed},
		{"an id within another delivery", []Transfer{
			{DeliveryID: id, DeliveryTag: tag, More: true},
			{DeliveryID: Some[uint32](9), DeliveryTag: tag},
		}, ErrCondNotAllowed},
		{"an id in use", []Transfer{{DeliveryID: id, DeliveryTag: tag}, {DeliveryID: id, DeliveryTag: tag}}, ErrCondNotAllowed},
		{"a tag that is too long", one(Transfer{DeliveryID: id, DeliveryTag: make([]byte, 33)}), ErrCondInvalidField},
		{"a message that is too large", []Transfer{
			{DeliveryID: id, DeliveryTag: tag, More: true}, {More: true}, {},
		}, ErrCondMessageSizeExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &testHandler{
					attach:   func(l *Link) { _ = l.Accept(Acceptance{MaxMessageSize: 2_000, Credit: 2}) },
					transfer: func(*Delivery) {}, // never settled
				}
				s := serveOn(t, h, Options{})
				p := inSession(t, s)
				p.send(0, sendsTo("l", 0), nil)
				next[*Attach](p)
				next[*Flow](p)
				for _, f := range c.frame {
					p.send(0, &f, make([]byte, 800))
				}
				if _, d := next[*Detach](p); !d.Closed || d.Error == nil || d.Error.Condition != c.want {
					t.Errorf("detached with %v, want %s", d.Error, c.want)
				}
				p.send(0, &Detach{Closed: true}, nil)
				p.send(0, sendsTo("l", 0), nil) // handle and name are free again
				next[*Attach](p)
				_ = p.conn.Close()
				_ = s.wait()
			})
		})
	}
}

func TestAnAbortedDeliveryNeverWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		h := &testHandler{
			attach:   func(l *Link) { _ = l.Accept(Acceptance{Credit: 10}) },
			transfer: func(d *Delivery) { got = append(got, string(d.Message)) },
		}
		s := serveOn(t, h, Options{})
		p := inSession(t, s)
		p.send(0, sendsTo("l", 0), nil)
		next[*Attach](p)
		next[*Flow](p)
		p.send(0, &Transfer{DeliveryID: Some[uint32](0), DeliveryTag: []byte{1}, More: true}, []byte("half"))
		p.send(0, &Transfer{Aborted: true}, nil)
		p.send(0, &Transfer{DeliveryID: Some[uint32](1), DeliveryTag: []byte{2}, More: true}, []byte("wh"))
		p.send(0, &Transfer{}, []byte("ole"))
		synctest.Wait()
		if fmt.Sprint(got) != "[whole]" {
			t.Errorf("received %q", got)
		}
		_ = p.conn.Close()
		_ = s.wait()
	})
}

func TestALinkAttachedAgainIsStolen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveOn(t, &testHandler{}, Options{})
		p := inSession(t, s)
		p.send(0, receivesFrom("l", 0), nil)
		next[*Attach](p)
		p.send(0, receivesFrom("l", 1), nil)
		if _, d := next[*Detach](p); d.Handle != 0 || d.Error == nil || d.Error.Condition != ErrCondStolen {
			t.Errorf("detach %+v", d)
		}
		if _, a := next[*Attach](p); a.Handle != 1 {
			t.Errorf("attach %+v", a)
		}
		_ = p.conn.Close()
		_ = s.wait()
	})
}

func TestARangeOfDeliveriesIsSettledInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []any
		h := &testHandler{
			credit: func(l *Link) {
				for i := range l.Credit() {
					_, _ = l.Send(Outgoing{Message: data(nil), Data: i})
				}
			},
			disposition: func(d *Delivery, state State, settled bool) {
				if settled && state == (Accepted{}) {
					told = append(told, d.Data)
				}
				if err := d.Settle(Accepted{}); !errors.Is(err, ErrGone) {
					t.Errorf("settle: %v", err)
				}
			},
		}
		s := serveOn(t, h, Options{})
		p := inSession(t, s)
		p.send(0, receivesFrom("l", 0), nil)
		next[*Attach](p)
		p.send(0, flowOf(0, 0, 6), nil)
		for range 6 {
			next[*Transfer](p)
		}
		for _, r := range [][2]uint32{{1, 2}, {0, 1 << 30}} { // the second is most of the number space
			p.send(0, &Disposition{Role: RoleReceiver, First: r[0], Last: Some(r[1]), Settled: true, State: Accepted{}}, nil)
		}
		synctest.Wait()
		if fmt.Sprint(told) != "[1 2 0 3 4 5]" {
			t.Errorf("told of %v", told)
		}
		_ = p.conn.Close()
		_ = s.wait()
	})
}

func TestFramesMayComeInAnyPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		h := &testHandler{
			attach:   func(l *Link) { _ = l.Accept(Acceptance{Credit: 10}) },
			transfer: func(d *Delivery) { got = append(got, string(d.Message)) },
		}
		s := serveOn(t, h, Options{})
		p := inSession(t, s)
		var stream []byte
		for _, f := range []Frame{
			{Body: sendsTo("l", 0)},
			{},
			{Body: &Transfer{DeliveryID: Some[uint32](0), DeliveryTag: []byte{1}}, Payload: []byte("one")},
			{Body: &Transfer{DeliveryID: Some[uint32](1), DeliveryTag: []byte{2}, More: true}, Payload: []byte("t")},
			{Body: &Transfer{}, Payload: []byte("wo")},
		} {
			var err error
			if stream, err = AppendFrame(stream, f); err != nil {
				t.Fatal(err)
			}
		}
		go func() { _, _ = io.Copy(io.Discard, p.br) }()
		for _, b := range stream {
			p.write([]byte{b})
		}
		synctest.Wait()
		if fmt.Sprint(got) != "[one two]" {
			t.Errorf("received %q", got)
		}
		_ = p.conn.Close()
		_ = s.wait()
	})
}

func TestEverythingMayEndAtAnyMoment(t *testing.T) { // A4, A8
	ends := map[string]func(*served, *Conn, *Link){
		"the server's context": func(s *served, _ *Conn, _ *Link) { s.cut() },
		"close":                func(_ *served, c *Conn, _ *Link) { c.Close(Errorf(ErrCondConnectionForced, "now")) },
		"clean close":          func(_ *served, c *Conn, _ *Link) { c.Close(nil) },
		"cut":                  func(_ *served, c *Conn, _ *Link) { c.Cut() },
		"detach":               func(_ *served, c *Conn, l *Link) { _ = l.Detach(nil); c.Cut() },
		"the peer":             func(s *served, _ *Conn, _ *Link) { _ = s.conn.Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			for i := range 10 {
				synctest.Test(t, func(t *testing.T) {
					moment := make(chan struct{})
					reached := sync.OnceFunc(func() { close(moment) })
					var count atomic.Int32
					var link atomic.Pointer[Link]
					var wg sync.WaitGroup
					h := &testHandler{
						attach: func(l *Link) { link.Store(l); _ = l.Accept(Acceptance{Credit: 1_000}) },
						transfer: func(d *Delivery) {
							if count.Add(1) == int32(10*i+1) {
								reached()
							}
							wg.Go(func() { _ = d.Settle(Accepted{}) })
						},
						credit: func(l *Link) {
							for l.Credit() > 0 {
								if _, err := l.Send(Outgoing{Message: data([]byte("x"))}); err != nil {
									return
								}
							}
						},
					}
					s := serveOn(t, h, Options{})
					conn := dial(t, s, nil)
					session := newSession(t, conn)
					receiver := newReceiver(t, session, "q", peekLock(100))
					sender := newSender(t, session, "q", nil)
					wg.Go(func() {
						for {
							if _, err := sender.SendWithReceipt(t.Context(), client.NewMessage([]byte("x")), nil); err != nil {
								return
							}
						}
					})
					wg.Go(func() {
						for {
							m, err := receiver.Receive(t.Context(), nil)
							if err != nil || receiver.AcceptMessage(t.Context(), m) != nil {
								return
							}
						}
					})
					<-moment
					end(s, link.Load().Conn(), link.Load())
					_ = s.wait()
					wg.Wait()
				})
			}
		})
	}
}

func TestAPeerMaySettleWhatItHasSentItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []*Delivery
		h := &testHandler{
			attach:   func(l *Link) { _ = l.Accept(Acceptance{Credit: 2}) },
			transfer: func(d *Delivery) { held = append(held, d) },
		}
		s := serveOn(t, h, Options{})
		p := inSession(t, s)
		p.send(0, sendsTo("l", 0), nil)
		next[*Attach](p)
		next[*Flow](p)
		for i := range uint32(2) {
			p.send(0, &Transfer{DeliveryID: Some(i), DeliveryTag: []byte{1}}, nil)
		}
		p.send(0, &Disposition{Role: RoleSender, First: 0, Settled: true}, nil)
		if _, f := next[*Flow](p); f.LinkCredit != Some[uint32](1) {
			t.Errorf("flow %+v", f)
		}
		if err := held[0].Settle(Accepted{}); !errors.Is(err, ErrGone) {
			t.Errorf("settle: %v", err)
		}
		if err := held[1].Settle(Accepted{}); err != nil {
			t.Errorf("settle: %v", err)
		}
		if _, d := next[*Disposition](p); d.First != 1 {
			t.Errorf("disposition %+v", d)
		}
		_ = p.conn.Close()
		_ = s.wait()
	})
}

func TestAnErrorIsToldEvenIfItsInformationDoesNotEncode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &Error{Condition: "a:b", Description: "c", Info: Map{{Symbol("n"), struct{}{}}}}
		var link *Link
		h := &testHandler{attach: func(l *Link) { link = l; _ = l.Accept(Acceptance{Properties: l.Peer.Properties}) }}
		s := serveOn(t, h, Options{})
		p := inSession(t, s)
		p.send(0, receivesFrom("l", 0), nil)
		next[*Attach](p)
		if err := link.Detach(bad); err == nil {
			t.Error("the error was encoded")
		}
		if _, d := next[*Detach](p); d.Error == nil || d.Error.Condition != "a:b" || d.Error.Description != "c" {
			t.Errorf("detach %+v", d)
		}
		link.Conn().Close(bad)
		if _, c := next[*Close](p); c.Error == nil || c.Error.Condition != "a:b" || c.Error.Description != "c" {
			t.Errorf("close %+v", c)
		}
		_ = p.conn.Close()
		_ = s.wait()
	})
}
