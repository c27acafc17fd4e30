package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/Azure/go-amqp"
)

func TestAnAcceptedLinkCarriesWhatTheHandlerSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const filter = "com.microsoft:session-filter"
		h := &testHandler{attach: func(l *Link) {
			if !l.Outgoing() || l.Peer.Source.Address != "tasks" {
				t.Errorf("attached %+v", l.Peer)
			}
			if timeout, _ := l.Peer.Properties.Get(Symbol("com.microsoft:timeout")); timeout != uint32(60_000) {
				t.Errorf("timeout %v", timeout)
			}
			asked, _ := l.Peer.Source.Filter.Get(Symbol(filter))
			d, ok := asked.(Described)
			if !ok || d.Descriptor != uint64(0x137000000C) || d.Value != nil {
				t.Errorf("filter %#v", asked)
			}
			source := *l.Peer.Source
			source.Filter = Map{{Symbol(filter), Described{d.Descriptor, "session-7"}}}
			err := l.Accept(Acceptance{
				Source:         &source,
				Properties:     Map{{Symbol("com.microsoft:locked-until-utc"), int64(638_000_000_000_000_000)}},
				MaxMessageSize: 262_144,
			})
			if err != nil {
				t.Errorf("accept: %v", err)
			}
			if err := l.Accept(Acceptance{}); !errors.Is(err, ErrAnswered) {
				t.Errorf("accepted twice: %v", err)
			}
		}}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		receiver := newReceiver(t, newSession(t, conn), "tasks", &client.ReceiverOptions{
			Credit: -1, SettlementMode: client.ReceiverSettleModeSecond.Ptr(),
			Filters:    []client.LinkFilter{client.NewLinkFilter(filter, 0x137000000C, nil)},
			Properties: map[string]any{"com.microsoft:timeout": uint32(60_000)},
		})
		if got := receiver.LinkSourceFilterValue(filter); got != "session-7" {
			t.Errorf("filter %v", got)
		}
		if got := receiver.Properties()["com.microsoft:locked-until-utc"]; got != int64(638_000_000_000_000_000) {
			t.Errorf("properties %v", receiver.Properties())
		}
		hangUp(t, s, conn)
	})
}

func TestARefusedAttachIsNeverALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &testHandler{
			attach: func(l *Link) {
				if err := l.Refuse(Errorf(ErrCondNotFound, "no such queue")); err != nil {
					t.Errorf("refuse: %v", err)
				}
				select {
				case <-l.Done():
				default:
					t.Error("the refused link goes on")
				}
				if err := l.Accept(Acceptance{}); !errors.Is(err, ErrGone) {
					t.Errorf("accept after refuse: %v", err)
				}
			},
			detached: func(*Link, *Error) { t.Error("a refused link was detached") },
		}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		session := newSession(t, conn)
		for range 3 {
			_, err := session.NewReceiver(t.Context(), "nowhere", nil)
			if e, ok := errors.AsType[*client.Error](err); !ok || e.Condition != client.ErrCondNotFound {
				t.Errorf("receiver: %v", err)
			}
			_, err = session.NewSender(t.Context(), "nowhere", nil)
			if e, ok := errors.AsType[*client.Error](err); !ok || e.Condition != client.ErrCondNotFound {
				t.Errorf("sender: %v", err)
			}
		}
		hangUp(t, s, conn)
	})
}

func TestALinkMayBeAcceptedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		h := &testHandler{
			attach: func(l *Link) {
				wg.Go(func() {
					time.Sleep(50 * time.Second)
					if err := l.Accept(Acceptance{}); err != nil {
						t.Errorf("accept: %v", err)
					}
				})
			},
			credit: func(l *Link) {
				if l.Credit() > 0 {
					_, _ = l.Send(Outgoing{Message: data([]byte("x"))})
				}
			},
		}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		receiver := newReceiver(t, newSession(t, conn), "tasks", nil)
		if _, err := receiver.Receive(t.Context(), nil); err != nil {
			t.Error(err)
		}
		wg.Wait()
		hangUp(t, s, conn)
	})
}

func TestALateAnswerIsNeverSent(t *testing.T) { // A5
	answers := map[string]func(*Link) error{
		"accept": func(l *Link) error { return l.Accept(Acceptance{Credit: 10}) },
		"refuse": func(l *Link) error { return l.Refuse(Errorf("com.microsoft:timeout", "nothing came")) },
		"detach": func(l *Link) error { return l.Detach(nil) },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pending *Link
				detached := 0
				h := &testHandler{
					attach: func(l *Link) {
						if l.Peer.Source.Address == "later" {
							pending = l
							return
						}
						_ = l.Accept(Acceptance{})
					},
					detached: func(l *Link, _ *Error) {
						if l == pending {
							detached++
						}
					},
				}
				s := serveOn(t, h, Options{})
				conn := dial(t, s, nil)
				session := newSession(t, conn)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if _, err := session.NewReceiver(ctx, "later", nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("attach: %v", err)
				}
				if err := session.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if err := answer(pending); !errors.Is(err, ErrGone) {
					t.Errorf("late answer: %v", err)
				}
				if detached != 1 {
					t.Errorf("detached %d times", detached)
				}
				// A frame on the ended channel would kill the connection of this client.
				newReceiver(t, newSession(t, conn), "tasks", nil)
				hangUp(t, s, conn)
			})
		})
	}
}

