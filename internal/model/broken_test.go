package model

import (
	"testing"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// variant is one rule broken, and what must come of it.
type variant struct {
	says  string
	broke func(*rules)
	in    string // the deploy in which it shows
	bound int    // of faults: the least that it takes
	comes fault
}

// explored is what comes of it where it shows.
func (v variant) explored(t *testing.T, bound int) found {
	t.Helper()
	for _, d := range deploys {
		if d.says == v.in {
			r := product
			v.broke(&r)
			return newModel(r, d.first, d.second).within(bound, 2).explore(*nStates)
		}
	}
	t.Fatalf("there is no deploy %q", v.in)
	return found{}
}

var variants = []variant{
	{"a read-back goes by owner and fence alone", func(r *rules) {
		r.readBack = func(stands *claim.Claim, owner string, fence int64, _ func(string) bool) claim.Proof {
			if stands != nil && stands.Status == claim.InProgress && stands.Owner == owner && stands.Fence == fence {
				return claim.Applied
			}
			return claim.Fenced
		}
	}, "keyless", 2, secondEffect},
	{"one owner for all grants of a process", func(r *rules) { r.ownerPerTake = false }, "keyless", 2, secondEffect},
	{"a failure of one's own is taken for a grant", func(r *rules) {
		r.takenBy = func(stands claim.Claim, owner string) bool { return stands.Owner == owner }
	}, "keyed and keyless", 2, secondEffect},
	{"copies have ids by their fence", func(r *rules) { r.randomCopies = false }, "keyed", 1, taskLost},
	{"the reconciler leaves IN_PROGRESS alone", func(r *rules) {
		r.examine = func(stands *claim.Claim, age time.Duration, l claim.Look, owner string, t claim.Terms) (claim.Claim, claim.Found, bool) {
			if stands != nil && stands.Status == claim.InProgress && l.DeadLetter == "" {
				return *stands, claim.FoundAlive, false
			}
			return claim.Examine(stands, age, l, owner, t)
		}
	}, "keyless", 2, noEnd},
	{"a dead letter is the failure, whatever the claim says", func(r *rules) { r.deadReads = false }, "keyed", 2, noEnd},
	{"a dead letter's failure is told before the claim says so", func(r *rules) {
		r.examine = func(stands *claim.Claim, age time.Duration, l claim.Look, owner string, t claim.Terms) (claim.Claim, claim.Found, bool) {
			next, found, _ := claim.Examine(stands, age, l, owner, t)
			return next, found, false
		}
	}, "keyed", 1, noEnd},
	{"a keyless call is not announced", func(r *rules) { r.announce = false }, "keyless", 1, secondEffect},
	{"a failed claim is opened again although nobody knows of its effect", func(r *rules) {
		r.take = func(stands *claim.Claim, age time.Duration, ask claim.Ask, owner string, t claim.Terms) (claim.Claim, claim.Verdict, bool) {
			if stands != nil && stands.Failure != nil && ask.Run > stands.Run {
				known := *stands.Failure
				known.Outcome = claim.EffectNone
				stands.Failure = &known
			}
			return claim.Take(stands, age, ask, owner, t)
		}
	}, "keyed and keyless", 3, secondEffect},
	{"the recorded keyless step is not compared", func(r *rules) {
		r.sameStep = false
		r.take = func(stands *claim.Claim, age time.Duration, ask claim.Ask, owner string, t claim.Terms) (claim.Claim, claim.Verdict, bool) {
			if stands != nil {
				ask.KeylessStep = stands.KeylessStep
			}
			return claim.Take(stands, age, ask, owner, t)
		}
	}, "steps, another one keyless", 1, secondEffect},
	{"a claim that began with a key goes on without", func(r *rules) {
		r.take = func(stands *claim.Claim, age time.Duration, ask claim.Ask, owner string, t claim.Terms) (claim.Claim, claim.Verdict, bool) {
			if stands != nil && !ask.Keyed {
				stands.Keyed = false
			}
			return claim.Take(stands, age, ask, owner, t)
		}
	}, "keyed and keyless", 1, secondEffect},
	{"a takeover keeps the fence", func(r *rules) {
		r.take = func(stands *claim.Claim, age time.Duration, ask claim.Ask, owner string, t claim.Terms) (claim.Claim, claim.Verdict, bool) {
			next, v, write := claim.Take(stands, age, ask, owner, t)
			if stands != nil {
				next.Fence = stands.Fence
			}
			return next, v, write
		}
	}, "keyed", 1, fenceFell},
	{"a completed claim is granted again", func(r *rules) {
		r.take = func(stands *claim.Claim, age time.Duration, ask claim.Ask, owner string, t claim.Terms) (claim.Claim, claim.Verdict, bool) {
			if stands != nil && stands.Status == claim.Completed {
				stands.Status, stands.Released = claim.InProgress, true
			}
			return claim.Take(stands, age, ask, owner, t)
		}
	}, "keyed", 0, changedResult},
	{"a failure of an earlier run ends this one", func(r *rules) {
		r.next = func(stands execution.Execution, ev message.Event, at time.Time) (execution.Change, execution.Decision) {
			if ev.Failed != nil {
				ev.Failed.Run = stands.Run
			}
			return execution.Next(stands, ev, at)
		}
	}, "keyed", 2, failedOverCompleted},
	{"a completion does not win over a failure", func(r *rules) {
		r.next = func(stands execution.Execution, ev message.Event, at time.Time) (execution.Change, execution.Decision) {
			if ev.Completed != nil && stands.Status == execution.Failed {
				return execution.Change{}, execution.NoOp
			}
			return execution.Next(stands, ev, at)
		}
	}, "keyed", 3, noEnd},
	// Version one makes keyed step a and dies before its result is kept. The key window
	// passes. Version two declares a key for every step, so it announces each call; and
	// before an announced call nobody looks at the window.
	{"the window is not looked at before an announced call", func(r *rules) { r.windowOfAll = false }, "steps, one keyless and none", 2, secondEffect},
	// A keyed task ends for a reason that Replay asks no assertion for. Nothing is
	// applied, which somebody asserts, and a call is still on its way; the version that
	// takes the next run calls without a key.
	{"whoever vouches need not wait", func(r *rules) { r.vouchWaits = false }, "keyed and keyless", 3, secondEffect},
}
