package claim_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
)

// look is what the orchestrator knows of run 2 of the execution.
func look(change ...func(*claim.Look)) claim.Look {
	l := claim.Look{ID: "82f3", TaskType: "customer.create", Fingerprint: "sha256:asked", Run: 2, NotAfter: asked.Add(time.Hour), Now: asked}
	for _, f := range change {
		f(&l)
	}
	return l
}

func deadLetter(l *claim.Look) { l.DeadLetter = "MaxDeliveryCountExceeded" }
func late(l *claim.Look)       { l.NotAfter = asked.Add(-time.Second) }

// The rows of E4 (a dead letter was seen) and E5 (the execution is old), the first
// that fits; reasons of what is written are in brackets.
func TestEveryClaimIsExaminedByTheTable(t *testing.T) { // E4 E5
	keyed := situation{stands: claim.InProgress, sameAsk: true, age: pastMargin, recordedKey: true, starts: 2, notBefore: present, window: future}
	with := func(change func(*situation)) *claim.Claim {
		s := keyed
		change(&s)
		return s.claim()
	}
	earlier := with(func(s *situation) { s.stands = claim.Failed })
	earlier.Run = 1
	type verdict struct {
		found  claim.Found
		writes string
	}
	for _, test := range []struct {
		says       string
		stands     *claim.Claim
		age        age
		reconciler verdict // E5
		letter     verdict // E4
		tooLate    verdict // E5, past notAfter
	}{
		{"COMPLETED", with(func(s *situation) { s.stands = claim.Completed }), pastMargin, verdict{claim.FoundDone, ""}, verdict{claim.FoundDone, ""}, verdict{claim.FoundDone, ""}},
		{"CANCELLED", with(func(s *situation) { s.stands = claim.Cancelled }), pastMargin, verdict{claim.FoundNothing, ""}, verdict{claim.FoundNothing, ""}, verdict{claim.FoundNothing, ""}},
		{"FAILED of this run", with(func(s *situation) { s.stands = claim.Failed }), pastMargin, verdict{claim.FoundOver, ""}, verdict{claim.FoundOver, ""}, verdict{claim.FoundOver, ""}},
		{"lease stands", with(func(*situation) {}), atMarginEnd, verdict{claim.FoundAlive, ""}, verdict{claim.FoundAlive, ""}, verdict{claim.FoundAlive, ""}},
		{"released, notBefore to come", with(func(s *situation) { s.released, s.notBefore = true, future }), pastMargin, verdict{claim.FoundAlive, ""}, verdict{claim.FoundAlive, ""}, verdict{claim.FoundAlive, ""}},
		{"keyless and callStarted", with(func(s *situation) { s.recordedKey, s.callStarted = false, true }), pastMargin, verdict{claim.FoundOver, claim.OutcomeUnknown}, verdict{claim.FoundOver, claim.OutcomeUnknown}, verdict{claim.FoundOver, claim.OutcomeUnknown}},
		{"stale", with(func(*situation) {}), pastMargin, verdict{claim.FoundNobody, ""}, verdict{claim.FoundOver, "MaxDeliveryCountExceeded"}, verdict{claim.FoundOver, claim.TooOld}},
		{"released", with(func(s *situation) { s.released = true }), atMarginEnd, verdict{claim.FoundNobody, ""}, verdict{claim.FoundOver, "MaxDeliveryCountExceeded"}, verdict{claim.FoundOver, claim.TooOld}},
		{"FAILED of an earlier run", earlier, pastMargin, verdict{claim.FoundNobody, ""}, verdict{claim.FoundOver, "MaxDeliveryCountExceeded"}, verdict{claim.FoundOver, claim.TooOld}},
		{"nothing", nil, pastMargin, verdict{claim.FoundNobody, ""}, verdict{claim.FoundOver, "MaxDeliveryCountExceeded"}, verdict{claim.FoundOver, claim.TooOld}},
	} {
		for _, by := range []struct {
			what string
			look claim.Look
			want verdict
		}{
			{"the reconciler", look(), test.reconciler}, {"a dead letter", look(deadLetter), test.letter}, {"the reconciler, too late", look(late), test.tooLate},
		} {
			next, found, write := claim.Examine(test.stands, test.age.duration(), by.look, ours, terms)
			if found != by.want.found || write != (by.want.writes != "") {
				t.Errorf("%s, %s: %s, write %t, want %s %q", test.says, by.what, found, write, by.want.found, by.want.writes)
				continue
			}
			if !write {
				continue
			}
			if next.Status != claim.Failed || next.Run != 2 || next.Failure.Reason != by.want.writes || next.Owner != ours {
				t.Errorf("%s, %s: writes %+v, failure %+v", test.says, by.what, next, next.Failure)
			}
			if test.stands != nil && next.Fence != test.stands.Fence+1 || test.stands == nil && (next.Fence != 1 || next.Fingerprint != "sha256:asked") {
				t.Errorf("%s, %s: fence %d, fingerprint %s", test.says, by.what, next.Fence, next.Fingerprint)
			}
		}
	}
}

