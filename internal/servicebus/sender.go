package servicebus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/internal/message"
)

// Sender sends to one queue or topic. It may be used by many goroutines.
type Sender struct {
	client  *Client
	entity  string
	station *station

	mu  sync.Mutex // guards sdk; never held over I/O
	sdk *azservicebus.Sender
}

// contentType is where the SDK reads the content type of all that is sent.
var contentType = message.ContentType

// Send sends a message and returns when the broker has it. It tries until the
// context ends, for SendTimeout at most. ErrRefused and ErrNotFound say that the
// broker will not have it. Every other failure is ErrUnknown, also where the last
// attempt was turned away for now: the SDK repeats attempts without saying so, and
// an earlier one may have arrived. All of them carry the same MessageID, and no
// receiver counts on that.
func (s *Sender) Send(ctx context.Context, m message.Message) error {
	return s.send(ctx, m, time.Time{})
}

// SendLater is Send of a message that becomes visible at a time of the broker's
// clock.
func (s *Sender) SendLater(ctx context.Context, m message.Message, at time.Time) error {
	return s.send(ctx, m, at)
}

func (s *Sender) send(ctx context.Context, m message.Message, at time.Time) error {
	out := &azservicebus.Message{
		MessageID:     &m.ID,
		CorrelationID: optional(&m.CorrelationID),
		SessionID:     optional(&m.Session),
		Subject:       optional(&m.Subject),
		ContentType:   &contentType,
		Body:          m.Body,
	}
	if !at.IsZero() {
		out.ScheduledEnqueueTime = &at
	}
	return s.traced(ctx, out, m.CorrelationID, false)
}

// traced sends within a span of its own, whose context goes with the message. A
// delayed copy keeps what else came with its original.
func (s *Sender) traced(ctx context.Context, m *azservicebus.Message, correlation string, isCopy bool) error {
	began := time.Now()
	ctx, span := s.client.startSend(ctx, s.station, *m.MessageID, correlation)
	defer span.End()
	if isCopy && span.IsRecording() {
		span.SetAttributes(keyCopy.Bool(true))
	}
	m.ApplicationProperties = s.client.inject(ctx, m.ApplicationProperties)
	err := s.transmit(ctx, m)
	fail(span, err)
	s.client.hasSent(ctx, s.station, err)
	s.client.took(ctx, s.station, opSend, began, err)
	return err
}

// transmit sends until it is sent, refused, or out of time.
func (s *Sender) transmit(ctx context.Context, m *azservicebus.Message) error {
	ctx, cancel := message.Within(ctx, s.client.sendTimeout)
	defer cancel()
	var before error // what the attempt before met
	for attempt := 1; ; attempt++ {
		err := s.attempt(ctx, m)
		if err == nil {
			return nil
		}
		no := errors.Is(err, message.ErrRefused) || errors.Is(err, message.ErrNotFound)
		if no && before == nil {
			return err
		}
		if no || message.Pause(ctx, backoff(attempt)) != nil {
			return unknown(err, before)
		}
		before = err
	}
}

// attempt sends once, or as often as the SDK repeats it. The SDK keeps a link that
// was ended with a condition which it takes for final, and would use it for ever:
// a queue that is disabled and enabled again, a connection that is closed for a
// breach of the protocol. Such a sender is replaced.
func (s *Sender) attempt(ctx context.Context, m *azservicebus.Message) error {
	op := "send to " + s.entity
	sdk := s.current()
	err := sdk.SendMessage(ctx, m, nil)
	if deadLink(err) {
		s.replace(ctx, sdk)
	}
	if err != nil && s.current() != sdk { // closed under us by a replacement: no word of the broker's
		return fmt.Errorf("%s: %w: %w", op, message.ErrUnknown, err)
	}
	return translate(op, err)
}

func (s *Sender) current() *azservicebus.Sender {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sdk
}

// replace puts a fresh sender in the place of a dead one, unless another has done so.
func (s *Sender) replace(ctx context.Context, dead *azservicebus.Sender) {
	unused, err := s.client.sdk.NewSender(s.entity, nil) // no I/O
	if err != nil {
		return // the client is closed, as the next attempt will say
	}
	s.mu.Lock()
	if s.sdk == dead {
		s.sdk, unused = unused, dead
	}
	s.mu.Unlock()
	_ = unused.Close(ctx)
}

// unknown is the end of attempts of which one may have arrived. The last one says
// how it ended, and the one before why it took so long.
func unknown(last, before error) error {
	if before != nil {
		return fmt.Errorf("%w: %v; before that: %v", message.ErrUnknown, last, before)
	}
	if errors.Is(last, message.ErrUnknown) {
		return last
	}
	return fmt.Errorf("%w: %v", message.ErrUnknown, last)
}

// optional is nil for what is not there, as the SDK wants it.
func optional(s *string) *string {
	if *s == "" {
		return nil
	}
	return s
}
