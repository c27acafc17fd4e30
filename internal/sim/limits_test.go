package sim

import (
	"net/http"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

func TestABodyThatDoesNotParseIsDeadLetteredAtOnce(t *testing.T) { // M1
	story(t, func(t *testing.T, w *world) {
		w.worker("worker-1")
		w.send(message.Tasks, message.Message{ID: "junk", CorrelationID: "junk", Body: []byte(`{"specversion":"1.0"`)}, nil)
		dead := w.until("the dead letter", onBroker("dead-lettered", message.Tasks, "junk"))
		if dead.Reason != "InvalidMessage" {
			t.Errorf("reason %q", dead.Reason)
		}
		w.wantCount(1, "a delivery", onBroker("delivered", message.Tasks, "junk"))
		w.wantCount(0, "a claim", by("worker-1", func(e control.Event) bool { return e.Entity == "claims" }))
	})
}

// A rolling deploy: the type is new to this worker, another may know it.
func TestAnUnknownTaskTypeIsPutOffAndNotFailed(t *testing.T) { // W3
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		w.submit(`{"executionId":"82f5","type":"invoice.send","payload":{}}`)
		first := w.until("it is put off", func(e control.Event) bool { return e.Kind == "scheduled" && e.CorrelationID == "82f5" })
		if wait := first.Until.Sub(first.At); wait < 40*time.Second || wait > 80*time.Second {
			t.Errorf("put off by %v, want about a minute", wait)
		}
		w.after(first.Seq, "and again", func(e control.Event) bool { return e.Kind == "scheduled" && e.CorrelationID == "82f5" })
		w.wantCount(0, "a dead letter", func(e control.Event) bool { return e.Kind == "dead-lettered" })
		w.wantCount(0, "a delivery that counted", func(e control.Event) bool { return e.Kind == "delivered" && e.Delivery > 1 })
	})
}

func TestTheSameIDWithAnotherPayloadIsRefusedAndTheInnocentGoesOn(t *testing.T) { // C7 D1
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		w.submit(customer)
		w.until("the transition", transitionOf("82f3"))
		other := w.taskOf("82f3")
		other.Payload = []byte(`{"name":"Bob"}`)
		m, err := other.Message(message.CopyMessageID("82f3", "other"), time.Now())
		w.send(message.Tasks, m, err)
		dead := w.until("the dead letter", onBroker("dead-lettered", message.Tasks, m.ID))
		if dead.Reason != claim.IdempotencyKeyReused {
			t.Errorf("reason %q, want %s", dead.Reason, claim.IdempotencyKeyReused)
		}
		w.wantCount(0, "a failure told", func(e control.Event) bool { return e.Kind == "enqueued" && e.Subject == message.TypeFailed })
		w.wantLedger("/customers", 1, 1)
		w.wantCompleted("82f3")
	})
}

func TestATaskPastNotAfterIsNotRun(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.submit(customer)
		task := w.taskOf("82f3")
		task.ExecutionID, task.NotAfter = "late", time.Now().Add(time.Minute)
		m, err := task.Message("late", time.Now())
		w.send(message.Tasks, m, err)
		time.Sleep(2 * time.Minute)
		w.worker("worker-1")
		dead := w.until("the dead letter", onBroker("dead-lettered", message.Tasks, "late"))
		if dead.Reason != claim.TooOld {
			t.Errorf("reason %q, want %s", dead.Reason, claim.TooOld)
		}
		w.wantCount(0, "a claim of it", func(e control.Event) bool {
			return e.Entity == "claims" && e.Key == "late" && e.Operation != "read"
		})
		w.wantCount(0, "a call for it", func(e control.Event) bool { return e.Kind == "call" && e.Key == "late" })
	})
}

// The downstream is away for an hour: nothing is lost, nothing is dead-lettered,
// no delivery count is spent.
func TestAnOutageOfTheDownstreamIsWaitedOut(t *testing.T) { // W3 C8
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		w.arm(control.Rule{Name: "outage", Match: control.Match{Service: "downstream"}, Do: "answer", Status: http.StatusServiceUnavailable})
		w.submit(customer)
		time.Sleep(time.Hour)
		w.disarm("outage")
		w.until("the transition", transitionOf("82f3"))
		w.wantCompleted("82f3")
		w.wantCount(0, "a dead letter", func(e control.Event) bool { return e.Kind == "dead-lettered" })
		w.wantCount(0, "a delivery that counted", func(e control.Event) bool { return e.Kind == "delivered" && e.Delivery > 1 })
		if c := w.claim("82f3"); c.Answered != 0 || c.Starts != 1 {
			t.Errorf("claim: %d answers counted and %d starts, want 0 and 1", c.Answered, c.Starts)
		}
	})
}

// Without a key there is no second call, so there is no waiting either: the first
// failure of any kind is final, once, and told.
func TestAnOutageEndsATaskWithoutAKeyAtItsFirstFailure(t *testing.T) { // D1 W1
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		w.arm(control.Rule{Match: control.Match{Service: "downstream"}, Do: "answer", Status: http.StatusServiceUnavailable})
		w.submit(`{"executionId":"82f4","type":"letter.print","payload":{}}`)
		dead := w.until("the dead letter", onBroker("dead-lettered", message.Tasks, "82f4"))
		if dead.Reason != claim.OutcomeUnknown {
			t.Errorf("reason %q", dead.Reason)
		}
		told := w.until("the failure is told", func(e control.Event) bool { return e.Kind == "enqueued" && e.Subject == message.TypeFailed })
		if told.Seq > dead.Seq {
			t.Error("dead-lettered before it was told")
		}
		w.wantLedger("/letters", 1, 0)
	})
}

// Longer without work than a token lives (two hours): links are kept or replaced,
// tokens renewed, and the next task is done at once.
func TestAnIdleWorkerIsReadyAfterHours(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		time.Sleep(150 * time.Minute)
		start := time.Now()
		w.submit(customer)
		w.until("the transition", transitionOf("82f3"))
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
