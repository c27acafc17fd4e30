package servicebus_test

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
)

// mortal is a message with a time to live.
func mortal(id string, life time.Duration) *azservicebus.Message {
	m := message(id)
	m.TimeToLive = &life
	return m
}

// peek shows everything in a queue.
func (w *world) peek(r *azservicebus.Receiver) []*azservicebus.ReceivedMessage {
	w.t.Helper()
	got, err := r.PeekMessages(w.ctx, 100, &azservicebus.PeekMessagesOptions{FromSequenceNumber: new(int64(0))})
	w.must(err)
	return got
}

func TestAMessagePastItsTimeToLiveIsNotDelivered(t *testing.T) { // B9
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "Once"), w.receiver(c, "Once")
		w.must(s.SendMessage(w.ctx, mortal("a", 10*time.Minute), nil))
		w.must(s.SendMessage(w.ctx, mortal("b", 10*time.Minute+time.Second), nil))
		time.Sleep(10 * time.Minute)
		if m := w.receive(r); m.MessageID != "b" || !m.ExpiresAt.Equal(w.hub.Now().Add(time.Second)) {
			t.Errorf("received %s, which expires at %v", m.MessageID, m.ExpiresAt)
		}
		if left := w.peek(r); len(left) != 1 {
			t.Errorf("%d messages are left, want 1", len(left))
		}
	})
}

func TestTheTimeToLiveOfAnEntityIsACeiling(t *testing.T) { // B9
	c := servicebus.Config{Namespace: broker.Config{
		Queues: []broker.QueueConfig{{Name: "short", TimeToLive: 10 * time.Minute}},
		Topics: []broker.TopicConfig{{Name: "news", TimeToLive: 10 * time.Minute, Subscriptions: []broker.SubscriptionConfig{{Name: "reader"}}}},
	}}
	inBubbleOf(t, c, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		for _, entity := range []string{"short", "news"} {
			w.must(w.sender(c, entity).SendMessage(w.ctx, mortal("long", time.Hour), nil))
			w.must(w.sender(c, entity).SendMessage(w.ctx, message("endless"), nil))
		}
		time.Sleep(10 * time.Minute)
		reader, err := c.NewReceiverForSubscription("news", "reader", nil)
		w.must(err)
		for _, r := range []*azservicebus.Receiver{w.receiver(c, "short"), reader} {
			if left := w.peek(r); len(left) != 0 {
				t.Errorf("%s lives longer than its entity allows", left[0].MessageID)
			}
			w.receiveNothing(r)
		}
	})
}

func TestALockedMessageDoesNotExpire(t *testing.T) { // B9
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		w.must(s.SendMessage(w.ctx, mortal("a", 2*time.Minute), nil))
		m := w.receive(r)
		time.Sleep(3 * time.Minute)
		w.must(r.RenewMessageLock(w.ctx, m, nil))
		w.must(r.CompleteMessage(w.ctx, m, nil))
		// But it does not come back either.
		w.must(s.SendMessage(w.ctx, mortal("b", 2*time.Minute), nil))
		m = w.receive(r)
		time.Sleep(3 * time.Minute)
		w.must(r.AbandonMessage(w.ctx, m, nil))
		w.receiveNothing(r)
		if dead := w.receive(w.deadLetters(c, "tasks")); dead.MessageID != "b" || *dead.DeadLetterReason != "TTLExpiredException" {
			t.Errorf("dead letter %s for %s", dead.MessageID, *dead.DeadLetterReason)
		}
	})
}

func TestDeadLettersDoNotExpire(t *testing.T) { // B9
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		w.must(w.sender(c, "tasks").SendMessage(w.ctx, mortal("a", time.Minute), nil))
		time.Sleep(2 * time.Hour)
		d := w.deadLetters(c, "tasks")
		m := w.receive(d)
		w.must(d.AbandonMessage(w.ctx, m, nil))
		time.Sleep(2 * time.Hour)
		w.must(d.CompleteMessage(w.ctx, w.receive(d), nil))
	})
}

func TestScheduledMessagesAreLookedAtForDuplicatesBothWays(t *testing.T) { // B7
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "Once"), w.receiver(c, "Once")
		later := func(id string) {
			_, err := s.ScheduleMessages(w.ctx, []*azservicebus.Message{message(id)}, w.hub.Now().Add(time.Minute), nil)
			w.must(err)
		}
		w.must(s.SendMessage(w.ctx, message("sent first"), nil))
		later("sent first")
		later("scheduled first")
		w.must(s.SendMessage(w.ctx, message("scheduled first"), nil))
		for _, id := range []string{"sent first", "scheduled first"} {
			m := w.receive(r)
			if m.MessageID != id {
				t.Errorf("received %s, want %s", m.MessageID, id)
			}
			w.must(r.CompleteMessage(w.ctx, m, nil))
		}
		time.Sleep(time.Minute)
		w.receiveNothing(r)
		if a, b := w.count("duplicate-dropped", "sent first"), w.count("duplicate-dropped", "scheduled first"); a != 1 || b != 1 {
			t.Errorf("dropped %d and %d duplicates, want one of each", a, b)
		}
	})
}

func TestAScheduledMessageIsInvisibleUntilItsTime(t *testing.T) { // B8
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		when := w.hub.Now().Add(9 * time.Minute)
		_, err := s.ScheduleMessages(w.ctx, []*azservicebus.Message{message("a")}, when, nil)
		w.must(err)
		w.receiveNothing(r)
		if seen := w.peek(r); len(seen) != 1 || seen[0].State != azservicebus.MessageStateScheduled {
			t.Errorf("peeked %+v", seen)
		}
		if m := w.receive(r); !w.hub.Now().Equal(when) || m.State != azservicebus.MessageStateActive || !m.ScheduledEnqueueTime.Equal(when) {
			t.Errorf("received at %v, want %v: %+v", w.hub.Now(), when, m)
		}
	})
}

func TestAnActivatedMessageHasANewSequenceNumber(t *testing.T) { // B8
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		when := w.hub.Now().Add(time.Minute)
		numbers, err := s.ScheduleMessages(w.ctx, []*azservicebus.Message{message("scheduled")}, when, nil)
		w.must(err)
		w.must(s.SendMessage(w.ctx, message("sent"), nil))
		time.Sleep(2 * time.Minute)
		sent, activated := w.receive(r), w.receive(r)
		if sent.MessageID != "sent" || activated.MessageID != "scheduled" || *activated.SequenceNumber <= *sent.SequenceNumber {
			t.Errorf("received %s (%d), then %s (%d), which was scheduled as %d",
				sent.MessageID, *sent.SequenceNumber, activated.MessageID, *activated.SequenceNumber, numbers[0])
		}
		if !activated.EnqueuedTime.Equal(when) {
			t.Errorf("enqueued at %v, want %v", activated.EnqueuedTime, when)
		}
	})
}

func TestACancelledMessageNeverComes(t *testing.T) { // B8
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		numbers, err := s.ScheduleMessages(w.ctx, []*azservicebus.Message{message("a")}, w.hub.Now().Add(time.Minute), nil)
		w.must(err)
		w.must(s.CancelScheduledMessages(w.ctx, numbers, nil))
		time.Sleep(2 * time.Minute)
		w.receiveNothing(r)
		w.wantCode(s.CancelScheduledMessages(w.ctx, numbers, nil), azservicebus.CodeNotFound)
	})
}
