package servicebus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/internal/message"
)

// errUndecided: the handler returned no settlement. The message stays locked
// until its lock ends by itself.
var errUndecided = errors.New("the handler did not decide: the message is left to its lock")

// errLockOver: there is nothing to settle any more. The message comes again, or has
// been settled by whoever got it.
var errLockOver = errors.New("the lock is over: no copy is made of a message that comes again by itself")

// settle does what the handler decided and says what was done in the end. The
// lock is renewed until the broker is told, and not a moment longer: a renewal
// that overtakes a settlement would find the lock lost and say so.
func (p *pump) settle(ctx context.Context, stopping <-chan struct{}, d *delivery, s message.Settlement) (message.Action, error) {
	action := s.Action
	switch s.Action {
	case message.Complete, message.Abandon, message.DeadLetter:
	case message.Leave:
		d.lock.release()
		p.leave(stopping, d)
		return message.Leave, nil
	case message.CopyLater:
		if p.Queue == "" {
			// A copy sent to the topic would reach every subscription, so the message itself waits.
			p.hold(stopping, d, s.Delay)
			action = message.Abandon
			break
		}
		if d.lock.over() { // after a pause, or an outage: a copy would be one message more
			d.lock.release()
			return message.Leave, errLockOver
		}
		if err := p.copyLater(ctx, d, s); err != nil {
			d.lock.release()
			return message.Leave, err
		}
		action = message.Complete
	default:
		d.lock.release()
		p.leave(stopping, d)
		return message.Leave, errUndecided
	}
	d.lock.release()
	err := p.tell(ctx, d, action, s)
	if busy(err) {
		p.slowDown(ctx, err)
	}
	if s.Action == message.CopyLater && action == message.Complete {
		action = message.CopyLater
	}
	return action, err
}

// hold keeps the message and its slot for the delay, but not past two locks, nor
// past the end of receiving, nor when its session is lost.
func (p *pump) hold(stopping <-chan struct{}, d *delivery, delay time.Duration) {
	var lost <-chan struct{}
	if d.session != nil {
		lost = d.session.lost.Done()
	}
	timer := time.NewTimer(min(delay, 2*p.LockDuration))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stopping:
	case <-lost:
	}
}

// inVain is the property of a copy that says how many deliveries in a row came to
// nothing. A wait is made of it, and nothing else; whoever sends may say what he likes.
const inVain = "oneeffect-in-vain"

// copyLater puts a copy into the queue, visible after the delay by the broker's
// clock. It is the same message in everything but its id, a second one of that being
// dropped as a duplicate, and the count of what was in vain. While it is sent the
// original is still ours.
func (p *pump) copyLater(ctx context.Context, d *delivery, s message.Settlement) error {
	sender, err := p.Client.Sender(p.Queue)
	if err != nil {
		return err
	}
	id := d.copyID()
	at := d.BrokerNow().Add(s.Delay)
	properties := maps.Clone(d.sdk.ApplicationProperties)
	delete(properties, inVain)
	if s.InVain > 0 {
		if properties == nil {
			properties = make(map[string]any, 1)
		}
		properties[inVain] = int64(s.InVain)
	}
	err = sender.traced(context.WithoutCancel(ctx), &azservicebus.Message{
		MessageID:             &id,
		CorrelationID:         d.sdk.CorrelationID,
		Subject:               d.sdk.Subject,
		ContentType:           d.sdk.ContentType,
		Body:                  d.Body,
		ApplicationProperties: properties,
		ScheduledEnqueueTime:  &at,
	}, d.CorrelationID, true)
	if err != nil {
		return fmt.Errorf("copy for later, the original is left to its lock: %w", err)
	}
	return nil
}

// copyID is the id of a copy. Whose copy it is the body alone knows: the
// transport's ids may be missing, or another's. What is no task of ours has no
// name that a copy could bear.
func (d *delivery) copyID() string {
	task, err := message.ParseTask(d.Body)
	if err != nil {
		return "copy/" + rand.Text()
	}
	return message.CopyMessageID(task.ExecutionID, rand.Text())
}

// longestFirst is less than the SDK waits before it tries to settle again.
const longestFirst = 2500 * time.Millisecond

// tell settles the message, on a context that outlives the work and has a bound.
//
// A message can be settled on the link that brought it, or by its lock token
// through the management link. The SDK takes the first way and goes over to the
// second when the link was detached, but not when the connection was lost: then
// it takes the old link's error for a fault of the connection it has now, cuts
// that, and so three times over. So we leave the first way as soon as the link
// is known to have died, or before the SDK's second attempt, and take the other.
func (p *pump) tell(ctx context.Context, d *delivery, action message.Action, s message.Settlement) error {
	began, operation := time.Now(), settling[action].operation
	ctx, span := p.startSettle(ctx, d, operation)
	defer span.End()
	err := p.tellEitherWay(context.WithoutCancel(ctx), began.Add(p.SettleTimeout), d, action, s)
	fail(span, err)
	p.Client.took(ctx, p.station, operation, began, err)
	return err
}

func (p *pump) tellEitherWay(ctx context.Context, ends time.Time, d *delivery, action message.Action, s message.Settlement) error {
	if d.session != nil {
		return p.tellInSession(ctx, d, action, s)
	}
	var first error
	if d.link.deaths.Load() == d.deaths {
		first = p.tellWithin(ctx, min(longestFirst, p.SettleTimeout/2), d.link.sdk, d.sdk, action, s)
		if !errors.Is(first, message.ErrUnknown) {
			return first
		}
	}
	ctx, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	err := p.tellByToken(ctx, d, action, s)
	if err != nil && first != nil {
		err = fmt.Errorf("%w; before that: %v", err, first)
	}
	return err
}

// tellByToken settles by the lock token alone. Renewing the lock first makes the
// SDK repair a dead link at once, which settling would do only after seconds.
func (p *pump) tellByToken(ctx context.Context, d *delivery, action message.Action, s message.Settlement) error {
	token := &azservicebus.ReceivedMessage{LockToken: d.sdk.LockToken}
	if err := d.link.sdk.RenewMessageLock(ctx, token, nil); err != nil {
		return translate("renew lock before "+action.String(), err)
	}
	return p.tellWithin(ctx, p.SettleTimeout, d.link.sdk, token, action, s)
}

func (p *pump) tellWithin(ctx context.Context, bound time.Duration, by settler, m *azservicebus.ReceivedMessage, action message.Action, s message.Settlement) error {
	ctx, cancel := message.Within(ctx, bound)
	defer cancel()
	var err error
	switch action {
	case message.Complete:
		err = by.CompleteMessage(ctx, m, nil)
	case message.Abandon:
		err = by.AbandonMessage(ctx, m, nil)
	case message.DeadLetter:
		reason, description := cut(s.Reason), cut(s.Description)
		err = by.DeadLetterMessage(ctx, m, &azservicebus.DeadLetterOptions{Reason: &reason, ErrorDescription: &description})
	}
	return translate(action.String(), err)
}

// maxReason is what the service keeps of a dead-letter reason or description.
const maxReason = 4096

// cut shortens a text to what the service keeps, at a character's border.
func cut(s string) string {
	if len(s) <= maxReason {
		return s
	}
	return strings.ToValidUTF8(s[:maxReason], "")
}
