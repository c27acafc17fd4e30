package sim

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// story runs a test in a bubble, in a world of its own.
func story(t *testing.T, tell func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		tell(t, w)
	})
}

// submit creates an execution over the API.
func (w *world) submit(body string) *http.Response {
	w.t.Helper()
	return w.submitIn(w.t.Context(), body)
}

func (w *world) submitIn(ctx context.Context, body string) *http.Response {
	w.t.Helper()
	recorder := httptest.NewRecorder()
	w.api.API().ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/executions", strings.NewReader(body)))
	response := recorder.Result()
	if response.StatusCode != http.StatusCreated {
		answer, _ := io.ReadAll(response.Body)
		w.t.Fatalf("POST /v1/executions: %s %s", response.Status, answer)
	}
	return response
}

const customer = `{"executionId":"82f3","type":"customer.create","payload":{"name":"Ada"}}`

// The diagram with its own numbers.
func TestTheClaimPassesOnWhenItsOwnerDiesBeforeRecordingTheResult(t *testing.T) { // C1 C3 C6 E1
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		w.arm(control.Rule{Name: "completion", Match: completionOf("worker-1"), Do: "hold"})
		w.submit(customer)
		w.until("worker 1 records its result", reached("completion"))
		w.hub.Isolate("worker-1") // arrow 5
		died := time.Now()
		w.worker("worker-2")
		w.until("the transition", transitionOf("82f3"))

		if took := time.Since(died); took < lock-time.Minute || took > lock+20*time.Second {
			t.Errorf("worker 2 ended it after %v, want about the lock's %v", took, lock)
		}
		w.until("the redelivery", func(e control.Event) bool {
			return by("worker-2", onBroker("delivered", message.Tasks, "82f3"))(e) && e.Delivery == 2
		})
		w.wantLedger("/customers", 2, 1) // asked twice with one key, done once
		c := w.claim("82f3")
		if c.Status != claim.Completed || c.Fence != 2 || !strings.HasPrefix(c.Owner, "worker-2/") || len(c.Attempts) != 2 {
			t.Errorf("claim: %s, fence %d, owner %s, %d attempts", c.Status, c.Fence, c.Owner, len(c.Attempts))
		}
		w.wantCount(1, "a completion applied", func(e control.Event) bool {
			return e.Entity == "claims" && e.Operation == "replace" && e.Status == http.StatusOK && e.BodyStatus == "COMPLETED"
		})
		w.wantCompleted("82f3")
	})
}

// A zombie: its completion was on the way when it was cut off, and arrives after
// another has taken over.
func TestAZombiesWriteFailsAndAnnouncesNothing(t *testing.T) { // C4 C9
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		w.arm(control.Rule{Name: "late-completion", Match: completionOf("worker-1"), Do: "hold", Late: true, Times: 1})
		w.submit(customer)
		w.until("worker 1 records its result", reached("late-completion"))
		w.hub.Isolate("worker-1")
		w.worker("worker-2")
		w.until("the transition", transitionOf("82f3"))
		before := w.claim("82f3")

		w.release("late-completion", "go")

		w.until("the late write is refused", func(e control.Event) bool {
			return request("worker-1", "claims", "replace", http.StatusPreconditionFailed)(e) && e.BodyStatus == "COMPLETED"
		})
		w.hub.Rejoin("worker-1")
		time.Sleep(10 * time.Minute) // whatever it still wants to do
		synctest.Wait()

		after := w.claim("82f3")
		if after.W != before.W || after.Fence != 2 || after.Result.Digest != before.Result.Digest {
			t.Errorf("the claim changed: %+v, was %+v", after, before)
		}
		w.wantCount(0, "an event by worker 1", by("worker-1", onBroker("enqueued", message.TaskEvents, "82f3/completed")))
		w.wantLedger("/customers", 2, 1)
		w.wantCompleted("82f3")
	})
}

// A copy beside an unsettled original: the same task in two messages at once.
func TestADuplicateWaitsWhileTheLeaseStands(t *testing.T) { // C1 W3
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		w.arm(control.Rule{Name: "slow-call", Match: control.Match{Service: "downstream", Client: "worker-1"}, When: "after", Do: "delay", Delay: control.Duration(15 * time.Second), Times: 1})
		w.submit(customer)
		call := w.until("the call", func(e control.Event) bool { return e.Kind == "call" })

		w.worker("worker-2")
		task, err := w.taskOf("82f3").Message(message.CopyMessageID("82f3", "another"), time.Now())
		w.send(message.Tasks, task, err)
		delivered := w.after(call.Seq, "the duplicate is delivered", func(e control.Event) bool { return e.Kind == "delivered" && e.Key == task.ID })
		w.after(delivered.Seq, "the duplicate is put off", func(e control.Event) bool {
			return e.Kind == "scheduled" && e.Entity == message.Tasks && e.CorrelationID == "82f3"
		})
		w.until("the duplicate is settled", func(e control.Event) bool {
			return e.Kind == "settled" && e.Key == task.ID && e.Disposition == "completed"
		})
		w.until("the transition", transitionOf("82f3"))
		w.wantLedger("/customers", 1, 1) // the duplicate has called nobody

		time.Sleep(15 * time.Minute) // the copy comes, finds COMPLETED and announces it again
		synctest.Wait()
		w.wantLedger("/customers", 1, 1)
		w.wantCount(1, "a transition", transitionOf("82f3"))
		w.wantCount(0, "a delivery that counted", again)
		w.wantCompleted("82f3")
	})
}

