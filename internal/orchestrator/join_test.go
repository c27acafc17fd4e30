package orchestrator_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
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

// ending is the event that a worker publishes for a task.
func ending(t message.Task, reason string) message.Event {
	if reason == "" {
		return message.Event{Completed: &message.Completed{
			ExecutionID: t.ExecutionID, Run: t.Run, Fence: 1, ResultRef: "/letters/" + t.ExecutionID, ResultDigest: "sha256:" + t.ExecutionID,
			ExecutionETag: t.ExecutionETag, Orchestration: t.Orchestration,
		}}
	}
	return message.Event{Failed: &message.Failed{
		ExecutionID: t.ExecutionID, Run: t.Run, Fence: 1, Reason: reason, Outcome: "none", ExecutionETag: t.ExecutionETag, Orchestration: t.Orchestration,
	}}
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
		left, _, err := b.Store.Unsent(t.Context(), 0, "")
		if err != nil || len(left) > 0 || len(tasks) != 3 {
			t.Errorf("%d entries left, %v, %d tasks", len(left), err, len(tasks))
		}
	})
}

// Ninety completions at once, in any order: each part is joined once, and the last
// one ends the whole.
func TestRacingCompletionsEndAnOrchestrationOnce(t *testing.T) { // E1
	inBubble(t, func(t *testing.T, b *bench) {
		b.orchestrate(t, "82f3", execution.MaxParts)
		b.relayFor(t, 2*time.Minute)
		var delivering sync.WaitGroup
		for _, task := range b.tasks(t) {
			delivering.Go(func() {
				for count := 1; ; count++ { // as a broker does
					s := b.deliver(t, ending(task, ""), count)
					if s.Action == message.Complete {
						return
					}
					time.Sleep(s.Delay)
				}
			})
		}
		delivering.Wait()
		e := b.load(t, "82f3").Execution
		ends := 0
		for _, n := range e.History {
			if n.To == execution.Completed {
				ends++
			}
		}
		if e.Status != execution.Completed || ends != 1 || e.Result == nil {
			t.Errorf("%s after %d ends, result %+v", e.Status, ends, e.Result)
		}
		for _, p := range e.Tasks {
			if p.Status != execution.Completed || p.Digest != "sha256:"+p.ExecutionID {
				t.Errorf("part %+v", p)
			}
		}
	})
}

func TestAFailedPartIsNamedAndItsReplayRecoversTheWhole(t *testing.T) { // E3 E7
	inBubble(t, func(t *testing.T, b *bench) {
		b.orchestrate(t, "82f3", 2)
		b.relayFor(t, 2*time.Minute)
		tasks := b.tasks(t)
		b.deliver(t, ending(tasks["82f3:0"], message.DownstreamRejected), 1)
		if e := b.load(t, "82f3").Execution; e.Status != execution.Running {
			t.Errorf("%s while a part runs", e.Status)
		}
		b.deliver(t, ending(tasks["82f3:1"], ""), 1)
		e := b.load(t, "82f3").Execution
		if e.Status != execution.Failed || e.Failure.Reason != execution.PartFailed || e.Failure.Description != "failed: 82f3:0" {
			t.Fatalf("%s %+v", e.Status, e.Failure)
		}
		stands := b.load(t, "82f3:0")
		change, _, err := execution.Replay(stands.Execution, execution.Operator{Name: "ada"}, false, 0, time.Now().UTC())
		if err != nil {
			t.Fatal(err)
		}
		again := execution.OutboxEntry("82f3:0", message.TaskMessageID("82f3:0", 2), 2)
		if _, err := b.Store.Reopen(t.Context(), "82f3:0", change, again, stands.ETag); err != nil {
			t.Fatal(err)
		}
		b.relayFor(t, 2*time.Minute)
		second := b.tasks(t)["82f3:0"]
		if second.Run != 2 || second.Orchestration != "82f3" {
			t.Fatalf("sent %+v", second)
		}
		b.deliver(t, ending(second, ""), 1)
		if e := b.load(t, "82f3").Execution; e.Status != execution.Completed {
			t.Errorf("%s after the replay", e.Status)
		}
	})
}

