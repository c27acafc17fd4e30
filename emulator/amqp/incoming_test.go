package amqp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/Azure/go-amqp"
)

func TestAMessageArrivesWholeWhateverItsSize(t *testing.T) {
	for _, size := range []int{0, 1, 255, 256, 65_000, 65_536, 200_000, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := make([]byte, size)
				for i := range body {
					body[i] = byte(rand.Uint32())
				}
				var got []byte
				h := &testHandler{transfer: func(d *Delivery) {
					got = bodyOf(t, d)
					if err := d.Settle(Accepted{}); err != nil {
						t.Errorf("settle: %v", err)
					}
				}}
				s := serveOn(t, h, Options{})
				conn := dial(t, s, nil)
				sender := newSender(t, newSession(t, conn), "tasks", nil)
				if err := sender.Send(t.Context(), client.NewMessage(body), nil); err != nil {
					t.Fatal(err)
				}
				hangUp(t, s, conn)
				if !bytes.Equal(got, body) {
					t.Errorf("%d bytes arrived, and not the ones that were sent", len(got))
				}
			})
		})
	}
}

func TestASenderOutlivesItsCreditAndTheSessionWindow(t *testing.T) {
	for _, credit := range []uint32{50, 20_000} { // the second asks for no flow of its own while the window passes
		t.Run(fmt.Sprint(credit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const messages = 12_000 // more than twice the window of 5,000
				received := 0
				h := &testHandler{
					attach: func(l *Link) { _ = l.Accept(Acceptance{MaxMessageSize: 1 << 20, Credit: credit}) },
					transfer: func(d *Delivery) {
						received++
						_ = d.Settle(Accepted{})
					},
				}
				s := serveOn(t, h, Options{})
				conn := dial(t, s, nil)
				sender := newSender(t, newSession(t, conn), "tasks", nil)
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						for range messages / 20 {
							if err := sender.Send(t.Context(), client.NewMessage([]byte("x")), nil); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				hangUp(t, s, conn)
				if received != messages {
					t.Errorf("%d of %d messages arrived", received, messages)
				}
			})
		})
	}
}

func TestUnsettledMessagesUseUpTheCreditWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = 10
		var held []*Delivery
		h := &testHandler{
			attach:   func(l *Link) { _ = l.Accept(Acceptance{MaxMessageSize: 1 << 20, Credit: window}) },
			transfer: func(d *Delivery) { held = append(held, d) },
		}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		sender := newSender(t, newSession(t, conn), "tasks", nil)
		// One goroutine: the client's sender holds a mutex while it waits for
		// credit, and a second one waiting for the mutex would keep the bubble from being idle.
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 3 * window {
				if _, err := sender.SendWithReceipt(t.Context(), client.NewMessage([]byte("x")), nil); err != nil {
					t.Error(err)
				}
			}
		})
		for settled := 0; settled < 3*window; {
			synctest.Wait()
			if len(held) > window {
				t.Fatalf("%d messages are unsettled, the window is %d", len(held), window)
			}
			if len(held) == 0 {
				t.Fatalf("nothing arrives after %d messages", settled)
			}
			batch := held
			held = nil
			for _, d := range batch {
				if err := d.Settle(Accepted{}); err != nil {
					t.Fatal(err)
				}
				settled++
			}
		}
		wg.Wait()
		hangUp(t, s, conn)
	})
}

func TestOneHeldMessageDoesNotHoldTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var wg sync.WaitGroup
		h := &testHandler{transfer: func(d *Delivery) {
			if !bytes.Equal(bodyOf(t, d), []byte("held")) {
				_ = d.Settle(Accepted{})
				return
			}
			wg.Go(func() {
				<-release
				if err := d.Settle(Rejected{Errorf("com.example:late", "held for %s", "an hour")}); err != nil {
					t.Errorf("settle: %v", err)
				}
			})
		}}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		sender := newSender(t, newSession(t, conn), "tasks", nil)
		held := make(chan error, 1)
		go func() { held <- sender.Send(t.Context(), client.NewMessage([]byte("held")), nil) }()
		synctest.Wait()
		for range 300 {
			if err := sender.Send(t.Context(), client.NewMessage([]byte("x")), nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		close(release)
		wg.Wait()
		e, ok := errors.AsType[*client.Error](<-held)
		if !ok || e.Condition != "com.example:late" || e.Description != "held for an hour" {
			t.Errorf("the held message was answered %v", e)
		}
		hangUp(t, s, conn)
	})
}

func TestEveryOutcomeReachesTheSender(t *testing.T) {
	for _, c := range []struct {
		name    string
		state   State
		refused client.ErrCond
	}{
		{"accepted", Accepted{}, ""},
		{"released counts as sent", Released{}, ""},
		{"modified counts as sent", Modified{DeliveryFailed: true, MessageAnnotations: Map{{Symbol("a"), int32(1)}}}, ""},
		{"rejected", Rejected{Errorf("com.example:no", "no")}, "com.example:no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &testHandler{transfer: func(d *Delivery) {
					if err := d.Settle(c.state); err != nil {
						t.Errorf("settle: %v", err)
					}
					if err := d.Settle(c.state); !errors.Is(err, ErrGone) {
						t.Errorf("settled twice: %v", err)
					}
				}}
				s := serveOn(t, h, Options{})
				conn := dial(t, s, nil)
				sender := newSender(t, newSession(t, conn), "tasks", nil)
				err := sender.Send(t.Context(), client.NewMessage([]byte("x")), nil)
				e, _ := errors.AsType[*client.Error](err)
				switch {
				case c.refused == "" && err != nil:
					t.Errorf("send: %v", err)
				case c.refused != "" && (e == nil || e.Condition != c.refused):
					t.Errorf("send: %v, want %v", err, c.refused)
				}
				hangUp(t, s, conn)
			})
		})
	}
}

func TestAMessageSentSettledNeedsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		received := 0
		h := &testHandler{
			attach: func(l *Link) { _ = l.Accept(Acceptance{MaxMessageSize: 1 << 20, Credit: 4}) },
			transfer: func(d *Delivery) {
				received++
				if !d.Settled {
					t.Error("the message came unsettled")
				}
				if err := d.Settle(Accepted{}); !errors.Is(err, ErrGone) {
					t.Errorf("settle of a settled message: %v", err)
				}
			},
		}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		sender := newSender(t, newSession(t, conn), "tasks", &client.SenderOptions{SettlementMode: client.SenderSettleModeSettled.Ptr()})
		for range 50 {
			if err := sender.Send(t.Context(), client.NewMessage([]byte("x")), nil); err != nil {
				t.Fatal(err)
			}
		}
		hangUp(t, s, conn)
		if received != 50 {
			t.Errorf("%d messages arrived, want 50", received)
		}
	})
}
