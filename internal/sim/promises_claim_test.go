package sim

import (
	"slices"
	"strings"
	"time"
)

// claimSeen is what was seen of one claim so far.
type claimSeen struct {
	doc       *document
	at        time.Time // of the newest version
	firstAt   time.Time // since when firstCallAt is what it is
	alive     time.Time // since when somebody has it, or will when its time has come
	completed bool
	failed    map[string]bool  // reasons
	fences    map[int64]string // of FAILED versions: the reason
	calls     map[int]int      // keyless calls of each run
	digest    string
	grant     *grantSeen
	givenUp   []string // who has given up a write since the newest version
}

func (i *inspection) claimOf(id string) *claimSeen {
	s, ok := i.claims[id]
	if !ok {
		s = &claimSeen{failed: map[string]bool{}, fences: map[int64]string{}, calls: map[int]int{}}
		i.claims[id] = s
	}
	return s
}

// claimed is one version of a claim.
func (i *inspection) claimed(v version) {
	if v.doc == nil {
		i.broken("C2", "claim %s was deleted", v.id)
		return
	}
	s := i.claimOf(v.id)
	old, next := s.doc, v.doc
	by := i.wrote[next.ETag].Client
	switch {
	case old == nil:
		if next.Fence != 1 {
			i.broken("C3", "claim %s begins with fence %d", v.id, next.Fence)
		}
		if next.Status == "IN_PROGRESS" {
			i.granted(v.id, nil, next, by)
		}
	case old.Status == "COMPLETED" || old.Status == "CANCELLED":
		i.broken("C2", "claim %s was %s and is written again: %s", v.id, old.short(), next.short())
	case next.Owner == old.Owner:
		i.ownWrite(v.id, old, next, by)
	default:
		i.overWrite(v.id, old, next, by)
	}
	if old != nil && next.Fingerprint != old.Fingerprint {
		i.broken("C7", "claim %s has another fingerprint", v.id)
	}
	if next.Starts > maxStarts {
		i.broken("C8", "claim %s has %d starts", v.id, next.Starts)
	}
	if old == nil || !old.FirstCallAt.Equal(next.FirstCallAt) {
		s.firstAt = i.now.at
	}
	if !s.lives(i.now.at) {
		s.alive = i.now.at
	}
	switch next.Status {
	case "COMPLETED":
		s.completed = true
		if next.Result == nil {
			i.broken("C2", "claim %s is COMPLETED without a result", v.id)
		} else {
			s.digest = next.Result.Digest
		}
	case "FAILED":
		s.failed[next.Failure.Reason] = true
		s.fences[next.Fence] = next.Failure.Reason
		i.hold("C10")
	}
	s.doc, s.at, s.givenUp = next, i.now.at, nil
}

// lives is whether somebody has a claim or will have it at its time: one whose servers'
// clock was never set.
func (s *claimSeen) lives(now time.Time) bool {
	switch {
	case s.doc == nil || s.doc.Status != "IN_PROGRESS":
		return false
	case s.doc.Released:
		return s.doc.NotBefore.After(now)
	}
	return now.Sub(s.at) < leaseTime
}

// maxStarts is what the workers are told: written down here, since a witness asks
// nobody.
const (
	maxStarts = 8
	leaseTime = time.Minute
	margin    = 10 * time.Second
	callTime  = 10 * time.Second
)

// granted is a grant of any kind.
func (i *inspection) granted(id string, old, next *document, by string) {
	i.hold("C3")
	s := i.claimOf(id)
	s.grant = &grantSeen{by: by, at: i.now.at, spoilt: slices.Contains(s.givenUp, by)}
	if pod(next.Owner) != by {
		i.broken("C4", "claim %s is granted to %s by %s", id, next.Owner, by)
	}
	if skew := i.h.plan.Clocks[slotOf(by)].Skew; old != nil && skew.Abs() > leaseTime {
		i.hold("C6")
	}
	starts := 1
	if old != nil && old.Status == "IN_PROGRESS" {
		starts = old.Starts + 1
		i.hold("C8")
	}
	if next.Starts != starts {
		i.broken("C8", "claim %s is granted with %d starts, want %d: before %s", id, next.Starts, starts, old.short())
	}
}

// ownWrite is a version that its owner made.
func (i *inspection) ownWrite(id string, old, next *document, by string) {
	i.hold("C4")
	i.used(id, by)
	if next.Fence != old.Fence || next.Run != old.Run {
		i.broken("C4", "the owner of claim %s changes fence or run: %s, was %s", id, next.short(), old.short())
	}
	if by != pod(old.Owner) {
		i.broken("C4", "%s writes claim %s, which is %s's", by, id, old.Owner)
	}
	if next.Released && next.Starts != old.Starts-1 {
		i.broken("C8", "%s has survived its start of claim %s, and does not give it back: %s, was %s", by, id, next.short(), old.short())
	}
	if old.Status != "IN_PROGRESS" || old.Released {
		i.broken("C4", "%s writes claim %s after giving it up: %s, was %s", by, id, next.short(), old.short())
	}
}

