package claim_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"oneeffect/internal/claim"
)

// history is one claim in a store that replaces only what has not changed, with
// its owner's and the orchestrator's writes beside those of Take.
type history struct {
	random *rand.Rand
	now    time.Time
	stands *claim.Claim
	at     time.Time // of the last write

	asserted bool // by the last ask
}

// TestNoHistoryBreaksAPromise runs random histories of one claim and holds every
// write against the promises that need no clock.
func TestNoHistoryBreaksAPromise(t *testing.T) {
	for seed := range uint64(400) {
		h := history{random: rand.New(rand.NewPCG(seed, 0)), now: begun}
		for step := range 150 {
			before := h.stands
			what, fromTake := h.step(step)
			if problem := broken(before, h.stands, fromTake, h.asserted); problem != "" {
				t.Fatalf("seed %d, step %d, %s: %s\nbefore %+v\nafter  %+v", seed, step, what, problem, before, h.stands)
			}
		}
	}
}

// step moves time and lets somebody write.
func (h *history) step(n int) (what string, fromTake bool) {
	h.now = h.now.Add(time.Duration(h.random.Int64N(int64(7 * time.Minute))))
	if h.stands != nil && h.stands.Status == claim.InProgress && !h.stands.Released && h.random.IntN(2) == 0 {
		next := *h.stands
		what := h.ownerWrites(&next)
		h.write(next)
		return what, false
	}
	ask := claim.Ask{
		ID: "82f3", TaskType: "customer.create", Fingerprint: "sha256:asked", Run: 1 + h.random.IntN(4),
		Keyed: h.random.IntN(3) > 0, KeyWindow: keyWindow, KeyMargin: keyMargin,
		NotAfter: begun.Add(20 * time.Hour), Asserted: h.random.IntN(4) == 0, Now: func() time.Time { return h.now },
	}
	h.asserted = ask.Asserted
	if h.random.IntN(10) == 0 {
		ask.Fingerprint = "sha256:other"
	}
	next, v, write := claim.Take(h.stands, h.now.Sub(h.at), ask, fmt.Sprintf("worker/%d", n), terms)
	if write {
		h.write(next)
	}
	return fmt.Sprintf("take of run %d: %s", ask.Run, v.Kind), write
}

func (h *history) write(next claim.Claim) { h.stands, h.at = &next, h.now }

// ownerWrites is what the owner of a standing lease may write.
func (h *history) ownerWrites(c *claim.Claim) string {
	switch h.random.IntN(12) {
	case 0:
		c.Status, c.Result = claim.Completed, &claim.Result{Ref: fmt.Sprint(h.random.Uint32())}
		return "complete"
	case 1:
		c.Status, c.Failure = claim.Failed, &claim.Failure{Reason: claim.DownstreamRejected, Outcome: []string{claim.EffectNone, claim.EffectUnknown}[h.random.IntN(2)]}
		return "fail"
	case 2, 3:
		if c.CallStarted {
			return "renew"
		}
		c.Released, c.NotBefore, c.Starts = true, h.now.Add(time.Minute), c.Starts-1
		return "release"
	case 4:
		c.CallStarted = !c.Keyed
		return "call starting"
	}
	return "renew"
}

// broken names the promise that a step breaks.
func broken(before, after *claim.Claim, fromTake, asserted bool) string {
	if after == nil {
		return ""
	}
	if n := len(after.Attempts); n > 32 || n > 0 && after.Attempts[0].Fence != 1 {
		return fmt.Sprintf("attempts keep the first and the newest 31, not %d that begin with fence %d", n, after.Attempts[0].Fence)
	}
	for i := 1; i < len(after.Attempts); i++ {
		if after.Attempts[i].Fence <= after.Attempts[i-1].Fence {
			return "C3: fences rise in the attempts"
		}
	}
	if before == nil || before == after {
		return ""
	}
	switch {
	case fromTake && after.Fence != before.Fence+1:
		return "C3: every write of a Take raises the fence"
	case fromTake && after.Owner == before.Owner:
		return "C9: the owner is new at every Take"
	case after.Fence < before.Fence:
		return "C3: a fence never falls"
	case before.Status == claim.Completed && !reflect.DeepEqual(before, after):
		return "C2: a completed claim changed"
	case after.Fingerprint != before.Fingerprint || after.ID != before.ID:
		return "C7: the fingerprint changed"
	case after.Keyed && !before.Keyed && (before.Status != claim.Failed || !asserted && before.Failure.Outcome != claim.EffectNone):
		return "keyless became keyed while a call without a key may have had an effect"
	case after.Run < before.Run:
		return "a run never goes back"
	case before.Status == claim.Failed && after.Status == claim.InProgress && after.Run <= before.Run:
		return "a failed claim was granted to the same run"
	case after.Status == claim.InProgress && after.Starts > terms.MaxAttempts:
		return "C8: more starts than are allowed"
	case fromTake && before.Status == claim.InProgress && before.CallStarted && after.Status == claim.InProgress:
		return "a claim was granted whose keyless call had started"
	}
	return ""
}

func TestAttemptsKeepTheFirstAndTheNewest31(t *testing.T) {
	lasting := terms
	lasting.MaxAttempts = 1000
	c := held()
	for fence := int64(2); fence <= 100; fence++ {
		next, v, _ := claim.Take(c, time.Hour, asking(), fmt.Sprintf("worker/%d", fence), lasting)
		if v.Kind != claim.Granted {
			t.Fatalf("fence %d: %s", fence, v.Kind)
		}
		c = &next
		if want := min(fence, 32); int64(len(c.Attempts)) != want {
			t.Fatalf("after %d grants %d attempts are kept, want %d", fence, len(c.Attempts), want)
		}
	}
	if first := c.Attempts[0]; first.Fence != 1 || first.Owner != theirs || first.End != "lease expired" {
		t.Errorf("the first is %+v", first)
	}
	for i, a := range c.Attempts[1:] {
		if fence := int64(70 + i); a.Fence != fence || a.Owner != fmt.Sprintf("worker/%d", fence) {
			t.Errorf("attempt %d is %+v, want fence %d", i+1, a, fence)
		}
	}
	if last := c.Attempts[31]; last.Fence != 100 || last.End != "" {
		t.Errorf("the last is %+v, want fence 100, still open", last)
	}
}

// An owner with another lease than the one before it takes over: how long that one's
// had been stands with its grant, and nowhere else.
func TestAnEarlierGrantsLeaseIsKeptIfItWasAnother(t *testing.T) {
	shorter := terms
	shorter.Lease = 10 * time.Second
	second, _, _ := claim.Take(held(), time.Hour, asking(), "worker/2", terms)
	third, _, _ := claim.Take(&second, time.Hour, asking(), "worker/3", shorter)
	fourth, v, _ := claim.Take(&third, time.Hour, asking(), "worker/4", terms)
	if v.Kind != claim.Granted {
		t.Fatal(v.Kind)
	}
	var kept []int
	for _, a := range fourth.Attempts {
		kept = append(kept, a.Lease)
	}
	if want := []int{0, 300, 10, 0}; !slices.Equal(kept, want) || fourth.LeaseSeconds != 300 {
		t.Errorf("leases %v and %d, want %v and 300", kept, fourth.LeaseSeconds, want)
	}
	if second.Attempts[1].Lease != 0 {
		t.Error("what was read is changed")
	}
}
