package servicebus_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/emulator/control"
)

func TestACompletedMessageIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		r := w.receiver(w.client("worker-1"), "tasks")
		m := w.receive(r)
		if m.MessageID != "a" || m.DeliveryCount != 1 || string(m.Body) != `{"id":"a"}` {
			t.Errorf("received %+v", m)
		}
		if want := w.hub.Now().Add(lock); !m.LockedUntil.Equal(want) {
			t.Errorf("locked until %v, want %v", m.LockedUntil, want)
		}
		w.must(r.CompleteMessage(w.ctx, m, nil))
		w.receiveNothing(r)
		time.Sleep(2 * lock)
		w.receiveNothing(r)
	})
}

func TestAnExpiredLockIsRedeliveredAndCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		r := w.receiver(w.client("worker-1"), "tasks")
		first := w.receive(r)
		start := time.Now()
		second := w.receive(r)
		if took := time.Since(start); took != lock {
			t.Errorf("redelivered after %v, want %v", took, lock)
		}
		if second.DeliveryCount != 2 || *second.SequenceNumber != *first.SequenceNumber {
			t.Errorf("redelivered as %+v", second)
		}
		if first.LockToken == second.LockToken {
			t.Error("the second delivery has the first one's lock")
		}
		w.wantCode(r.CompleteMessage(w.ctx, first, nil), azservicebus.CodeLockLost)
		w.must(r.CompleteMessage(w.ctx, second, nil))
	})
}

func TestRenewingExtendsALock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		r := w.receiver(w.client("worker-1"), "tasks")
		m := w.receive(r)
		for range 5 {
			time.Sleep(lock - time.Second)
			w.must(r.RenewMessageLock(w.ctx, m, nil))
			if want := w.hub.Now().Add(lock); !m.LockedUntil.Equal(want) {
				t.Fatalf("renewed until %v, want %v", m.LockedUntil, want)
			}
		}
		w.must(r.CompleteMessage(w.ctx, m, nil))
		if n := w.count("lock-renewed", "a"); n != 5 {
			t.Errorf("%d renewals recorded, want 5", n)
		}
		w.wantCode(r.RenewMessageLock(w.ctx, m, nil), azservicebus.CodeLockLost)
	})
}

// The SDK says delivery-failed=false when it abandons, and Service Bus counts all the same.
func TestAbandoningCountsADelivery(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		r := w.receiver(w.client("worker-1"), "tasks")
		m := w.receive(r)
		w.must(r.AbandonMessage(w.ctx, m, &azservicebus.AbandonMessageOptions{
			PropertiesToModify: map[string]any{"why": "busy", "times": int64(1)},
		}))
		again := w.receive(r)
		if again.DeliveryCount != 2 || again.ApplicationProperties["why"] != "busy" || again.ApplicationProperties["times"] != int64(1) {
			t.Errorf("came back as delivery %d with %v", again.DeliveryCount, again.ApplicationProperties)
		}
		w.must(r.CompleteMessage(w.ctx, again, nil))
	})
}

// What the SDK receives after ReceiveMessages has returned it releases by itself.
func TestReleasingKeepsCountAndPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		worker := w.client("worker-1")
		r := w.receiver(worker, "tasks")
		w.send("tasks", "a")
		// Credit for ten, one message: the nine other credits stay with the link for as long as it lives.
		got, err := r.ReceiveMessages(w.ctx, 10, nil)
		w.must(err)
		if len(got) != 1 {
			t.Fatalf("received %d messages, want 1", len(got))
		}
		time.Sleep(4 * time.Minute)
		w.send("tasks", "b", "c")
		var last uint64
		for range 9 { // every release eats a credit, so this comes to an end
			e, err := w.hub.WaitEvent(w.ctx, last, func(e control.Event) bool { return e.Disposition == "released" })
			w.must(err)
			last = e.Seq
		}
		second := w.receiver(w.client("worker-2"), "tasks")
		for _, want := range []string{"b", "c"} {
			m := w.receive(second)
			if m.MessageID != want || m.DeliveryCount != 1 {
				t.Errorf("received %s, delivery %d; want %s, 1", m.MessageID, m.DeliveryCount, want)
			}
			w.must(second.CompleteMessage(w.ctx, m, nil))
		}
	})
}

func TestDeadLetteringIsAnsweredAcceptedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		worker := w.client("worker-1")
		r := w.receiver(worker, "tasks")
		m := w.receive(r)
		start := time.Now()
		w.must(r.DeadLetterMessage(w.ctx, m, &azservicebus.DeadLetterOptions{
			Reason: new("Keyless"), ErrorDescription: new("failed once"), PropertiesToModify: map[string]any{"more": "x"},
		}))
		// Answered by echoing rejected, the SDK would rebuild its connection and wait four seconds.
		if took := time.Since(start); took != 0 {
			t.Errorf("dead-lettering took %v", took)
		}
		dead := w.receive(w.deadLetters(worker, "tasks"))
		if dead.MessageID != "a" || *dead.DeadLetterReason != "Keyless" || *dead.DeadLetterErrorDescription != "failed once" ||
			dead.ApplicationProperties["more"] != "x" || *dead.DeadLetterSource != "tasks" || dead.DeliveryCount != 1 {
			t.Errorf("dead letter is %+v", dead)
		}
		if e := w.event("dead-lettered", "a"); e.Reason != "Keyless" || e.Client != "worker-1" || e.Delivery != 1 {
			t.Errorf("recorded as %+v", e)
		}
	})
}

