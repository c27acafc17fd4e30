package orchestrator_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
	"oneeffect/internal/orchestrator"

	"github.com/go-json-experiment/json/jsontext"
)

// effect is what an event does: how it is settled, and what then stands.
type effect struct {
	reason string // of the dead letter; empty: it is completed
	status execution.Status
	note   string // that is added to the history; empty: none is
}

// effects say what each event does in each state, of an earlier run, of the one that
// stands, and of a later one. The digest is that of the result that stands, or another.
var effects = map[string][3]effect{
	"RUNNING Completed same":    always("", execution.Completed, "completed"),
	"RUNNING Completed other":   always("", execution.Completed, "completed"),
	"RUNNING Failed":            {{"", execution.Running, "failure of an earlier run ignored"}, {"", execution.Failed, "failed"}, {"", execution.Failed, "failed"}},
	"COMPLETED Completed same":  always("", execution.Completed, ""),
	"COMPLETED Completed other": always(orchestrator.ResultChanged, execution.Completed, ""),
	"COMPLETED Failed":          always("", execution.Completed, "failure after completion ignored"),
	"FAILED Completed same":     always("", execution.Completed, "recovered"),
	"FAILED Completed other":    always("", execution.Completed, "recovered"),
	"FAILED Failed":             always("", execution.Failed, ""),
	"CANCELLED Completed same":  always("", execution.Cancelled, "completed after cancel"),
	"CANCELLED Completed other": always("", execution.Cancelled, "completed after cancel"),
	"CANCELLED Failed":          always("", execution.Cancelled, ""),
}

func always(reason string, status execution.Status, note string) [3]effect {
	e := effect{reason, status, note}
	return [3]effect{e, e, e}
}

// Every state × event × digest × run × ticket, generated from the states and the kinds
// of events: a new one has no row and fails. A ticket that fits, one that does not and
// none come to the same, since a ticket decides nothing by itself.
func TestEveryEventInEveryStateUnderEveryTicket(t *testing.T) { // E1 E2 E3 E8
	inBubble(t, func(t *testing.T, b *bench) {
		n, covered := 0, map[string]bool{}
		for _, state := range execution.Statuses() {
			for kind := range reflect.TypeFor[message.Event]().NumField() {
				for _, digest := range []string{"same", "other"} {
					_, name := eventOf(t, "", kind, digest, 1)
					covered[string(state)+" "+name] = true
					for run := 1; run <= 3; run++ {
						for _, ticket := range []string{"fresh", "stale", "none"} {
							n++
							b.applies(t, fmt.Sprintf("e%d", n), state, kind, digest, run, ticket)
						}
					}
				}
			}
		}
		if len(effects) > len(covered) {
			t.Errorf("%d rows, of which %d are of a case", len(effects), len(covered))
		}
	})
}

// applies delivers one event of a run to an execution of run 2 in a state.
func (b *bench) applies(t *testing.T, id string, state execution.Status, kind int, digest string, run int, ticket string) {
	t.Helper()
	event, name := eventOf(t, id, kind, digest, run)
	row, ok := effects[string(state)+" "+name]
	if !ok {
		t.Errorf("no row says what %s does to what is %s", name, state)
		return
	}
	fresh, stale := b.put(t, id, state)
	tickets := map[string]string{"fresh": fresh, "stale": stale, "none": ""}
	if c := event.Completed; c != nil {
		c.ExecutionETag = tickets[ticket]
	} else {
		event.Failed.ExecutionETag = tickets[ticket]
	}
	want, before := row[run-1], b.load(t, id).Execution
	settled := b.deliver(t, event, 1)
	got := effect{settled.Reason, b.load(t, id).Execution.Status, ""}
	if history := b.load(t, id).Execution.History; len(history) > len(before.History) {
		got.note = history[len(history)-1].What
	}
	action := message.Complete
	if want.reason != "" {
		action = message.DeadLetter
	}
	if got != want || settled.Action != action {
		t.Errorf("%s of run %d under a ticket that is %s, to what is %s: %s %+v, want %s %+v", name, run, ticket, state, settled.Action, got, action, want)
	}
	if again := b.deliver(t, event, 2); again.Action != action || again.Reason != want.reason || b.load(t, id).Execution.Status != want.status {
		t.Errorf("%s of run %d to what is %s, once more: %s %s", name, run, state, again.Action, again.Reason)
	}
}

