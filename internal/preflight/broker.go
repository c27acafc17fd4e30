package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"
)

// broker is the queue that is asked.
type broker struct {
	client   *azservicebus.Client
	sender   *azservicebus.Sender
	receiver *azservicebus.Receiver
	dead     *azservicebus.Receiver
	remove   func(context.Context) // the queue, if it was made
	nonce    string
}

// ours are the queues that a probe must never touch.
var ours = []string{message.Tasks}

func openBroker(ctx context.Context, o Options, nonce string) (_ *broker, err error) {
	b := &broker{nonce: nonce, remove: func(context.Context) {}}
	queue := o.Queue
	if slices.Contains(ours, queue) {
		return nil, fmt.Errorf("queue %s is the product's own: give one for the probes alone", queue)
	}
	if queue == "" {
		queue = "preflight-" + nonce
		if err := b.make(ctx, o, queue); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			b.close(ctx)
		}
	}()
	if b.client, err = dial(o.Broker); err != nil {
		return nil, err
	}
	if b.sender, err = b.client.NewSender(queue, nil); err != nil {
		return nil, err
	}
	if b.receiver, err = b.client.NewReceiverForQueue(queue, nil); err != nil {
		return nil, err
	}
	if b.dead, err = b.client.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	found, err := b.receiver.PeekMessages(bounded, 1, nil)
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", queue, err)
	}
	if len(found) > 0 {
		return nil, fmt.Errorf("queue %s is not empty: give one for the probes alone", queue)
	}
	return b, nil
}

// make makes the probes' queue.
func (b *broker) make(ctx context.Context, o Options, queue string) error {
	manager, err := servicebus.Manage(o.Broker)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = manager.MakeQueue(bounded, servicebus.Entity{
		Name: queue, Lock: LockFor, MaxDelivery: MaxDelivery, TTL: 5 * time.Minute,
		DeadLetterExpired: true, DetectsDuplicates: true, DuplicateWindow: 20 * time.Second,
	})
	if err != nil {
		return fmt.Errorf("%w (without the right to manage the namespace, name a queue for the probes)", err)
	}
	b.remove = func(ctx context.Context) { _ = manager.DeleteQueue(ctx, queue) } // it deletes itself when nobody uses it
	return nil
}

func dial(o servicebus.Options) (*azservicebus.Client, error) {
	options := &azservicebus.ClientOptions{ApplicationID: o.ApplicationID}
	if o.NewConn != nil {
		options.NewWebSocketConn = func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return o.NewConn(ctx)
		}
	}
	if o.ConnectionString != "" {
		return azservicebus.NewClientFromConnectionString(o.ConnectionString, options)
	}
	return azservicebus.NewClient(o.Namespace, o.Credential, options)
}

func (b *broker) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if b.client != nil {
		_ = b.client.Close(ctx)
	}
	b.remove(ctx)
}

func (b *broker) send(ctx context.Context, id string, at *time.Time) error {
	return b.sender.SendMessage(ctx, &azservicebus.Message{MessageID: &id, Body: []byte("preflight"), ScheduledEnqueueTime: at}, nil)
}

// receive receives a probe's own message within a time, nil if there is none. What
// another probe has left is taken away.
func (b *broker) receive(ctx context.Context, from *azservicebus.Receiver, id string, within time.Duration) (*azservicebus.ReceivedMessage, error) {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		found, err := from.ReceiveMessages(bounded, 1, nil)
		switch {
		case len(found) > 0 && found[0].MessageID == id:
			return found[0], nil
		case len(found) > 0:
			if err := from.CompleteMessage(ctx, found[0], nil); err != nil {
				return nil, err
			}
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case bounded.Err() != nil:
			return nil, nil
		case err != nil:
			return nil, err
		}
	}
}

// must is receive of a message that has to be there.
func (b *broker) must(ctx context.Context, from *azservicebus.Receiver, id string) (*azservicebus.ReceivedMessage, error) {
	m, err := b.receive(ctx, from, id, 15*time.Second)
	if err == nil && m == nil {
		err = errors.New("no message within 15s")
	}
	return m, err
}

