package claim_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"oneeffect/internal/claim"
)

// tooOld, keyed and free are the words of the table.
func (s situation) tooOld() bool { return s.notAfter == past }
func (s situation) keyed() bool  { return s.declaredKey && s.recordedKey }
func (s situation) free() bool   { return s.released || s.age.stale() }
func (s situation) windowPassed() bool {
	return s.window == past || s.window == present
}

// row is one line of the table of verdicts: the first that fits decides.
type row struct {
	says string
	fits func(s situation) bool
	want answer
}

// answer is what a row decides. What it writes is made by the test, from the
// words of the table, in written.
type answer struct {
	kind   claim.Kind
	reason string // of a refusal, or of the failure that is written
	writes string // "", "first", "take over", "re-open" or "fail"
}

// verdicts is the table of the claim protocol. It knows nothing of Take.
var verdicts = []row{
	{
		"nothing, message past notAfter: refused TooOld", func(s situation) bool { return s.stands == "" && s.tooOld() },
		answer{claim.Refused, claim.TooOld, ""},
	},
	{
		"nothing: granted, fence 1", func(s situation) bool { return s.stands == "" },
		answer{claim.Granted, "", "first"},
	},
	{
		"another fingerprint: refused IdempotencyKeyReused", func(s situation) bool { return !s.sameAsk },
		answer{claim.Refused, claim.IdempotencyKeyReused, ""},
	},
	{
		"COMPLETED: done", func(s situation) bool { return s.stands == claim.Completed },
		answer{claim.Done, "", ""},
	},
	{
		"CANCELLED: settle, no call", func(s situation) bool { return s.stands == claim.Cancelled },
		answer{claim.Withdrawn, "", ""},
	},
	{
		"FAILED, message.run ≤ claim.run: failed", func(s situation) bool { return s.stands == claim.Failed && s.run <= 2 },
		answer{claim.Over, "", ""},
	},
	{
		"FAILED, message.run > claim.run, past notAfter: refused TooOld", func(s situation) bool { return s.stands == claim.Failed && s.tooOld() },
		answer{claim.Refused, claim.TooOld, ""},
	},
	{
		"FAILED, message.run > claim.run, effect unknown and not asserted, keyless on either side: failed OutcomeUnknown of this run",
		func(s situation) bool { return s.stands == claim.Failed && s.unknown && !s.asserted && !s.keyed() },
		answer{claim.Over, claim.OutcomeUnknown, "fail again"},
	},
	{
		"FAILED, message.run > claim.run: re-opened", func(s situation) bool { return s.stands == claim.Failed },
		answer{claim.Granted, "", "re-open"},
	},
	{
		"IN_PROGRESS, lease stands, not released: busy", func(s situation) bool { return !s.free() },
		answer{claim.Busy, "", ""},
	},
	{
		"released, notBefore not reached: busy until notBefore", func(s situation) bool { return s.released && s.notBefore == future },
		answer{claim.Busy, "", ""},
	},
	{
		"keyless and callStarted, or recorded keyed: failed OutcomeUnknown", func(s situation) bool { return !s.keyed() && (s.callStarted || s.recordedKey) },
		answer{claim.Over, claim.OutcomeUnknown, "fail"},
	},
	{
		"declared keyless, with another keyless step than recorded: failed OutcomeUnknown", func(s situation) bool { return !s.declaredKey && s.step == anotherStep },
		answer{claim.Over, claim.OutcomeUnknown, "fail"},
	},
	{
		"keyed, window passed: failed KeyWindowPassed", func(s situation) bool { return s.keyed() && s.windowPassed() },
		answer{claim.Over, claim.KeyWindowPassed, "fail"},
	},
	{
		"past notAfter: failed TooOld", func(s situation) bool { return s.tooOld() },
		answer{claim.Over, claim.TooOld, "fail"},
	},
	{
		"starts ≥ maxAttempts: failed AttemptsExhausted", func(s situation) bool { return s.starts >= 8 },
		answer{claim.Over, claim.AttemptsExhausted, "fail"},
	},
	{
		"otherwise: granted, fence + 1", func(situation) bool { return true },
		answer{claim.Granted, "", "take over"},
	},
}

