package servicebus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/internal/message"
)

// delivery is one message in our hands.
type delivery struct {
	message.Delivery
	sdk    *azservicebus.ReceivedMessage
	link   *link   // nil where it came by a session
	deaths int64   // of the link, when the message came by it
	lock   lockEnd // not used where it came by a session
	poison error   // why nobody can read the body, if so

	session *session // nil where it came by a link
}

// take makes a delivery of what the SDK received at a moment of our own clock.
// The lock was taken a little earlier, so that broker time computed from it is
// late by the time on the wire and never early.
func (p *pump) take(m *azservicebus.ReceivedMessage, received time.Time) *delivery {
	p.link.held.Add(1)
	d := newDelivery(m, received)
	d.link, d.deaths = p.link, p.link.deaths.Load()
	d.lock.extend(received.Add(p.LockDuration))
	if m.LockedUntil != nil {
		d.Taken = m.LockedUntil.Add(-p.LockDuration)
		if m.EnqueuedTime != nil {
			d.LockAtMost = m.LockedUntil.Sub(*m.EnqueuedTime)
		}
	}
	return d
}

// newDelivery is what a message itself tells.
func newDelivery(m *azservicebus.ReceivedMessage, received time.Time) *delivery {
	d := &delivery{sdk: m, Delivery: message.Delivery{
		MessageID:     m.MessageID,
		CorrelationID: value(m.CorrelationID),
		Count:         max(int(m.DeliveryCount), 1),
		Sequence:      value(m.SequenceNumber),
		Taken:         received,
		Received:      received,
	}}
	if n, ok := m.ApplicationProperties[inVain].(int64); ok {
		d.InVain = int(max(n, 0))
	}
	d.Body, d.poison = bodyOf(m)
	return d
}

// bodyOf is the bytes that a message carries. AMQP lets them come in several
// sections, cut anywhere; of values and sequences there are no bytes.
func bodyOf(m *azservicebus.ReceivedMessage) ([]byte, error) {
	if m.RawAMQPMessage == nil || len(m.Body) > 0 {
		return m.Body, nil
	}
	raw := m.RawAMQPMessage.Body
	if whole := bytes.Join(raw.Data, nil); len(whole) > 0 {
		return whole, nil
	}
	if raw.Value != nil || len(raw.Sequence) > 0 {
		return nil, errors.New("the body is an AMQP value or sequence: send the event's bytes, as a data section")
	}
	return nil, errors.New("there is no body: send the event's bytes, as a data section")
}

// deliver works on one message and settles it, and says whether the broker has that.
// A message that arrived while stopping goes back unread.
func (p *pump) deliver(work context.Context, stopping <-chan struct{}, d *delivery) (settled bool) {
	ctx, span := p.startProcess(work, d)
	defer span.End()
	p.keep(ctx, d)
	defer d.lock.release()

	s, read := message.Retry(), false
	select {
	case <-stopping:
	default:
		if d.poison != nil {
			s = message.Reject(message.InvalidMessage, d.poison.Error())
		} else {
			began := time.Now()
			s, read = p.handle(ctx, d.Delivery), true
			p.hasProcessed(ctx, began)
		}
	}
	refused(span, s)
	action, err := p.settle(ctx, stopping, d, s)
	fail(span, err)
	if err == nil {
		p.calm(ctx)
	}
	p.hasSettled(ctx, action, s.Reason, err)
	d.settled(ctx, p.Log, action, s, read, err)
	return err == nil && action != message.Leave
}

// settled is the line about how a delivery ended. The one line about a delivery is
// its reader's, who knows what it was about; here it is written where nobody has read
// it, and where it did not end as was decided.
func (d *delivery) settled(ctx context.Context, log *slog.Logger, a message.Action, s message.Settlement, read bool, err error) {
	level := slog.LevelInfo
	switch {
	case errors.Is(err, errUndecided):
		level = slog.LevelError
	case err != nil:
		level = slog.LevelWarn
	case read:
		level = slog.LevelDebug
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attributes := append(d.names(),
		slog.String("disposition", a.String()),
		slog.Duration("took", time.Since(d.Received)),
	)
	switch s.Action {
	case message.CopyLater:
		attributes = append(attributes, slog.Duration("delay", s.Delay))
	case message.DeadLetter:
		attributes = append(attributes, slog.String("reason", s.Reason), slog.String("description", s.Description))
	}
	if err != nil {
		log.LogAttrs(ctx, level, "not settled", append(attributes, slog.Any("err", err))...)
		return
	}
	log.LogAttrs(ctx, level, "settled", attributes...)
}

// names are what a line about the delivery begins with.
func (d *delivery) names() []slog.Attr {
	names := []slog.Attr{
		slog.String("task", d.CorrelationID),
		slog.String("message", d.MessageID),
		slog.Int("delivery", d.Count),
	}
	if d.session != nil {
		names = append(names, slog.String("session", d.session.id))
	}
	return names
}
