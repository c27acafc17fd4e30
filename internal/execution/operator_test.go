package execution_test

import (
	"strings"
	"testing"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

var ada = execution.Operator{Name: "ada", Reason: "looked at the printer"}

// Every state, against what E7 and E8 say of an operator's three requests.
func TestWhatAnOperatorMayDoInEveryState(t *testing.T) { // E7 E8
	const settle = 21 * time.Minute
	uncertain := stood(execution.Failed)
	uncertain.Failure.Reason = message.OutcomeUnknown
	tooOld := stood(execution.Failed)
	tooOld.NotAfter = now.Add(-time.Second)
	often := stood(execution.Failed)
	often.Run = execution.MaxRuns
	first := stood(execution.Running)
	first.Run = 1
	orchestrated := stood(execution.Failed)
	orchestrated.Tasks = []execution.Part{{ExecutionID: "82f3:0", Status: execution.Failed}}
	completed := message.Completed{ExecutionID: "82f3", Run: 2, Fence: 9, ResultRef: "/customers/7", ResultDigest: "sha256:first"}
	type decisions struct{ cancel, replay, assert, resolve execution.Decision }
	const move, nothing, refused = execution.Transition, execution.NoOp, execution.Refusal
	for _, test := range []struct {
		what   string
		stands execution.Execution
		want   decisions
	}{
		{"running, its first run", first, decisions{move, refused, refused, refused}},
		{"running, a later run", stood(execution.Running), decisions{move, nothing, nothing, refused}},
		{"completed", stood(execution.Completed), decisions{refused, refused, refused, nothing}},
		{"failed", stood(execution.Failed), decisions{refused, move, move, move}},
		{"failed and uncertain", uncertain, decisions{refused, refused, move, move}},
		{"failed and too old", tooOld, decisions{refused, refused, refused, move}},
		{"failed, and run a thousand times", often, decisions{refused, refused, refused, move}},
		{"made of parts that failed", orchestrated, decisions{refused, refused, refused, refused}},
		{"cancelled", stood(execution.Cancelled), decisions{nothing, refused, refused, refused}},
	} {
		check := func(what string, want execution.Decision, change execution.Change, got execution.Decision, err error) {
			t.Helper()
			if got != want || (err != nil) != (want == refused) {
				t.Errorf("%s, %s: %s, %v, want %s", test.what, what, got, err, want)
			}
			if got == move && (change.Note.By != "ada" || change.Note.Detail != ada.Reason || change.Note.From != test.stands.Status || change.Note.To != change.Status) {
				t.Errorf("%s, %s: the history would say %+v", test.what, what, change.Note)
			}
		}
		change, d, err := execution.Cancel(test.stands, ada, now)
		check("cancel", test.want.cancel, change, d, err)
		change, d, err = execution.Replay(test.stands, ada, false, settle, now)
		check("replay", test.want.replay, change, d, err)
		change, d, err = execution.Replay(test.stands, ada, true, settle, now)
		check("replay, asserting", test.want.assert, change, d, err)
		if d == move && (change.Reopened == nil || change.Reopened.Run != 3 || !change.Reopened.Asserted || !strings.Contains(change.Note.What, "asserting")) {
			t.Errorf("%s: replayed as %+v", test.what, change)
		}
		change, d, err = execution.Resolve(test.stands, completed, ada, now)
		check("resolve", test.want.resolve, change, d, err)
	}
}

// The last caller may still be on its way.
func TestAnUncertainFailureIsNotReplayedTooSoon(t *testing.T) { // E7
	stands := stood(execution.Failed)
	stands.Failure.Reason = message.KeyWindowPassed
	for wait, want := range map[time.Duration]execution.Decision{time.Hour: execution.Refusal, 59 * time.Minute: execution.Transition} {
		if _, d, err := execution.Replay(stands, ada, true, wait, ended.Add(59*time.Minute)); d != want {
			t.Errorf("an hour less a minute after, with %v to settle: %s, %v", wait, d, err)
		}
	}
}

// What somebody asserts is what is there now, whatever the reason.
func TestAnAssertionWaitsForWhatMayStillArrive(t *testing.T) { // E7
	stands := stood(execution.Failed)
	stands.Failure.Reason = message.AttemptsExhausted
	for asserted, want := range map[bool]execution.Decision{true: execution.Refusal, false: execution.Transition} {
		if _, d, err := execution.Replay(stands, ada, asserted, time.Hour, ended.Add(59*time.Minute)); d != want {
			t.Errorf("asserted %t: %s, %v, want %s", asserted, d, err, want)
		}
	}
}

func TestAReplayNeverOutlivesNotAfter(t *testing.T) { // E7
	stands := stood(execution.Failed)
	stands.NotAfter = now.Add(time.Hour)
	change, _, err := execution.Replay(stands, ada, false, 0, now)
	if err != nil || !change.Reopened.Deadline.Equal(stands.NotAfter) {
		t.Errorf("%+v, %v: want the deadline to be notAfter", change.Reopened, err)
	}
	stands.NotAfter = now.Add(90 * 24 * time.Hour)
	if change, _, _ = execution.Replay(stands, ada, false, 0, now); !change.Reopened.Deadline.Equal(now.Add(execution.DeadlineAfter)) {
		t.Errorf("deadline %v, want a day from now", change.Reopened.Deadline)
	}
}
