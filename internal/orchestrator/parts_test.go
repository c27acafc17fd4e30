package orchestrator_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// orchestrate makes an orchestration as the API does, up to its batch: the relay
// has to begin its parts.
func (b *bench) orchestrate(t *testing.T, id string, n int) {
	t.Helper()
	parts := make([]execution.Part, n)
	for i := range parts {
		parts[i] = execution.Part{Type: "letter.print", Payload: []byte(fmt.Sprintf(`{"page":%d}`, i))}
	}
	e, entries, err := execution.NewOrchestration(id, parts, "sha256:00", time.Now().UTC())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Store.Create(t.Context(), e, entries...); err != nil {
		t.Fatal(err)
	}
}

// several makes an orchestration of n tasks over the API, and returns its parts' ids.
func (b *bench) several(t *testing.T, n int) (ids []string) {
	t.Helper()
	tasks := strings.TrimSuffix(strings.Repeat(`{"type":"t","payload":{"a":1}},`, n), ",")
	if w := b.ask(http.MethodPost, "/v1/executions", `{"executionId":"82f3","tasks":[`+tasks+`]}`); w.Code != http.StatusCreated {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	for _, p := range b.load(t, "82f3").Execution.Tasks {
		ids = append(ids, p.ExecutionID)
	}
	return ids
}

// tasks are the tasks that were sent, by execution.
func (b *bench) tasks(t *testing.T) map[string]message.Task {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]message.Task{}
	for _, m := range b.sent {
		task, err := message.ParseTask(m.Body)
		if err != nil {
			t.Fatal(err)
		}
		all[task.ExecutionID] = task
	}
	return all
}

// unsent is the first page of the outbox entries.
func (b *bench) unsent(t *testing.T) []execution.Entry {
	t.Helper()
	entries, _, err := b.Store.Unsent(t.Context(), 0, "")
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// cancel has an operator cancel an execution.
func (b *bench) cancel(t *testing.T, id string) {
	t.Helper()
	if w := b.ask(http.MethodPost, "/v1/executions/"+id+"/cancel", `{"reason":"no more"}`, "If-Match", "*"); w.Code != http.StatusOK {
		t.Fatalf("cancel %s: %d %s", id, w.Code, w.Body)
	}
}

func TestTheRelayBeginsThePartsOfAnOrchestration(t *testing.T) { // E6
	inBubble(t, func(t *testing.T, b *bench) {
		b.orchestrate(t, "82f3", 3)
		b.relayFor(t, 2*time.Minute)
		tasks := b.tasks(t)
		for i := range 3 {
			id := fmt.Sprintf("82f3:%d", i)
			task := tasks[id]
			if task.Orchestration != "82f3" || string(task.Payload) != fmt.Sprintf(`{"page":%d}`, i) || task.ExecutionETag != string(b.load(t, id).ETag) {
				t.Errorf("%s: sent %+v", id, task)
			}
		}
		if left := b.unsent(t); len(left) > 0 || len(tasks) != 3 {
			t.Errorf("%d entries left, %d tasks", len(left), len(tasks))
		}
	})
}

func TestARequestMayAskForSeveralTasks(t *testing.T) { // O1 O2 E6
	inBubble(t, func(t *testing.T, b *bench) {
		const body = `{"executionId":"82f3","tasks":[{"type":"customer.create","payload":{"name":"Ada"}},{"type":"letter.print"}]}`
		for _, want := range []int{http.StatusCreated, http.StatusOK} {
			if w := b.ask(http.MethodPost, "/v1/executions", body); w.Code != want {
				t.Fatalf("%d: %s", w.Code, w.Body)
			}
		}
		tasks := b.tasks(t)
		if len(tasks) != 2 || len(b.sent) != 2 || tasks["82f3:0"].Type != "customer.create" || tasks["82f3:1"].Orchestration != "82f3" || len(b.unsent(t)) > 0 {
			t.Errorf("sent %+v, %d entries left", tasks, len(b.unsent(t)))
		}
		for says, wrong := range map[string]string{
			"another request":   `{"executionId":"82f3","tasks":[{"type":"letter.print"}]}`,
			"both":              `{"type":"letter.print","tasks":[{"type":"letter.print"}]}`,
			"none":              `{"tasks":[]}`,
			"a task of no type": `{"tasks":[{"payload":{}}]}`,
		} {
			if w := b.ask(http.MethodPost, "/v1/executions", wrong); w.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s: %d %s", says, w.Code, w.Body)
			}
		}
		stands := b.load(t, "82f3")
		if w := b.ask(http.MethodPost, "/v1/executions/82f3/cancel", `{"reason":"no more"}`, "If-Match", string(stands.ETag), "Content-Type", "application/json"); w.Code != http.StatusOK {
			t.Errorf("cancel: %d %s", w.Code, w.Body)
		}
		for _, id := range []string{"82f3", "82f3:0", "82f3:1"} {
			if s := b.load(t, id).Execution.Status; s != execution.Cancelled {
				t.Errorf("%s is %s", id, s)
			}
		}
	})
}