// sent sends a message of a probe and receives it.
func (b *broker) sent(ctx context.Context, probe string) (id string, m *azservicebus.ReceivedMessage, err error) {
	id = "preflight-" + probe + "-" + b.nonce
	if err := b.send(ctx, id, nil); err != nil {
		return id, nil, err
	}
	m, err = b.must(ctx, b.receiver, id)
	return id, m, err
}

var brokerProbes = []probe[*broker]{
	{
		"lock-expiry", "a lock that has run out is lost, and its message comes again",
		"a message, settled after its lock has run out", "the settlement is refused, and the message comes again", lockExpiry,
	},
	{
		"lock-renewal", "a lock that is renewed lasts from then on",
		"a message whose lock is renewed once, settled after the first lock's end", "it is settled, and does not come again", lockRenewal,
	},
	{
		"delivery-count", "every delivery that comes to nothing is counted, and the last one ends the message with a reason",
		"a message that is given back three times, of three that are allowed", "deliveries 1, 2 and 3, then the dead-letter queue with MaxDeliveryCountExceeded", deliveryCount,
	},
	{
		"lock-expiry-counted", "a lock that runs out is a delivery that came to nothing",
		"a message that is left to its lock", "the next delivery is one more", expiryCounted,
	},
	{
		"duplicate-window", "a known MessageID is taken once within the window: it saves work",
		"two messages of one MessageID", "one comes", duplicateWindow,
	},
	{
		"scheduled-copy", "a scheduled message comes at its time, by the broker's clock",
		"a message for 5 s from now", "nothing for 3 s; then it comes, enqueued at its time", scheduledCopy,
	},
	{
		"dead-letter-reason", "a dead letter says why",
		"a message, dead-lettered with a reason and a description", "both in the dead-letter queue", deadLetterReason,
	},
}

func lockExpiry(ctx context.Context, b *broker) (string, bool, error) {
	id, m, err := b.sent(ctx, "lock-expiry")
	if err == nil {
		err = message.Pause(ctx, LockFor+time.Second)
	}
	if err != nil {
		return "", false, err
	}
	late := b.receiver.CompleteMessage(ctx, m, nil)
	lost, _ := errors.AsType[*azservicebus.Error](late)
	refused := lost != nil && lost.Code == azservicebus.CodeLockLost
	again, err := b.receive(ctx, b.receiver, id, 5*time.Second)
	if err == nil && again != nil {
		err = b.receiver.CompleteMessage(ctx, again, nil)
	}
	return fmt.Sprintf("refused as lost: %t; came again: %t", refused, again != nil), refused && again != nil, err
}

func lockRenewal(ctx context.Context, b *broker) (string, bool, error) {
	id, m, err := b.sent(ctx, "lock-renewal")
	if err == nil {
		err = message.Pause(ctx, LockFor-2*time.Second)
	}
	if err == nil {
		err = b.receiver.RenewMessageLock(ctx, m, nil)
	}
	if err == nil {
		err = message.Pause(ctx, 3500*time.Millisecond)
	}
	if err != nil {
		return "", false, err
	}
	settled := b.receiver.CompleteMessage(ctx, m, nil)
	again, err := b.receive(ctx, b.receiver, id, 2*time.Second)
	if again != nil {
		err = errors.Join(err, b.receiver.CompleteMessage(ctx, again, nil))
	}
	return fmt.Sprintf("settled: %t; came again: %t", settled == nil, again != nil), settled == nil && again == nil, err
}

