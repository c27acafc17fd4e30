package claim_test

import (
	"time"

	"oneeffect/internal/claim"

	"github.com/go-json-experiment/json/jsontext"
)

var terms = claim.Terms{
	Lease: 300 * time.Second, OwnerMargin: 10 * time.Second, ChallengerMargin: 5 * time.Second,
	MaxAttempts: 8, Keep: 30 * 24 * time.Hour,
}

const (
	keyWindow = 24 * time.Hour
	keyMargin = 15 * time.Minute
	ours      = "worker-2/77aa/01"
	theirs    = "worker-1/5f3a/91"
)

// asked is the moment of an ask, by the broker's clock; begun is when the claim was first granted.
var (
	asked = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	begun = asked.Add(-time.Hour)
)

// situation is everything that a verdict depends on, as facts. The claim, if one
// stands, is of run 2 and fence 4.
type situation struct {
	stands      claim.Status // "" for nothing
	sameAsk     bool         // the fingerprints are equal
	run         int          // of the message
	age         age
	released    bool
	notBefore   moment
	declaredKey bool
	recordedKey bool
	callStarted bool
	window      moment // its end, the margin taken off
	notAfter    moment
	starts      int
	asserted    bool
	step        keylessStep
	unknown     bool // what a failure says of the effect
}

// keylessStep is what claim and handler say of a step that honours no key.
type keylessStep int

const (
	noSteps       keylessStep = iota // the task is one call
	sameStep                         // both name the same one
	anotherStep                      // they differ
	sameStepLater                    // the same one, and a step before it is made
)

func (k keylessStep) recorded() string { return [...]string{"", "letter", "letter", "letter"}[k] }
func (k keylessStep) declared() string { return [...]string{"", "letter", "mail", "letter"}[k] }

// age is that of the record by the store's clock, relative to its lease.
type age int

const (
	atMarginEnd age = iota // lease and margin to the second: not stale yet
	pastMargin
)

func (a age) stale() bool { return a == pastMargin }

func (a age) duration() time.Duration {
	return [...]time.Duration{305 * time.Second, 306 * time.Second}[a]
}

// moment is a time relative to the ask.
type moment int

const (
	past moment = iota + 1
	present
	future
)

func (m moment) time() time.Time {
	switch m {
	case past:
		return asked.Add(-time.Nanosecond)
	case present:
		return asked
	case future:
		return asked.Add(time.Minute)
	}
	return time.Time{}
}

func (s situation) claim() *claim.Claim {
	if s.stands == "" {
		return nil
	}
	c := &claim.Claim{
		ID: "82f3", Status: s.stands, Run: 2, Fence: 4, Owner: theirs, W: "91bd", LeaseSeconds: 300,
		TaskType: "customer.create", Keyed: s.recordedKey, Fingerprint: "sha256:asked", CallStarted: s.callStarted,
		FirstCallAt: s.window.time().Add(keyMargin - keyWindow), Starts: s.starts, Answered: 1,
		NotBefore: s.notBefore.time(), Released: s.released,
		Attempts: []claim.Attempt{{Fence: 1, Owner: theirs, At: begun, End: "lease expired"}, {Fence: 4, Owner: theirs, At: begun.Add(time.Minute)}},
		TTL:      7, Version: 1, Unknown: jsontext.Value(`{"later":{}}`),
	}
	if !s.recordedKey {
		c.KeylessStep = s.step.recorded()
	}
	if s.step == sameStepLater {
		c.Steps = claim.Steps{"customer": {Ref: "/customers/7"}}
	}
	if !s.sameAsk {
		c.Fingerprint = "sha256:other"
	}
	switch s.stands {
	case claim.Completed:
		c.Result = &claim.Result{Ref: "/customers/7", Digest: "sha256:result"}
		c.Attempts[1].End = "completed"
	case claim.Failed:
		c.Failure = &claim.Failure{Reason: claim.DownstreamRejected, Description: "no", Outcome: claim.EffectNone}
		if s.unknown {
			c.Failure.Outcome = claim.EffectUnknown
		}
		c.Attempts[1].End = "failed: DownstreamRejected"
	}
	return c
}

