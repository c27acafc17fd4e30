package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Each kind of load goes on until its emulator is gone. It tells the ledger what it is about to do, does it, and tells
// what was answered: in between, anything may have happened.

func newMessage(id string) *azservicebus.Message {
	return &azservicebus.Message{MessageID: &id, Body: []byte("the body of " + id)}
}

// sendTo sends one message after the other.
func sendTo(queue string) func(ctx context.Context, c *azservicebus.Client, l *ledger, id func() string) error {
	return func(ctx context.Context, c *azservicebus.Client, l *ledger, id func() string) error {
		s, err := c.NewSender(queue, nil)
		if err != nil {
			return err
		}
		for !l.crowded() {
			m := l.begin(id())
			if err := s.SendMessage(ctx, newMessage(m.id), nil); err != nil {
				return err
			}
			l.answered(func() { m.sent = yes })
		}
		return nil
	}
}

// sendBatches sends five at once: all of them are there, or none.
func sendBatches(ctx context.Context, c *azservicebus.Client, l *ledger, id func() string) error {
	s, err := c.NewSender("work", nil)
	if err != nil {
		return err
	}
	for !l.crowded() {
		batch, err := s.NewMessageBatch(ctx, nil)
		if err != nil {
			return err
		}
		var all []*fate
		for range 5 {
			m := l.begin(id())
			all = append(all, m)
			if err := batch.AddMessage(newMessage(m.id), nil); err != nil {
				return err
			}
		}
		l.together(all)
		if err := s.SendMessageBatch(ctx, batch, nil); err != nil {
			return err
		}
		l.answered(func() {
			for _, m := range all {
				m.sent = yes
			}
		})
	}
	return nil
}

func publish(ctx context.Context, c *azservicebus.Client, l *ledger, id func() string) error {
	s, err := c.NewSender("news", nil)
	if err != nil {
		return err
	}
	for {
		text := id()
		l.publishing(text)
		if err := s.SendMessage(ctx, newMessage(text), nil); err != nil {
			return err
		}
		l.answered(func() { l.news[text] = yes })
	}
}

// schedule schedules messages for a time that no test lives to see, and cancels every third.
func schedule(ctx context.Context, c *azservicebus.Client, l *ledger, id func() string) error {
	s, err := c.NewSender("work", nil)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		m := l.begin(id())
		m.scheduled = true
		numbers, err := s.ScheduleMessages(ctx, []*azservicebus.Message{newMessage(m.id)}, time.Now().Add(24*time.Hour), nil)
		if err != nil {
			return err
		}
		l.answered(func() { m.sent, m.number = yes, numbers[0] })
		if n%3 != 0 {
			continue
		}
		l.answered(func() { m.gone = unknown })
		if err := s.CancelScheduledMessages(ctx, numbers, nil); err != nil {
			return err
		}
		l.answered(func() { m.gone = yes })
	}
}

// sendTwice sends each message twice. The second is accepted and dropped, also by an emulator that was killed between.
func sendTwice(ctx context.Context, c *azservicebus.Client, l *ledger, id func() string) error {
	s, err := c.NewSender("once", nil)
	if err != nil {
		return err
	}
	for _, old := range l.lastOnce() {
		if err := s.SendMessage(ctx, newMessage(old), nil); err != nil {
			return err
		}
	}
	for {
		text := id()
		l.sendingOnce(text)
		for range 2 {
			if err := s.SendMessage(ctx, newMessage(text), nil); err != nil {
				return err
			}
			l.answered(func() { l.once[text] = yes })
		}
	}
}

// keepState counts in the state of a session.
func keepState(ctx context.Context, c *azservicebus.Client, l *ledger, _ func() string) error {
	r, err := c.AcceptSessionForQueue(ctx, "steps", "s", nil)
	if err != nil {
		return err
	}
	for {
		n := l.nextState()
		if err := r.SetSessionState(ctx, []byte(fmt.Sprint(n)), nil); err != nil {
			return err
		}
		l.answered(func() { l.state = n })
	}
}

// consumeHeld settles what was left locked before the last kill, under the tokens of then, and goes on as consume.
func consumeHeld(ctx context.Context, c *azservicebus.Client, l *ledger, id func() string) error {
	r, err := c.NewReceiverForQueue("work", nil)
	if err != nil {
		return err
	}
	for _, m := range l.someHeld() {
		held := *m.held
		held.RawAMQPMessage = nil // or the SDK would settle it on the link that is gone
		l.answered(func() { m.held = nil })
		if err := settle(ctx, r, l, m, &held); err != nil {
			return err
		}
	}
	return consume(ctx, c, l, id)
}

// consume settles what comes in every way there is, and leaves some of it locked.
func consume(ctx context.Context, c *azservicebus.Client, l *ledger, _ func() string) error {
	r, err := c.NewReceiverForQueue("work", nil)
	if err != nil {
		return err
	}
	for {
		got, err := r.ReceiveMessages(ctx, 10, nil)
		if err != nil {
			return err
		}
		for _, received := range got {
			m := l.received(received)
			if m == nil {
				continue
			}
			if rand.IntN(10) == 0 {
				l.answered(func() { m.held = received })
				continue
			}
			if err := settle(ctx, r, l, m, received); err != nil {
				return err
			}
		}
	}
}

func settle(ctx context.Context, r *azservicebus.Receiver, l *ledger, m *fate, received *azservicebus.ReceivedMessage) error {
	var err error
	var attempt, done func()
	switch n := rand.IntN(10); {
	case n < 5:
		attempt, done = func() { m.gone = unknown }, func() { m.gone = yes }
		l.answered(attempt)
		err = r.CompleteMessage(ctx, received, nil)
	case n < 8:
		attempt, done = func() { m.failing = true }, func() { m.failing = false; m.count = max(m.count, received.DeliveryCount) }
		l.answered(attempt)
		err = r.AbandonMessage(ctx, received, nil)
	case n < 9:
		attempt, done = func() { m.dead = unknown }, func() { m.dead = yes }
		l.answered(attempt)
		err = r.DeadLetterMessage(ctx, received, nil)
	default:
		attempt, done = func() { m.deferred = unknown }, func() { m.deferred = yes }
		l.answered(attempt)
		err = r.DeferMessage(ctx, received, nil)
	}
	if err == nil {
		l.answered(func() {
			done()
			l.settled++
		})
		return nil
	}
	if sdk, ok := errors.AsType[*azservicebus.Error](err); ok && sdk.Code == azservicebus.CodeLockLost {
		l.t.Errorf("%s: its lock is lost, which was until %v", m.id, received.LockedUntil)
	}
	return err
}
