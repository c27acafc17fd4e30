package claim_test

import (
	"fmt"
	"time"

	"oneeffect/internal/claim"
)

// A worker is granted a task and dies. Its redelivery finds the lease standing,
// and later stale; whoever comes after the completion is told the result.
func ExampleTake() {
	terms := claim.Terms{Lease: 5 * time.Minute, ChallengerMargin: 5 * time.Second, MaxAttempts: 8, Keep: 30 * 24 * time.Hour}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ask := claim.Ask{
		ID: "82f3", TaskType: "customer.create", Fingerprint: "sha256:…", Run: 1, Keyed: true, KeyWindow: 24 * time.Hour,
		NotAfter: now.Add(21 * 24 * time.Hour), Now: func() time.Time { return now },
	}

	stands, v, _ := claim.Take(nil, 0, ask, "worker-1", terms)
	fmt.Println(v.Kind, stands.Owner, stands.Fence)

	_, v, _ = claim.Take(&stands, 2*time.Minute, ask, "worker-2", terms)
	fmt.Println(v.Kind, v.Wait)

	stands, v, _ = claim.Take(&stands, 6*time.Minute, ask, "worker-2", terms)
	fmt.Println(v.Kind, stands.Owner, stands.Fence)

	stands.Status, stands.Result = claim.Completed, &claim.Result{Ref: "/customers/7"}
	_, v, _ = claim.Take(&stands, time.Hour, ask, "worker-3", terms)
	fmt.Println(v.Kind, v.Claim.Result.Ref)
	// Output:
	// granted worker-1 1
	// busy 3m6s
	// granted worker-2 2
	// done /customers/7
}
