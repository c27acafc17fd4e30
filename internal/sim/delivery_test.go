package sim

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

const letter = `{"executionId":"82f3","type":"letter.print","payload":{"to":"Ada"}}`

// Both kinds of task, for stories whose end is the same: one call, one effect.
var kinds = map[string]struct{ request, path string }{
	"keyed":   {customer, "/customers"},
	"keyless": {letter, "/letters"},
}

// again is a delivery that the broker has counted another before.
func again(e control.Event) bool {
	return e.Kind == "delivered" && e.Entity == message.Tasks && e.Delivery > 1
}

func expired(e control.Event) bool { return e.Kind == "lock-expired" && e.Entity == message.Tasks }

// The last arrow to the broker fails: it was applied and the answer is lost, or it
// was not applied and the message comes again. The claim has the answer.
func TestALostSettlementIsMadeGoodByTheClaim(t *testing.T) { // S3 C2 E1
	for kind, k := range kinds {
		for when, deliveries := range map[string]int{"after": 1, "before": 2} {
			t.Run(kind+", lost "+when+" it was applied", func(t *testing.T) {
				story(t, func(t *testing.T, w *world) {
					w.orchestrator()
					w.worker("worker-1")
					w.arm(control.Rule{Name: "settlement", When: when, Do: "silence", Times: 2, Match: control.Match{
						Service: "servicebus", Operation: "complete", Entity: message.Tasks, Client: "worker-1",
					}})
					w.submit(k.request)
					w.until("the transition", transitionOf("82f3"))
					time.Sleep(3 * lock)
					synctest.Wait()
					w.wantCount(deliveries, "a delivery", onBroker("delivered", message.Tasks, "82f3"))
					w.wantCount(deliveries, "the event told", onBroker("enqueued", subscription, "82f3/completed"))
					w.wantCount(1, "a transition", transitionOf("82f3"))
					w.wantLedger(k.path, 1, 1)
					w.wantCompleted("82f3")
				})
			})
		}
	}
}

// The same task in two messages, in two slots of one process.
func TestOneProcessDoesNotRunATaskTwiceAtOnce(t *testing.T) { // C1 W3
	for kind, k := range kinds {
		t.Run(kind, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				w.orchestrator()
				w.worker("worker-1")
				w.arm(control.Rule{Name: "slow-call", Match: control.Match{Service: "downstream"}, When: "after", Do: "delay", Delay: control.Duration(15 * time.Second)})
				w.submit(k.request)
				call := w.until("the call", func(e control.Event) bool { return e.Kind == "call" })
				copied, err := w.taskOf("82f3").Message(message.CopyMessageID("82f3", "another"), time.Now())
				w.send(message.Tasks, copied, err)
				second := w.after(call.Seq, "the second is delivered meanwhile", by("worker-1", onBroker("delivered", message.Tasks, copied.ID)))
				first := w.until("the first is settled", onBroker("settled", message.Tasks, "82f3"))
				if first.Seq < second.Seq {
					t.Error("they were not there at the same time")
				}
				time.Sleep(3 * lock) // whatever is put off comes, and is told how it ended
				synctest.Wait()
				w.wantLedger(k.path, 1, 1)
				w.wantCount(0, "a delivery that counted", again)
				w.wantCount(1, "a transition", transitionOf("82f3"))
				if c := w.claim("82f3"); c.Fence != 1 || c.Starts != 1 {
					t.Errorf("claim: fence %d after %d starts, want 1 and 1", c.Fence, c.Starts)
				}
				w.wantCompleted("82f3")
			})
		})
	}
}

// The copy for a later try is in the queue, and its worker dies before the
// original is settled: two messages, one claim.
func TestACopyBesideItsUnsettledOriginalIsOneTask(t *testing.T) { // S4 C2 E1
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		w.arm(control.Rule{Name: "away", Match: control.Match{Service: "downstream"}, Do: "answer", Status: http.StatusServiceUnavailable, Times: 1})
		w.arm(control.Rule{Name: "settlement", Do: "hold", Match: control.Match{Service: "servicebus", Operation: "complete", Entity: message.Tasks, Client: "worker-1"}})
		w.submit(customer)
		w.until("worker 1 settles the original", reached("settlement"))
		w.hub.Isolate("worker-1")
		w.worker("worker-2")
		done := w.until("the transition", transitionOf("82f3"))
		original := w.after(done.Seq, "the original comes again", func(e control.Event) bool { return again(e) && e.Key == "82f3" })
		w.after(original.Seq, "and is settled", onBroker("settled", message.Tasks, "82f3"))
		synctest.Wait()
		w.wantLedger("/customers", 2, 1) // the 503 was a call without an effect
		w.wantCount(1, "a transition", transitionOf("82f3"))
		w.wantCompleted("82f3")
	})
}