// put makes an execution of run 2 in a state, and returns the ETag that it has and one
// that it had.
func (b *bench) put(t *testing.T, id string, state execution.Status) (fresh, stale string) {
	t.Helper()
	now := time.Now().UTC()
	print, err := claim.Fingerprint("t", jsontext.Value(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	e := execution.New(id, "t", jsontext.Value(`{}`), print, now)
	e.Status, e.Run = state, 2
	switch state {
	case execution.Completed:
		e.EndedAt, e.Result = now, &execution.Result{Ref: "/c/1", Digest: "sha256:same", Fence: 1}
	case execution.Failed:
		e.EndedAt, e.Failure = now, &execution.Failure{Reason: "TooOld", Outcome: "none", Fence: 1}
	case execution.Cancelled:
		e.EndedAt = now
	}
	first, err := b.Store.Create(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Store.Change(t.Context(), id, execution.Change{From: state, Status: state, Note: execution.Note{At: now, What: "looked at"}}, first)
	if err != nil {
		t.Fatal(err)
	}
	return string(second), string(first)
}

// eventOf is the event of one field of message.Event, which is one kind of event, and
// what the table calls it. A failure has no digest.
func eventOf(t *testing.T, id string, kind int, digest string, run int) (message.Event, string) {
	t.Helper()
	switch name := reflect.TypeFor[message.Event]().Field(kind).Name; name {
	case "Completed":
		return message.Event{Completed: &message.Completed{ExecutionID: id, Run: run, Fence: 5, ResultRef: "/c/1", ResultDigest: "sha256:" + digest}}, name + " " + digest
	case "Failed":
		return message.Event{Failed: &message.Failed{ExecutionID: id, Run: run, Fence: 5, Reason: message.DownstreamRejected, Outcome: "none"}}, name
	default:
		t.Fatalf("no test makes an event of the kind %s", name)
		return message.Event{}, ""
	}
}

// An event of a later version is taken if it only says more. One of a kind that this
// version does not know is nobody's to guess at: it is evidence, and the execution is
// ended by what stands in the claim.
func TestAnEventOfAFutureVersionLosesNothing(t *testing.T) { // E4 E5
	inBubble(t, func(t *testing.T, b *bench) {
		b.runs(t, "82f3", 1)
		handle := func(body string) message.Settlement {
			return b.Handle(t.Context(), message.Delivery{Body: []byte(body), Count: 1})
		}
		const data = `"taskExecutionId":"82f3","run":1,"fence":1,"resultRef":"/c/1","resultDigest":"sha256:1"`
		before := b.load(t, "82f3").ETag
		for what, body := range map[string]string{
			"an unknown kind":          `{"specversion":"1.0","id":"x","source":"/w","type":"TaskPaused","data":{` + data + `}}`,
			"a later kind of event":    `{"specversion":"1.0","id":"x","source":"/w","type":"TaskCompleted.v2","data":{` + data + `}}`,
			"a later CloudEvents":      `{"specversion":"2.0","id":"x","source":"/w","type":"TaskCompleted","data":{` + data + `}}`,
			"a member of another type": `{"specversion":"1.0","id":"x","source":"/w","type":"TaskCompleted","data":{` + data + `,"executionEtag":{"of":"82f3"}}}`,
		} {
			if s := handle(body); s.Action != message.DeadLetter || s.Reason != message.InvalidMessage || s.Description == "" {
				t.Errorf("%s: %s %s", what, s.Action, s.Reason)
			}
		}
		if b.load(t, "82f3").ETag != before {
			t.Error("the execution was changed")
		}
		b.claims(t, "82f3", completed)
		time.Sleep(b.ReconcileAge)
		b.reconcileFor(t, oneRound)
		if s := b.load(t, "82f3").Execution.Status; s != execution.Completed {
			t.Errorf("by its claim it is %s", s)
		}

		b.runs(t, "4711", 1)
		s := handle(`{"specversion":"1.0","id":"x","source":"/w","type":"TaskCompleted","priority":7,"data":{"taskExecutionId":"4711","run":1,"fence":1,"resultRef":"/c/1","resultDigest":"sha256:1","emissions":{"grams":3}}}`)
		if e := b.load(t, "4711").Execution; s.Action != message.Complete || e.Status != execution.Completed {
			t.Errorf("one that says more: %s %s, the execution is %s", s.Action, s.Reason, e.Status)
		}
	})
}

// A completion for nobody is evidence too: of an execution that the store does not have,
// and of a part whose orchestration it does not have. The part itself has ended.
func TestACompletionForNobodyIsEvidence(t *testing.T) { // E1 E3
	inBubble(t, func(t *testing.T, b *bench) {
		if s := b.deliver(t, completion("nobody", `"00000000-0000-0000-0000-000000000000"`, "sha256:1"), 1); s.Action != message.DeadLetter || s.Reason != orchestrator.UnknownExecution {
			t.Errorf("of nobody: %s %s", s.Action, s.Reason)
		}
		event := completion("gone:0", b.create(t, "gone:0"), "sha256:1")
		event.Completed.Orchestration = "gone"
		if s := b.deliver(t, event, 1); s.Action != message.DeadLetter || s.Reason != orchestrator.UnknownExecution {
			t.Errorf("of a part of nothing: %s %s", s.Action, s.Reason)
		}
		if s := b.load(t, "gone:0").Execution.Status; s != execution.Completed {
			t.Errorf("the part is %s", s)
		}
	})
}
