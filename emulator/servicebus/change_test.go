package servicebus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"
)

func TestAChangeOfAnEntityDetachesItsLinks(t *testing.T) { // D4
	for _, row := range []struct {
		name   string
		change func(w *world, a *admin.Client) error
		ends   bool
	}{
		{"an update", func(w *world, a *admin.Client) error { return w.update(a, "tasks", 7) }, true},
		{"the same update again", func(w *world, a *admin.Client) error { return w.update(a, "tasks", 3) }, false},
		{"another entity's", func(w *world, a *admin.Client) error { return w.update(a, "Once", 7) }, false},
		{"its deletion", func(w *world, a *admin.Client) error {
			_, err := a.DeleteQueue(w.ctx, "tasks", nil)
			return err
		}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				a := w.management()
				w.must(w.update(a, "tasks", 3)) // the description that the next one repeats
				p := w.plain()
				p.authorize()
				links := make(map[string]*amqp.Receiver)
				for _, node := range []string{"tasks", "tasks/$DeadLetterQueue", "tasks/$management"} {
					r, err := p.session().NewReceiver(w.ctx, node, &amqp.ReceiverOptions{TargetAddress: "here"})
					w.must(err)
					links[node] = r
				}
				s, err := p.session().NewSender(w.ctx, "tasks", nil)
				w.must(err)
				w.must(row.change(w, a))
				err = s.Send(w.ctx, amqp.NewMessage([]byte("x")), nil)
				if !row.ends {
					w.must(err)
					_, err := links["tasks"].Receive(w.ctx, nil)
					w.must(err)
					return
				}
				w.wantDetached(err, "publisher", "Message sender was closed because entity has been deleted, updated or unexpectedly reloaded.")
				for _, r := range links {
					_, err := r.Receive(w.ctx, nil)
					w.wantDetached(err, "consumer", "because entity has been deleted, updated or unexpectedly reloaded.")
				}
			})
		})
	}
}

// update gives a queue a number of deliveries.
func (w *world) update(a *admin.Client, queue string, deliveries int32) error {
	got, err := a.GetQueue(w.ctx, queue, nil)
	w.must(err)
	got.MaxDeliveryCount = &deliveries
	_, err = a.UpdateQueue(w.ctx, queue, got.QueueProperties, nil)
	return err
}

func (w *world) wantDetached(err error, code, text string) {
	w.t.Helper()
	if err == nil || !strings.Contains(err.Error(), "amqp:link:detach-forced") || !strings.Contains(err.Error(), "is force detached. Code: "+code) || !strings.Contains(err.Error(), text) {
		w.t.Errorf("the link ended with %v", err)
	}
}

func TestASessionIsFreeBeforeItsHolderKnowsOfTheChange(t *testing.T) { // D4
	inBubble(t, func(t *testing.T, w *world) {
		w.sendSteps("a/1")
		r := w.accept(w.client("worker-1"), "a")
		w.must(w.update(w.management(), "steps", 7))
		for range 2 { // the SDK attaches to the same session again by itself
			state, err := r.GetSessionState(w.ctx, nil)
			w.must(err)
			if state != nil {
				t.Errorf("state %q", state)
			}
		}
		m := w.receive(r)
		if m.DeliveryCount != 1 {
			t.Errorf("delivery %d, want 1", m.DeliveryCount)
		}
		w.must(r.CompleteMessage(w.ctx, m, nil))
	})
}

func TestADisabledEntityRefusesItsClients(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.management()
		got, err := a.GetQueue(w.ctx, "tasks", nil)
		w.must(err)
		got.Status = new(admin.EntityStatusDisabled)
		_, err = a.UpdateQueue(w.ctx, "tasks", got.QueueProperties, nil)
		w.must(err)
		c := w.client("worker-1")
		w.wantCondition(w.sender(c, "tasks").SendMessage(w.ctx, message("a"), nil), "com.microsoft:entity-disabled", "disabled")
		_, err = w.receiver(c, "tasks").ReceiveMessages(w.ctx, 1, nil)
		w.wantCondition(err, "com.microsoft:entity-disabled", "disabled")
	})
}

func TestAForwardingEntityIsNotReceivedFrom(t *testing.T) { // B15
	inBubble(t, func(t *testing.T, w *world) {
		a := w.management()
		_, err := a.CreateQueue(w.ctx, "way", &admin.CreateQueueOptions{Properties: &admin.QueueProperties{ForwardTo: new("Once")}})
		w.must(err)
		c := w.client("worker-1")
		_, err = w.receiver(c, "way").ReceiveMessages(w.ctx, 1, nil)
		w.wantCondition(err, amqp.ErrCondNotAllowed, "auto-forwarding enabled")
		w.send("way", "a")
		m := w.receive(w.receiver(c, "Once"))
		if m.MessageID != "a" || m.EnqueuedSequenceNumber == nil || *m.EnqueuedSequenceNumber != 1 {
			t.Errorf("forwarded as %+v", m)
		}
		transfer, err := c.NewReceiverForQueue("way/$Transfer/$DeadLetterQueue", nil)
		w.must(err)
		w.receiveNothing(transfer)
	})
}

func TestPropertiesThatGrowTooLargeMakeADeadLetter(t *testing.T) { // B14
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		c := w.client("worker-1")
		r := w.receiver(c, "tasks")
		for _, name := range []string{"x", "y"} {
			w.must(r.AbandonMessage(w.ctx, w.receive(r), &azservicebus.AbandonMessageOptions{
				PropertiesToModify: map[string]any{name: strings.Repeat("x", 40_000)},
			}))
		}
		if m := w.receive(w.deadLetters(c, "tasks")); *m.DeadLetterReason != "HeaderSizeExceeded" {
			t.Errorf("dead letter %v", *m.DeadLetterReason)
		}
		large := message("b")
		large.ApplicationProperties = map[string]any{"x": strings.Repeat("x", 70_000)}
		if err := w.sender(c, "tasks").SendMessage(w.ctx, large, nil); !errors.Is(err, azservicebus.ErrMessageTooLarge) {
			t.Errorf("send: %v, want %v", err, azservicebus.ErrMessageTooLarge)
		}
	})
}