// written is what a row writes: the record that stood, and what changes in it.
func (s situation) written(a answer) claim.Claim {
	if a.writes == "first" {
		return claim.Claim{
			ID: "82f3", Status: claim.InProgress, Run: s.run, Fence: 1, Owner: ours, LeaseSeconds: 300, TaskType: "customer.create",
			Keyed: s.declaredKey, KeylessStep: s.declaredStep(), Fingerprint: "sha256:asked", FirstCallAt: asked, Starts: 1,
			Attempts: []claim.Attempt{{Fence: 1, Owner: ours, At: asked}}, TTL: 2592000, Version: 1,
		}
	}
	c := *s.claim()
	if a.writes == "" {
		return c
	}
	c.Owner, c.Fence, c.TTL = ours, 5, 2592000
	c.Released, c.NotBefore = false, time.Time{}
	end := &c.Attempts[1].End
	if a.writes == "fail again" {
		c.Run = s.run
		return c
	}
	if a.writes == "fail" {
		c.Status = claim.Failed
		if *end == "" {
			*end = "failed: " + a.reason
		}
		return c
	}
	if *end == "" {
		*end = "lease expired"
	}
	c.Keyed = s.keyed()
	c.Run = max(2, s.run)
	c.Starts++
	c.Attempts = append(c.Attempts, claim.Attempt{Fence: 5, Owner: ours, At: asked})
	if a.writes == "re-open" {
		c.Status, c.Failure = claim.InProgress, nil
		c.Starts, c.Answered, c.CallStarted = 1, 0, false
		if s.asserted || !s.unknown {
			c.Keyed, c.KeylessStep = s.declaredKey, s.declaredStep()
		}
		if s.asserted {
			c.FirstCallAt = asked
		}
	}
	return c
}

// Every situation, against the table (C2, C3, C6, C7, C8, C10).
func TestEverySituationGetsTheVerdictOfTheTable(t *testing.T) {
	hits := make([]int, len(verdicts))
	for s := range everySituation {
		i := slices.IndexFunc(verdicts, func(r row) bool { return r.fits(s) })
		hits[i]++
		next, v, write := s.take()
		if problem := s.differs(verdicts[i].want, next, v, write); problem != "" {
			t.Fatalf("%+v\nrow %q: %s", s, verdicts[i].says, problem)
		}
	}
	for i, n := range hits {
		if n == 0 {
			t.Errorf("no situation reached the row %q", verdicts[i].says)
		}
	}
}

// differs says where a verdict differs from what a row wants.
func (s situation) differs(want answer, next claim.Claim, v claim.Verdict, write bool) string {
	if v.Kind != want.kind || write != (want.writes != "") {
		return fmt.Sprintf("%s, write %t, want %s, write %t", v.Kind, write, want.kind, want.writes != "")
	}
	if want.kind == claim.Refused && v.Reason != want.reason || want.kind != claim.Refused && v.Reason != "" {
		return fmt.Sprintf("refused for %q, want %q", v.Reason, want.reason)
	}
	if s.stands == "" && want.writes == "" {
		if !reflect.DeepEqual(next, claim.Claim{}) {
			return fmt.Sprintf("nothing stood, and yet there is %+v", next)
		}
		return ""
	}
	if !reflect.DeepEqual(next, v.Claim) {
		return fmt.Sprintf("the verdict leaves %+v, but %+v is to be written", v.Claim, next)
	}
	if want.writes == "fail" || want.writes == "fail again" {
		f := next.Failure
		if f == nil || f.Reason != want.reason || f.Description == "" || f.Outcome != s.outcome(want.reason) {
			return fmt.Sprintf("failed with %+v, want %s with outcome %s", f, want.reason, s.outcome(want.reason))
		}
		next.Failure = nil
	}
	if want.writes == "fail again" {
		next.Failure = s.claim().Failure // it is compared above
	}
	if record := s.written(want); !reflect.DeepEqual(next, record) {
		return fmt.Sprintf("\ngot  %+v\nwant %+v", next, record)
	}
	if want.kind == claim.Busy {
		return s.wrongWait(v.Wait)
	}
	if v.Wait != 0 {
		return fmt.Sprintf("wait %v, want none", v.Wait)
	}
	return ""
}

// outcome is what may be said of the effect: none only where no call can have been made.
func (s situation) outcome(reason string) string {
	if s.keyed() || s.callStarted || s.step != noSteps || reason == claim.OutcomeUnknown || reason == claim.KeyWindowPassed {
		return claim.EffectUnknown
	}
	return claim.EffectNone
}

// wrongWait finds a wait after which the same ask would be in vain again, or one
// that is more than a second too long. Ages are whole seconds, so up to a second
// of them does not show.
func (s situation) wrongWait(wait time.Duration) string {
	if s.released {
		if wait != time.Minute {
			return fmt.Sprintf("wait %v, want a minute, until notBefore", wait)
		}
		return ""
	}
	stale := 305 * time.Second
	if age := s.age.duration() + wait; age <= stale || age > stale+time.Second {
		return fmt.Sprintf("wait %v, after which the record is %v old; stale after %v", wait, age, stale)
	}
	return ""
}

func TestTakeLeavesWhatStoodAsItWas(t *testing.T) {
	for s := range everySituation {
		if s.stands == "" || s.starts == 7 { // half of them are enough
			continue
		}
		stood := s.claim()
		next, _, write := claim.Take(stood, s.age.duration(), s.ask(), ours, terms)
		if write {
			for i := range next.Attempts {
				next.Attempts[i].Owner = "somebody"
			}
		}
		if !reflect.DeepEqual(stood, s.claim()) {
			t.Fatalf("%+v: what stood became %+v", s, stood)
		}
	}
}