// A crash between the begin of a part and its task leaves the orchestration's entry,
// and with it the relay sends.
func TestAPartThatWasBegunAndNotSentIsSentByTheRelay(t *testing.T) { // E6
	inBubble(t, func(t *testing.T, b *bench) {
		b.failSends(message.ErrTransient)
		ids := b.several(t, 2)
		b.failSends(nil)
		b.relayFor(t, 2*time.Minute)
		for _, id := range ids {
			if task, sent := b.tasks(t)[id]; !sent || task.ExecutionETag != string(b.load(t, id).ETag) || task.Orchestration != "82f3" {
				t.Errorf("%s: %t %+v", id, sent, task)
			}
		}
		if len(b.sent) != 2 || len(b.unsent(t)) > 0 {
			t.Errorf("%d tasks, %d entries left", len(b.sent), len(b.unsent(t)))
		}
	})
}

// Whoever had the id before keeps it, and how that ends is no end of the part.
func TestAPartWhoseIDIsTakenHasFailed(t *testing.T) { // C7
	inBubble(t, func(t *testing.T, b *bench) {
		ticket := b.create(t, "82f3:1")
		ids := b.several(t, 2)
		b.deliver(t, completion(ids[1], ticket, "sha256:another"), 1)
		b.deliver(t, ending(b.tasks(t)[ids[0]], ""), 1)
		e := b.load(t, "82f3").Execution
		if e.Status != execution.Failed || e.Tasks[1].Reason != message.IdempotencyKeyReused {
			t.Errorf("the whole is %s, its parts %+v", e.Status, e.Tasks)
		}
	})
}

// Nobody can take the tasks of an orchestration that was cancelled.
func TestCancellingTheWholeCancelsItsPartsAndTheirClaims(t *testing.T) { // E8
	inBubble(t, func(t *testing.T, b *bench) {
		ids := b.several(t, 2)
		b.arm(t, control.Rule{Name: "cut-off", Match: control.Match{Operation: "patch", Key: ids[1]}, Do: "answer", Status: 403})
		b.cancel(t, "82f3")
		if s := b.load(t, ids[1]).Execution.Status; s != execution.Running {
			t.Fatalf("%s is %s", ids[1], s)
		}
		if err := b.hub.Disarm("cut-off"); err != nil {
			t.Fatal(err)
		}
		b.cancel(t, "82f3") // once more goes on
		for i, id := range ids {
			p := b.load(t, "82f3").Execution.Tasks[i]
			if s, c := b.load(t, id).Execution.Status, b.claim(t, id).Status; s != execution.Cancelled || p.Status != execution.Cancelled || c != claim.Cancelled {
				t.Errorf("%s is %s, in the whole %s, its claim %q", id, s, p.Status, c)
			}
		}
	})
}

