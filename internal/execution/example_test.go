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