// overWrite is a version that somebody else made than the owner.
func (i *inspection) overWrite(id string, old, next *document, by string) {
	i.leftLying(id, old)
	if next.Fence != old.Fence+1 {
		i.broken("C3", "claim %s passes from fence %d to %d", id, old.Fence, next.Fence)
	}
	if next.Status == "IN_PROGRESS" {
		i.granted(id, old, next, by)
	} else if pod(next.Owner) != by {
		i.broken("C4", "%s writes claim %s as %s", by, id, next.Owner)
	}
	switch {
	case old.Status == "IN_PROGRESS" && !old.Released:
		i.hold("C1")
		if next.Stamp-old.Stamp <= old.Lease {
			i.broken("C1", "claim %s passes to %s while the lease of %s stands: %d s of %d", id, next.Owner, old.Owner, next.Stamp-old.Stamp, old.Lease)
		}
		if next.Status == "IN_PROGRESS" && !old.Keyed && old.CallStarted {
			i.broken("W1", "claim %s is granted again although a keyless call may have been made", id)
		}
	case old.Status == "IN_PROGRESS":
		if next.Status == "IN_PROGRESS" && next.Stamp+3 < old.NotBefore.Unix() && !i.jumped(10*time.Minute, false) && !i.jumped(10*time.Minute, true) {
			i.broken("W3", "claim %s is granted at %d, before its notBefore %d", id, next.Stamp, old.NotBefore.Unix())
		}
	case old.Status == "FAILED" && next.Status == "IN_PROGRESS":
		i.hold("E7")
		if next.Run <= old.Run {
			i.broken("C2", "claim %s is re-opened by run %d, failed in run %d", id, next.Run, old.Run)
		}
		e := i.runs[id]
		if !old.Keyed && old.Failure.Outcome == "unknown" && (e == nil || !e.doc.Asserted) {
			i.broken("E7", "claim %s of unknown outcome is re-opened without an assertion", id)
		}
	case old.Status == "FAILED" && next.Status == "FAILED" && next.Run <= old.Run:
		i.broken("C2", "claim %s fails twice in run %d", id, next.Run)
	}
}

// calls holds each call against the claim as it stands at that moment.
func (i *inspection) calls(c *call) {
	s := i.claimOf(c.task)
	if s.doc == nil {
		i.broken("C5", "%s calls for %s without a claim", c.client, c.task)
		return
	}
	d := s.doc
	i.hold("C5")
	i.used(c.task, c.client)
	excused := i.jumped(2*leaseTime, true) // a lease that the store's clock has shortened: C6
	switch {
	case d.Status != "IN_PROGRESS" || d.Released || pod(d.Owner) != c.client:
		if !excused {
			i.broken("C5", "%s calls for %s, whose claim is %s", c.client, c.task, d.short())
		}
	case c.at.Add(callTime).After(s.at.Add(leaseTime - margin + second/2)):
		i.broken("C5", "%s calls for %s %v after its lease was last written: the call may outlive it", c.client, c.task, c.at.Sub(s.at))
	}
	if !excused {
		i.goesOn(c, d)
	}
	if strings.Contains(c.body, "forged") {
		i.broken("C7", "%s calls for %s with another payload", c.client, c.task)
	}
	if c.path == "/letters" {
		i.hold("W1")
		if !d.CallStarted && !excused {
			i.broken("W1", "%s makes a keyless call for %s, and the claim says nothing of it: %s", c.client, c.task, d.short())
		}
		if c.key != "" {
			i.broken("W1", "%s makes a keyless call for %s with the key %q", c.client, c.task, c.key)
		}
		if s.calls[d.Run]++; s.calls[d.Run] > 1 {
			i.broken("W1", "%s makes keyless call %d of run %d for %s", c.client, s.calls[d.Run], d.Run, c.task)
		}
		return
	}
	i.hold("W2")
	if task, _, _ := strings.Cut(c.key, "/"); task != c.task || strings.Count(c.key, "/") > 1 {
		i.broken("W2", "%s calls for %s with the key %q", c.client, c.task, c.key)
	}
	if i.h.plan.Tasks[c.task] == "customer.brief" && !i.jumped(time.Hour, false) && c.at.Sub(s.firstAt) > 17*time.Minute-15*time.Minute-callTime+2*second {
		i.broken("W2", "%s calls for %s %v after its first call may have been made", c.client, c.task, c.at.Sub(s.firstAt))
	}
}
