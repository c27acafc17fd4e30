package servicebus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"oneeffect/emulator/control"
)

// arm puts a rule about a Service Bus operation to work.
func (w *world) arm(name, operation string, change func(*control.Rule)) {
	w.t.Helper()
	r := control.Rule{Name: name, Do: "hold", Match: control.Match{Service: "servicebus", Operation: operation}}
	if change != nil {
		change(&r)
	}
	if _, err := w.hub.Arm(r); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) reached(name string) control.Firing {
	w.t.Helper()
	f, err := w.hub.WaitReached(w.ctx, name)
	w.must(err)
	return f
}

func (w *world) release(name, action string) {
	w.t.Helper()
	w.must(w.hub.Release(name, control.Release{Action: action}))
}

// async runs a call of the SDK and hands out its error.
func async(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	return done
}

func TestAHeldSendBlocksItselfOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		w.arm("held", "send", func(r *control.Rule) { r.Match.Body = map[string]any{"/id": "a"} })
		held := async(func() error { return s.SendMessage(w.ctx, message("a"), nil) })
		f := w.reached("held")
		if f.Op.Key != "a" || f.Op.Client != "worker-1" || f.Op.Entity != "tasks" {
			t.Errorf("rule saw %+v", f.Op)
		}
		// The same link, connection and queue go on.
		w.must(s.SendMessage(w.ctx, message("b"), nil))
		m := w.receive(r)
		if m.MessageID != "b" {
			t.Errorf("received %s, want b", m.MessageID)
		}
		w.must(r.CompleteMessage(w.ctx, m, nil))
		w.release("held", "go")
		w.must(<-held)
		if m := w.receive(r); m.MessageID != "a" {
			t.Errorf("received %s, want a", m.MessageID)
		}
	})
}

// Lost before or after it was applied: the client cannot tell, and sends again.
func TestALostSendIsRepeated(t *testing.T) {
	for _, row := range []struct {
		when, do string
		enqueued int
	}{
		{"before", "drop", 1}, {"after", "drop", 2}, {"before", "reset", 1}, {"after", "reset", 2},
	} {
		t.Run(row.do+" "+row.when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				s := w.sender(w.client("worker-1"), "tasks")
				w.arm("lost", "send", func(r *control.Rule) { r.Do, r.When, r.Nth = row.do, row.when, 1 })
				w.must(s.SendMessage(w.ctx, message("a"), nil))
				if n := w.count("enqueued", "a"); n != row.enqueued {
					t.Errorf("enqueued %d times, want %d", n, row.enqueued)
				}
			})
		})
	}
}

func TestARuleAnswersASend(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := w.sender(w.client("worker-1"), "tasks")
		w.arm("full", "send", func(r *control.Rule) {
			r.Do, r.Condition, r.Description = "answer", "amqp:resource-limit-exceeded", "the queue is full"
		})
		w.wantCondition(s.SendMessage(w.ctx, message("a"), nil), amqp.ErrCondResourceLimitExceeded, "the queue is full")
		w.must(w.hub.Disarm("full"))
		w.arm("busy", "send", func(r *control.Rule) { r.Do, r.Condition, r.Nth = "answer", "com.microsoft:server-busy", 1 })
		start := time.Now()
		w.must(s.SendMessage(w.ctx, message("b"), nil))
		if time.Since(start) < 3*time.Second {
			t.Error("a busy server was not given time")
		}
		if w.count("enqueued", "a") != 0 || w.count("enqueued", "b") != 1 {
			t.Error("what was refused before it was applied was applied")
		}
	})
}

func TestAHeldSendWhosePeerIsGoneIsNotAppliedUnlessLate(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(map[bool]string{false: "not late", true: "late"}[late], func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.client("worker-1")
				s := w.sender(c, "tasks")
				w.arm("held", "send", func(r *control.Rule) { r.Late = late })
				ctx, cancel := context.WithCancel(w.ctx)
				held := async(func() error { return s.SendMessage(ctx, message("a"), nil) })
				w.reached("held")
				w.hub.Isolate("worker-1")
				w.must(w.hub.WaitPeerGone(w.ctx, "held"))
				cancel()
				if err := <-held; err == nil {
					t.Error("a send without an answer succeeded")
				}
				w.release("held", "go")
				synctest.Wait() // it would be applied by now
				if late {
					w.event("enqueued", "a")
				} else if w.count("enqueued", "a") != 0 {
					t.Error("a send whose peer was gone was applied")
				}
			})
		})
	}
}