// A run that nobody took ends without an effect of its own, but what an earlier one
// may have done is not known any better for it: a third run must not begin as if it
// were.
func TestADeadRunDoesNotForgetWhatAnEarlierOneMayHaveDone(t *testing.T) { // E4 W1
	s := situation{stands: claim.Failed, sameAsk: true, recordedKey: true, starts: 2, notBefore: present, window: future, unknown: true}
	earlier := s.claim()
	earlier.Run = 1
	for says, l := range map[string]claim.Look{"a dead letter": look(deadLetter), "too late": look(late)} {
		next, found, write := claim.Examine(earlier, s.age.duration(), l, ours, terms)
		if found != claim.FoundOver || !write || next.Failure.Outcome != claim.EffectUnknown {
			t.Errorf("%s: %s, write %t, failure %+v, want it failed with outcome unknown", says, found, write, next.Failure)
		}
	}
}

// A keyless claim whose steps were announced one by one has effects, and they are
// on record.
func TestStepsThatAreKeptAreNotNothing(t *testing.T) { // E4
	s := situation{stands: claim.InProgress, sameAsk: true, age: pastMargin, starts: 2, notBefore: present, window: future}
	c := s.claim()
	c.Steps = claim.Steps{"customer": {Ref: "/customers/7"}}
	if next, _, _ := claim.Examine(c, s.age.duration(), look(deadLetter), ours, terms); next.Failure == nil || next.Failure.Outcome == claim.EffectNone {
		t.Errorf("failed with %+v", next.Failure)
	}
}

func TestOnlyWhatNobodyCanHaveCalledIsCancelled(t *testing.T) { // E8
	base := situation{stands: claim.InProgress, sameAsk: true, age: pastMargin, starts: 2, notBefore: present, window: future}
	for says, test := range map[string]struct {
		change func(*situation)
		fence  int64 // of what is written; 0: nothing is
	}{
		"nothing stands":         {func(s *situation) { s.stands = "" }, 1},
		"keyless and stale":      {func(*situation) {}, 5},
		"keyless and released":   {func(s *situation) { s.age, s.released = atMarginEnd, true }, 5},
		"its lease stands":       {func(s *situation) { s.age = atMarginEnd }, 0},
		"a call may be made":     {func(s *situation) { s.callStarted = true }, 0},
		"keyed":                  {func(s *situation) { s.recordedKey = true }, 0},
		"keyed steps beside one": {func(s *situation) { s.step = sameStep }, 0},
		"completed":              {func(s *situation) { s.stands = claim.Completed }, 0},
		"failed":                 {func(s *situation) { s.stands = claim.Failed }, 0},
		"cancelled already":      {func(s *situation) { s.stands = claim.Cancelled }, 0},
	} {
		s := base
		test.change(&s)
		next, write := claim.Withdraw(s.claim(), s.age.duration(), look(), ours, terms)
		if write != (test.fence > 0) || write && (next.Status != claim.Cancelled || next.Fence != test.fence || next.Owner != ours || next.Fingerprint != "sha256:asked") {
			t.Errorf("%s: write %t, %s, fence %d, owner %s, fingerprint %s", says, write, next.Status, next.Fence, next.Owner, next.Fingerprint)
		}
	}
}

