package servicebus_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// byToken is a message of which nothing is known but its lock's token.
func byToken(m *azservicebus.ReceivedMessage) *azservicebus.ReceivedMessage {
	return &azservicebus.ReceivedMessage{LockToken: m.LockToken}
}

func TestTheFirstDeliveryHasNoneBehindIt(t *testing.T) { // B3
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		if m := w.receive(w.receiver(w.client("worker-1"), "tasks")); m.RawAMQPMessage.Header.DeliveryCount != 0 || m.DeliveryCount != 1 {
			t.Errorf("delivery count %d in the header, %d of the SDK", m.RawAMQPMessage.Header.DeliveryCount, m.DeliveryCount)
		}
	})
}

// The SDK releases by itself what it receives after ReceiveMessages has returned.
func TestReleasingCountsNothing(t *testing.T) { // B3
	inBubble(t, func(t *testing.T, w *world) {
		r := w.receiver(w.client("worker-1"), "tasks")
		w.send("tasks", "a")
		got, err := r.ReceiveMessages(w.ctx, 10, nil) // nine credits stay, and each lets the SDK release once
		w.must(err)
		if len(got) != 1 {
			t.Fatalf("received %d messages, want 1", len(got))
		}
		w.send("tasks", "b")
		synctest.Wait()
		released := 0
		for _, e := range w.hub.Events(0) {
			if e.Key == "b" && e.Disposition == "released" {
				released++
			}
		}
		if released == 0 {
			t.Error("the SDK has released nothing, so this test shows nothing")
		}
		m := w.receive(w.receiver(w.client("worker-2"), "tasks"))
		if m.MessageID != "b" || m.DeliveryCount != 1 {
			t.Errorf("received %s after %d releases as delivery %d, want 1", m.MessageID, released, m.DeliveryCount)
		}
	})
}

func TestNothingCountsInADeadLetterQueue(t *testing.T) { // B3
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		c := w.client("worker-1")
		r := w.receiver(c, "tasks")
		w.must(r.DeadLetterMessage(w.ctx, w.receive(r), nil))
		d := w.deadLetters(c, "tasks")
		for n := range 5 {
			m := w.receive(d)
			if m.DeliveryCount != 1 {
				t.Fatalf("delivery %d after %d in the dead letter queue, want 1 still", m.DeliveryCount, n)
			}
			if n%2 == 0 {
				w.must(d.AbandonMessage(w.ctx, m, nil))
			} else {
				time.Sleep(lock)
			}
		}
	})
}

func TestADeadLetterKeepsItsCount(t *testing.T) { // B3, B5
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		c := w.client("worker-1")
		r := w.receiver(c, "tasks")
		w.must(r.AbandonMessage(w.ctx, w.receive(r), nil))
		w.must(r.DeadLetterMessage(w.ctx, w.receive(r), nil))
		if m := w.receive(w.deadLetters(c, "tasks")); m.DeliveryCount != 2 {
			t.Errorf("delivery %d of a dead letter that had been abandoned once, want 2", m.DeliveryCount)
		}
	})
}

func TestTheBrokersDeadLettersSayWhy(t *testing.T) { // B5, B9
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r, d := w.sender(c, "tasks"), w.receiver(c, "tasks"), w.deadLetters(c, "tasks")
		want := func(id, reason, description string) {
			t.Helper()
			m := w.receive(d)
			if m.DeadLetterReason == nil || m.DeadLetterErrorDescription == nil {
				t.Fatalf("dead letter %s carries %v", m.MessageID, m.ApplicationProperties)
			}
			if m.MessageID != id || *m.DeadLetterReason != reason || *m.DeadLetterErrorDescription != description || *m.DeadLetterSource != "tasks" {
				t.Errorf("dead letter %s of %s: %s: %s", m.MessageID, *m.DeadLetterSource, *m.DeadLetterReason, *m.DeadLetterErrorDescription)
			}
			w.must(d.CompleteMessage(w.ctx, m, nil))
		}
		w.must(s.SendMessage(w.ctx, message("often"), nil))
		for range 3 {
			w.must(r.AbandonMessage(w.ctx, w.receive(r), nil))
		}
		want("often", "MaxDeliveryCountExceeded", "Message could not be consumed after maximum delivery attempts.")
		w.must(s.SendMessage(w.ctx, mortal("old", time.Minute), nil))
		time.Sleep(time.Minute)
		want("old", "TTLExpiredException", "The message expired and was dead lettered.")
	})
}

