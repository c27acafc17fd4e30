package execution_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	created = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ended   = created.Add(time.Minute)
	now     = created.Add(time.Hour)
)

// stood is an execution of run 2 in a given state.
func stood(status execution.Status) execution.Execution {
	e := execution.New("82f3", "customer.create", jsontext.Value(`{}`), "sha256:req", created)
	e.Status, e.Run = status, 2
	e.History = append(e.History, execution.Note{At: created, What: "replayed", From: execution.Failed, To: execution.Running, Run: 2})
	switch status {
	case execution.Completed:
		e.EndedAt, e.Result = ended, &execution.Result{Ref: "/customers/7", Digest: "sha256:first", Fence: 3}
	case execution.Failed:
		e.EndedAt, e.Failure = ended, &execution.Failure{Reason: "TooOld", Outcome: "none", Fence: 3}
	case execution.Cancelled:
		e.EndedAt = ended
	}
	return e
}

func completion(run int, digest string) message.Event {
	return message.Event{Completed: &message.Completed{ExecutionID: "82f3", Run: run, Fence: 5, ResultRef: "/customers/7", ResultDigest: digest}}
}

func failure(run int) message.Event {
	return message.Event{Failed: &message.Failed{ExecutionID: "82f3", Run: run, Fence: 5, Reason: "OutcomeUnknown", Description: "cut off", Outcome: "unknown"}}
}

// Every state, event, digest and relation of runs, each with what E1 to E3 say. The
// cases are those of the package's states and of the message's events: a new one has
// no row and fails.
func TestEveryEventInEveryState(t *testing.T) { // E1 E2 E3 E8
	completed := func(what string, from execution.Status, run int, digest string) execution.Change {
		return execution.Change{
			From: from, FromRun: 2, Status: execution.Completed, EndedAt: now, Result: &execution.Result{Ref: "/customers/7", Digest: digest, Fence: 5},
			Note: execution.Note{At: now, What: what, From: from, To: execution.Completed, Run: run, Fence: 5},
		}
	}
	failed := func(run int) execution.Change {
		return execution.Change{
			From: execution.Running, FromRun: 2, Status: execution.Failed, EndedAt: now, Failure: &execution.Failure{Reason: "OutcomeUnknown", Description: "cut off", Outcome: "unknown", Fence: 5},
			Note: execution.Note{At: now, What: "failed", From: execution.Running, To: execution.Failed, Run: run, Fence: 5, Detail: "OutcomeUnknown"},
		}
	}
	recorded := func(status execution.Status, endedAt time.Time, what string, run int, detail string) execution.Change {
		return execution.Change{From: status, FromRun: 2, Status: status, EndedAt: endedAt, Note: execution.Note{At: now, What: what, Run: run, Fence: 5, Detail: detail}}
	}
	const same, other = "sha256:first", "sha256:other"
	nothing := execution.Change{}
	always := func(d execution.Decision, c execution.Change) [3]outcome { return [3]outcome{{d, c}, {d, c}, {d, c}} }
	byRun := func(d execution.Decision, make func(run int) execution.Change) (all [3]outcome) {
		for i := range all {
			all[i] = outcome{d, make(i + 1)}
		}
		return all
	}
	covered := map[string]bool{}
	for _, test := range []struct {
		name   string
		stands execution.Status
		event  func(run int) message.Event
		want   [3]outcome // of run 1, 2 and 3, where run 2 stands
	}{
		{
			"E1: a completion completes a running execution", execution.Running, completionOf(same),
			byRun(execution.Transition, func(run int) execution.Change { return completed("completed", execution.Running, run, same) }),
		},
		{
			"E3: a completion wins over a failure", execution.Failed, completionOf(same),
			byRun(execution.Transition, func(run int) execution.Change { return completed("recovered", execution.Failed, run, same) }),
		},
		{"E1: a second completion with the same digest does nothing", execution.Completed, completionOf(same), always(execution.NoOp, nothing)},
		{
			"E1: whatever its digest is", execution.Running, completionOf(other),
			byRun(execution.Transition, func(run int) execution.Change { return completed("completed", execution.Running, run, other) }),
		},
		{
			"E3: whatever its digest is", execution.Failed, completionOf(other),
			byRun(execution.Transition, func(run int) execution.Change { return completed("recovered", execution.Failed, run, other) }),
		},
		{
			"E3: whatever its digest is, after cancel", execution.Cancelled, completionOf(other),
			byRun(execution.Record, func(run int) execution.Change {
				return recorded(execution.Cancelled, ended, "completed after cancel", run, "/customers/7")
			}),
		},
		{"E2: a completion with another digest is a contradiction", execution.Completed, completionOf(other), always(execution.Contradiction, nothing)},
		{
			"E3: a completion after cancel is recorded", execution.Cancelled, completionOf(same),
			byRun(execution.Record, func(run int) execution.Change {
				return recorded(execution.Cancelled, ended, "completed after cancel", run, "/customers/7")
			}),
		},
		{
			"E3: a failure fails a running execution, unless it is of an earlier run", execution.Running, failure,
			[3]outcome{
				{execution.Record, recorded(execution.Running, time.Time{}, "failure of an earlier run ignored", 1, "OutcomeUnknown")},
				{execution.Transition, failed(2)},
				{execution.Transition, failed(3)},
			},
		},
		{
			"E3: a failure after completion is recorded and ignored", execution.Completed, failure,
			byRun(execution.Record, func(run int) execution.Change {
				return recorded(execution.Completed, ended, "failure after completion ignored", run, "OutcomeUnknown")
			}),
		},
		{"a second failure does nothing", execution.Failed, failure, always(execution.NoOp, nothing)},
		{"a failure after cancel does nothing", execution.Cancelled, failure, always(execution.NoOp, nothing)},
		{"a state that nobody knows is a contradiction to a completion", "PAUSED", completionOf(same), always(execution.Contradiction, nothing)},
		{"a failure never changes a state that nobody knows", "PAUSED", failure, always(execution.NoOp, nothing)},
	} {
		covered[caseOf(test.stands, test.event(1))] = true
		for i, want := range test.want {
			t.Run(fmt.Sprintf("%s/event of run %d", test.name, i+1), func(t *testing.T) {
				stands := stood(test.stands)
				change, decision := execution.Next(stands, test.event(i+1), now)
				if decision != want.decision || !reflect.DeepEqual(change, want.change) {
					t.Errorf("got  %s %+v\nwant %s %+v", decision, change, want.decision, want.change)
				}
				if !reflect.DeepEqual(stands, stood(test.stands)) {
					t.Errorf("what stood was changed: %+v", stands)
				}
			})
		}
	}
	for _, state := range execution.Statuses() {
		for field := range reflect.TypeFor[message.Event]().NumField() {
			for _, digest := range []string{same, other} {
				event := eventOf(t, field, 2, digest)
				if !covered[caseOf(state, event)] {
					t.Errorf("no row says what %s does to what is %s", caseOf("", event), state)
				}
			}
		}
	}
}

