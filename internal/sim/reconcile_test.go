package sim

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"
)

// consume has the test itself receive, until stop: what it does to messages is what
// people, other programs and the broker do to them.
func (w *world) consume(from servicebus.Receiver, as message.Settlement) (stop func()) {
	from.Client, from.Slots, from.LockDuration, from.Log = w.bus, 1, lock, w.log("test")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- from.Run(ctx, func(context.Context, message.Delivery) message.Settlement { return as })
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	}
}

var (
	tasks  = servicebus.Receiver{Queue: message.Tasks}
	events = servicebus.Receiver{Topic: message.TaskEvents, Subscription: message.Orchestrator}
)

// lose has the task's message vanish, as a purge does.
func (w *world) lose(id string) {
	w.t.Helper()
	from := w.hub.Last()
	stop := w.consume(tasks, message.Done())
	w.after(from, "the message is lost", func(e control.Event) bool {
		return onBroker("settled", message.Tasks, id)(e) && e.Client == "test"
	})
	stop()
}

// giveUp has the broker count the task's deliveries to their end.
func (w *world) giveUp(id string) {
	w.t.Helper()
	stop := w.consume(tasks, message.Retry())
	dead := w.until("the broker gives the message up", onBroker("dead-lettered", message.Tasks, id))
	if dead.Reason != "MaxDeliveryCountExceeded" {
		w.t.Errorf("dead-lettered for %q", dead.Reason)
	}
	stop()
}

func copied(id string) func(control.Event) bool {
	return func(e control.Event) bool {
		return e.Kind == "enqueued" && e.Entity == message.Tasks && strings.HasPrefix(e.Key, id+"/copy/") && strings.HasPrefix(e.Client, "orchestrator")
	}
}

func told(e control.Event) bool { return e.Kind == "enqueued" && e.Entity == subscription }

// Its worker has died and its message with it: nothing is left but the execution.
func TestATaskWhoseMessageIsLostIsSentAgainAndDoneOnce(t *testing.T) { // E5 C3
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.orchestratorAs("orchestrator-2", true) // and both look after it
		w.worker("worker-1")
		w.arm(control.Rule{Name: "completion", Match: completionOf("worker-1"), Do: "hold"})
		w.submit(customer)
		w.until("worker 1 records its result", reached("completion"))
		w.hub.Isolate("worker-1")
		w.lose("82f3")
		w.worker("worker-2")
		again := w.until("it is sent again", copied("82f3"))
		w.after(again.Seq, "the transition", transitionOf("82f3"))
		time.Sleep(2 * time.Hour) // nothing more comes of it
		synctest.Wait()
		w.wantCount(1, "a re-dispatch", copied("82f3"))
		w.wantLedger("/customers", 2, 1) // asked twice with one key, done once
		w.wantCount(1, "a transition", transitionOf("82f3"))
		w.wantCompleted("82f3")
		if c := w.claim("82f3"); c.Fence != 2 || c.Status != claim.Completed {
			t.Errorf("the claim is %s, fence %d", c.Status, c.Fence)
		}
	})
}

// The work is done, and nobody was told: the broker has given the message up before.
func TestADeadLetterOfWorkThatIsDoneCompletesItsExecution(t *testing.T) { // E4 E1
	for kind, k := range kinds {
		t.Run(kind, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				w.orchestrator()
				w.orchestratorAs("orchestrator-2", true)
				w.worker("worker-1")
				w.arm(control.Rule{Name: "event", Do: "hold", Match: control.Match{Service: "servicebus", Operation: "send", Entity: message.TaskEvents, Client: "worker-1"}})
				w.submit(k.request)
				w.until("worker 1 tells", reached("event"))
				w.hub.Isolate("worker-1")
				w.giveUp("82f3")
				given := time.Now()
				w.until("the transition", transitionOf("82f3"))
				if took := time.Since(given); took > reconcilePeriod {
					t.Errorf("it took %v, want no longer than a round of %v", took, reconcilePeriod)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				w.wantCount(0, "an event", told)
				w.wantCount(1, "a transition", transitionOf("82f3"))
				w.wantCount(0, "a re-dispatch", copied("82f3"))
				w.wantLedger(k.path, 1, 1)
				w.wantCompleted("82f3")
			})
		})
	}
}

