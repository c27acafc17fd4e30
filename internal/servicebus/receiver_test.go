package servicebus

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
)

func TestAMessageIsSentReceivedAndCompleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		got := make(chan message.Delivery, 1)
		stop := w.run(w.receiver(), func(_ context.Context, d message.Delivery) message.Settlement {
			got <- d
			return message.Done()
		})
		defer stop()
		w.send("tasks", "82f3")
		d := <-got
		if d.MessageID != "82f3" || d.CorrelationID != "82f3" || string(d.Body) != `{"task":"82f3"}` || d.Count != 1 || d.Sequence != 1 {
			t.Errorf("delivery is %+v", d)
		}
		if late := d.Received.Sub(d.Taken); late < 0 || late > time.Second {
			t.Errorf("the lock was taken %v before the receipt", late)
		}
		if d.LockAtMost < lock || d.LockAtMost > lock+time.Second {
			t.Errorf("the stamps of a fresh message put %v on a lock of %v", d.LockAtMost, lock)
		}
		if e := w.settled("82f3"); e.Disposition != "completed" || e.Subject != message.TypeTask || e.Client != "worker-1" {
			t.Errorf("settled: %+v", e)
		}
		stop()
		w.logged("msg=settled", "task=82f3", "message=82f3", "delivery=1", "disposition=complete", "took=", "entity=tasks")
	})
}

// By the broker's stamps a lock never looks shorter than it is, however the message
// came into the queue.
func TestTheBoundOnALockIsNeverBelowIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		got := make(chan message.Delivery, 2)
		handle := func(_ context.Context, d message.Delivery) message.Settlement {
			got <- d
			if d.MessageID == "old" {
				return message.Later(10 * time.Minute)
			}
			return message.Done()
		}
		w.send("tasks", "old")
		time.Sleep(time.Hour)
		stop := w.run(w.receiver(), handle)
		defer stop()
		if d := <-got; d.LockAtMost < time.Hour+lock || d.LockAtMost > time.Hour+lock+time.Second {
			t.Errorf("after an hour in the queue: %v", d.LockAtMost)
		}
		if d := <-got; d.LockAtMost < lock || d.LockAtMost > 10*time.Minute+lock+time.Second {
			t.Errorf("of a copy that waited ten minutes: %v", d.LockAtMost)
		}
	})
}

func TestALockIsRenewedForAsLongAsTheHandlerTakes(t *testing.T) { // S2, S3
	inBubble(t, func(t *testing.T, w *world) {
		stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement {
			time.Sleep(12 * time.Minute)
			return message.Done()
		})
		defer stop()
		w.send("tasks", "long")
		if e := w.settled("long"); e.Disposition != "completed" || e.Delivery != 1 {
			t.Errorf("settled: %+v", e)
		}
		// Every 100 s: at 100, 200, … 700 of 720 s.
		if n := w.count("lock-renewed", nil); n != 7 {
			t.Errorf("%d renewals, want 7", n)
		}
		time.Sleep(time.Hour)
		if n := w.count("lock-renewed", nil); n != 7 {
			t.Errorf("%d renewals, the settled message is still renewed", n)
		}
	})
}

func TestALaterCopySpendsNoDeliveryCount(t *testing.T) { // S4
	inBubble(t, func(t *testing.T, w *world) {
		deliveries := make(chan message.Delivery, 8)
		var at []time.Time
		stop := w.run(w.receiver(), func(_ context.Context, d message.Delivery) message.Settlement {
			at = append(at, time.Now())
			deliveries <- d
			if len(at) < 4 {
				return message.Later(10 * time.Minute)
			}
			return message.Done()
		})
		defer stop()
		w.send("tasks", "82f3")
		seen := make(map[string]bool)
		for range 4 {
			d := <-deliveries
			if d.Count != 1 || d.CorrelationID != "82f3" || string(d.Body) != `{"task":"82f3"}` {
				t.Errorf("delivery is %+v", d)
			}
			if seen[d.MessageID] {
				t.Errorf("the id %s comes twice", d.MessageID)
			}
			seen[d.MessageID] = true
		}
		stop()
		for i := 1; i < len(at); i++ {
			if wait := at[i].Sub(at[i-1]); wait < 10*time.Minute-time.Second || wait > 10*time.Minute+time.Second {
				t.Errorf("copy %d came after %v", i, wait)
			}
		}
		if n := w.count("settled", func(e control.Event) bool { return e.Disposition == "completed" }); n != 4 {
			t.Errorf("%d completed, want the original and 3 copies", n)
		}
		// The copy is there before the original is gone.
		copied, settled := w.await("scheduled", "", 0), w.settled("82f3")
		if copied.Seq > settled.Seq {
			t.Error("the original was completed before its copy was sent")
		}
	})
}

func TestACopyThatCannotBeSentLeavesTheOriginalToItsLock(t *testing.T) { // S4
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "82f3") // the sender's link stands, the rule comes after
		var deliveries atomic.Int64
		w.arm(control.Rule{Do: "answer", Condition: "com.microsoft:server-busy", Match: control.Match{Operation: "send"}, Times: 100})
		stop := w.run(w.receiver(), func(_ context.Context, d message.Delivery) message.Settlement {
			if deliveries.Add(1) == 1 {
				return message.Later(time.Minute)
			}
			return message.Done()
		})
		defer stop()
		if e := w.settled("82f3"); e.Delivery != 2 || e.Disposition != "completed" {
			t.Errorf("settled: %+v", e)
		}
		w.await("lock-expired", "82f3", 0)
		stop()
		w.logged(`msg="not settled"`, "delivery=1", "disposition=leave", "copy for later", "level=WARN")
	})
}

