package amqp

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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

		unasked := flowOf(0, 1, 0) // which nobody answers
		unasked.NextOutgoingID = 1
		p.send(0, unasked, nil)
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

func TestAPeerThatDoesNotReadIsOwedOnlySoMuch(t *testing.T) { // A7
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

func TestWhatWaitsForTheWindowIsBounded(t *testing.T) { // A7
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
		f.IncomingWindow = 1
		p.send(0, f, nil)
		synctest.Wait()
		sent := 0
		for sent < 1_000 && link.Credit() > 0 {
			if _, err := link.Send(Outgoing{Settled: true, Message: data(make([]byte, 1_000))}); err != nil {
				t.Fatal(err)
			}
			sent++
			if sent == 1 {
				next[*Transfer](p) // all that the window lets through
			}
			synctest.Wait()
		}
		if sent < 60 || sent > 70 || told != 1 {
			t.Errorf("%d messages of 1 kB were taken, told %d times", sent, told)
		}
		p.send(0, &Flow{NextIncomingID: Some[uint32](1), IncomingWindow: 1_000}, nil)
		for range sent - 1 {
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

func TestAPeerThatStopsReadingIsCutInTheEnd(t *testing.T) { // A7
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

func TestTheCreditWindowCanBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var link *Link
		h := &testHandler{attach: func(l *Link) { link = l; _ = l.Accept(Acceptance{}) }} // no credit yet
		s := serveOn(t, h, Options{})
		p := inSession(t, s)
		p.send(0, sendsTo("l", 0), nil)
		next[*Attach](p)
		if err := link.SetCredit(4); err != nil {
			t.Fatal(err)
		}
		if _, f := next[*Flow](p); f.DeliveryCount != Some[uint32](0) || f.LinkCredit != Some[uint32](4) {
			t.Errorf("flow %+v", f)
		}
		if n := link.Credit(); n != 0 {
			t.Errorf("credit to send %d messages on a link that receives", n)
		}
		if err := link.SetCredit(0); err != nil {
			t.Fatal(err)
		}
		for i := range uint32(4) {
			p.send(0, &Transfer{DeliveryID: Some(i), DeliveryTag: []byte{1}}, nil)
			next[*Disposition](p) // and no flow in between
		}
		if err := link.SetCredit(2); err != nil {
			t.Fatal(err)
		}
		if _, f := next[*Flow](p); f.DeliveryCount != Some[uint32](4) || f.LinkCredit != Some[uint32](2) {
			t.Errorf("flow %+v", f)
		}
		_ = p.conn.Close()
		_ = s.wait()
		if err := link.SetCredit(1); !errors.Is(err, ErrGone) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestAPeerThatSendsWithoutReadingIsNotReadEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		received := 0
		h := &testHandler{
			attach:   func(l *Link) { _ = l.Accept(Acceptance{Credit: 4_000}) },
			transfer: func(d *Delivery) { received++; _ = d.Settle(Released{}) },
		}
		s := serveOn(t, h, Options{MaxQueued: 1_000})
		p := inSession(t, s)
		p.send(0, sendsTo("l", 0), nil)
		next[*Attach](p)
		next[*Flow](p)
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range uint32(2_000) {
				b, err := AppendFrame(nil, Frame{Body: &Transfer{DeliveryID: Some(i), DeliveryTag: []byte{1}}})
				if err != nil {
					t.Error(err)
				}
				if _, err := p.conn.Write(b); err != nil {
					t.Error(err)
					return
				}
			}
		})
		synctest.Wait()
		if received < 100 || received > 300 { // 4 kB of dispositions, one for each, and one write of them
			t.Errorf("%d messages were read from a peer that reads nothing", received)
		}
		for answered := 0; answered < 2_000; {
			b, err := p.frame()
			if err != nil {
				t.Fatal(err)
			}
			if f, err := DecodeFrame(b); err != nil {
				t.Fatal(err)
			} else if _, ok := f.Body.(*Disposition); ok {
				answered++
			}
		}
		wg.Wait()
		_ = p.conn.Close()
		_ = s.wait()
	})
}

func TestWhatWaitsForTheWindowIsLostWithItsLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links := make(map[string]*Link)
		h := &testHandler{
			attach:   func(l *Link) { links[l.Peer.Name] = l; _ = l.Accept(Acceptance{}) },
			transfer: func(*Delivery) {},
		}
		s := serveOn(t, h, Options{})
		p := inSession(t, s)
		for i, name := range []string{"a", "b"} {
			p.send(0, receivesFrom(name, uint32(i)), nil)
			next[*Attach](p)
			f := flowOf(uint32(i), 0, 10)
			f.IncomingWindow = 1
			p.send(0, f, nil)
		}
		synctest.Wait()
		for _, name := range []string{"a", "a", "b", "a"} { // one is sent, three wait
			if _, err := links[name].Send(Outgoing{Message: [][]byte{[]byte(name)}}); err != nil {
				t.Fatal(err)
			}
		}
		next[*Transfer](p)
		p.send(0, &Detach{Handle: 0, Closed: true}, nil)
		next[*Detach](p)
		p.send(0, &Flow{NextIncomingID: Some[uint32](1), IncomingWindow: 10}, nil)
		// The ids of deliveries have no gap although two of them were never sent.
		if f, transfer := next[*Transfer](p); string(f.Payload) != "b" || transfer.DeliveryID != Some[uint32](1) {
			t.Errorf("transfer %+v of %q", transfer, f.Payload)
		}
		_ = p.conn.Close()
		_ = s.wait()
	})
}