// The orchestrator dies between the end of a part and its join: the redelivery
// finds the part ended, and joins it all the same.
func TestAJoinThatWasCutOffIsMadeByTheRedelivery(t *testing.T) { // E1 E4
	inBubble(t, func(t *testing.T, b *bench) {
		b.orchestrate(t, "82f3", 1)
		b.relayFor(t, 2*time.Minute)
		task := b.tasks(t)["82f3:0"]
		rule := control.Rule{Name: "join", Match: control.Match{Service: "cosmos", Operation: "patch", Key: "82f3"}, Do: "answer", Status: 403}
		b.arm(t, rule)
		if s := b.deliver(t, ending(task, ""), 1); s.Action == message.Complete {
			t.Fatalf("%s, although it is not joined", s.Action)
		}
		if err := b.hub.Disarm("join"); err != nil {
			t.Fatal(err)
		}
		if s := b.deliver(t, ending(task, ""), 2); s.Action != message.Complete {
			t.Errorf("%s %s", s.Action, s.Reason)
		}
		if e := b.load(t, "82f3").Execution; e.Status != execution.Completed {
			t.Errorf("%s", e.Status)
		}
	})
}

// Nothing is left of the events: the reconciler joins what has ended, and begins
// what never began.
func TestTheReconcilerLooksAfterOrchestrations(t *testing.T) { // E4 E5
	inBubble(t, func(t *testing.T, b *bench) {
		b.orchestrate(t, "82f3", 2)
		b.relayFor(t, 2*time.Minute)
		task := b.tasks(t)["82f3:0"]
		event := ending(task, "")
		event.Completed.Orchestration = "" // so that nobody joins it
		b.deliver(t, event, 1)
		b.orchestrate(t, "lost", 1)
		for _, entry := range b.unsent(t) {
			if err := b.Store.Sent(t.Context(), entry); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(b.ReconcileAge)
		b.reconcileFor(t, 2*b.ReconcilePeriod)
		e := b.load(t, "82f3").Execution
		if i := slices.IndexFunc(e.Tasks, func(p execution.Part) bool { return p.Status == execution.Completed }); e.Status != execution.Running || i != 0 {
			t.Errorf("%s, parts %+v: want the first joined", e.Status, e.Tasks)
		}
		if _, begun := b.tasks(t)["lost:0"]; !begun {
			t.Error("a part that never began was not begun")
		}
		for id, task := range b.tasks(t) {
			if id == "82f3" || id == "lost" || task.Type == execution.TypeOrchestration {
				t.Errorf("a task was sent for an orchestration: %+v", task)
			}
		}
	})
}

// The event of its completion was lost, and a dead letter had failed it before.
func TestAPartThatTheReconcilerRecoversIsJoined(t *testing.T) { // E4
	inBubble(t, func(t *testing.T, b *bench) {
		ids := b.several(t, 2)
		b.deliver(t, ending(b.tasks(t)[ids[0]], message.AttemptsExhausted), 1)
		b.claims(t, ids[0], completed)
		b.reconcileFor(t, time.Minute)
		if p := b.load(t, "82f3").Execution.Tasks[0]; p.Status != execution.Completed || p.Ref != "/c/1" {
			t.Errorf("%+v", p)
		}
	})
}

func (b *bench) unsent(t *testing.T) []execution.Entry {
	t.Helper()
	entries, _, err := b.Store.Unsent(t.Context(), 0, "")
	if err != nil {
		t.Fatal(err)
	}
	return entries
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

// cancel has an operator cancel an execution.
func (b *bench) cancel(t *testing.T, id string) {
	t.Helper()
	if w := b.ask(http.MethodPost, "/v1/executions/"+id+"/cancel", `{"reason":"no more"}`, "If-Match", "*"); w.Code != http.StatusOK {
		t.Fatalf("cancel %s: %d %s", id, w.Code, w.Body)
	}
}

func TestWhatAnOperatorEndsIsJoinedAtOnce(t *testing.T) { // E7 E8
	inBubble(t, func(t *testing.T, b *bench) {
		ids := b.several(t, 2)
		b.claims(t, ids[0], failed)
		b.deliver(t, ending(b.tasks(t)[ids[0]], message.OutcomeUnknown), 1)
		if w := b.ask(http.MethodPost, "/v1/executions/"+ids[0]+"/resolve", `{"reason":"it is there","resultRef":"tray/7"}`); w.Code != http.StatusOK {
			t.Fatalf("resolve: %d %s", w.Code, w.Body)
		}
		if p := b.load(t, "82f3").Execution.Tasks[0]; p.Status != execution.Completed || p.Ref != "tray/7" {
			t.Errorf("the resolved part stands as %+v", p)
		}
		b.cancel(t, ids[1])
		if e := b.load(t, "82f3").Execution; e.Status != execution.Failed || e.Failure.Description != "failed: "+ids[1] {
			t.Errorf("the whole is %s, %+v", e.Status, e.Failure)
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

// The end of the whole is not written with its last part: the redelivery writes it, or
// the reconciler if there is none.
func TestAnEndThatWasCutOffIsMadeGood(t *testing.T) { // E1 E4
	for name, heal := range map[string]func(t *testing.T, b *bench, event message.Event){
		"by the redelivery": func(t *testing.T, b *bench, event message.Event) {
			if s := b.deliver(t, event, 2); s.Action != message.Complete {
				t.Errorf("%s %s", s.Action, s.Reason)
			}
		},
		"by the reconciler": func(t *testing.T, b *bench, _ message.Event) {
			time.Sleep(b.ReconcileAge)
			b.reconcileFor(t, 2*b.ReconcilePeriod)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				part := b.several(t, 1)[0]
				event := ending(b.tasks(t)[part], "")
				// Its second patch is the end of the whole.
				b.arm(t, control.Rule{Name: "end", Match: control.Match{Operation: "patch", Key: "82f3"}, Nth: 2, Do: "answer", Status: 403})
				if s := b.deliver(t, event, 1); s.Action == message.Complete {
					t.Fatalf("%s, although the whole has not ended", s.Action)
				}
				if e := b.load(t, "82f3").Execution; e.Status != execution.Running || e.Tasks[0].Status != execution.Completed {
					t.Fatalf("%s, %+v", e.Status, e.Tasks)
				}
				if err := b.hub.Disarm("end"); err != nil {
					t.Fatal(err)
				}
				heal(t, b, event)
				if e := b.load(t, "82f3").Execution; e.Status != execution.Completed {
					t.Errorf("%s", e.Status)
				}
			})
		})
	}
}

// The answer to a join is lost, before or after it was made: it is made once.
func TestALostAnswerToAJoinIsOneJoin(t *testing.T) { // E1
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				part := b.several(t, 1)[0]
				event := ending(b.tasks(t)[part], "")
				b.arm(t, control.Rule{Match: control.Match{Operation: "patch", Key: "82f3"}, When: when, Do: "drop", Times: 1})
				if s := b.deliver(t, event, 1); s.Action != message.Complete {
					t.Errorf("%s, want it completed", s.Action)
				}
				e := b.load(t, "82f3").Execution
				joined := 0
				for _, n := range e.History {
					if n.Detail == "82f3:0" {
						joined++
					}
				}
				if e.Status != execution.Completed || joined != 1 {
					t.Errorf("%s, joined %d times: %+v", e.Status, joined, e.History)
				}
			})
		})
	}
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

// A read that finds nothing may have asked a replica that lags: the event stays.
func TestAJoinIsNotThrownAwayForWhatAReplicaDoesNotKnowYet(t *testing.T) { // E1
	inBubble(t, func(t *testing.T, b *bench) {
		part := b.several(t, 1)[0]
		event := ending(b.tasks(t)[part], "")
		b.arm(t, control.Rule{Match: control.Match{Operation: "patch", Key: "82f3"}, Do: "drop", Times: 1})
		b.arm(t, control.Rule{Match: control.Match{Operation: "read", Key: "82f3"}, Do: "answer", Status: http.StatusNotFound, Times: 1})
		if s := b.deliver(t, event, 1); s.Action != message.CopyLater {
			t.Errorf("%s %s, want it put off", s.Action, s.Reason)
		}
		if s := b.deliver(t, event, 2); s.Action != message.Complete || b.load(t, "82f3").Execution.Status != execution.Completed {
			t.Errorf("%s %s, the whole is %s", s.Action, s.Reason, b.load(t, "82f3").Execution.Status)
		}
	})
}
