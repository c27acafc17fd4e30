package execution_test

import (
	"fmt"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// The same completion is delivered twice. One transition happens.
func ExampleNext() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stands := execution.New("82f3", "customer.create", nil, "sha256:…", now)
	completed := message.Event{Completed: &message.Completed{ExecutionID: "82f3", Run: 1, Fence: 2, ResultRef: "/customers/7", ResultDigest: "sha256:…"}}

	change, decision := execution.Next(stands, completed, now)
	fmt.Println(decision, change.Note.From, "to", change.Status)

	stands.Status, stands.Result = change.Status, change.Result
	_, decision = execution.Next(stands, completed, now)
	fmt.Println(decision)
	// Output:
	// transition RUNNING to COMPLETED
	// no-op
}

// What failed without an effect is run again. After a failure that leaves open
// whether there is one, somebody has to look first, and to wait until the last call
// cannot be on its way any more.
func ExampleReplay() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stands := execution.New("82f3", "letter.print", nil, "sha256:…", now)
	unknown := message.Event{Failed: &message.Failed{ExecutionID: "82f3", Run: 1, Fence: 1, Reason: "OutcomeUnknown", Outcome: "unknown"}}
	change, _ := execution.Next(stands, unknown, now)
	stands = stands.With(change)
	grace := execution.Operator{Name: "grace", Reason: "the tray is empty"}

	for _, try := range []struct {
		asserted bool
		after    time.Duration
	}{{false, time.Hour}, {true, time.Minute}, {true, time.Hour}} {
		change, decision, err := execution.Replay(stands, grace, try.asserted, 21*time.Minute, now.Add(try.after))
		if err != nil {
			fmt.Println(decision, "-", err)
			continue
		}
		fmt.Println(decision, "-", change.Note.What, "- run", change.Reopened.Run)
	}
	// Output:
	// refusal - it failed with OutcomeUnknown, so there may be an effect: look, and either assert that there is none, or resolve it
	// refusal - it failed with OutcomeUnknown, and its last call may still be on its way: not before 2026-03-01T12:21:00Z
	// transition - replayed, asserting that nothing was applied - run 2
}