func TestOnASubscriptionTheMessageItselfWaits(t *testing.T) {
	for name, c := range map[string]struct{ delay, wait time.Duration }{
		"for the delay":          {time.Minute, time.Minute},
		"but not past two locks": {time.Hour, 2 * lock},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				at := make(chan time.Time, 2)
				stop := w.run(w.subscriber(), func(_ context.Context, d message.Delivery) message.Settlement {
					at <- time.Now()
					if d.Count == 1 {
						return message.Later(c.delay)
					}
					return message.Done()
				})
				defer stop()
				w.send("task-events", "82f3/completed")
				first, second := <-at, <-at
				if waited := second.Sub(first); waited < c.wait || waited > c.wait+time.Second {
					t.Errorf("waited %v, want %v", waited, c.wait)
				}
				if n := w.count("lock-expired", nil); n != 0 {
					t.Error("the lock expired while waiting")
				}
			})
		})
	}
}

func TestAMessageIsAbandonedOrRejectedWithItsReason(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		stop := w.run(w.receiver(), func(_ context.Context, d message.Delivery) message.Settlement {
			if d.Count < 3 {
				return message.Retry()
			}
			return message.Reject("InvalidMessage", "no such type")
		})
		defer stop()
		w.send("tasks", "bad")
		e := w.await("dead-lettered", "bad", 0)
		if e.Reason != "InvalidMessage" {
			t.Errorf("dead-lettered: %+v", e)
		}
		if n := w.count("settled", func(e control.Event) bool { return e.Disposition == "abandoned" }); n != 2 {
			t.Errorf("abandoned %d times, want 2", n)
		}
		stop()
		w.logged("msg=settled", "disposition=dead-letter", "reason=InvalidMessage", `description="no such type"`)
	})
}

func TestLeaveAndNoDecisionBothWaitForTheLock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		stop := w.run(w.receiver(), func(_ context.Context, d message.Delivery) message.Settlement {
			switch d.Count {
			case 1:
				return message.LetExpire()
			case 2:
				return message.Settlement{}
			}
			return message.Done()
		})
		defer stop()
		w.send("tasks", "82f3")
		if e := w.settled("82f3"); e.Delivery != 3 {
			t.Errorf("settled: %+v", e)
		}
		if took := time.Since(began); took < 2*lock || took > 2*lock+time.Minute {
			t.Errorf("took %v, want two locks", took)
		}
		stop()
		w.logged("level=ERROR", `msg="not settled"`, "delivery=2", "did not decide")
	})
}

func TestNoMessageIsHeldWithoutASlot(t *testing.T) { // S1
	inBubble(t, func(t *testing.T, w *world) {
		const slots, messages = 3, 30
		var j journal
		var done atomic.Int64
		r := w.receiver()
		r.Slots = slots
		finished := make(chan struct{})
		stop := w.run(r, func(_ context.Context, d message.Delivery) message.Settlement {
			defer j.begin(d.MessageID)()
			time.Sleep(time.Minute)
			if done.Add(1) == messages {
				close(finished)
			}
			return message.Done()
		})
		defer stop()
		ids := make([]string, messages)
		for i := range ids {
			ids[i] = "t" + string(rune('A'+i))
		}
		w.send("tasks", ids...)
		<-finished
		stop()
		if n := j.peak(); n != slots {
			t.Errorf("%d at once, want %d", n, slots)
		}
		held, mostHeld := map[string]bool{}, 0
		for _, e := range w.hub.Events(0) {
			switch e.Kind {
			case "delivered":
				if e.Delivery != 1 {
					t.Errorf("%s was delivered %d times", e.Key, e.Delivery)
				}
				held[e.Key] = true
				mostHeld = max(mostHeld, len(held))
			case "settled":
				delete(held, e.Key)
			case "lock-expired":
				t.Errorf("the lock of %s expired", e.Key)
			}
		}
		if mostHeld > slots {
			t.Errorf("the broker saw %d messages held, there are %d slots", mostHeld, slots)
		}
	})
}

// Most tasks come alone, to a process with many free slots.
func TestALoneMessageDoesNotWaitForOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		got := make(chan time.Time, 1)
		r := w.receiver()
		r.Slots = 64
		stop := w.run(r, func(context.Context, message.Delivery) message.Settlement {
			got <- time.Now()
			return message.Done()
		})
		defer stop()
		synctest.Wait() // it waits for messages
		for range 3 {
			began := time.Now()
			w.send("tasks", rand.Text())
			if waited := (<-got).Sub(began); waited > time.Millisecond {
				t.Errorf("it was handled after %v, want at most a millisecond", waited)
			}
		}
	})
}

func TestAMistakeInTheConfigurationIsSaidBeforeAnythingRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for name, change := range map[string]func(*Receiver){
			"no client":          func(r *Receiver) { r.Client = nil },
			"no entity":          func(r *Receiver) { r.Queue = "" },
			"half an entity":     func(r *Receiver) { r.Queue, r.Topic = "", "task-events" },
			"two entities":       func(r *Receiver) { r.Topic, r.Subscription = "task-events", "orchestrator" },
			"no slot":            func(r *Receiver) { r.Slots = 0 },
			"no lock":            func(r *Receiver) { r.LockDuration = 0 },
			"renewed too late":   func(r *Receiver) { r.LockRenewal = lock },
			"negative grace":     func(r *Receiver) { r.Grace = -1 },
			"negative silence":   func(r *Receiver) { r.Silence = -1 },
			"no time to settle":  func(r *Receiver) { r.SettleTimeout = -1 },
			"a queue's sessions": func(r *Receiver) { r.Sessions = true },
		} {
			r := w.receiver()
			change(&r)
			if err := r.Run(t.Context(), nil); err == nil {
				t.Errorf("%s is taken", name)
			}
		}
	})
}