func TestAHeldDeliveryReservesItsMessageAndLocksWhenItGoes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a", "b")
		r := w.receiver(w.client("worker-1"), "tasks")
		other := w.receiver(w.client("worker-2"), "tasks")
		w.arm("held", "deliver", func(r *control.Rule) { r.Match.Key = "a" })
		var got []*azservicebus.ReceivedMessage
		received := make(chan error, 1)
		go func() {
			var err error
			got, err = r.ReceiveMessages(w.ctx, 1, nil)
			received <- err
		}()
		w.reached("held")
		m := w.receive(other)
		if m.MessageID != "b" {
			t.Errorf("the other worker received %s, want b", m.MessageID)
		}
		w.must(other.CompleteMessage(w.ctx, m, nil))
		time.Sleep(lock + time.Minute) // no lock has begun, so none expires
		w.release("held", "go")
		if err := <-received; err != nil || len(got) != 1 {
			t.Fatalf("received %d messages, %v; want 1", len(got), err)
		}
		a := got[0]
		if a.DeliveryCount != 1 || !a.LockedUntil.Equal(w.hub.Now().Add(lock)) {
			t.Errorf("delivery %d, locked until %v at %v", a.DeliveryCount, a.LockedUntil, w.hub.Now())
		}
		w.must(r.CompleteMessage(w.ctx, a, nil))
	})
}

func TestADroppedDelivery(t *testing.T) {
	for _, row := range []struct {
		when    string
		expires bool // its lock has to
		count   uint32
	}{
		{"before", false, 1}, // never delivered: at once available, nothing counted
		{"after", true, 2},   // delivered to nobody
	} {
		t.Run(row.when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.send("tasks", "a")
				r := w.receiver(w.client("worker-1"), "tasks")
				w.arm("lost", "deliver", func(r *control.Rule) { r.Do, r.When, r.Nth = "drop", row.when, 1 })
				start := w.hub.Now()
				m := w.receive(r)
				e := w.event("delivered", "a")
				if m.DeliveryCount != row.count || (row.when == "after" && !e.At.Equal(start)) {
					t.Errorf("delivery %d, the first at %v", m.DeliveryCount, e.At)
				}
				if took := w.hub.Now().Sub(start); took >= lock != row.expires {
					t.Errorf("redelivered after %v, with a lock of %v that has to expire: %v", took, lock, row.expires)
				}
			})
		})
	}
}

func TestASilencedDeliveryComesToAnEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		r := w.receiver(w.client("worker-1"), "tasks")
		w.arm("silence", "deliver", func(r *control.Rule) { r.Do, r.Match.Client = "silence", "worker-1" })
		w.receiveNothing(r)
		m := w.receive(w.receiver(w.client("worker-2"), "tasks"))
		if m.DeliveryCount != 1 {
			t.Errorf("delivery %d, want 1", m.DeliveryCount)
		}
	})
}

func TestAHeldCompletion(t *testing.T) {
	for _, row := range []struct {
		name, when string
		held       time.Duration
		applied    bool
		code       azservicebus.Code // of the error; none if empty
	}{
		{"let go", "before", 0, true, ""},
		{"let go after apply", "after", 0, true, ""},
		{"let go too late", "before", lock, false, azservicebus.CodeLockLost},
		{"held after apply past the lock", "after", lock, true, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.send("tasks", "a", "b")
				r := w.receiver(w.client("worker-1"), "tasks")
				a, b := w.receive(r), w.receive(r)
				w.arm("held", "complete", func(r *control.Rule) { r.Match.Key, r.When = "a", row.when })
				done := async(func() error { return r.CompleteMessage(w.ctx, a, nil) })
				w.reached("held")
				w.must(r.CompleteMessage(w.ctx, b, nil))
				time.Sleep(row.held)
				w.release("held", "go")
				err := <-done
				if row.code == "" {
					w.must(err)
				} else {
					w.wantCode(err, row.code)
				}
				if applied := w.count("settled", "a") == 1; applied != row.applied {
					t.Errorf("applied: %v, want %v", applied, row.applied)
				}
			})
		})
	}
}

