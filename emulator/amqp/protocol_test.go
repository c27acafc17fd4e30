package amqp

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
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

func TestABrokenConnectionRuleClosesTheConnection(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes []byte
		frame *Frame
		want  Symbol
	}{
		{"a frame on a channel without a session", nil, &Frame{Channel: 7, Body: &Detach{}}, ErrCondNotAllowed},
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

func TestAnEchoIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &testHandler{attach: func(l *Link) { _ = l.Accept(Acceptance{Credit: 10}) }, transfer: func(*Delivery) {}}
		s := serveOn(t, h, Options{})
		p := inSession(t, s)
		p.send(0, sendsTo("in", 0), nil)
		next[*Attach](p)
		if _, f := next[*Flow](p); f.Handle.Value != 0 || f.LinkCredit.Value != 10 || !f.NextIncomingID.Set {
			t.Errorf("first credit %+v", f)
		}
		p.send(0, receivesFrom("out", 1), nil)
		next[*Attach](p)
		p.send(0, &Transfer{DeliveryID: Some[uint32](0), DeliveryTag: []byte{1}}, nil)

		p.send(0, &Flow{NextIncomingID: Some[uint32](0), NextOutgoingID: 1, IncomingWindow: 100, Echo: true}, nil)
		if _, f := next[*Flow](p); f.Handle.Set || f.NextIncomingID != Some[uint32](1) || f.IncomingWindow != 4_999 || f.Echo {
			t.Errorf("session flow %+v", f)
		}
		in := flowOf(0, 1, 0)
		in.NextOutgoingID, in.Echo = 1, true
		p.send(0, in, nil)
		if _, f := next[*Flow](p); f.Handle != Some[uint32](0) || f.DeliveryCount != Some[uint32](1) || f.LinkCredit != Some[uint32](9) {
			t.Errorf("flow of the incoming link %+v", f)
		}
		out := flowOf(1, 0, 20)
		out.NextOutgoingID, out.Echo = 1, true
		p.send(0, out, nil)
		if _, f := next[*Flow](p); f.Handle != Some[uint32](1) || f.DeliveryCount != Some[uint32](0) || f.LinkCredit != Some[uint32](20) {
			t.Errorf("flow of the outgoing link %+v", f)
		}
		_ = p.conn.Close()
		_ = s.wait()
	})
}

func TestDrainSendsWhatIsThereAndUsesUpTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &testHandler{credit: func(l *Link) {
			if !l.Draining() || l.Credit() != 10 {
				t.Errorf("draining %v, credit %d", l.Draining(), l.Credit())
			}
			for range 3 {
				if _, err := l.Send(Outgoing{Settled: true, Message: data([]byte("x"))}); err != nil {
					t.Errorf("send: %v", err)
				}
			}
			if err := l.Drained(); err != nil {
				t.Errorf("drained: %v", err)
			}
		}}
		s := serveOn(t, h, Options{})
		p := inSession(t, s)
		p.send(0, receivesFrom("l", 0), nil)
		next[*Attach](p)
		// The window of two frames holds the third message back, and the flow with it.
		drain := flowOf(0, 0, 10)
		drain.IncomingWindow, drain.Drain = 2, true
		p.send(0, drain, nil)
		next[*Transfer](p)
		next[*Transfer](p)
		time.Sleep(time.Hour)
		p.send(0, &Flow{NextIncomingID: Some[uint32](2), IncomingWindow: 2}, nil)
		next[*Transfer](p)
		if _, f := next[*Flow](p); f.DeliveryCount != Some[uint32](10) || f.LinkCredit != Some[uint32](0) || !f.Drain {
			t.Errorf("drained with %+v", f)
		}
		_ = p.conn.Close()
		_ = s.wait()
	})
}

func TestCreditFollowsTheDeliveryCountOfThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var link *Link
		h := &testHandler{attach: func(l *Link) { link = l; _ = l.Accept(Acceptance{}) }}
		s := serveOn(t, h, Options{})
		p := inSession(t, s)
		p.send(0, receivesFrom("l", 0), nil)
		next[*Attach](p)
		for _, c := range []struct {
			name          string
			count, credit uint32
			send          int
			want          uint32
		}{
			{"five more", 0, 5, 3, 2},
			{"written before it had the three", 0, 5, 0, 2},
			{"written after it had two of them", 2, 5, 0, 4},
			{"taken back", 3, 1, 0, 1},
			{"taken back below what was sent", 2, 0, 0, 0},
			{"as much as can be", 3, 1<<32 - 1, 1, 1<<31 - 2},
		} {
			p.send(0, flowOf(0, c.count, c.credit), nil)
			synctest.Wait()
			for range c.send {
				if _, err := link.Send(Outgoing{Settled: true}); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				next[*Transfer](p)
			}
			if got := link.Credit(); got != c.want {
				t.Errorf("%s: credit %d, want %d", c.name, got, c.want)
			}
		}
		_ = p.conn.Close()
		_ = s.wait()
	})
}

func TestCreditMayComeBeforeTheLinkIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var link *Link
		told := 0
		h := &testHandler{
			attach: func(l *Link) { link = l },
			credit: func(l *Link) {
				told++
				_, _ = l.Send(Outgoing{Settled: true, Message: data([]byte("x"))})
			},
		}
		s := serveOn(t, h, Options{})
		p := inSession(t, s)
		p.send(0, receivesFrom("l", 0), nil)
		early := flowOf(0, 0, 1)
		early.DeliveryCount = Optional[uint32]{} // which the peer does not know yet
		p.send(0, early, nil)
		synctest.Wait()
		if told != 0 {
			t.Error("credit was told of a link that is not accepted")
		}
		if err := link.Accept(Acceptance{}); err != nil {
			t.Fatal(err)
		}
		next[*Attach](p)
		next[*Transfer](p)
		synctest.Wait()
		if told != 1 {
			t.Errorf("credit was told %d times", told)
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

func TestAPeerThatDoesNotReadIsOwedOnlySoMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 64 << 10
		var link *Link
		told := 0
		h := &testHandler{
			attach: func(l *Link) { link = l; _ = l.Accept(Acceptance{}) },
			credit: func(*Link) { told++ },
		}
		s := serveOn(t, h, Options{MaxQueued: room})
		p := inSession(t, s)
		p.send(0, receivesFrom("l", 0), nil)
		next[*Attach](p)
		f := flowOf(0, 0, 1_000)
		f.IncomingWindow = 1_000
		p.send(0, f, nil)
		synctest.Wait()
		sent := 0
		for {
			_, err := link.Send(Outgoing{Settled: true, Message: data(make([]byte, 1_000))})
			if errors.Is(err, ErrNoCredit) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			sent++
			synctest.Wait()
		}
		if sent < 60 || sent > 70 || link.Credit() != 0 || told != 1 {
			t.Errorf("%d messages of 1 kB were taken, credit %d, told %d times", sent, link.Credit(), told)
		}
		for range sent {
			next[*Transfer](p)
		}
		synctest.Wait()
		if told < 2 || link.Credit() != 1_000-uint32(sent) {
			t.Errorf("after reading: told %d times, credit %d", told, link.Credit())
		}
		_ = p.conn.Close()
		_ = s.wait()
	})
}

func TestAPeerThatStopsReadingIsCutInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveOn(t, &testHandler{}, Options{WriteTimeout: 30 * time.Second})
		p := newPeer(t, s, Open{})
		start := time.Now()
		if err := s.wait(); err == nil || time.Since(start) != 30*time.Second {
			t.Errorf("Serve: %v after %v", err, time.Since(start))
		}
		_ = p.conn.Close()
	})
}
