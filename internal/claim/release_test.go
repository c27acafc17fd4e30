package claim_test

import (
	"context"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
)

// The answer to CallStarting was lost for good, so no call was made. A renewal finds
// that the write was applied after all; the claim is given back all the same.
func TestAClaimIsReleasedThoughARenewalFoundACallThatWasNeverProved(t *testing.T) { // C9
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task(withoutKey))
		unread := w.arm(control.Rule{Match: control.Match{Operation: "read", Client: "worker-1"}, Do: "drop"})
		lost := w.arm(control.Rule{Match: control.Match{Operation: "replace", Client: "worker-1"}, When: "after", Do: "drop"})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := lease.CallStarting(ctx); err == nil {
			t.Fatal("proved, and nothing could be read")
		}
		w.disarm(unread)
		w.disarm(lost)
		time.Sleep(2 * time.Minute) // a renewal
		if !lease.Claim().CallStarted {
			t.Fatal("the renewal has not found the write: this test shows nothing")
		}
		if err := lease.Release(t.Context(), time.Time{}, false); err != nil {
			t.Fatalf("released: %v", err)
		}
		if c := w.stands().Claim; c.CallStarted || !c.Released || c.Status != claim.InProgress {
			t.Errorf("callStarted %t, released %t, %s, want it given back", c.CallStarted, c.Released, c.Status)
		}
	})
}
