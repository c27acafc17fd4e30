package claim

import (
	"time"

	"oneeffect/internal/message"
)

// What the holder of a grant writes, as changes of the record that it wrote or
// read last. Each is written on the condition that this record still stands.

// Starting says that a keyless call is about to be made.
func Starting(c *Claim) { c.CallStarted = true }

// NotStarting takes that back: the call was never made.
func NotStarting(c *Claim) { c.CallStarted = false }

// Keeping stores the result of a step. A keyless one is no longer unknown then.
func Keeping(step string, r message.StepResult) func(*Claim) {
	return func(c *Claim) {
		c.Steps = c.Steps.with(step, r)
		c.CallStarted = false
	}
}

// Completing stores the result.
func Completing(r Result) func(*Claim) {
	return func(c *Claim) {
		c.Status, c.Result = Completed, &r
		c.ended(EndCompleted)
	}
}

// Failing ends the run without a result.
func Failing(f Failure) func(*Claim) {
	return func(c *Claim) {
		c.Status, c.Failure = Failed, &f
		c.ended(EndFailed + f.Reason)
	}
}

// Releasing gives the work back before the lease ends.
func Releasing(notBefore time.Time, counted bool) func(*Claim) {
	return func(c *Claim) {
		c.Released, c.NotBefore = true, notBefore
		c.CallStarted = false // also where the answer to a CallStarting was lost: it was never followed by a call
		c.Starts--
		if counted {
			c.Answered++
		}
		c.ended(EndReleased)
	}
}

// Proof is what a record that is read back says of a write under a lease (C9).
type Proof int

// The proofs. Its zero is none of them.
const (
	_       Proof = iota
	Applied       // it stands
	NotYet        // it does not, and may still land: it is to be sent again, on the condition of what was read
	Fenced        // it never will: the lease is somebody else's, or ended
)

// ReadBack decides what became of a write under the lease of owner and fence.
// Only the nonces of that very write prove it: the owner may have written this
// record earlier.
func ReadBack(stands *Claim, owner string, fence int64, mine func(w string) bool) Proof {
	switch {
	case stands != nil && mine(stands.W):
		return Applied
	case stands != nil && stands.Status == InProgress && stands.Owner == owner && stands.Fence == fence:
		return NotYet
	}
	return Fenced
}

// TakenBy reports whether a record is the grant that a Take asked for. Its owner is
// new for that Take, so the record can be nobody else's, whatever became of the
// answer (C9).
func TakenBy(stands Claim, owner string) bool {
	return stands.Owner == owner && stands.Status == InProgress
}