// The answer to a completion that was applied is lost. The SDK cannot know; the message is gone all the same.
func TestALostAnswerToACompletion(t *testing.T) {
	for _, row := range []struct {
		when     string
		settled  int
		delivery int
	}{
		{"after", 1, 1},
		{"before", 0, 2},
	} {
		t.Run(row.when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.send("tasks", "a")
				r := w.receiver(w.client("worker-1"), "tasks")
				m := w.receive(r)
				w.arm("lost", "complete", func(r *control.Rule) { r.Do, r.When = "drop", row.when })
				ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
				defer cancel()
				_ = r.CompleteMessage(ctx, m, nil) // what the SDK makes of it is its affair
				if n := w.count("settled", "a"); n != row.settled {
					t.Errorf("settled %d times, want %d", n, row.settled)
				}
				w.must(w.hub.Disarm("lost"))
				time.Sleep(lock)
				other := w.receiver(w.client("worker-2"), "tasks")
				if row.settled == 1 {
					w.receiveNothing(other)
				} else if again := w.receive(other); int(again.DeliveryCount) != row.delivery {
					t.Errorf("delivery %d, want %d", again.DeliveryCount, row.delivery)
				}
			})
		})
	}
}

func TestAnUnansweredCompletionHangsUntilItsContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		r := w.receiver(w.client("worker-1"), "tasks")
		m := w.receive(r)
		w.arm("silence", "complete", func(r *control.Rule) { r.Do, r.When = "silence", "after" })
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		if err := r.CompleteMessage(ctx, m, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("complete: %v", err)
		}
		w.event("settled", "a")
	})
}

func TestADetachedLinkIsRebuilt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := w.sender(w.client("worker-1"), "tasks")
		w.arm("forced", "send", func(r *control.Rule) {
			r.Do, r.Condition, r.Nth = "detach", "amqp:link:detach-forced", 1
		})
		w.must(s.SendMessage(w.ctx, message("a"), nil))
		if n := w.count("enqueued", "a"); n != 1 {
			t.Errorf("enqueued %d times, want 1", n)
		}
		if n := w.count("connected", ""); n != 1 {
			t.Errorf("%d connections, want 1: only the link was detached", n)
		}
	})
}

func TestRulesReachManagementAndTokens(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		w.arm("schedule", "schedule", nil)
		scheduled := async(func() error {
			_, err := s.ScheduleMessages(w.ctx, []*azservicebus.Message{message("a")}, w.hub.Now().Add(time.Minute), nil)
			return err
		})
		if f := w.reached("schedule"); f.Op.Key != "a" || f.Op.Entity != "tasks" {
			t.Errorf("rule saw %+v", f.Op)
		}
		w.release("schedule", "go")
		w.must(<-scheduled)
		m := w.receive(r)
		w.arm("renew", "renew-lock", func(r *control.Rule) { r.Do, r.Condition = "answer", "com.microsoft:message-lock-lost" })
		w.wantCode(r.RenewMessageLock(w.ctx, m, nil), azservicebus.CodeLockLost)
		w.arm("token", "put-token", func(r *control.Rule) {
			r.Do, r.Condition, r.Match.Entity = "answer", "amqp:unauthorized-access", "once"
		})
		w.wantCode(w.sender(c, "Once").SendMessage(w.ctx, message("b"), nil), azservicebus.CodeUnauthorizedAccess)
		w.arm("attach", "attach", func(r *control.Rule) {
			r.Do, r.Condition, r.Match.Entity = "answer", "com.microsoft:entity-disabled", "task-events"
		})
		w.wantCondition(w.sender(c, "task-events").SendMessage(w.ctx, message("c"), nil), "com.microsoft:entity-disabled", "")
	})
}

func TestAnArmedRuleThatDoesNotMatchChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.arm("other", "complete", func(r *control.Rule) { r.Match.Client = "nobody" })
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		for range 50 {
			w.must(s.SendMessage(w.ctx, message("a"), nil))
		}
		for range 50 {
			m := w.receive(r)
			w.must(r.CompleteMessage(w.ctx, m, nil))
		}
	})
}
