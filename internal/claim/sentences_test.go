package claim_test

import (
	"testing"
	"time"

	"oneeffect/internal/claim"
)

// held is a claim of run 1 that somebody has just been granted, keyed.
func held(change ...func(*claim.Claim)) *claim.Claim {
	c := &claim.Claim{
		ID: "82f3", Status: claim.InProgress, Run: 1, Fence: 1, Owner: theirs, LeaseSeconds: 300, TaskType: "customer.create",
		Keyed: true, Fingerprint: "sha256:asked", FirstCallAt: begun, Starts: 1,
		Attempts: []claim.Attempt{{Fence: 1, Owner: theirs, At: begun}}, TTL: 2592000, Version: 1,
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func completed(c *claim.Claim) {
	c.Status, c.Result = claim.Completed, &claim.Result{Ref: "/customers/7", Digest: "sha256:result"}
}
func failed(c *claim.Claim) {
	c.Status, c.Failure = claim.Failed, &claim.Failure{Reason: claim.DownstreamRejected, Outcome: claim.EffectNone}
}
func cancelled(c *claim.Claim)   { c.Status = claim.Cancelled }
func released(c *claim.Claim)    { c.Released = true }
func keyless(c *claim.Claim)     { c.Keyed = false }
func callStarted(c *claim.Claim) { c.CallStarted = true }
func otherTask(c *claim.Claim)   { c.Fingerprint = "sha256:other" }

func until(notBefore time.Time) func(*claim.Claim) {
	return func(c *claim.Claim) { c.NotBefore = notBefore }
}
func started(n int) func(*claim.Claim) { return func(c *claim.Claim) { c.Starts = n } }
func firstCall(at time.Time) func(*claim.Claim) {
	return func(c *claim.Claim) { c.FirstCallAt = at }
}

// asking is a keyed ask of run 1 that is well in time.
func asking(change ...func(*claim.Ask)) claim.Ask {
	a := situation{run: 1, declaredKey: true, notAfter: future}.ask()
	for _, f := range change {
		f(&a)
	}
	return a
}

func tooLate(a *claim.Ask)       { a.NotAfter = asked.Add(-time.Second) }
func atLastMoment(a *claim.Ask)  { a.NotAfter = asked }
func withoutKey(a *claim.Ask)    { a.Keyed = false }
func withAssertion(a *claim.Ask) { a.Asserted = true }
func ofRun(n int) func(*claim.Ask) {
	return func(a *claim.Ask) { a.Run = n }
}

func TestTake(t *testing.T) {
	const stands, ended = 305 * time.Second, 306 * time.Second
	over := func(reason, outcome string) string { return "over " + reason + " " + outcome }
	for _, test := range []struct {
		says   string
		stands *claim.Claim
		age    time.Duration
		ask    claim.Ask
		want   string // kind, and what else is said
		fence  int64  // of the record as the verdict leaves it
		writes bool
	}{
		{"the first delivery is granted with fence 1", nil, 0, asking(), "granted", 1, true}, // C3
		{"the first delivery is granted at the last moment", nil, 0, asking(atLastMoment), "granted", 1, true},
		{"nothing is created for a message past notAfter", nil, 0, asking(tooLate), "refused TooOld", 0, false},
		{"a keyless first delivery is granted", nil, 0, asking(withoutKey), "granted", 1, true},
		{"another payload under the same key is refused while the work runs", held(otherTask), 0, asking(), "refused IdempotencyKeyReused", 1, false},             // C7
		{"another payload is refused after the lease has ended", held(otherTask), ended, asking(), "refused IdempotencyKeyReused", 1, false},                      // C7
		{"another payload is refused after completion", held(completed, otherTask), 0, asking(), "refused IdempotencyKeyReused", 1, false},                        // C7
		{"another payload is refused after failure, also by a later run", held(failed, otherTask), 0, asking(ofRun(2)), "refused IdempotencyKeyReused", 1, false}, // C7
		{"another payload is refused after cancel", held(cancelled, otherTask), 0, asking(), "refused IdempotencyKeyReused", 1, false},                            // C7
		{"another payload of a message past notAfter is still another payload", held(otherTask), 0, asking(tooLate), "refused IdempotencyKeyReused", 1, false},    // C7
		{"a completed claim is told again", held(completed), 0, asking(), "done", 1, false},                                                                       // C2
		{"a completed claim is told again however old", held(completed), 700 * time.Hour, asking(tooLate), "done", 1, false},                                      // C2
		{"a completed claim is told again to a later run", held(completed), ended, asking(ofRun(2), withAssertion), "done", 1, false},                             // C2
		{"a completed claim is told again to a keyless handler", held(completed), ended, asking(withoutKey), "done", 1, false},                                    // C2
		{"nobody wants a cancelled claim", held(cancelled), ended, asking(ofRun(2)), "withdrawn", 1, false},
		{"a failed claim is told again to its own run", held(failed), ended, asking(), over(claim.DownstreamRejected, claim.EffectNone), 1, false}, // C10
		{"a failed claim is told again to its own run past notAfter", held(failed), ended, asking(tooLate), over(claim.DownstreamRejected, claim.EffectNone), 1, false},
		{"a failed claim is re-opened by a later run", held(failed), 0, asking(ofRun(2)), "granted", 2, true}, // C3
		{"a failed claim is not re-opened past notAfter", held(failed), 0, asking(ofRun(2), tooLate), "refused TooOld", 1, false},
		{"a standing lease is busy", held(), 0, asking(), "busy", 1, false},                                                                // C1
		{"a lease stands until its margin has passed too", held(), stands, asking(), "busy", 1, false},                                     // C1, C6
		{"a record from the future is busy", held(), -time.Minute, asking(), "busy", 1, false},                                             // C6: a lagging Date
		{"a standing lease is busy past notAfter", held(), 0, asking(tooLate), "busy", 1, false},                                           // C1
		{"a standing lease is busy for a later run", held(), 0, asking(ofRun(2)), "busy", 1, false},                                        // C1
		{"a standing lease is busy after a keyless call has started", held(keyless, callStarted), 0, asking(withoutKey), "busy", 1, false}, // C1
		{"a stale claim passes on with a larger fence", held(), ended, asking(), "granted", 2, true},                                       // C3
		{"a stale keyless claim passes on if no call has started", held(keyless), ended, asking(withoutKey), "granted", 2, true},
		{"a released claim passes on at once", held(released), 0, asking(), "granted", 2, true},
		{"a released claim waits for notBefore", held(released, until(asked.Add(time.Second))), 0, asking(), "busy", 1, false},
		{"a released claim waits for notBefore, however old", held(released, until(asked.Add(time.Hour))), 400 * time.Hour, asking(), "busy", 1, false},
		{"a released claim passes on at notBefore", held(released, until(asked)), 0, asking(), "granted", 2, true},
		{"a released claim waits for notBefore past notAfter too", held(released, until(asked.Add(time.Hour))), 0, asking(tooLate), "busy", 1, false},
		{"a keyless call that was started is never made again", held(keyless, callStarted), ended, asking(withoutKey), over(claim.OutcomeUnknown, "unknown"), 2, true},
		{"… also when the handler is keyed now", held(keyless, callStarted), ended, asking(), over(claim.OutcomeUnknown, "unknown"), 2, true},
		{"… also when an operator's assertion comes early", held(keyless, callStarted), ended, asking(withAssertion), over(claim.OutcomeUnknown, "unknown"), 2, true},
		{"… also past notAfter", held(keyless, callStarted), ended, asking(tooLate), over(claim.OutcomeUnknown, "unknown"), 2, true},
		{"a claim recorded keyed is nothing for a keyless handler", held(), ended, asking(withoutKey), over(claim.OutcomeUnknown, "unknown"), 2, true},
		{"a claim recorded keyless stays so for a keyed handler", held(keyless), ended, asking(), "granted", 2, true},
		{"the key window ends a keyed claim", held(firstCall(asked.Add(keyMargin - keyWindow))), ended, asking(), over(claim.KeyWindowPassed, "unknown"), 2, true},
		{"the key window stands a moment before", held(firstCall(asked.Add(keyMargin - keyWindow + 1))), ended, asking(), "granted", 2, true},
		{"the key window is nothing to a keyless claim", held(keyless, firstCall(asked.Add(-100*time.Hour))), ended, asking(withoutKey), "granted", 2, true},
		{"past notAfter a keyed claim fails, its effect unknown", held(), ended, asking(tooLate), over(claim.TooOld, "unknown"), 2, true},
		{"past notAfter a keyless claim fails without effect", held(keyless), ended, asking(withoutKey, tooLate), over(claim.TooOld, "none"), 2, true},
		{"the eighth start is the last", held(started(7)), ended, asking(), "granted", 2, true},                                                                                          // C8
		{"a task that has killed eight workers ends", held(started(8)), ended, asking(), over(claim.AttemptsExhausted, "unknown"), 2, true},                                              // C8
		{"a keyless task that has killed eight workers before any call ends without effect", held(keyless, started(8)), ended, asking(), over(claim.AttemptsExhausted, "none"), 2, true}, // C8
		{"a later run takes over what runs under an earlier one", held(), ended, asking(ofRun(3)), "granted", 2, true},
	} {
		t.Run(test.says, func(t *testing.T) {
			next, v, write := claim.Take(test.stands, test.age, test.ask, ours, terms)
			got := v.Kind.String()
			switch v.Kind {
			case claim.Refused:
				got += " " + v.Reason
			case claim.Over:
				got += " " + v.Claim.Failure.Reason + " " + v.Claim.Failure.Outcome
			}
			if got != test.want || v.Claim.Fence != test.fence || write != test.writes {
				t.Errorf("%s, fence %d, write %t; want %s, fence %d, write %t", got, v.Claim.Fence, write, test.want, test.fence, test.writes)
			}
			if write && next.Owner != ours {
				t.Errorf("the record would belong to %s", next.Owner)
			}
		})
	}
}

func TestALaterRunBeginsAnew(t *testing.T) { // C8
	ended := held(failed, started(8), callStarted, firstCall(begun))
	ended.Answered = 5
	next, _, _ := claim.Take(ended, 0, asking(ofRun(2)), ours, terms)
	if next.Run != 2 || next.Starts != 1 || next.Answered != 0 || next.CallStarted || next.Failure != nil || next.Status != claim.InProgress {
		t.Errorf("re-opened as %+v", next)
	}
	if !next.FirstCallAt.Equal(begun) {
		t.Errorf("firstCallAt became %v: the downstream has known the key since %v", next.FirstCallAt, begun)
	}
	next, _, _ = claim.Take(ended, 0, asking(ofRun(2), withAssertion), ours, terms)
	if !next.FirstCallAt.Equal(asked) {
		t.Errorf("firstCallAt is %v: nothing was applied, so the key is used first at %v", next.FirstCallAt, asked)
	}
}

func TestAMessageOfAnEarlierRunTakesOverTheLaterOne(t *testing.T) {
	late := held()
	late.Run = 3
	next, v, _ := claim.Take(late, 306*time.Second, asking(ofRun(2)), ours, terms)
	if v.Kind != claim.Granted || next.Run != 3 {
		t.Errorf("%s, run %d, want run 3 granted", v.Kind, next.Run)
	}
}

func TestFirstCallAtIsKeptOverTakeovers(t *testing.T) {
	c := held(firstCall(begun))
	for fence := int64(2); fence < 6; fence++ {
		next, v, _ := claim.Take(c, time.Hour, asking(withAssertion), ours, terms)
		if v.Kind != claim.Granted || next.Fence != fence || !next.FirstCallAt.Equal(begun) {
			t.Fatalf("%s, fence %d, firstCallAt %v", v.Kind, next.Fence, next.FirstCallAt)
		}
		c = &next
	}
}

// The record keeps the lease that was granted, so terms may change between two
// versions of the program.
func TestALeaseStandsForAsLongAsItsOwnTermsSay(t *testing.T) { // C1
	long := held(func(c *claim.Claim) { c.LeaseSeconds = 600 })
	if _, v, _ := claim.Take(long, 605*time.Second, asking(), ours, terms); v.Kind != claim.Busy {
		t.Errorf("after its 600 s and our margin of 5 s: %s, want busy", v.Kind)
	}
	next, v, _ := claim.Take(long, 606*time.Second, asking(), ours, terms)
	if v.Kind != claim.Granted || next.LeaseSeconds != 300 {
		t.Errorf("a second later: %s for %d s, want it granted on our terms", v.Kind, next.LeaseSeconds)
	}
}

func TestWindowPassed(t *testing.T) {
	for _, test := range []struct {
		says string
		now  time.Duration // since the first call
		want bool
	}{
		{"at the first call", 0, false},
		{"a moment before the margin", keyWindow - keyMargin - 1, false},
		{"at the margin", keyWindow - keyMargin, true},
		{"at the end", keyWindow, true},
		{"long after", 100 * keyWindow, true},
	} {
		if got := claim.WindowPassed(begun, begun.Add(test.now), keyWindow, keyMargin); got != test.want {
			t.Errorf("%s: %t, want %t", test.says, got, test.want)
		}
	}
	if !claim.WindowPassed(time.Time{}, begun, keyWindow, keyMargin) {
		t.Error("a claim that does not say when its key was first used would be called again")
	}
	if !claim.WindowPassed(begun, begun, 0, keyMargin) {
		t.Error("a downstream that remembers nothing would be called again")
	}
}

func TestKindsHaveNames(t *testing.T) {
	for kind, want := range map[claim.Kind]string{
		0: "undecided", claim.Granted: "granted", claim.Done: "done", claim.Withdrawn: "withdrawn", claim.Busy: "busy", claim.Over: "over", claim.Refused: "refused",
	} {
		if got := kind.String(); got != want {
			t.Errorf("kind %d is %q, want %q", kind, got, want)
		}
	}
}
