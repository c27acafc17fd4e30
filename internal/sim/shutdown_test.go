package sim

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// Calls may take so long that a lease is renewed in their course.
const patientHandlers = `
- type: customer.create
  request: { method: POST, url: "http://crm.example/customers", timeout: 200s }
  idempotency: { honoured: true, window: 24h }
  result: /id
- type: letter.print
  request: { method: POST, url: "http://print.example/letters", timeout: 200s }
  idempotency: { honoured: false }
`

// patient starts a worker whose calls may take long. stop is its SIGTERM, and
// returns when it has ended.
func (w *world) patient(id string, grace time.Duration) (stop func()) {
	w.t.Helper()
	return w.workerWith(id, patientHandlers, 1, grace)
}

// slow has the downstream answer a worker's calls after so long.
func (w *world) slow(client string, d time.Duration) {
	w.arm(control.Rule{Name: "slow", Match: control.Match{Service: "downstream", Client: client}, When: "after", Do: "delay", Delay: control.Duration(d)})
}

// The renewal is on its way when the process is asked to end. The task ends within
// the grace as if nothing had been.
func TestARenewalInFlightAtSIGTERMDisturbsNothing(t *testing.T) { // C5 C9 S5
	for kind, k := range kinds {
		for _, action := range []string{"go", "drop"} {
			t.Run(kind+", "+action, func(t *testing.T) {
				story(t, func(t *testing.T, w *world) {
					w.orchestrator()
					stop := w.patient("worker-1", 80*time.Second)
					w.slow("worker-1", 130*time.Second)
					w.submit(k.request)
					w.until("the call", func(e control.Event) bool { return e.Kind == "call" })
					w.arm(control.Rule{Name: "renewal", Do: "hold", Times: 1, Match: control.Match{
						Service: "cosmos", Operation: "replace", Entity: "claims", Client: "worker-1", Body: map[string]any{"/status": "IN_PROGRESS"},
					}})
					w.until("the renewal", reached("renewal"))
					ended := make(chan struct{})
					go func() { defer close(ended); stop() }()
					time.Sleep(5 * time.Second)
					w.release("renewal", action)
					<-ended
					w.until("the transition", transitionOf("82f3"))
					w.worker("worker-2")
					time.Sleep(3 * lock)
					synctest.Wait()
					w.wantCount(0, "a delivery that counted", again)
					w.wantCount(1, "a delivery", onBroker("delivered", message.Tasks, "82f3"))
					w.wantLedger(k.path, 1, 1)
					if c := w.claim("82f3"); c.Fence != 1 {
						t.Errorf("claim: fence %d, want 1", c.Fence)
					}
					w.wantCompleted("82f3")
				})
			})
		}
	}
}

// The call outlives the grace. It is cut off; the claim is given back after the
// handler has returned, then the message put off, then the process ends. Whoever
// comes next waits for no lock and no lease.
func TestACallThatOutlivesTheGraceIsGivenBackForTheNextWorker(t *testing.T) { // S5 C4
	story(t, func(t *testing.T, w *world) {
		const grace = 30 * time.Second
		w.orchestrator()
		stop := w.patient("worker-1", grace)
		w.slow("worker-1", 150*time.Second)
		w.submit(customer)
		call := w.until("the call", func(e control.Event) bool { return e.Kind == "call" })
		asked := time.Now()
		stop()
		if took := time.Since(asked); took < grace || took > grace+10*time.Second {
			t.Errorf("worker 1 ended after %v, want the grace of %v and a little", took, grace)
		}
		released := w.after(call.Seq, "the claim is given back", request("worker-1", "claims", "replace", http.StatusOK))
		copied := w.after(released.Seq, "then a copy is sent", func(e control.Event) bool { return e.Kind == "scheduled" && e.CorrelationID == "82f3" })
		w.after(copied.Seq, "then the message is settled", onBroker("settled", message.Tasks, "82f3"))
		w.worker("worker-2")
		w.until("the transition", transitionOf("82f3"))
		if took := time.Since(asked); took > grace+lock/4 {
			t.Errorf("worker 2 was done %v after the end began: it has waited for a lock or a lease", took)
		}
		w.wantCount(0, "a lock that ended", expired)
		w.wantCount(0, "a delivery that counted", again)
		w.wantLedger("/customers", 2, 1)
		if c := w.claim("82f3"); c.Fence != 2 || !strings.HasPrefix(c.Owner, "worker-2/") {
			t.Errorf("claim: fence %d, owner %s", c.Fence, c.Owner)
		}
		w.wantCompleted("82f3")
	})
}

// The same without a key: nobody knows whether it was printed, so nobody prints it
// again.
func TestALetterThatOutlivesTheGraceIsADeadLetter(t *testing.T) { // S5 W1 D1
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		stop := w.patient("worker-1", 30*time.Second)
		w.slow("worker-1", 150*time.Second)
		w.submit(letter)
		w.until("the call", func(e control.Event) bool { return e.Kind == "call" })
		stop()
		w.worker("worker-2")
		if dead := w.until("the dead letter", onBroker("dead-lettered", message.Tasks, "82f3")); dead.Reason != claim.OutcomeUnknown || dead.Client != "worker-1" {
			t.Errorf("dead-lettered as %s by %s", dead.Reason, dead.Client)
		}
		time.Sleep(3 * lock)
		w.wantCount(1, "a call", func(e control.Event) bool { return e.Kind == "call" })
	})
}

// What has not begun when the end is asked for is anybody's at once, uncounted.
func TestWhatHasNotBegunIsTheNextWorkersAtOnce(t *testing.T) { // S1 S5
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		stop := w.patient("worker-1", 80*time.Second)
		w.slow("worker-1", 60*time.Second)
		w.submit(customer)
		call := w.until("the call", func(e control.Event) bool { return e.Kind == "call" })
		ended := make(chan struct{})
		go func() { defer close(ended); stop() }()
		time.Sleep(time.Second)
		w.submit(`{"executionId":"next","type":"customer.create","payload":{}}`)
		w.worker("worker-2")
		next := w.after(call.Seq, "the transition of the next", transitionOf("next"))
		if took := next.At.Sub(call.At); took > 10*time.Second {
			t.Errorf("the next was done after %v", took)
		}
		<-ended
		w.until("the transition of the first", transitionOf("82f3"))
		w.wantCount(0, "a lock that ended", expired)
		w.wantCount(0, "a delivery that counted", again)
		w.wantLedger("/customers", 2, 2)
	})
}
