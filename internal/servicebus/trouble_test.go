package servicebus

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
)

func TestStoppingLetsHandlersFinishWithinTheGrace(t *testing.T) { // S5
	inBubble(t, func(t *testing.T, w *world) {
		started := make(chan struct{})
		stop := w.run(w.receiver(), func(ctx context.Context, _ message.Delivery) message.Settlement {
			close(started)
			time.Sleep(5 * time.Second) // the grace is 10 s
			if ctx.Err() != nil {
				t.Errorf("the handler was disturbed: %v", context.Cause(ctx))
			}
			return message.Done()
		})
		defer stop()
		w.send("tasks", "82f3")
		<-started
		began := time.Now()
		stop()
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("stopping took %v, want the 5 s that the handler needs", took)
		}
		if e := w.settled("82f3"); e.Disposition != "completed" {
			t.Errorf("settled: %+v", e)
		}
	})
}

func TestAHandlerThatOutlivesTheGraceIsToldWhy(t *testing.T) { // S5
	inBubble(t, func(t *testing.T, w *world) {
		started, told := make(chan time.Time, 1), make(chan time.Time, 1)
		var cause error
		stop := w.run(w.receiver(), func(ctx context.Context, _ message.Delivery) message.Settlement {
			started <- time.Now()
			<-ctx.Done()
			told <- time.Now()
			cause = context.Cause(ctx)
			return message.Retry()
		})
		defer stop()
		w.send("tasks", "82f3")
		began := <-started
		time.Sleep(time.Minute)
		stop()
		wantErr(t, cause, ErrStopping)
		if took := (<-told).Sub(began); took != 70*time.Second {
			t.Errorf("told after %v, want 60 s of running and 10 s of grace", took)
		}
		// Settling outlives the cancellation of the work (S3).
		if e := w.settled("82f3"); e.Disposition != "abandoned" {
			t.Errorf("settled: %+v", e)
		}
	})
}

func TestNothingIsReceivedWhileStopping(t *testing.T) { // S5
	inBubble(t, func(t *testing.T, w *world) {
		started := make(chan struct{})
		var handled atomic.Int64
		r := w.receiver()
		r.Slots = 4
		stop := w.run(r, func(context.Context, message.Delivery) message.Settlement {
			if handled.Add(1) == 1 {
				close(started)
			}
			time.Sleep(10 * time.Second)
			return message.Done()
		})
		defer stop()
		w.send("tasks", "first")
		<-started
		var stopping sync.WaitGroup
		stopping.Go(stop)
		time.Sleep(time.Second)
		w.send("tasks", "second", "third") // into the drain
		stopping.Wait()
		if n := handled.Load(); n != 1 {
			t.Errorf("%d handled, want the 1 that had begun", n)
		}
		// They were not kept, and nothing was counted: the next process gets them at once.
		got := make(chan message.Delivery, 2)
		stop = w.run(r, func(_ context.Context, d message.Delivery) message.Settlement {
			got <- d
			return message.Done()
		})
		defer stop()
		for range 2 {
			if d := <-got; d.Count != 1 {
				t.Errorf("%s was counted: delivery %d", d.MessageID, d.Count)
			}
		}
		if n := w.count("lock-expired", nil); n != 0 {
			t.Errorf("%d locks expired", n)
		}
	})
}

func TestALostLockDoesNotDisturbTheHandler(t *testing.T) { // S2, S3
	inBubble(t, func(t *testing.T, w *world) {
		w.arm(control.Rule{Do: "answer", Condition: "com.microsoft:message-lock-lost", Match: control.Match{Operation: "renew-lock"}})
		first := make(chan error, 1)
		r := w.receiver()
		r.Slots = 2
		stop := w.run(r, func(ctx context.Context, d message.Delivery) message.Settlement {
			if d.Count == 1 {
				time.Sleep(8 * time.Minute)
				first <- ctx.Err()
			}
			return message.Done()
		})
		defer stop()
		w.send("tasks", "82f3")
		if err := <-first; err != nil {
			t.Errorf("the handler was disturbed: %v", err)
		}
		if e := w.settled("82f3"); e.Delivery != 2 {
			t.Errorf("settled: %+v", e)
		}
		w.await("settle-refused", "82f3", 0)
		stop()
		w.logged("lock lost, the handler goes on", "delivery=1")
		w.logged("level=WARN", `msg="not settled"`, "delivery=1", "the lock is lost")
		w.logged("level=DEBUG", "msg=settled", "delivery=2", "disposition=complete")
	})
}

func TestOneFailedRenewalLosesNothing(t *testing.T) { // S2
	inBubble(t, func(t *testing.T, w *world) {
		w.arm(control.Rule{Do: "silence", Match: control.Match{Operation: "renew-lock"}, Times: 1})
		stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement {
			time.Sleep(12 * time.Minute)
			return message.Done()
		})
		defer stop()
		w.send("tasks", "82f3")
		if e := w.settled("82f3"); e.Delivery != 1 || e.Disposition != "completed" {
			t.Errorf("settled: %+v", e)
		}
		if n := w.count("lock-expired", nil); n != 0 {
			t.Error("the lock expired")
		}
	})
}

func TestReceivingGoesOnAfterALostConnection(t *testing.T) { // S6
	inBubble(t, func(t *testing.T, w *world) {
		got := make(chan string, 1)
		stop := w.run(w.receiver(), func(_ context.Context, d message.Delivery) message.Settlement {
			got <- d.MessageID
			return message.Done()
		})
		defer stop()
		for _, id := range []string{"one", "two", "three"} {
			w.send("tasks", id)
			if received := <-got; received != id {
				t.Errorf("received %s, want %s", received, id)
			}
			w.settled(id)
			w.cut()
		}
		if n := w.connections(); n < 3 {
			t.Errorf("%d connections", n)
		}
	})
}

