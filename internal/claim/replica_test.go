package claim_test

import (
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
)

// lagging makes reads see the past from now on. Whoever brings no session token is
// shown it; a refusal brings the token that shows the present.
func (w *world) lagging(behind time.Duration) {
	w.t.Helper()
	if err := w.hub.SetLag("claims", control.Lag{Duration: control.Duration(behind)}); err != nil {
		w.t.Fatal(err)
	}
}

func TestWhatAReplicaHasNotHeardOfIsNotGrantedTwice(t *testing.T) { // C1 C9
	for _, first := range []bool{true, false} { // a create that is refused, or a read that finds nothing
		inWorld(t, func(t *testing.T, w *world) {
			w.lagging(time.Hour)
			w.grant(w.desk("worker-1"), task())
			v := w.answer(w.desk("worker-2"), task(func(a *claim.Ask) { a.ReadFirst = !first }))
			if v.Kind != claim.Busy || v.Claim.Fence != 1 {
				t.Errorf("%s, fence %d, want the claim that stands to be busy", v.Kind, v.Claim.Fence)
			}
			if want := []string{"create 409", "read 200"}; first {
				w.wantRequests("worker-2", want...)
			} else {
				w.wantRequests("worker-2", append([]string{"read 404"}, want...)...)
			}
		})
	}
}

// The replica shows the lease as it was before many renewals: stale, though it
// stands. The takeover fails, and its refusal brings the present.
func TestALiveLeaseThatAReplicaShowsAsStaleIsNotTaken(t *testing.T) { // C6 C10
	inWorld(t, func(t *testing.T, w *world) {
		w.lagging(20 * time.Minute)
		lease := w.grant(w.desk("worker-1"), task())
		time.Sleep(30 * time.Minute)
		v := w.answer(w.desk("worker-2"), task(again))
		if v.Kind != claim.Busy {
			t.Errorf("%s, want busy", v.Kind)
		}
		w.wantRequests("worker-2", "read 200", "replace 412", "read 200")
		if lease.Context().Err() != nil || w.stands().Claim.Fence != 1 {
			t.Errorf("the lease ended: %v", lease.Context().Err())
		}
	})
}

// A claim that is completed, at a replica that does not know it yet: no second
// grant, and the result is found.
func TestAResultThatAReplicaHasNotHeardOfIsFound(t *testing.T) { // C2
	inWorld(t, func(t *testing.T, w *world) {
		w.lagging(20 * time.Minute)
		lease := w.grant(w.desk("worker-1"), task())
		time.Sleep(30 * time.Minute)
		if _, err := lease.Complete(t.Context(), done(t)); err != nil {
			t.Fatal(err)
		}
		second := w.desk("worker-2")
		v := w.answer(second, task(again))
		for v.Kind == claim.Busy {
			time.Sleep(v.Wait)
			v = w.answer(second, task(again))
		}
		if v.Kind != claim.Done || v.Claim.Result.Ref != "/customers/7" {
			t.Errorf("%s %+v, want the result", v.Kind, v.Claim.Result)
		}
	})
}

// An owner writes, is not answered and reads back: its own session shows it what
// it wrote, however far the replica lags.
func TestAnOwnerReadsItsOwnWritesAtAReplicaThatLags(t *testing.T) { // C9
	inWorld(t, func(t *testing.T, w *world) {
		w.lagging(time.Hour)
		lease := w.grant(w.desk("worker-1"), task())
		w.arm(control.Rule{Match: control.Match{Client: "worker-1", Operation: "replace"}, When: "after", Do: "drop", Times: 1})
		if _, err := lease.Complete(t.Context(), done(t)); err != nil {
			t.Errorf("complete: %v", err)
		}
		w.wantRequests("worker-1", "create 201", "replace 200", "read 200")
	})
}
