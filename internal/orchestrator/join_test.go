package orchestrator_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

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

// Ninety completions at once, in any order: each part is joined once, and the last
// one ends the whole.
func TestRacingCompletionsEndAnOrchestrationOnce(t *testing.T) { // E1
	inBubble(t, func(t *testing.T, b *bench) {
		b.orchestrate(t, "82f3", execution.MaxParts)
		b.relayFor(t, 2*time.Minute)
		var delivering sync.WaitGroup
		for _, task := range b.tasks(t) {
			m, err := ending(task, "").Message(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			delivering.Go(func() {
				for count := 1; ; count++ { // as a broker does
					s := b.Handle(t.Context(), message.Delivery{MessageID: m.ID, Body: m.Body, Count: count})
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
