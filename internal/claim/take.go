package claim

import (
	"fmt"
	"time"
)

// Ask is what one delivery asks for. Its times are broker time.
type Ask struct {
	ID          string
	TaskType    string
	Fingerprint string
	Run         int
	Keyed       bool          // the handler declares that its downstream honours a key
	KeylessStep string        // of several steps: the one whose downstream honours none
	KeyWindow   time.Duration // for so long, counted from the first call …
	KeyMargin   time.Duration // … less this
	NotAfter    time.Time
	Asserted    bool // an operator asserts that nothing was applied
	Now         func() time.Time
	ReadFirst   bool // a redelivery: a create would find a record anyway

	Waited time.Duration // since it was found busy first, for people
	Trace  string        // W3C traceparent of who asks, for people; empty: nobody keeps it
}

// Terms are the same for every claim of a process.
type Terms struct {
	Lease            time.Duration // whole seconds
	OwnerMargin      time.Duration // an owner stops so long before its lease ends
	ChallengerMargin time.Duration // a challenger waits so long after it
	MaxAttempts      int           // starts
	Keep             time.Duration // how long after its last write a claim is kept
}

// Verdict is the answer to an Ask.
type Verdict struct {
	Kind   Kind
	Wait   time.Duration // Busy: when it is worth asking again, from now
	Reason string        // Refused
	Claim  Claim         // the record as the verdict leaves it
}

// Kind of a verdict.
type Kind int

// The kinds. Its zero is none of them.
const (
	_         Kind = iota
	Granted        // the work is ours
	Done           // COMPLETED: tell the stored result again
	Withdrawn      // CANCELLED: nobody wants it any more
	Busy           // somebody's lease stands, or the time has not come
	Over           // FAILED: tell that again
	Refused        // says nothing about the execution
)

func (k Kind) String() string {
	return [...]string{"undecided", "granted", "done", "withdrawn", "busy", "over", "refused"}[k]
}

// grain is the resolution of the store's clock: Date and _ts are whole seconds,
// so an age is wrong by less than one. The challenger's margin contains it on the
// one side, the wait of a Busy verdict on the other.
const grain = time.Second

// Take decides from what stands (nil: nothing) and its age by the store's own
// clock. next is to be written, under the condition that what stands has not
// changed, exactly when write is true; the verdict holds only once it is.
func Take(stands *Claim, age time.Duration, ask Ask, owner string, t Terms) (next Claim, v Verdict, write bool) {
	now := ask.Now()
	tooOld := now.After(ask.NotAfter)
	if stands == nil {
		if tooOld {
			return Claim{}, Verdict{Kind: Refused, Reason: TooOld}, false
		}
		next = first(ask, owner, now, t)
		return next, Verdict{Kind: Granted, Claim: next}, true
	}
	old := *stands
	switch {
	case old.Fingerprint != ask.Fingerprint:
		return old, Verdict{Kind: Refused, Reason: IdempotencyKeyReused, Claim: old}, false
	case old.Status == Completed:
		return old, Verdict{Kind: Done, Claim: old}, false
	case old.Status == Cancelled:
		return old, Verdict{Kind: Withdrawn, Claim: old}, false
	case old.Status == Failed && ask.Run <= old.Run:
		return old, Verdict{Kind: Over, Claim: old}, false
	case old.Status == Failed && tooOld:
		return old, Verdict{Kind: Refused, Reason: TooOld, Claim: old}, false
	case old.Status == Failed && !settled(old, ask) && (!old.Keyed || !ask.Keyed):
		// Without a key on both sides, a call whose outcome is not known is made again
		// only if somebody vouches that there was none.
		next = fail(old, owner, Failure{OutcomeUnknown, "an earlier run may have had an effect, and nobody asserts that it had none", EffectUnknown}, t)
		next.Run = ask.Run
		return next, Verdict{Kind: Over, Claim: next}, true
	case old.Status == Failed:
		next = reopen(old, ask, owner, now, t)
		return next, Verdict{Kind: Granted, Claim: next}, true
	}
	if stale := old.lease() + t.ChallengerMargin; !old.Released && age <= stale {
		// The store's clock may have been set back. That the record is from its future
		// says nothing of how long the lease still stands.
		return old, Verdict{Kind: Busy, Wait: stale - max(age, 0) + grain, Claim: old}, false
	}
	if old.Released && now.Before(old.NotBefore) {
		return old, Verdict{Kind: Busy, Wait: old.NotBefore.Sub(now), Claim: old}, false
	}
	if f := hopeless(old, ask, now, t); f != nil {
		next = fail(old, owner, *f, t)
		return next, Verdict{Kind: Over, Claim: next}, true
	}
	next = takeOver(old, ask, owner, now, t)
	return next, Verdict{Kind: Granted, Claim: next}, true
}