// A relay cannot know whether its message arrived, and the broker forgets ids
// after a while. What was sent twice is there twice then, beside each other or one
// after the other.
func TestARelaysSecondSendingAfterTheDuplicateWindowIsOneTask(t *testing.T) { // C1 C2 E1
	const window = 5 * time.Minute
	for kind, k := range kinds {
		t.Run(kind+", while the first waits", func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				w.orchestrator()
				w.submit(k.request)
				same := w.taskOf("82f3")
				time.Sleep(window + time.Second)
				w.resend(same)
				w.worker("worker-1")
				w.worker("worker-2")
				w.until("the transition", transitionOf("82f3"))
				time.Sleep(3 * lock)
				synctest.Wait()
				w.wantCount(2, "a message", onBroker("enqueued", message.Tasks, "82f3"))
				w.wantLedger(k.path, 1, 1)
				w.wantCount(0, "a delivery that counted", again)
				w.wantCount(1, "a transition", transitionOf("82f3"))
				w.wantCompleted("82f3")
			})
		})
		t.Run(kind+", when the first is done", func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				w.orchestrator()
				w.submit(k.request)
				same := w.taskOf("82f3") // as the relay has read it
				w.worker("worker-1")
				w.until("the transition", transitionOf("82f3"))
				time.Sleep(window + time.Second)
				from := w.hub.Last()
				w.resend(same)
				w.after(from, "the second is settled", onBroker("settled", message.Tasks, "82f3"))
				told := w.after(from, "it is told how it ended", onBroker("enqueued", subscription, "82f3/completed"))
				w.after(told.Seq, "which is no news", onBroker("settled", subscription, "82f3/completed"))
				w.wantLedger(k.path, 1, 1)
				w.wantCount(1, "a transition", transitionOf("82f3"))
				w.wantCompleted("82f3")
			})
		})
	}
}

// resend sends a task again as the relay does: the same message in every way.
func (w *world) resend(t message.Task) {
	w.t.Helper()
	m, err := t.Message(message.TaskMessageID(t.ExecutionID, t.Run), time.Now())
	w.send(message.Tasks, m, err)
}

// A task whose call kills its worker, told by isolation: nothing of a dead worker
// runs. What the claim has counted ends it.
func TestATaskThatKillsItsWorkersEndsAfterItsStarts(t *testing.T) { // C8 D1
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.submit(customer)
		const attempts = 8 // of the wiring
		for n := range attempts {
			id := string(rune('a' + n))
			w.arm(control.Rule{Name: "call-of-" + id, Match: control.Match{Service: "downstream", Client: id}, Do: "hold"})
			w.worker(id)
			w.until("the call of "+id, reached("call-of-"+id))
			w.hub.Isolate(id)
		}
		w.worker("survivor")
		dead := w.until("the dead letter", func(e control.Event) bool {
			return e.Kind == "dead-lettered" && e.Entity == message.Tasks && e.CorrelationID == "82f3"
		})
		told := w.until("TaskFailed", func(e control.Event) bool { return e.Kind == "enqueued" && e.Subject == message.TypeFailed })
		failed := w.until("FAILED", func(e control.Event) bool {
			return request("survivor", "claims", "replace", http.StatusOK)(e) && e.BodyStatus == "FAILED"
		})
		if dead.Reason != claim.AttemptsExhausted || failed.Seq > told.Seq || told.Seq > dead.Seq {
			t.Errorf("%s; FAILED, TaskFailed and the dead letter are events %d, %d and %d", dead.Reason, failed.Seq, told.Seq, dead.Seq)
		}
		w.wantCount(attempts, "a call", func(e control.Event) bool { return e.Kind == "call" })
	})
}