func TestWhatComesBackStandsAtItsOldPlace(t *testing.T) { // B4
	for _, row := range []struct {
		name string
		back func(w *world) // receives a and has it come back
	}{
		{"abandoned", func(w *world) {
			r := w.receiver(w.client("worker-1"), "tasks")
			w.must(r.AbandonMessage(w.ctx, w.receive(r), nil))
		}},
		{"its lock expired", func(w *world) {
			w.receive(w.receiver(w.client("worker-1"), "tasks"))
			time.Sleep(lock)
		}},
		{"released", func(w *world) { // which the SDK does at times of its own choice
			p := w.plain()
			p.authorize()
			r, err := p.session().NewReceiver(w.ctx, "tasks", &amqp.ReceiverOptions{Credit: -1})
			w.must(err)
			w.must(r.IssueCredit(1))
			m, err := r.Receive(w.ctx, nil)
			w.must(err)
			w.must(r.ReleaseMessage(w.ctx, m))
			w.must(r.Close(w.ctx))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.send("tasks", "a", "b", "c")
				row.back(w)
				r := w.receiver(w.client("worker-2"), "tasks")
				var got []string
				for range 3 {
					m := w.receive(r)
					got = append(got, m.MessageID)
					w.must(r.CompleteMessage(w.ctx, m, nil))
				}
				if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
					t.Errorf("received %q, want %q", got, want)
				}
			})
		})
	}
}

// Answered as done, a stale settlement would let two workers believe that they have done the same work.
func TestAStaleSettlementIsRefused(t *testing.T) { // B2
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		r := w.receiver(w.client("worker-1"), "tasks")
		stale := w.receive(r)
		time.Sleep(lock)
		other := w.receiver(w.client("worker-2"), "tasks")
		m := w.receive(other)
		w.wantCode(r.CompleteMessage(w.ctx, stale, nil), azservicebus.CodeLockLost)
		w.wantCode(r.AbandonMessage(w.ctx, byToken(stale), nil), azservicebus.CodeLockLost)
		w.wantCode(r.RenewMessageLock(w.ctx, stale, nil), azservicebus.CodeLockLost)
		w.must(other.CompleteMessage(w.ctx, m, nil))
		w.wantCode(other.CompleteMessage(w.ctx, byToken(m), nil), azservicebus.CodeLockLost)
	})
}

func TestLocksSurviveTheirLink(t *testing.T) { // B1
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		c := w.client("worker-1")
		r := w.receiver(c, "tasks")
		m := w.receive(r)
		w.must(r.Close(w.ctx))
		again := w.receiver(c, "tasks")
		w.receiveNothing(again)
		w.must(again.RenewMessageLock(w.ctx, m, nil))
		w.must(again.CompleteMessage(w.ctx, byToken(m), nil))
		if e := w.event("settled", "a"); e.Disposition != "completed" || e.Delivery != 1 {
			t.Errorf("settled as %+v", e)
		}
	})
}

func TestADeferredMessageCarriesItsLocksToken(t *testing.T) { // B13
	inBubble(t, func(t *testing.T, w *world) {
		r := w.receiver(w.client("worker-1"), "tasks")
		m := w.receiveDeferred(r, w.deferred(r, "a"))
		if m.LockToken == [16]byte{} {
			t.Error("it carries no token")
		}
		w.must(r.CompleteMessage(w.ctx, m, nil))
	})
}

func TestWhoHasWaitedLongestIsServedFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		got := make(chan string, 2)
		wait := func(name string) {
			r := w.receiver(w.client(name), "tasks")
			go func() {
				messages, err := r.ReceiveMessages(w.ctx, 1, nil)
				if err != nil || len(messages) != 1 {
					t.Errorf("%s received %d messages, %v", name, len(messages), err)
				}
				got <- name
			}()
			synctest.Wait()
		}
		wait("first")
		wait("second")
		for _, want := range []string{"first", "second"} {
			w.send("tasks", want)
			if served := <-got; served != want {
				t.Errorf("served %s, want %s", served, want)
			}
		}
	})
}