// A worker that is on its way is fenced by the orchestrator as by another worker.
func TestTheOrchestratorsWritesCountAsANewerGrant(t *testing.T) { // C4 E4
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task())
		w.hub.Isolate("worker-1")
		time.Sleep(10 * time.Minute)
		w.hub.Rejoin("worker-1")
		found, stands, err := w.desk("orchestrator").Examine(t.Context(), look(deadLetter, func(l *claim.Look) { l.Run, l.Now, l.NotAfter = 1, time.Now(), time.Now().Add(time.Hour) }))
		if err != nil || found != claim.FoundOver || stands.Fence != 2 {
			t.Fatalf("%s, fence %d, %v", found, stands.Fence, err)
		}
		if _, err := lease.Complete(t.Context(), done(t)); !errors.Is(err, claim.ErrFenced) {
			t.Errorf("a zombie completes what was failed: %v, want ErrFenced", err)
		}
		if v := w.answer(w.desk("worker-2"), task(again)); v.Kind != claim.Over {
			t.Errorf("%s, want the failure to be told", v.Kind)
		}
	})
}

// Whatever becomes of the answer, it is written once.
func TestWhatIsDecidedOverAClaimIsWrittenOnce(t *testing.T) { // C9 C10 E4
	for _, fault := range []control.Rule{
		{When: "after", Do: "drop", Times: 1}, {Do: "drop", Times: 1}, {When: "after", Do: "answer", Status: http.StatusServiceUnavailable, Times: 1}, {Do: "answer", Status: http.StatusConflict, Times: 1},
	} {
		inWorld(t, func(t *testing.T, w *world) {
			fault.Match = control.Match{Operation: "create", Client: "orchestrator"}
			w.arm(fault)
			now := time.Now()
			found, stands, err := w.desk("orchestrator").Examine(t.Context(), look(deadLetter, func(l *claim.Look) { l.Now, l.NotAfter = now, now.Add(time.Hour) }))
			if err != nil || found != claim.FoundOver || w.stands().Claim.W != stands.W || stands.Fence != 1 {
				t.Errorf("%s %s: %s, %+v, %v", fault.When, fault.Do, found, stands, err)
			}
		})
	}
}

func TestAFailedClaimIsResolvedAsAppliedOnce(t *testing.T) { // E7
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task())
		if _, err := lease.Fail(t.Context(), claim.Failure{Reason: claim.OutcomeUnknown, Outcome: claim.EffectUnknown}); err != nil {
			t.Fatal(err)
		}
		d := w.desk("orchestrator")
		for says, ask := range map[string]struct {
			id  string
			run int
		}{"a run that has not failed": {"82f3", 2}, "what nobody has claimed": {"91aa", 1}} {
			if _, err := d.Resolve(t.Context(), ask.id, ask.run, done(t)); !errors.Is(err, claim.ErrNotFailed) {
				t.Errorf("%s is resolved: %v, want ErrNotFailed", says, err)
			}
		}
		for range 2 {
			stands, err := d.Resolve(t.Context(), "82f3", 1, done(t))
			if err != nil || stands.Status != claim.Completed || stands.Fence != 2 || stands.Failure != nil {
				t.Errorf("%+v, %v", stands, err)
			}
		}
		if v := w.answer(w.desk("worker-2"), task(again)); v.Kind != claim.Done {
			t.Errorf("%s, want the result to be told", v.Kind)
		}
	})
}