func deliveryCount(ctx context.Context, b *broker) (string, bool, error) {
	id, m, err := b.sent(ctx, "delivery-count")
	if err != nil {
		return "", false, err
	}
	var counts []uint32
	for m != nil && len(counts) <= MaxDelivery {
		counts = append(counts, m.DeliveryCount)
		if err := b.receiver.AbandonMessage(ctx, m, nil); err != nil {
			return "", false, err
		}
		if m, err = b.receive(ctx, b.receiver, id, 3*time.Second); err != nil {
			return "", false, err
		}
	}
	if m != nil {
		err = b.receiver.CompleteMessage(ctx, m, nil)
		return fmt.Sprintf("deliveries %v, and it came again", counts), false, err
	}
	dead, err := b.must(ctx, b.dead, id)
	if err != nil {
		return fmt.Sprintf("deliveries %v", counts), false, err
	}
	reason := text(dead.DeadLetterReason)
	return fmt.Sprintf("deliveries %v, then the dead-letter queue with %q", counts, reason),
		slices.Equal(counts, []uint32{1, 2, 3}) && reason == "MaxDeliveryCountExceeded", b.dead.CompleteMessage(ctx, dead, nil)
}

func expiryCounted(ctx context.Context, b *broker) (string, bool, error) {
	id, m, err := b.sent(ctx, "lock-expiry-counted")
	if err == nil {
		err = message.Pause(ctx, LockFor+time.Second)
	}
	if err != nil {
		return "", false, err
	}
	again, err := b.must(ctx, b.receiver, id)
	if err != nil {
		return "", false, err
	}
	return fmt.Sprintf("delivery %d, then %d", m.DeliveryCount, again.DeliveryCount),
		again.DeliveryCount == m.DeliveryCount+1, b.receiver.CompleteMessage(ctx, again, nil)
}

func duplicateWindow(ctx context.Context, b *broker) (string, bool, error) {
	id, m, err := b.sent(ctx, "duplicate-window")
	if err == nil {
		err = b.receiver.CompleteMessage(ctx, m, nil)
	}
	if err == nil {
		err = b.send(ctx, id, nil)
	}
	if err != nil {
		return "", false, err
	}
	second, err := b.receive(ctx, b.receiver, id, 3*time.Second)
	if err == nil && second != nil {
		err = b.receiver.CompleteMessage(ctx, second, nil)
	}
	return fmt.Sprintf("the second one came: %t", second != nil), second == nil, err
}

func scheduledCopy(ctx context.Context, b *broker) (string, bool, error) {
	// What the broker's clock shows, it tells with a message.
	_, m, err := b.sent(ctx, "scheduled-clock")
	received := time.Now()
	if err == nil {
		err = b.receiver.CompleteMessage(ctx, m, nil)
	}
	if err != nil {
		return "", false, err
	}
	if m.EnqueuedTime == nil {
		return "a message without the time at which it was enqueued", false, nil
	}
	at := m.EnqueuedTime.Add(5 * time.Second)
	id := "preflight-scheduled-copy-" + b.nonce
	if err := b.send(ctx, id, &at); err != nil {
		return "", false, err
	}
	early, err := b.receive(ctx, b.receiver, id, 3*time.Second-time.Since(received))
	if err != nil {
		return "", false, err
	}
	if early != nil {
		return "it came at once", false, b.receiver.CompleteMessage(ctx, early, nil)
	}
	due, err := b.must(ctx, b.receiver, id)
	if err == nil {
		err = b.receiver.CompleteMessage(ctx, due, nil)
	}
	if err != nil {
		return "", false, err
	}
	if due.EnqueuedTime == nil {
		return "nothing early; then a message without the time at which it was enqueued", false, nil
	}
	off := due.EnqueuedTime.Sub(at)
	return fmt.Sprintf("nothing early; enqueued %v after its time", off), off > -time.Second && off < 10*time.Second, nil
}

func deadLetterReason(ctx context.Context, b *broker) (string, bool, error) {
	id, m, err := b.sent(ctx, "dead-letter-reason")
	if err == nil {
		err = b.receiver.DeadLetterMessage(ctx, m, &azservicebus.DeadLetterOptions{Reason: new("Preflight"), ErrorDescription: new("a probe")})
	}
	if err != nil {
		return "", false, err
	}
	dead, err := b.must(ctx, b.dead, id)
	if err != nil {
		return "", false, err
	}
	reason, description := text(dead.DeadLetterReason), text(dead.DeadLetterErrorDescription)
	return fmt.Sprintf("%q, %q", reason, description), reason == "Preflight" && description == "a probe", b.dead.CompleteMessage(ctx, dead, nil)
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
