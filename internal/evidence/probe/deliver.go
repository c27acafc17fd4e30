package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"oneeffect/internal/evidence"
	"oneeffect/internal/message"
	"oneeffect/internal/projector"
	"oneeffect/internal/receipt"
	"oneeffect/internal/servicebus"
)

// patience is how long a delivery may take beyond the lock of whoever had it before.
const patience = 30 * time.Second

// keep is how long the receipts of probes are kept.
const keep = 24 * time.Hour

// settleTimeout bounds one settlement.
const settleTimeout = 10 * time.Second

// event is the message of a case.
func event(c evidence.Case) message.Reservation {
	id := evidence.Reservation
	if c.EventKey == evidence.LateKey {
		id = evidence.LateID
	}
	return message.Reservation{EventKey: c.EventKey, SKU: c.Entity, ReservationID: id, Version: c.Version, Quantity: -c.Delta}
}

// send sends the event of a case under a transport id.
func (p *Probes) send(ctx context.Context, f *findings, id string) error {
	r := event(f.c)
	m, err := r.Message(id, time.Now())
	if err != nil {
		return err
	}
	e, err := receipt.FromStock(message.StockEvent{Reservation: &r})
	if err != nil {
		return err
	}
	if err := p.publish(ctx, m); err != nil {
		return err
	}
	f.sent(evidence.Sent{EventKey: e.Key, Entity: e.Entity, Version: e.Version, Digest: e.Digest, Delta: f.c.Delta},
		fmt.Sprintf("%s sent to the topic %s as message %s: %s, version %d, stock %+d", message.TypeReservation, p.Topic, id, e.Key, e.Version, f.c.Delta))
	return nil
}

// publish sends a message that bears this run's mark.
func (p *Probes) publish(ctx context.Context, m message.Message) error {
	m.CorrelationID = p.token
	sender, err := p.Bus.Sender(p.Topic)
	if err != nil {
		return err
	}
	if err := sender.Send(ctx, m); err != nil {
		return fmt.Errorf("send %s to the topic %s: %w", m.ID, p.Topic, err)
	}
	return nil
}

// project has the projector work on a delivery.
func (p *Probes) project(ctx context.Context, f *findings, id string) error {
	a, err := p.receive(ctx, id, p.projector)
	if err != nil {
		return err
	}
	f.attempt(a)
	return nil
}

// projector is the projector as cmd/projector wires it.
func (p *Probes) projector(log *slog.Logger) servicebus.Handle {
	return (&projector.Projector{Inventory: p.book(p.Inventory), Counters: p.Counters, Log: log}).Handle
}

func (p *Probes) book(s receipt.Store) *receipt.Book {
	return &receipt.Book{Store: s, Timeout: p.Timeout, Keep: keep}
}

// receive waits for the delivery of a message of this run, has it handled and settled,
// and says what the broker and the handler's own log told of it. What an earlier run
// has left in the subscription is removed.
func (p *Probes) receive(ctx context.Context, id string, handler func(*slog.Logger) servicebus.Handle) (evidence.Attempt, error) {
	ctx, stop := context.WithTimeoutCause(ctx, p.Lock+patience, fmt.Errorf("%w: message %s was not delivered within %v: are the topic %s and its subscription %s there, with a lock of %v, and does nobody else receive from it?",
		message.ErrTransient, id, p.Lock+patience, p.Topic, p.Subscription, p.Lock))
	defer stop()
	heard := &witness{Handler: p.Log.Handler(), id: id, ended: "not settled"}
	log := slog.New(heard)
	handle := handler(log)
	a := evidence.Attempt{Transport: "servicebus", ID: id, Process: processName()}
	var stray error
	receiver := servicebus.Receiver{
		Client: p.Bus, Topic: p.Topic, Subscription: p.Subscription, Slots: 1,
		LockDuration: p.Lock, SettleTimeout: settleTimeout, Grace: p.Timeout, Log: log,
	}
	err := receiver.Run(ctx, func(ctx context.Context, d message.Delivery) message.Settlement {
		switch {
		case d.CorrelationID != p.token:
			return message.Done()
		case a.Count > 0:
			return message.Retry() // the next one's
		}
		defer stop()
		if d.MessageID != id {
			stray = fmt.Errorf("message %s was delivered, want %s", d.MessageID, id)
			return message.Retry()
		}
		a.Count, a.Sequence = d.Count, d.Sequence
		return handle(ctx, d)
	})
	if err := errors.Join(err, stray); err != nil {
		return a, err
	}
	if a.Count == 0 {
		return a, context.Cause(ctx)
	}
	a.Ended, a.Reported = heard.ended, heard.class // nobody logs any more: Run has returned
	return a, nil
}