func (s situation) ask() claim.Ask {
	return claim.Ask{
		ID: "82f3", TaskType: "customer.create", Fingerprint: "sha256:asked", Run: s.run,
		Keyed: s.declaredKey, KeyWindow: keyWindow, KeyMargin: keyMargin,
		NotAfter: s.notAfter.time(), Asserted: s.asserted, Now: func() time.Time { return asked },
		KeylessStep: s.declaredStep(),
	}
}

func (s situation) declaredStep() string {
	if s.declaredKey {
		return ""
	}
	return s.step.declared()
}

func (s situation) take() (claim.Claim, claim.Verdict, bool) {
	return claim.Take(s.claim(), s.age.duration(), s.ask(), ours, terms)
}

// everySituation is the product of all facts, without those that differ only in
// facts of a record that does not stand.
func everySituation(yield func(situation) bool) {
	statuses := []claim.Status{"", claim.InProgress, claim.Completed, claim.Failed, claim.Cancelled}
	both := []bool{false, true}
	for s := range product(statuses, func(s *situation, v claim.Status) { s.stands = v },
		dimension(both, func(s *situation, v bool) { s.sameAsk = v }),
		dimension([]int{1, 2, 3}, func(s *situation, v int) { s.run = v }),
		dimension([]age{atMarginEnd, pastMargin}, func(s *situation, v age) { s.age = v }),
		dimension(both, func(s *situation, v bool) { s.released = v }),
		dimension([]moment{present, future}, func(s *situation, v moment) { s.notBefore = v }),
		dimension(both, func(s *situation, v bool) { s.declaredKey = v }),
		dimension(both, func(s *situation, v bool) { s.recordedKey = v }),
		dimension(both, func(s *situation, v bool) { s.callStarted = v }),
		dimension([]moment{present, future}, func(s *situation, v moment) { s.window = v }),
		dimension([]moment{past, present}, func(s *situation, v moment) { s.notAfter = v }),
		dimension([]int{7, 8}, func(s *situation, v int) { s.starts = v }),
		dimension(both, func(s *situation, v bool) { s.asserted = v }),
		dimension(both, func(s *situation, v bool) { s.unknown = v }),
		dimension([]keylessStep{noSteps, sameStep, anotherStep, sameStepLater}, func(s *situation, v keylessStep) { s.step = v }),
	) {
		if s.unknown && s.stands != claim.Failed {
			continue
		}
		if s.stands == "" && s != s.nothing() || s.step != noSteps && (s.stands == claim.Completed || s.stands == claim.Cancelled) {
			continue
		}
		if !yield(s) {
			return
		}
	}
}

// nothing is a situation without what only a record knows.
func (s situation) nothing() situation {
	return situation{run: s.run, declaredKey: s.declaredKey, notAfter: s.notAfter, asserted: s.asserted, notBefore: present, window: future, starts: 7, step: s.step}
}

// dimension sets one fact to each of its values in turn.
func dimension[T any](values []T, set func(*situation, T)) func(situation, func(situation) bool) bool {
	return func(s situation, yield func(situation) bool) bool {
		for _, v := range values {
			set(&s, v)
			if !yield(s) {
				return false
			}
		}
		return true
	}
}

func product(statuses []claim.Status, set func(*situation, claim.Status), dimensions ...func(situation, func(situation) bool) bool) func(func(situation) bool) {
	return func(yield func(situation) bool) {
		var walk func(s situation, rest []func(situation, func(situation) bool) bool) bool
		walk = func(s situation, rest []func(situation, func(situation) bool) bool) bool {
			if len(rest) == 0 {
				return yield(s)
			}
			return rest[0](s, func(s situation) bool { return walk(s, rest[1:]) })
		}
		dimension(statuses, set)(situation{}, func(s situation) bool { return walk(s, dimensions) })
	}
}
