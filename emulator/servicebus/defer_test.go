package servicebus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// deferred sends a message, receives it and defers it.
func (w *world) deferred(r *azservicebus.Receiver, id string) int64 {
	w.t.Helper()
	w.send("tasks", id)
	m := w.receive(r)
	w.must(r.DeferMessage(w.ctx, m, nil))
	return *m.SequenceNumber
}

func (w *world) receiveDeferred(r *azservicebus.Receiver, number int64) *azservicebus.ReceivedMessage {
	w.t.Helper()
	got, err := r.ReceiveDeferredMessages(w.ctx, []int64{number}, nil)
	if err != nil || len(got) != 1 {
		w.t.Fatalf("received %d deferred messages, %v; want 1", len(got), err)
	}
	return got[0]
}

func TestADeferredMessageIsReceivedByItsNumberOnly(t *testing.T) { // B13
	inBubble(t, func(t *testing.T, w *world) {
		r := w.receiver(w.client("worker-1"), "tasks")
		number := w.deferred(r, "a")
		w.receiveNothing(r)
		_, err := r.ReceiveDeferredMessages(w.ctx, []int64{number, number + 1}, nil)
		w.wantCode(err, azservicebus.CodeNotFound)
		peeked, err := r.PeekMessages(w.ctx, 1, nil)
		w.must(err)
		if len(peeked) != 1 || peeked[0].State != azservicebus.MessageStateDeferred || peeked[0].LockedUntil != nil {
			t.Errorf("peeked %+v", peeked)
		}
		m := w.receiveDeferred(r, number)
		if m.MessageID != "a" || m.State != azservicebus.MessageStateDeferred || m.DeliveryCount != 1 || *m.SequenceNumber != number {
			t.Errorf("received %+v", m)
		}
		if want := w.hub.Now().Add(lock); !m.LockedUntil.Equal(want) {
			t.Errorf("locked until %v, want %v", m.LockedUntil, want)
		}
		_, err = r.ReceiveDeferredMessages(w.ctx, []int64{number}, nil)
		w.wantCode(err, azservicebus.CodeNotFound) // it is locked
		w.must(r.CompleteMessage(w.ctx, m, nil))
		_, err = r.ReceiveDeferredMessages(w.ctx, []int64{number}, nil)
		w.wantCode(err, azservicebus.CodeNotFound)
	})
}

func TestWhatIsDoneWithADeferredMessage(t *testing.T) { // B3, B13
	for _, row := range []struct {
		name     string
		do       func(w *world, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage)
		deferred bool   // it still is
		count    uint32 // of its next delivery
	}{
		{"deferred again", func(w *world, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage) {
			w.must(r.DeferMessage(w.ctx, m, &azservicebus.DeferMessageOptions{PropertiesToModify: map[string]any{"hello": "world"}}))
		}, true, 1},
		{"abandoned", func(w *world, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage) {
			w.must(r.AbandonMessage(w.ctx, m, &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"hello": "world"}}))
		}, true, 2},
		{"its lock ran out", func(w *world, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage) { time.Sleep(lock) }, true, 2},
		{"dead-lettered", func(w *world, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage) {
			w.must(r.DeadLetterMessage(w.ctx, m, nil))
		}, false, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.client("worker-1")
				r := w.receiver(c, "tasks")
				number := w.deferred(r, "a")
				row.do(w, r, w.receiveDeferred(r, number))
				var m *azservicebus.ReceivedMessage
				if row.deferred {
					m = w.receiveDeferred(r, number)
				} else {
					m = w.receive(w.deadLetters(c, "tasks"))
				}
				if m.DeliveryCount != row.count {
					t.Errorf("delivery %d, want %d", m.DeliveryCount, row.count)
				}
				if row.deferred && row.name != "its lock ran out" && m.ApplicationProperties["hello"] != "world" {
					t.Errorf("properties %v", m.ApplicationProperties)
				}
			})
		})
	}
}

func TestADeferredMessageDiesOfItsDeliveriesLikeAnother(t *testing.T) { // B5, B13
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		r := w.receiver(c, "tasks")
		number := w.deferred(r, "a")
		for range 3 {
			w.must(r.AbandonMessage(w.ctx, w.receiveDeferred(r, number), nil))
		}
		if m := w.receive(w.deadLetters(c, "tasks")); *m.DeadLetterReason != "MaxDeliveryCountExceeded" || m.State != azservicebus.MessageStateActive {
			t.Errorf("dead letter %+v", m)
		}
	})
}

func TestADeferredMessageDoesNotExpire(t *testing.T) { // B9, B13
	inBubble(t, func(t *testing.T, w *world) {
		r := w.receiver(w.client("worker-1"), "tasks")
		number := w.deferred(r, "a")
		time.Sleep(2 * time.Hour)
		w.must(r.CompleteMessage(w.ctx, w.receiveDeferred(r, number), nil))
		if n := w.count("dead-lettered", "a"); n != 0 {
			t.Error("a deferred message expired")
		}
	})
}

func TestADeferredMessageIsTakenWithoutALock(t *testing.T) { // B13
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		number := w.deferred(w.receiver(c, "tasks"), "a")
		r, err := c.NewReceiverForQueue("tasks", &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
		w.must(err)
		if m := w.receiveDeferred(r, number); m.LockedUntil != nil {
			t.Errorf("locked until %v", m.LockedUntil)
		}
		_, err = r.ReceiveDeferredMessages(w.ctx, []int64{number}, nil)
		w.wantCode(err, azservicebus.CodeNotFound)
	})
}

func TestADeferredMessageOfASessionNeedsTheSessionsLock(t *testing.T) { // B11, B13
	inBubble(t, func(t *testing.T, w *world) {
		w.sendSteps("a/1", "a/2")
		c := w.client("worker-1")
		r := w.accept(c, "a")
		m := w.receive(r)
		w.must(r.DeferMessage(w.ctx, m, nil))
		w.must(r.Close(w.ctx))
		p := w.plain()
		p.authorize()
		status, text := p.request("steps/$management", map[string]any{
			"sequence-numbers": []int64{*m.SequenceNumber}, "receiver-settle-mode": uint32(1), "session-id": "a",
		}, map[string]any{"operation": "com.microsoft:receive-by-sequence-number"})
		if status != 410 || !strings.Contains(text, "session lock") {
			t.Errorf("without the session's lock: %d %s, want 410", status, text)
		}
		r = w.accept(c, "a")
		got, err := r.ReceiveDeferredMessages(w.ctx, []int64{*m.SequenceNumber}, nil)
		w.must(err)
		if !got[0].LockedUntil.Equal(r.LockedUntil()) {
			t.Errorf("locked until %v, want %v as its session", got[0].LockedUntil, r.LockedUntil())
		}
		w.must(r.CompleteMessage(w.ctx, got[0], nil))
	})
}
