package amqp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/Azure/go-amqp"
)

// peekLock is how the real client attaches a receiver that settles.
func peekLock(credit int32) *client.ReceiverOptions {
	return &client.ReceiverOptions{Credit: credit, SettlementMode: client.ReceiverSettleModeSecond.Ptr()}
}

func TestAMessageIsDeliveredWholeWhateverItsSize(t *testing.T) {
	for _, size := range []int{0, 1, 255, 65_000, 65_536, 200_000, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := make([]byte, size)
				for i := range body {
					body[i] = byte(rand.Uint32())
				}
				h := &testHandler{credit: func(l *Link) {
					if l.Credit() == 0 {
						return
					}
					if _, err := l.Send(Outgoing{Message: data(body)}); err != nil {
						t.Errorf("send: %v", err)
					}
				}}
				s := serveOn(t, h, Options{})
				conn := dial(t, s, nil)
				receiver := newReceiver(t, newSession(t, conn), "tasks", peekLock(-1))
				if err := receiver.IssueCredit(1); err != nil {
					t.Fatal(err)
				}
				m, err := receiver.Receive(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(m.GetData(), body) {
					t.Errorf("%d bytes arrived, and not the ones that were sent", len(m.GetData()))
				}
				if err := receiver.AcceptMessage(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				hangUp(t, s, conn)
			})
		})
	}
}

func TestEveryStateOfTheReceiverIsToldAndAnswered(t *testing.T) {
	for _, c := range []struct {
		name   string
		settle func(context.Context, *client.Receiver, *client.Message) error
		want   string
	}{
		{"accept", func(ctx context.Context, r *client.Receiver, m *client.Message) error {
			return r.AcceptMessage(ctx, m)
		}, "{}"},
		{"release", func(ctx context.Context, r *client.Receiver, m *client.Message) error {
			return r.ReleaseMessage(ctx, m)
		}, "{}"},
		{"modify", func(ctx context.Context, r *client.Receiver, m *client.Message) error {
			return r.ModifyMessage(ctx, m, &client.ModifyMessageOptions{
				UndeliverableHere: true, Annotations: client.Annotations{"try": int32(7)},
			})
		}, "{false true [{try 7}]}"},
		{"reject", func(ctx context.Context, r *client.Receiver, m *client.Message) error {
			return r.RejectMessage(ctx, m, &client.Error{Condition: "com.microsoft:dead-letter", Info: map[string]any{"DeadLetterReason": "bad"}})
		}, "{com.microsoft:dead-letter}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got State
				h := &testHandler{
					credit: func(l *Link) {
						if l.Credit() > 0 {
							_, _ = l.Send(Outgoing{Tag: []byte("0123456789abcdef"), Message: data([]byte("x")), Data: 42})
						}
					},
					disposition: func(d *Delivery, state State, settled bool) {
						got = state
						if settled || d.Data != 42 || string(d.Tag) != "0123456789abcdef" {
							t.Errorf("disposition of %+v, settled %v", d, settled)
						}
						// As a broker answers a dead-lettering: not with the state that was asked for.
						if err := d.Settle(Accepted{}); err != nil {
							t.Errorf("settle: %v", err)
						}
					},
				}
				s := serveOn(t, h, Options{})
				conn := dial(t, s, nil)
				receiver := newReceiver(t, newSession(t, conn), "tasks", peekLock(1))
				m, err := receiver.Receive(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.settle(t.Context(), receiver, m); err != nil {
					t.Errorf("settle: %v", err)
				}
				hangUp(t, s, conn)
				if text := fmt.Sprint(got); text != c.want {
					t.Errorf("the handler was told %T %s, want %s", got, text, c.want)
				}
			})
		})
	}
}

func TestASettlementIsRefusedByARejectedAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &testHandler{
			credit: func(l *Link) {
				if l.Credit() > 0 {
					_, _ = l.Send(Outgoing{Message: data([]byte("x"))})
				}
			},
			disposition: func(d *Delivery, _ State, _ bool) {
				_ = d.Settle(Rejected{Errorf("com.microsoft:message-lock-lost", "too late")})
			},
		}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		receiver := newReceiver(t, newSession(t, conn), "tasks", peekLock(1))
		m, err := receiver.Receive(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		e, ok := errors.AsType[*client.Error](receiver.AcceptMessage(t.Context(), m))
		if !ok || e.Condition != "com.microsoft:message-lock-lost" {
			t.Errorf("accept: %v", e)
		}
		hangUp(t, s, conn)
	})
}

func TestCreditIsSpentOnceAndToppedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		var link *Link
		h := &testHandler{credit: func(l *Link) {
			link = l
			for l.Credit() > 0 {
				if _, err := l.Send(Outgoing{Settled: true, Message: data(fmt.Append(nil, sent))}); err != nil {
					t.Error(err)
					return
				}
				sent++
			}
		}}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		receiver := newReceiver(t, newSession(t, conn), "tasks", &client.ReceiverOptions{
			Credit: -1, RequestedSenderSettleMode: client.SenderSettleModeSettled.Ptr(),
		})
		want := 0
		for _, credit := range []uint32{1, 3, 10, 1} {
			if err := receiver.IssueCredit(credit); err != nil {
				t.Fatal(err)
			}
			for range credit {
				m, err := receiver.Receive(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := string(m.GetData()); got != fmt.Sprint(want) {
					t.Fatalf("message %s, want %d", got, want)
				}
				want++
			}
			synctest.Wait()
			if sent != want {
				t.Fatalf("%d messages were sent on a credit of %d", sent, want)
			}
			if _, err := link.Send(Outgoing{Message: data(nil)}); !errors.Is(err, ErrNoCredit) {
				t.Fatalf("send without credit: %v", err)
			}
		}
		hangUp(t, s, conn)
	})
}

func TestTheRealClientDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var link *Link
		h := &testHandler{credit: func(l *Link) {
			link = l
			if l.Draining() {
				if err := l.Drained(); err != nil {
					t.Errorf("drained: %v", err)
				}
			}
		}}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		receiver := newReceiver(t, newSession(t, conn), "tasks", peekLock(-1))
		for range 3 {
			if err := receiver.IssueCredit(10); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if link.Credit() != 10 || link.Draining() {
				t.Fatalf("credit %d, draining %v", link.Credit(), link.Draining())
			}
			if err := receiver.DrainCredit(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if link.Credit() != 0 || link.Draining() {
				t.Fatalf("after the drain: credit %d, draining %v", link.Credit(), link.Draining())
			}
		}
		hangUp(t, s, conn)
	})
}

func TestDeliveriesOutlastTheSessionWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 12_000 // the client's window is 5,000 transfers
		sent := 0
		h := &testHandler{credit: func(l *Link) {
			for sent < messages && l.Credit() > 0 {
				if _, err := l.Send(Outgoing{Settled: true, Message: data(fmt.Append(nil, sent))}); err != nil {
					t.Error(err)
					return
				}
				sent++
			}
		}}
		s := serveOn(t, h, Options{MaxQueued: 64 << 10})
		conn := dial(t, s, nil)
		receiver := newReceiver(t, newSession(t, conn), "tasks", &client.ReceiverOptions{
			Credit: -1, RequestedSenderSettleMode: client.SenderSettleModeSettled.Ptr(),
		})
		if err := receiver.IssueCredit(messages); err != nil {
			t.Fatal(err)
		}
		for i := range messages {
			m, err := receiver.Receive(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(m.GetData()); got != fmt.Sprint(i) {
				t.Fatalf("message %s, want %d", got, i)
			}
		}
		hangUp(t, s, conn)
	})
}

func TestAMessageMayWaitForItsCreditForAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links := make(chan *Link, 1)
		h := &testHandler{attach: func(l *Link) {
			_ = l.Accept(Acceptance{})
			links <- l
		}}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		receiver := newReceiver(t, newSession(t, conn), "tasks", peekLock(1))
		link := <-links
		time.Sleep(24 * time.Hour)
		if _, err := link.Send(Outgoing{Message: data([]byte("x"))}); err != nil {
			t.Fatal(err)
		}
		if _, err := receiver.Receive(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		hangUp(t, s, conn)
	})
}
