package servicebus_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

func large(id string) *azservicebus.Message {
	m := message(id)
	m.Body = []byte(strings.Repeat("x", 400))
	return m
}

func TestAFullEntityRefusesAndTakesAgainWhatItHasRoomFor(t *testing.T) { // B6
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s := w.sender(c, "small")
		batch, err := s.NewMessageBatch(w.ctx, nil)
		w.must(err)
		for _, id := range []string{"a", "b", "c"} {
			w.must(batch.AddMessage(large(id), nil))
		}
		w.wantCondition(s.SendMessageBatch(w.ctx, batch, nil), amqp.ErrCondResourceLimitExceeded, "maximum entity size")
		r := w.receiver(c, "small")
		w.receiveNothing(r) // all or none of a batch
		w.must(s.SendMessage(w.ctx, large("a"), nil))
		w.must(s.SendMessage(w.ctx, large("b"), nil))
		w.wantCondition(s.SendMessage(w.ctx, large("c"), nil), amqp.ErrCondResourceLimitExceeded, "maximum entity size")
		w.must(r.CompleteMessage(w.ctx, w.receive(r), nil))
		w.must(s.SendMessage(w.ctx, large("c"), nil))
	})
}

func TestTheSmallerTimeToLiveCountsAndALockOutlivesIt(t *testing.T) { // B9
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks") // an hour, dead-lettering
		short, long := message("short"), message("long")
		short.TimeToLive, long.TimeToLive = new(time.Minute), new(10*time.Hour)
		held := message("held")
		held.TimeToLive = new(time.Minute)
		w.must(s.SendMessage(w.ctx, held, nil))
		m := w.receive(r)
		w.must(s.SendMessage(w.ctx, short, nil))
		w.must(s.SendMessage(w.ctx, long, nil))
		start := time.Now()
		dead := w.deadLetters(c, "tasks")
		for _, want := range []struct {
			id    string
			after time.Duration
		}{{"short", time.Minute}, {"long", time.Hour}} {
			d := w.receive(dead)
			if d.MessageID != want.id || time.Since(start) != want.after || *d.DeadLetterReason != "TTLExpiredException" {
				t.Errorf("%s died of %s after %v, want %s after %v", d.MessageID, *d.DeadLetterReason, time.Since(start), want.id, want.after)
			}
			w.must(dead.CompleteMessage(w.ctx, d, nil))
			if want.id == "short" {
				w.must(r.CompleteMessage(w.ctx, m, nil)) // it is past its time, but was locked before
			}
		}
	})
}

func TestADeliveryKeepsItsPace(t *testing.T) {
	inPacedBubble(t, 200*time.Microsecond, func(t *testing.T, w *world) {
		ids := make([]string, 50)
		for i := range ids {
			ids[i] = string(rune('a' + i))
		}
		w.send("tasks", ids...)
		r := w.receiver(w.client("worker-1"), "tasks")
		start := time.Now()
		got, err := r.ReceiveMessages(w.ctx, len(ids), nil)
		w.must(err)
		if took, least := time.Since(start), time.Duration(len(ids)-1)*200*time.Microsecond; len(got) != len(ids) || took < least {
			t.Errorf("%d messages in %v, want %d in at least %v", len(got), took, len(ids), least)
		}
	})
}

// A client that reads slowly and goes away has lost nothing that it was not sent.
func TestWhatIsReceivedAndDeletedIsSentOrStays(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const all = 3000
		c := w.client("worker-1")
		s := w.sender(c, "tasks")
		batch, err := s.NewMessageBatch(w.ctx, nil)
		w.must(err)
		for n := range all {
			m := large(strconv.Itoa(n))
			if err := batch.AddMessage(m, nil); errors.Is(err, azservicebus.ErrMessageTooLarge) {
				w.must(s.SendMessageBatch(w.ctx, batch, nil))
				batch, err = s.NewMessageBatch(w.ctx, nil)
				w.must(err)
				w.must(batch.AddMessage(m, nil))
			}
		}
		w.must(s.SendMessageBatch(w.ctx, batch, nil))
		ctx, cancel := context.WithTimeout(w.ctx, time.Hour) // for all of them: what is lost would be waited for for ever
		defer cancel()
		got := make(map[string]bool)
		for len(got) < all {
			r, err := c.NewReceiverForQueue("tasks", &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
			w.must(err)
			messages, err := r.ReceiveMessages(ctx, all, &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: time.Nanosecond})
			w.must(err)
			w.must(r.Close(w.ctx))
			for len(messages) > 0 { // then what it was sent and has not handed out yet
				for _, m := range messages {
					got[m.MessageID] = true
				}
				messages, err = r.ReceiveMessages(w.ctx, all, nil)
				if sdk, ok := errors.AsType[*azservicebus.Error](err); err != nil && (!ok || sdk.Code != azservicebus.CodeClosed) {
					t.Fatal(err)
				}
			}
		}
	})
}
