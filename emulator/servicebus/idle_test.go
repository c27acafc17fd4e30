package servicebus_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
)

const idle = 5 * time.Minute

// wantThere checks whether queues, topics (t) and subscriptions of t (t/...) are there; to look is no use of them.
func (w *world) wantThere(a *admin.Client, when string, there bool, paths ...string) {
	w.t.Helper()
	synctest.Wait() // the timekeeper may be at it
	for _, path := range paths {
		var found bool
		switch path {
		case "t":
			got, err := a.GetTopic(w.ctx, "t", nil)
			w.must(err)
			found = got != nil
		case "a", "b":
			got, err := a.GetSubscription(w.ctx, "t", path, nil)
			found = err == nil && got != nil
		default:
			got, err := a.GetQueue(w.ctx, path, nil)
			w.must(err)
			found = got != nil
		}
		if found != there {
			w.t.Errorf("%s: %s is there: %v", when, path, found)
		}
	}
}

func TestAnIdleQueueIsDeleted(t *testing.T) { // B17
	c := servicebus.Config{Namespace: broker.Config{Queues: []broker.QueueConfig{
		{Name: "q", AutoDelete: idle}, {Name: "unused", AutoDelete: idle}, {Name: "lasting"},
		{Name: "on", AutoDelete: idle, ForwardTo: "lasting"},
	}}}
	inBubbleOf(t, c, func(t *testing.T, w *world) {
		a := w.management()
		// A client of its own for every use: one that was idle itself takes seconds until it is back.
		sender := func() *azservicebus.Sender { return w.sender(w.client("worker-1"), "q") }
		send := func() error { return sender().SendMessage(w.ctx, message("1"), nil) }
		use := func(what string, do func() error) {
			t.Helper()
			w.wantThere(a, "before "+what, true, "q")
			w.must(do())
			time.Sleep(idle - time.Second)
		}
		receive := func() error {
			r := w.receiver(w.client("worker-1"), "q")
			w.must(r.CompleteMessage(w.ctx, w.receive(r), nil))
			return r.Close(w.ctx)
		}
		use("a send", send)
		w.wantThere(a, "a second before its time", true, "unused")
		use("a receive", receive)
		w.wantThere(a, "after its time", false, "unused")
		use("a peek", func() error { return peekOnce(w, nil) })
		use("a peek at its dead letters", func() error {
			return peekOnce(w, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
		})
		use("an update", func() error { return w.update(a, "q", 7) })
		numbers, err := sender().ScheduleMessages(w.ctx, []*azservicebus.Message{message("2")}, w.hub.Now().Add(4*idle), nil)
		w.must(err)
		if len(numbers) != 1 {
			t.Fatalf("numbers %v", numbers)
		}
		time.Sleep(5*idle - time.Second) // it is idle since the message's time
		use("the receive of a scheduled message", receive)

		r := w.receiver(w.client("worker-1"), "q")
		waiting, leave := context.WithTimeout(w.ctx, 2*idle-time.Second) // then its link is idle itself
		defer leave()
		if got, err := r.ReceiveMessages(waiting, 1, nil); err == nil {
			t.Errorf("received %v, where nobody has sent anything", got)
		}
		w.wantThere(a, "while a receiver waits", true, "q")
		w.must(r.Close(w.ctx))
		time.Sleep(idle - time.Second)
		w.must(send())
		time.Sleep(idle - time.Second)
		w.wantThere(a, "a second before its time", true, "q")
		w.hub.Jump(time.Second)
		w.wantThere(a, "after its time", false, "q")
		w.wantThere(a, "at last", true, "lasting", "on")
		w.wantCode(send(), azservicebus.CodeNotFound)
		w.createQueue(a, "q", nil)
		w.receiveNothing(w.receiver(w.client("worker-1"), "q")) // it went with what was in it
	})
}

func peekOnce(w *world, o *azservicebus.ReceiverOptions) error {
	r, err := w.client("worker-1").NewReceiverForQueue("q", o)
	w.must(err)
	_, err = r.PeekMessages(w.ctx, 1, nil)
	w.must(err)
	return r.Close(w.ctx)
}

func TestAnIdleTopicAndAnIdleSubscriptionAreDeleted(t *testing.T) { // B17
	c := servicebus.Config{Namespace: broker.Config{Topics: []broker.TopicConfig{{
		Name: "t", AutoDelete: 2 * idle,
		Subscriptions: []broker.SubscriptionConfig{{Name: "a", AutoDelete: idle}, {Name: "b"}},
	}}}}
	inBubbleOf(t, c, func(t *testing.T, w *world) {
		a := w.management()
		time.Sleep(idle - time.Second)
		w.must(w.sender(w.client("worker-1"), "t").SendMessage(w.ctx, message("1"), nil)) // which keeps the topic, but not what it comes to
		w.wantThere(a, "a second before its time", true, "t", "a", "b")
		time.Sleep(time.Second)
		w.wantThere(a, "after its time", false, "a")
		time.Sleep(2*idle - 2*time.Second)
		w.wantThere(a, "a second before the topic's time", true, "t", "b")
		_, err := a.CreateRule(w.ctx, "t", "b", &admin.CreateRuleOptions{Name: new("all")})
		w.must(err)
		time.Sleep(2*idle - time.Second)
		r, err := w.client("worker-1").NewReceiverForSubscription("t", "b", nil)
		w.must(err)
		if m := w.receive(r); m.MessageID != "1" {
			t.Errorf("received %s", m.MessageID)
		}
		w.must(r.Close(w.ctx))
		time.Sleep(2*idle - time.Second)
		w.wantThere(a, "a second before the topic's last time", true, "t", "b")
		time.Sleep(time.Second)
		w.wantThere(a, "at last", false, "t", "b")
	})
}

func TestIdlenessIsAtLeastFiveMinutes(t *testing.T) { // M3
	managed(t, func(t *testing.T, w *world, a *admin.Client) {
		_, err := a.CreateQueue(w.ctx, "q", &admin.CreateQueueOptions{Properties: &admin.QueueProperties{AutoDeleteOnIdle: new("PT4M59S")}})
		w.wantStatus(err, 400, "AutoDeleteOnIdle must be at least PT5M, is PT4M59S")
		w.createQueue(a, "q", &admin.QueueProperties{AutoDeleteOnIdle: new("PT5M")})
		time.Sleep(idle - time.Nanosecond)
		w.wantThere(a, "before its time", true, "q")
		time.Sleep(time.Nanosecond)
		w.wantThere(a, "after its time", false, "q")
	})
}