// The states are those that the package declares: a new one that is not among them
// would be missed by every test that goes through them.
func TestTheStatesAreThoseThatAreDeclared(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []execution.Status
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != "Status" || file.Name.Name != "execution" {
				return true
			}
			for _, value := range spec.Values {
				text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				declared = append(declared, execution.Status(text))
			}
			return true
		})
	}
	if !slices.Equal(declared, execution.Statuses()) {
		t.Errorf("declared are %q, and told are %q", declared, execution.Statuses())
	}
}

// caseOf names a case of the table. A failure has no digest.
func caseOf(stands execution.Status, e message.Event) string {
	if c := e.Completed; c != nil {
		return fmt.Sprintf("%s %s %s", stands, e.Type(), c.ResultDigest)
	}
	return fmt.Sprintf("%s %s", stands, e.Type())
}

// eventOf is the event of one field of message.Event, which is one kind of event.
func eventOf(t *testing.T, field, run int, digest string) message.Event {
	t.Helper()
	switch name := reflect.TypeFor[message.Event]().Field(field).Name; name {
	case "Completed":
		return completion(run, digest)
	case "Failed":
		return failure(run)
	default:
		t.Fatalf("no test makes an event of the kind %s", name)
		return message.Event{}
	}
}

type outcome struct {
	decision execution.Decision
	change   execution.Change
}

func completionOf(digest string) func(int) message.Event {
	return func(run int) message.Event { return completion(run, digest) }
}

func TestACompletedExecutionWithoutAResultIsAContradiction(t *testing.T) { // E2
	stands := stood(execution.Completed)
	stands.Result = nil
	if change, decision := execution.Next(stands, completion(2, "sha256:first"), now); decision != execution.Contradiction || !reflect.DeepEqual(change, execution.Change{}) {
		t.Errorf("%s %+v, want a contradiction", decision, change)
	}
}

// Every sequence of up to five events, in every order, from every state.
func TestNoOrderOfEventsBreaksAPromise(t *testing.T) {
	events := []message.Event{completion(1, "sha256:first"), completion(2, "sha256:first"), completion(2, "sha256:other"), failure(1), failure(2), failure(3)}
	var walk func(before execution.Execution, depth int)
	walk = func(before execution.Execution, depth int) {
		for _, ev := range events {
			change, decision := execution.Next(before, ev, now)
			after := before
			if decision == execution.Transition || decision == execution.Record {
				after = before.With(change)
			}
			checkStep(t, before, after, ev, decision)
			// The same event once more finds its work done.
			if _, again := execution.Next(after, ev, now.Add(time.Minute)); again == execution.Transition || again == execution.Record {
				t.Fatalf("%s twice on %+v: %s, then %s", ev.Type(), before, decision, again)
			}
			if depth > 1 {
				walk(after, depth-1)
			}
		}
	}
	for _, status := range execution.Statuses() {
		walk(stood(status), 5)
	}
}