func TestAMessageIsDeliveredMaxDeliveryTimes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		worker := w.client("worker-1")
		r := w.receiver(worker, "tasks")
		for n := range uint32(3) {
			m := w.receive(r)
			if m.DeliveryCount != n+1 {
				t.Fatalf("delivery count %d, want %d", m.DeliveryCount, n+1)
			}
			w.must(r.AbandonMessage(w.ctx, m, nil))
		}
		w.receiveNothing(r)
		d := w.deadLetters(worker, "tasks")
		for range 5 { // nothing counts inside the dead letter queue
			dead := w.receive(d)
			if *dead.DeadLetterReason != "MaxDeliveryCountExceeded" || dead.DeliveryCount != 4 ||
				*dead.DeadLetterErrorDescription != "Message could not be consumed after maximum delivery attempts." {
				t.Fatalf("dead letter is %+v", dead)
			}
			w.must(d.AbandonMessage(w.ctx, dead, nil))
		}
	})
}

func TestASubscriptionHasItsOwnDeadLetters(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("task-events", "a")
		worker := w.client("orchestrator")
		r, err := worker.NewReceiverForSubscription("task-events", "orchestrator", nil)
		w.must(err)
		for range 2 {
			w.must(r.AbandonMessage(w.ctx, w.receive(r), nil))
		}
		d, err := worker.NewReceiverForSubscription("task-events", "orchestrator", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
		w.must(err)
		if dead := w.receive(d); *dead.DeadLetterSource != "task-events/Subscriptions/orchestrator" {
			t.Errorf("dead letter source %q", *dead.DeadLetterSource)
		}
	})
}

func TestExpiredMessagesBecomeDeadLetters(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		worker := w.client("worker-1")
		s := w.sender(worker, "tasks")
		m := message("a")
		m.TimeToLive = new(10 * time.Minute)
		w.must(s.SendMessage(w.ctx, m, nil))
		time.Sleep(10 * time.Minute)
		w.receiveNothing(w.receiver(worker, "tasks"))
		if dead := w.receive(w.deadLetters(worker, "tasks")); *dead.DeadLetterReason != "TTLExpiredException" {
			t.Errorf("reason %q", *dead.DeadLetterReason)
		}
	})
}

func TestLocksSurviveTheirConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a", "b")
		first := w.client("worker-1")
		r := w.receiver(first, "tasks")
		a, b := w.receive(r), w.receive(r)
		w.must(first.Close(w.ctx))
		second := w.receiver(w.client("worker-2"), "tasks")
		w.receiveNothing(second)
		// Known by nothing but its token, the message is settled over $management from another connection.
		w.must(second.CompleteMessage(w.ctx, byToken(a), nil))
		if e := w.event("settled", "a"); e.Client != "worker-2" || e.Disposition != "completed" {
			t.Errorf("settlement recorded as %+v", e)
		}
		again := w.receive(second) // b, when its lock has expired
		if again.MessageID != "b" || again.DeliveryCount != 2 {
			t.Errorf("received %s, delivery %d", again.MessageID, again.DeliveryCount)
		}
		w.wantCode(second.CompleteMessage(w.ctx, byToken(b), nil), azservicebus.CodeLockLost)
	})
}

func TestSettlingOverManagementDoesTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		worker := w.client("worker-1")
		r := w.receiver(worker, "tasks")
		w.must(r.AbandonMessage(w.ctx, byToken(w.receive(r)), &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"why": "x"}}))
		m := w.receive(r)
		if m.DeliveryCount != 2 || m.ApplicationProperties["why"] != "x" {
			t.Errorf("abandoned message came back as %+v", m)
		}
		w.must(r.DeadLetterMessage(w.ctx, byToken(m), &azservicebus.DeadLetterOptions{Reason: new("r"), ErrorDescription: new("d")}))
		dead := w.receive(w.deadLetters(worker, "tasks"))
		if *dead.DeadLetterReason != "r" || *dead.DeadLetterErrorDescription != "d" || dead.ApplicationProperties["why"] != "x" {
			t.Errorf("dead letter is %+v", dead)
		}
	})
}

func TestReceiveAndDeleteRemovesOnDelivery(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a", "b")
		worker := w.client("worker-1")
		r, err := worker.NewReceiverForQueue("tasks", &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
		w.must(err)
		m := w.receive(r)
		if m.MessageID != "a" || m.LockedUntil != nil {
			t.Errorf("received %s, locked until %v", m.MessageID, m.LockedUntil)
		}
		w.must(r.Close(w.ctx))
		other := w.receiver(worker, "tasks")
		b := w.receive(other)
		if b.MessageID != "b" {
			t.Errorf("received %s, want b", b.MessageID)
		}
		w.must(other.CompleteMessage(w.ctx, b, nil))
		w.receiveNothing(other)
	})
}

func TestManyWorkersCompleteEveryMessageOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const messages, workers = 200, 4
		ids := make([]string, messages)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		w.send("Once", ids...)
		var left atomic.Int64
		left.Store(messages)
		ctx, stop := context.WithCancel(w.ctx)
		defer stop()
		var running sync.WaitGroup
		for n := range workers {
			r := w.receiver(w.client(fmt.Sprintf("worker-%d", n)), "Once")
			running.Go(func() {
				for ctx.Err() == nil {
					got, err := r.ReceiveMessages(ctx, 7, nil)
					if err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
					for i, m := range got {
						if (int(*m.SequenceNumber)+i)%3 == 0 && m.DeliveryCount < 3 {
							err = r.AbandonMessage(w.ctx, m, nil)
						} else if err = r.CompleteMessage(w.ctx, m, nil); left.Add(-1) == 0 {
							stop()
						}
						if err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		running.Wait()
		for i := range messages {
			completed := 0
			for _, e := range w.hub.Events(0) {
				if e.Key == fmt.Sprint(i) && e.Disposition == "completed" {
					completed++
				}
			}
			if completed != 1 {
				t.Errorf("message %d was completed %d times", i, completed)
			}
		}
	})
}