// taskOf is the task of an execution as the orchestrator sends it.
func (w *world) taskOf(id string) message.Task {
	s := w.execution(id)
	return s.Execution.Task(s.Execution.Run, s.ETag)
}

func TestASecondCompletionIsANoOpAndItsMessageIsSettled(t *testing.T) { // E1
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		ticket := w.submit(customer).Header.Get("ETag")
		first := w.until("the transition", transitionOf("82f3"))
		w.after(first.Seq, "the first completion is settled", onBroker("settled", subscription, "82f3/completed"))
		before := w.execution("82f3")

		c := w.claim("82f3")
		m, err := message.Completed{
			ExecutionID: c.ID, Run: c.Run, Fence: c.Fence, ResultRef: c.Result.Ref, ResultDigest: c.Result.Digest, ExecutionETag: ticket,
		}.Message(time.Now())
		seq := w.hub.Last()
		w.send(message.TaskEvents, m, err)
		settled := w.after(seq, "the second completion is settled", onBroker("settled", subscription, "82f3/completed"))
		if settled.Disposition != "completed" {
			t.Errorf("settled as %q, want completed", settled.Disposition)
		}
		if after := w.execution("82f3"); after.ETag != before.ETag {
			t.Errorf("the execution was written: version %s, was %s", after.ETag, before.ETag)
		}
		w.wantCount(1, "a transition", transitionOf("82f3"))
		w.wantCompleted("82f3")
	})
}

// The note under the diagram.
func TestATaskWithoutAKeyFailsOnceAndIsDeadLettered(t *testing.T) { // D1 W1
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		w.submit(`{"executionId":"82f4","type":"letter.print","payload":{"to":"Ada","fail":500}}`)
		dead := w.until("the dead letter", onBroker("dead-lettered", message.Tasks, "82f4"))
		if dead.Reason != claim.OutcomeUnknown {
			t.Errorf("dead-lettered for %q, want %s", dead.Reason, claim.OutcomeUnknown)
		}
		started := w.until("the claim says that the call starts", request("worker-1", "claims", "replace", http.StatusOK))
		call := w.until("the call", func(e control.Event) bool { return e.Kind == "call" && e.Path == "/letters" })
		failed := w.until("the claim is FAILED", func(e control.Event) bool {
			return request("worker-1", "claims", "replace", http.StatusOK)(e) && e.BodyStatus == "FAILED"
		})
		event := w.until("TaskFailed", onBroker("enqueued", message.TaskEvents, "82f4/failed/1"))
		if order := []uint64{started.Seq, call.Seq, failed.Seq, event.Seq, dead.Seq}; !slices.IsSorted(order) {
			t.Errorf("call started, call, claim FAILED, TaskFailed, dead letter are events %v, want them in this order", order)
		}
		w.until("the execution fails", transitionOf("82f4"))
		if e := w.execution("82f4").Execution; e.Status != execution.Failed || e.Failure.Outcome != claim.EffectUnknown {
			t.Errorf("execution: %s, %+v", e.Status, e.Failure)
		}
		time.Sleep(time.Hour)
		w.wantLedger("/letters", 1, 0)
	})
}

func TestATaskWithoutAKeyThatSucceedsIsDoneOnce(t *testing.T) { // W1
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		w.submit(`{"executionId":"82f4","type":"letter.print","payload":{"to":"Ada"}}`)
		w.until("the transition", transitionOf("82f4"))
		w.wantLedger("/letters", 1, 1)
		w.wantCompleted("82f4")
	})
}

// Several tasks, keyed and keyless, that end together: each has its effect once,
// and the whole ends once.
func TestAnOrchestrationEndsWithItsTasks(t *testing.T) { // E1 E6
	story(t, func(t *testing.T, w *world) {
		w.orchestrator()
		w.worker("worker-1")
		w.worker("worker-2")
		w.submit(`{"executionId":"82f3","tasks":[{"type":"customer.create","payload":{"name":"Ada"}},{"type":"letter.print"},{"type":"customer.create","payload":{"name":"Bob"}}]}`)
		w.until("the end of all", func(e control.Event) bool {
			return e.Operation == "patch" && e.Key == "82f3" && e.BodyStatus == string(execution.Completed) && e.Status < 300
		})
		w.wantLedger("/customers", 2, 2)
		w.wantLedger("/letters", 1, 1)
		for _, id := range []string{"82f3", "82f3:0", "82f3:1", "82f3:2"} {
			if s := w.execution(id).Execution.Status; s != execution.Completed {
				t.Errorf("%s is %s", id, s)
			}
		}
	})
}
