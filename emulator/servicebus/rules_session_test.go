package servicebus_test

import (
	"context"
	"testing"
	"time"
)

func TestASessionReceiverGetsNoOtherSessionsMessages(t *testing.T) { // B11
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		r := w.accept(c, "a")
		w.sendSteps("b/1")
		ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second) // half of the lock
		defer cancel()
		if got, _ := r.ReceiveMessages(ctx, 1, nil); len(got) != 0 {
			t.Fatalf("the receiver of session a got %s of session %s", got[0].MessageID, *got[0].SessionID)
		}
		w.sendSteps("a/1")
		w.must(r.CompleteMessage(w.ctx, w.receive(r), nil))
		other := w.acceptNext(c)
		if m := w.receive(other); other.SessionID() != "b" || m.MessageID != "b/1" {
			t.Errorf("session %s has %s", other.SessionID(), m.MessageID)
		}
	})
}

func TestAnEmptyStateClearsASession(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		r := w.accept(c, "a")
		w.must(r.SetSessionState(w.ctx, []byte("half way"), nil))
		w.must(r.SetSessionState(w.ctx, []byte{}, nil))
		if state, err := r.GetSessionState(w.ctx, nil); err != nil || state != nil {
			t.Errorf("state %q, %v; want none", state, err)
		}
		w.must(r.Close(w.ctx))
		page, err := c.NewListSessionsForQueuePager("steps", nil).NextPage(w.ctx)
		w.must(err)
		if len(page.Sessions) != 0 {
			t.Errorf("sessions %q are left, without message or state", page.Sessions)
		}
	})
}