func checkStep(t *testing.T, before, after execution.Execution, ev message.Event, d execution.Decision) {
	t.Helper()
	fail := func(promise string) {
		t.Helper()
		t.Fatalf("%s: %s of run %d took %+v to %+v (%s)", promise, ev.Type(), ev.Run(), before, after, d)
	}
	switch {
	case before.Status == execution.Completed && (after.Status != execution.Completed || !reflect.DeepEqual(after.Result, before.Result) || !after.EndedAt.Equal(before.EndedAt)):
		fail("E1: a completed execution stays as it is")
	case before.Status == execution.Cancelled && (after.Status != execution.Cancelled || after.Result != nil):
		fail("E3: a cancelled execution stays cancelled")
	case ev.Completed != nil && before.Status != execution.Cancelled && after.Status != execution.Completed:
		fail("E3: completed wins")
	case ev.Failed != nil && before.Status == execution.Running && ev.Failed.Run < before.Run && after.Status != execution.Running:
		fail("E3: a failure of an earlier run changes nothing")
	case d == execution.Transition && before.Status == after.Status:
		fail("a transition changes the state")
	case d == execution.Record && before.Status != after.Status:
		fail("a record leaves the state")
	case d == execution.Contradiction && !reflect.DeepEqual(before, after):
		fail("E2: unchanged")
	case after.Run != before.Run:
		fail("only a replay begins a run")
	}
}

func TestWhatIsIgnoredIsRecordedOnce(t *testing.T) { // E3
	for _, test := range []struct {
		name   string
		stands execution.Status
		event  message.Event
	}{
		{"a completion after cancel", execution.Cancelled, completion(2, "sha256:first")},
		{"a failure after completion", execution.Completed, failure(2)},
		{"a failure of an earlier run", execution.Running, failure(1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			change, decision := execution.Next(stood(test.stands), test.event, now)
			if decision != execution.Record {
				t.Fatalf("the first: %s, want it recorded", decision)
			}
			after := stood(test.stands).With(change)
			if change, decision := execution.Next(after, test.event, now.Add(time.Hour)); decision != execution.NoOp || !reflect.DeepEqual(change, execution.Change{}) {
				t.Errorf("the second: %s %+v, want nothing", decision, change)
			}
		})
	}
}

func TestAnotherFenceIsAnotherRecord(t *testing.T) { // E3
	event := failure(2)
	change, _ := execution.Next(stood(execution.Completed), event, now)
	after := stood(execution.Completed).With(change)
	event.Failed.Fence++
	if _, decision := execution.Next(after, event, now); decision != execution.Record {
		t.Errorf("%s, want it recorded", decision)
	}
}

func TestTheHistoryIsBoundedAgainstLateEvents(t *testing.T) {
	const most = 64
	for _, status := range []execution.Status{execution.Completed, execution.Cancelled, execution.Running} {
		e := stood(status)
		for fence := range int64(10 * most) {
			event := failure(1)
			if status == execution.Cancelled {
				event = completion(1, "sha256:first")
				event.Completed.Fence = fence + 1
			} else {
				event.Failed.Fence = fence + 1
			}
			if change, decision := execution.Next(e, event, now); decision == execution.Record {
				e = e.With(change)
			} else if decision != execution.NoOp {
				t.Fatalf("%s: %s", status, decision)
			}
		}
		if len(e.History) != most || e.History[0].What != "created" {
			t.Errorf("%s: %d notes, the first %q, want %d that begin with the creation", status, len(e.History), e.History[0].What, most)
		}
	}
}

func TestAFullHistoryDelaysNoTransition(t *testing.T) { // E1, E4
	full := stood(execution.Running)
	for len(full.History) < 64 {
		full.History = append(full.History, execution.Note{What: "failure of an earlier run ignored", Fence: int64(len(full.History))})
	}
	for _, event := range []message.Event{completion(2, "sha256:first"), failure(2)} {
		change, decision := execution.Next(full, event, now)
		if decision != execution.Transition || len(full.With(change).History) != 65 {
			t.Errorf("%s: %s, want a transition that is noted", event.Type(), decision)
		}
	}
}

// A ticket stands for the execution as its run began: deciding from it, without
// a read, is deciding from what stands, as long as the ticket fits.
func TestDecidingFromATicketIsDecidingFromWhatItStandsFor(t *testing.T) {
	for run := 1; run <= 3; run++ {
		begun := stood(execution.Running)
		begun.Run = run
		for _, event := range []message.Event{completion(1, "sha256:first"), completion(2, "sha256:other"), completion(3, "sha256:first"), failure(1), failure(2), failure(3)} {
			byRead, d1 := execution.Next(begun, event, now)
			byTicket, d2 := execution.Next(execution.Expected(run), event, now)
			if d1 != d2 || !reflect.DeepEqual(byRead, byTicket) {
				t.Errorf("%s of run %d in run %d: by read %s %+v, by ticket %s %+v", event.Type(), event.Run(), run, d1, byRead, d2, byTicket)
			}
		}
	}
}

func TestDecisionsHaveNames(t *testing.T) {
	for decision, want := range map[execution.Decision]string{
		0: "undecided", execution.Transition: "transition", execution.Record: "record", execution.NoOp: "no-op", execution.Contradiction: "contradiction",
	} {
		if got := decision.String(); got != want {
			t.Errorf("decision %d is %q, want %q", decision, got, want)
		}
	}
}