// hopeless says why a claim that nobody holds must not be granted again.
func hopeless(old Claim, ask Ask, now time.Time, t Terms) *Failure {
	keyed := ask.Keyed && old.Keyed
	switch {
	case !keyed && (old.CallStarted || old.Keyed):
		return &Failure{OutcomeUnknown, "a call without a key was started and its outcome is not known; a second one could be a second effect", EffectUnknown}
	case !ask.Keyed && old.KeylessStep != ask.KeylessStep:
		// Another version of the handler may have called with a key, and without saying
		// so here, what this one would call without.
		return &Failure{OutcomeUnknown, fmt.Sprintf("the claim began with keyless step %q, the handler now declares %q; a call could be a second effect", old.KeylessStep, ask.KeylessStep), EffectUnknown}
	case keyed && WindowPassed(old.FirstCallAt, now, ask.KeyWindow, ask.KeyMargin):
		return &Failure{KeyWindowPassed, "the downstream may have forgotten the key", EffectUnknown}
	case now.After(ask.NotAfter):
		return &Failure{TooOld, "past notAfter", old.effect()}
	case old.Starts >= t.MaxAttempts:
		return &Failure{AttemptsExhausted, "started as often as is allowed without a result", old.effect()}
	}
	return nil
}

// WindowPassed reports whether a key first used then may be forgotten now.
func WindowPassed(firstCall, now time.Time, window, margin time.Duration) bool {
	return !now.Before(firstCall.Add(window - margin))
}

func first(ask Ask, owner string, now time.Time, t Terms) Claim {
	c := Claim{
		ID: ask.ID, Status: InProgress, Run: ask.Run, Fence: 1, Owner: owner,
		LeaseSeconds: t.leaseSeconds(), TaskType: ask.TaskType, Keyed: ask.Keyed, KeylessStep: ask.KeylessStep, Fingerprint: ask.Fingerprint,
		FirstCallAt: now, Starts: 1, TTL: t.ttl(), Version: 1,
	}
	c.granted(ask, now)
	return c
}

// takeOver passes the work on. What earlier grants did downstream stays on
// record: callStarted cannot stand here for a keyless claim (hopeless), and
// firstCallAt is the downstream's, not the grant's.
func takeOver(old Claim, ask Ask, owner string, now time.Time, t Terms) Claim {
	next := old
	next.ended(EndExpired) // or EndReleased, or EndFailed, where that is noted already
	if n := len(next.Attempts); n > 0 && old.LeaseSeconds != t.leaseSeconds() {
		next.Attempts[n-1].Lease = old.LeaseSeconds
	}
	next.Owner, next.Fence = owner, old.Fence+1
	next.Run = max(old.Run, ask.Run)
	next.Keyed = old.Keyed && ask.Keyed
	next.Starts++
	next.Released, next.NotBefore = false, time.Time{}
	next.LeaseSeconds, next.TTL = t.leaseSeconds(), t.ttl()
	next.granted(ask, now)
	return next
}

// settled says that no call of a failed claim can have an effect that is not on
// record: it is known, or an operator asserts it.
func settled(old Claim, ask Ask) bool {
	return ask.Asserted || old.Failure.Outcome == EffectNone || old.Failure.Outcome == EffectPartial
}

// reopen grants a failed claim to an operator's next run. Where nothing is unknown,
// what the handler declares now is what counts.
func reopen(old Claim, ask Ask, owner string, now time.Time, t Terms) Claim {
	next := takeOver(old, ask, owner, now, t)
	next.Status, next.Failure = InProgress, nil
	next.Run = ask.Run
	next.Starts, next.Answered, next.CallStarted = 1, 0, false
	if settled(old, ask) {
		next.Keyed, next.KeylessStep = ask.Keyed, ask.KeylessStep
	}
	if ask.Asserted {
		next.FirstCallAt = now // nothing was applied, so no key is in use downstream
	}
	return next
}

func fail(old Claim, owner string, f Failure, t Terms) Claim {
	next := old
	next.ended(EndFailed + f.Reason)
	next.Status, next.Failure = Failed, &f
	next.Owner, next.Fence = owner, old.Fence+1
	next.Released, next.NotBefore = false, time.Time{}
	next.TTL = t.ttl()
	return next
}

func (t Terms) leaseSeconds() int { return int(t.Lease / time.Second) }
func (t Terms) ttl() int          { return int(t.Keep / time.Second) }
