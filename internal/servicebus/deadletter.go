package servicebus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/internal/message"
)

const (
	browseTimeout = 20 * time.Second // of one look at dead letters, whatever it finds
	browsePage    = 100

	discardTimeout = 30 * time.Second
	discardWait    = 2 * time.Second // for the next message: a dead-letter queue that has one gives it at once
	discardPage    = 20
)

// DeadLetterQueue is what a queue has given up. Each look makes a link of its own:
// they are far apart, and the service ends links that are idle for so long. It may
// be used by many goroutines.
type DeadLetterQueue struct {
	client *Client
	queue  string
}

// DeadLetters is the dead-letter queue of a queue.
func (c *Client) DeadLetters(queue string) *DeadLetterQueue {
	return &DeadLetterQueue{client: c, queue: queue}
}

// Browse returns dead letters in the order of their sequence numbers, from a number
// on, at most limit; none is the end. Nothing is locked by that and nothing is
// counted. An error says nothing of what there is: ErrTransient, unless somebody
// must do something first.
func (q *DeadLetterQueue) Browse(ctx context.Context, fromSequence int64, limit int) ([]message.Dead, error) {
	ctx, cancel := context.WithTimeout(ctx, browseTimeout)
	defer cancel()
	var found []message.Dead
	err := q.on(ctx, func(sdk *azservicebus.Receiver) error {
		for len(found) < limit {
			page, err := sdk.PeekMessages(ctx, min(limit-len(found), browsePage), &azservicebus.PeekMessagesOptions{FromSequenceNumber: &fromSequence})
			if err != nil || len(page) == 0 {
				return err
			}
			for _, m := range page {
				d := deadLetter(m)
				found, fromSequence = append(found, d), max(fromSequence, d.Sequence+1)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Discard removes the dead letters that are meant, as far as they are met: a
// dead-letter queue gives its messages in their order and not by number, so at most
// so many are received, and those that are not meant go back. Where it ends early,
// it says how many it has removed; what stays must do no harm.
func (q *DeadLetterQueue) Discard(ctx context.Context, meant func(message.Dead) bool, most int) (removed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, discardTimeout)
	defer cancel()
	var others []*azservicebus.ReceivedMessage
	err = q.on(ctx, func(sdk *azservicebus.Receiver) error {
		for met := 0; met < most; {
			page, err := q.receive(ctx, sdk, min(most-met, discardPage))
			if err != nil || len(page) == 0 {
				return err
			}
			met += len(page)
			for _, m := range page {
				if err != nil || !meant(deadLetter(m)) {
					others = append(others, m) // also after an error: what is locked goes back
					continue
				}
				if err = sdk.CompleteMessage(ctx, m, nil); err == nil {
					removed++
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	q.giveBack(ctx, others)
	return removed, err
}

// receive waits a moment for the next messages; none is the end of the queue.
func (q *DeadLetterQueue) receive(ctx context.Context, sdk *azservicebus.Receiver, most int) ([]*azservicebus.ReceivedMessage, error) {
	bounded, cancel := context.WithTimeout(ctx, discardWait)
	defer cancel()
	page, err := sdk.ReceiveMessages(bounded, most, nil)
	if len(page) == 0 && bounded.Err() != nil && ctx.Err() == nil {
		return nil, nil
	}
	return page, err
}

// giveBack abandons what was received in passing, by its lock token and on a link
// that asks for nothing: the one that brought it has asked for more than there was,
// and would be sent it again at once, and locked. In a dead-letter queue that counts
// no delivery; what the broker cannot be told comes back when its lock ends.
func (q *DeadLetterQueue) giveBack(ctx context.Context, others []*azservicebus.ReceivedMessage) {
	if len(others) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DefaultSettleTimeout)
	defer cancel()
	_ = q.on(ctx, func(sdk *azservicebus.Receiver) error {
		for _, m := range others {
			if err := sdk.AbandonMessage(ctx, &azservicebus.ReceivedMessage{LockToken: m.LockToken}, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// on makes a receiver for one use and ends it.
func (q *DeadLetterQueue) on(ctx context.Context, use func(*azservicebus.Receiver) error) error {
	op := "look at the dead letters of " + q.queue
	sdk, err := q.client.sdk.NewReceiverForQueue(q.queue, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	if err != nil {
		return translate(op, err)
	}
	defer (&link{sdk: sdk}).close(ctx, DefaultSettleTimeout)
	if err := translate(op, use(sdk)); err != nil {
		if errors.Is(err, message.ErrRefused) || errors.Is(err, message.ErrNotFound) {
			return err
		}
		return fmt.Errorf("%w: %v", message.ErrTransient, err) // nothing was asked for that could be half done
	}
	return nil
}

func deadLetter(m *azservicebus.ReceivedMessage) message.Dead {
	body, _ := bodyOf(m) // what has none, or another kind of it, nobody can read
	return message.Dead{
		Sequence: value(m.SequenceNumber), MessageID: m.MessageID, CorrelationID: value(m.CorrelationID), Body: body,
		Reason: value(m.DeadLetterReason), Description: value(m.DeadLetterErrorDescription),
		EnqueuedAt: value(m.EnqueuedTime), DeliveryCount: int(m.DeliveryCount),
	}
}