func TestAMessageInHandSurvivesItsConnection(t *testing.T) { // S3, S6
	for name, c := range map[string]struct {
		slots  int
		within time.Duration
	}{
		"and a receive sees it die": {2, time.Second},
		"and nobody sees it die":    {1, 5 * time.Second}, // of the 10 that it may take
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				started, goOn := make(chan struct{}, 16), make(chan struct{})
				r := w.receiver()
				r.Slots = c.slots
				stop := w.run(r, func(context.Context, message.Delivery) message.Settlement {
					started <- struct{}{}
					<-goOn
					return message.Done()
				})
				defer stop()
				w.send("tasks", "82f3")
				<-started
				w.cut()
				time.Sleep(10 * time.Second)
				before := w.connections()
				close(goOn)
				began := time.Now()
				e := w.settled("82f3")
				if e.Disposition != "completed" || e.Delivery != 1 {
					t.Errorf("settled: %+v", e)
				}
				if took := time.Since(began); took > c.within {
					t.Errorf("settling took %v, want at most %v", took, c.within)
				}
				if n := w.connections() - before; n > 1 {
					t.Errorf("%d connections were made to settle one message", n)
				}
				stop()
				w.logged("level=DEBUG", "msg=settled", "disposition=complete")
			})
		})
	}
}

func TestALostAnswerToASettlementIsSurvived(t *testing.T) { // S3
	inBubble(t, func(t *testing.T, w *world) {
		w.arm(control.Rule{Do: "silence", When: "after", Match: control.Match{Operation: "complete"}, Times: 1})
		stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement { return message.Done() })
		defer stop()
		w.send("tasks", "one", "two")
		w.settled("one")
		if e := w.settled("two"); e.Disposition != "completed" {
			t.Errorf("settled: %+v", e)
		}
		stop()
		w.logged("level=WARN", "message=one", `msg="not settled"`)
		w.logged("level=DEBUG", "message=two", "msg=settled")
	})
}

func TestASettlementThatIsNeverAnsweredEndsAtItsBound(t *testing.T) { // S3
	inBubble(t, func(t *testing.T, w *world) {
		w.arm(control.Rule{Do: "silence", Match: control.Match{Operation: "complete"}, Times: 2})
		w.arm(control.Rule{Do: "silence", Match: control.Match{Operation: "renew-lock"}, Times: 1})
		stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement { return message.Done() })
		defer stop()
		w.send("tasks", "one")
		began := time.Now()
		w.await("lock-expired", "one", 0)
		if e := w.settled("one"); e.Delivery != 2 || time.Since(began) > 2*lock {
			t.Errorf("settled: %+v", e)
		}
		stop()
		w.logged("level=WARN", `msg="not settled"`, "delivery=1", "took=10s", "outcome unknown")
	})
}

func TestASilentLinkIsReplaced(t *testing.T) { // S6
	inBubble(t, func(t *testing.T, w *world) {
		// The first link is deaf: what is delivered by it never arrives.
		w.arm(control.Rule{Do: "silence", Match: control.Match{Operation: "deliver"}, Times: 1})
		r := w.receiver()
		r.Silence = time.Minute
		stop := w.run(r, func(context.Context, message.Delivery) message.Settlement { return message.Done() })
		defer stop()
		w.send("tasks", "82f3")
		w.send("tasks", "next")
		w.settled("next")
		stop()
		w.logged("silent link replaced")
	})
}

func TestADisabledOrMissingEntityIsWaitedFor(t *testing.T) { // S6
	for condition, remedy := range map[string]string{
		"com.microsoft:entity-disabled": "enable the entity again",
		"amqp:not-found":                "create the queue",
		"amqp:unauthorized-access":      "grant this identity the right to listen",
	} {
		t.Run(condition, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.send("tasks", "82f3")
				w.arm(control.Rule{Do: "answer", Condition: condition, Match: control.Match{Operation: "attach"}, Times: 5})
				stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement { return message.Done() })
				defer stop()
				began := time.Now()
				w.settled("82f3")
				if took := time.Since(began); took < time.Second || took > time.Minute {
					t.Errorf("received after %v", took)
				}
				stop()
				w.logged("level=WARN", "not receiving", "failures=1", remedy)
				w.logged("level=DEBUG", "not receiving", "failures=5", remedy)
				w.loggedTimes(1, "level=WARN")
				w.loggedTimes(1, `msg="receiving again"`, "level=INFO", "after=")
			})
		})
	}
}

func TestAReceiverTellsWhetherItReceives(t *testing.T) { // S8
	inBubble(t, func(t *testing.T, w *world) {
		r := w.receiver()
		r.Attachment = &Attachment{}
		if r.Attachment.Check(t.Context()) == nil {
			t.Error("it receives before it has begun")
		}
		stop := w.run(r, func(context.Context, message.Delivery) message.Settlement { return message.Done() })
		w.send("tasks", "82f3")
		w.settled("82f3")
		if err := r.Attachment.Check(t.Context()); err != nil {
			t.Errorf("it has received: %v", err)
		}
		w.unreachable()
		time.Sleep(time.Minute) // of the bubble
		if r.Attachment.Check(t.Context()) == nil {
			t.Error("nobody answers, and it receives")
		}
		w.reachable()
		w.send("tasks", "82f4")
		w.settled("82f4")
		if err := r.Attachment.Check(t.Context()); err != nil {
			t.Errorf("it receives again: %v", err)
		}
		stop()
		if r.Attachment.Check(t.Context()) == nil {
			t.Error("it has ended, and receives")
		}
	})
}