// A call without a key was on its way when its worker died. Nobody will ever know.
func TestAKeylessCallThatNobodyCanTellOfFailsOnce(t *testing.T) { // E4 E5 W1
	for _, lost := range []string{"given up by the broker", "lost"} {
		t.Run(lost, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				w.orchestrator()
				w.orchestratorAs("orchestrator-2", true)
				w.worker("worker-1")
				w.arm(control.Rule{Name: "call", Do: "hold", When: "after", Match: control.Match{Service: "downstream", Client: "worker-1"}})
				w.submit(letter)
				w.until("the call", reached("call"))
				w.hub.Isolate("worker-1")
				if lost == "lost" {
					w.lose("82f3")
				} else {
					w.giveUp("82f3")
				}
				w.worker("worker-2")
				w.until("the transition", transitionOf("82f3"))
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				s := w.execution("82f3").Execution
				if s.Status != execution.Failed || s.Failure.Reason != message.OutcomeUnknown || s.Failure.Outcome != claim.EffectUnknown || len(s.History) != 2 {
					t.Errorf("the execution is %s, %+v, %+v", s.Status, s.Failure, s.History)
				}
				if c := w.claim("82f3"); c.Status != claim.Failed || c.Fence != 2 {
					t.Errorf("the claim is %s, fence %d", c.Status, c.Fence)
				}
				w.wantCount(1, "a transition", transitionOf("82f3"))
				w.wantCount(0, "a re-dispatch", copied("82f3"))
				w.wantLedger("/letters", 1, 1)
			})
		})
	}
}

// Nobody worked for so long that the task was sent again; and then both are there.
func TestAReDispatchBesideALivingOriginalIsOneTask(t *testing.T) { // E5 C1 E1
	for kind, k := range kinds {
		t.Run(kind, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				w.orchestrator()
				w.orchestratorAs("orchestrator-2", true)
				w.submit(k.request)
				w.until("it is sent again", copied("82f3"))
				w.arm(control.Rule{Name: "slow-call", Match: control.Match{Service: "downstream"}, When: "after", Do: "delay", Delay: control.Duration(15 * time.Second)})
				w.worker("worker-1")
				w.worker("worker-2")
				w.until("the transition", transitionOf("82f3"))
				time.Sleep(3 * time.Hour)
				synctest.Wait()
				w.wantCount(1, "a re-dispatch", copied("82f3"))
				w.wantLedger(k.path, 1, 1)
				w.wantCount(1, "a transition", transitionOf("82f3"))
				w.wantCompleted("82f3")
			})
		})
	}
}

// An operator begins another run, and a message of the last one is still about.
func TestAReplayBesideAnOldRedeliveryIsOneEffect(t *testing.T) { // E7 E3 C10
	for kind, k := range kinds {
		t.Run(kind, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				w.orchestrator()
				w.submit(k.request)
				old := w.taskOf("82f3")
				w.giveUp("82f3")
				w.until("the failure", transitionOf("82f3"))
				s := w.execution("82f3")
				if s.Execution.Status != execution.Failed || s.Execution.Failure.Reason != "MaxDeliveryCountExceeded" {
					t.Fatalf("the execution is %s, %+v", s.Execution.Status, s.Execution.Failure)
				}
				late, err := old.Message(message.CopyMessageID("82f3", "late"), time.Now())
				w.send(message.Tasks, late, err)
				change, _, err := execution.Replay(s.Execution, execution.Operator{Name: "ada", Reason: "the workers are back"}, false, 0, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				entry := execution.OutboxEntry("82f3", message.TaskMessageID("82f3", 2), 2)
				if _, err := w.view.Executions().Reopen(t.Context(), "82f3", change, entry, s.ETag); err != nil {
					t.Fatal(err)
				}
				w.worker("worker-1")
				w.worker("worker-2")
				w.until("the late one is settled", onBroker("settled", message.Tasks, late.ID))
				w.until("the second run is completed", onBroker("enqueued", subscription, "82f3/completed"))
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				w.wantLedger(k.path, 1, 1)
				w.wantCompleted("82f3")
				if e := w.execution("82f3").Execution; e.Run != 2 || e.Result == nil {
					t.Errorf("run %d, %+v", e.Run, e.Result)
				}
				if c := w.claim("82f3"); c.Run != 2 || c.Status != claim.Completed {
					t.Errorf("the claim is %s of run %d", c.Status, c.Run)
				}
			})
		})
	}
}

// The completion was told, and its message given up: no orchestrator has seen it.
func TestADeadLetteredEventIsMadeGoodByTheClaim(t *testing.T) { // E4 E5
	story(t, func(t *testing.T, w *world) {
		w.orchestratorAs("orchestrator", false)
		w.orchestratorAs("orchestrator-2", false)
		w.worker("worker-1")
		w.submit(customer)
		stop := w.consume(events, message.Reject("Broken", "by a version that was wrong"))
		w.until("the event is given up", onBroker("dead-lettered", subscription, "82f3/completed"))
		stop()
		w.until("the transition", transitionOf("82f3"))
		time.Sleep(time.Hour)
		synctest.Wait()
		w.wantCount(1, "a transition", transitionOf("82f3"))
		w.wantCount(0, "a re-dispatch", copied("82f3"))
		w.wantLedger("/customers", 1, 1)
		w.wantCompleted("82f3")
	})
}