func TestADetachBeforeTheAnswerEndsTheLinkOnBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pending *Link
		var told *Error
		h := &testHandler{
			attach:   func(l *Link) { pending = l },
			detached: func(l *Link, e *Error) { told = e },
		}
		s := serveOn(t, h, Options{})
		p := inSession(t, s)
		p.send(0, &Attach{Name: "l", Handle: 3, Role: RoleReceiver, Source: &Source{Address: "q"}}, nil)
		p.send(0, &Detach{Handle: 3, Closed: true, Error: Errorf("com.example:bored", "")}, nil)
		if _, a := next[*Attach](p); a.Handle != 3 || a.Source != nil || a.Target != nil || !a.InitialDeliveryCount.Set {
			t.Errorf("attach %+v", a)
		}
		if _, d := next[*Detach](p); d.Handle != 3 || !d.Closed || d.Error != nil {
			t.Errorf("detach %+v", d)
		}
		synctest.Wait()
		if told == nil || told.Condition != "com.example:bored" {
			t.Errorf("the handler was told %v", told)
		}
		if err := pending.Accept(Acceptance{}); !errors.Is(err, ErrGone) {
			t.Errorf("late accept: %v", err)
		}
		// The handle and the name are free again.
		p.send(0, &Attach{Name: "l", Handle: 3, Role: RoleReceiver, Source: &Source{Address: "q"}}, nil)
		synctest.Wait()
		if err := pending.Accept(Acceptance{}); err != nil {
			t.Errorf("accept: %v", err)
		}
		next[*Attach](p)
		_ = p.conn.Close()
		_ = s.wait()
	})
}

func TestALinkIsDetachedByForce(t *testing.T) { // A6
	synctest.Test(t, func(t *testing.T) {
		detached := make(chan *Link, 2)
		h := &testHandler{
			transfer: func(d *Delivery) {
				if err := d.Link.Detach(Errorf(ErrCondDetachForced, "idle")); err != nil {
					t.Errorf("detach: %v", err)
				}
				if err := d.Link.Detach(nil); !errors.Is(err, ErrGone) {
					t.Errorf("second detach: %v", err)
				}
				if err := d.Settle(Accepted{}); !errors.Is(err, ErrGone) {
					t.Errorf("settle on a detached link: %v", err)
				}
			},
			detached: func(l *Link, _ *Error) { detached <- l },
		}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		session := newSession(t, conn)
		for range 2 {
			sender := newSender(t, session, "tasks", nil)
			err := sender.Send(t.Context(), client.NewMessage([]byte("x")), nil)
			if e, ok := errors.AsType[*client.LinkError](err); !ok || e.RemoteErr == nil || e.RemoteErr.Condition != client.ErrCondDetachForced {
				t.Errorf("send: %v", err)
			}
			<-detached
		}
		hangUp(t, s, conn)
	})
}

func TestTheEndOfASessionFreesItsLinks(t *testing.T) { // A6
	synctest.Test(t, func(t *testing.T) {
		open := 0
		h := &testHandler{
			attach:   func(l *Link) { open++; _ = l.Accept(Acceptance{Credit: 1}) },
			detached: func(*Link, *Error) { open-- },
		}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		for range 50 { // more than once over the same channel
			session := newSession(t, conn)
			newSender(t, session, "$cbs", nil)
			newReceiver(t, session, "$cbs", nil)
			if err := session.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if open != 0 {
				t.Fatalf("%d links are left", open)
			}
		}
		hangUp(t, s, conn)
	})
}

func TestManyLinksOnManySessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions, links, messages = 20, 10, 20
		var mu sync.Mutex
		received := make(map[string]int)
		h := &testHandler{
			attach: func(l *Link) { _ = l.Accept(Acceptance{MaxMessageSize: 1 << 20, Credit: 1_000}) },
			transfer: func(d *Delivery) {
				mu.Lock()
				received[d.Link.Peer.Target.Address]++
				mu.Unlock()
				_ = d.Settle(Accepted{})
			},
		}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		var wg sync.WaitGroup
		for i := range sessions {
			session := newSession(t, conn)
			for j := range links {
				sender := newSender(t, session, fmt.Sprintf("q%d.%d", i, j), nil)
				wg.Go(func() {
					for range messages {
						if err := sender.Send(t.Context(), client.NewMessage([]byte("x")), nil); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		hangUp(t, s, conn)
		if len(received) != sessions*links {
			t.Fatalf("%d links were used", len(received))
		}
		for name, n := range received {
			if n != messages {
				t.Errorf("%s received %d", name, n)
			}
		}
	})
}