// Somebody cancels an orchestration while its parts are being begun. One create
// decides for each of them, and none runs.
func TestACancelThatMeetsTheFanOutCancelsEveryPart(t *testing.T) { // E8 E6
	for _, when := range []string{"before", "after"} {
		t.Run("the second part is begun, "+when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.arm(t, control.Rule{Name: "slow", Match: control.Match{Operation: "batch", Key: "82f3:1"}, When: when, Do: "hold", Times: 1})
				created := make(chan int, 1)
				go func() {
					created <- b.ask(http.MethodPost, "/v1/executions", `{"executionId":"82f3","tasks":[{"type":"t"},{"type":"t"},{"type":"t"}]}`).Code
				}()
				synctest.Wait()
				b.cancel(t, "82f3")
				if err := b.hub.Release("slow", control.Release{Action: "go"}); err != nil {
					t.Fatal(err)
				}
				if code := <-created; code != http.StatusCreated {
					t.Errorf("answered %d", code)
				}
				b.relayFor(t, 2*time.Minute)
				for i, p := range b.load(t, "82f3").Execution.Tasks {
					if s := b.load(t, p.ExecutionID).Execution.Status; s != execution.Cancelled || p.Status != execution.Cancelled {
						t.Errorf("part %d is %s, in the whole %s", i, s, p.Status)
					}
					if task, sent := b.tasks(t)[p.ExecutionID]; sent && b.claim(t, p.ExecutionID).Status != claim.Cancelled {
						t.Errorf("somebody may run %+v", task)
					}
				}
				if left := b.unsent(t); len(left) > 0 {
					t.Errorf("%d entries are left", len(left))
				}
			})
		})
	}
}

// Whoever cancelled it died before its parts: the relay meets their entries.
func TestTheRelayCancelsThePartsOfWhatWasCancelled(t *testing.T) { // E8 E6
	inBubble(t, func(t *testing.T, b *bench) {
		b.orchestrate(t, "82f3", 2)
		stands := b.load(t, "82f3")
		change, _, err := execution.Cancel(stands.Execution, execution.Operator{Name: "ada", Reason: "no more"}, time.Now().UTC())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Store.Change(t.Context(), "82f3", change, stands.ETag); err != nil {
			t.Fatal(err)
		}
		b.relayFor(t, 2*time.Minute)
		for _, id := range []string{"82f3:0", "82f3:1"} {
			e := b.load(t, id).Execution
			if last := e.History[len(e.History)-1]; e.Status != execution.Cancelled || last.By != "ada" || last.Detail != "no more" {
				t.Errorf("%s is %s, %+v", id, e.Status, last)
			}
		}
		if len(b.tasks(t)) > 0 || len(b.unsent(t)) > 0 {
			t.Errorf("sent %v, %d entries left", b.tasks(t), len(b.unsent(t)))
		}
	})
}

// Whoever cancelled it died, and no entry is left that the relay could meet: a part
// that is old is cancelled with its whole, and not sent again.
func TestTheReconcilerCancelsThePartsOfWhatWasCancelled(t *testing.T) { // E8 E5
	inBubble(t, func(t *testing.T, b *bench) {
		ids := b.several(t, 4)
		b.claims(t, ids[1], completed)
		b.claims(t, ids[2], waits)
		sent := len(b.tasks(t))
		stands := b.load(t, "82f3")
		change, _, err := execution.Cancel(stands.Execution, execution.Operator{Name: "ada", Reason: "no more"}, time.Now().UTC())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Store.Change(t.Context(), "82f3", change, stands.ETag); err != nil {
			t.Fatal(err)
		}
		time.Sleep(b.ReconcileAge)
		b.reconcileFor(t, oneRound)
		for i, id := range ids {
			want := execution.Cancelled
			if i == 1 {
				want = execution.Completed // it had its effect before
			}
			e := b.load(t, id).Execution
			if e.Status != want {
				t.Errorf("%s is %s, want %s", id, e.Status, want)
			}
			if last := e.History[len(e.History)-1]; want == execution.Cancelled && (last.By != "ada" || last.Detail != "no more") {
				t.Errorf("%s: %+v", id, last)
			}
		}
		if c := b.claim(t, ids[0]); c.Status != claim.Cancelled {
			t.Errorf("the claim of %s is %s: somebody may run it", ids[0], c.Status)
		}
		if again := len(b.sent) - sent; again > 0 {
			t.Errorf("%d tasks were sent again", again)
		}
	})
}

// An execution that had the id of a part before is somebody else's.
func TestCancellingTheWholeLeavesWhoeverHadAPartsIDBefore(t *testing.T) { // E8 C7
	inBubble(t, func(t *testing.T, b *bench) {
		b.create(t, "82f3:1")
		b.several(t, 2)
		b.cancel(t, "82f3")
		if s := b.load(t, "82f3:1").Execution.Status; s != execution.Running {
			t.Errorf("the other's execution is %s", s)
		}
		if s := b.load(t, "82f3:0").Execution.Status; s != execution.Cancelled {
			t.Errorf("the part is %s", s)
		}
	})
}
