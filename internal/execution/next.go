package execution

import (
	"time"

	"oneeffect/internal/message"
)

// Change is what a transition writes; everything else of the document stays.
type Change struct {
	From    Status // what stands must be in it, whatever its ETag: a ticket alone decides nothing
	FromRun int    // and of this run; 0: of any
	Status  Status
	EndedAt time.Time
	Result  *Result  // nil: unchanged
	Failure *Failure // nil: unchanged
	Note    Note     // appended to the history; zero: nothing is

	// Joined is set by the end of a part of an orchestration.
	Joined *Joined

	// Reopened is set by a replay: the run that begins. What the last one ended with is
	// taken away; the history keeps it.
	Reopened *Reopened
}

// Reopened is what another run begins with.
type Reopened struct {
	Run      int
	Deadline time.Time
	Asserted bool
}

// Decision is what an event does to an execution.
type Decision int

// The decisions. Only Transition and Record write.
const (
	_             Decision = iota
	Transition             // the state changes
	Record                 // the state stays, the history says what was seen
	NoOp                   // an earlier delivery did this, or it does not matter any more
	Contradiction          // cannot happen: unchanged, dead-letter with the evidence
	Refusal                // what was asked for is not possible as it stands
)

func (d Decision) String() string {
	return [...]string{"undecided", "transition", "record", "no-op", "contradiction", "refusal"}[d]
}

// Next decides from what stands. change is to be written, on the condition that
// what stands has not changed, exactly for Transition and Record.
func Next(stands Execution, ev message.Event, now time.Time) (change Change, d Decision) {
	if len(stands.Tasks) > 0 {
		return Change{}, Contradiction // an orchestration has no task of its own: its parts end it (Join)
	}
	if ev.Completed != nil {
		return completed(stands, *ev.Completed, now)
	}
	return failed(stands, *ev.Failed, now)
}

func completed(stands Execution, c message.Completed, now time.Time) (Change, Decision) {
	change := Change{
		From: stands.Status, FromRun: stands.Run, Status: Completed, EndedAt: now,
		Result: &Result{Ref: c.ResultRef, Digest: c.ResultDigest, Fence: c.Fence},
		Note:   Note{At: now, What: "completed", From: stands.Status, To: Completed, Run: c.Run, Fence: c.Fence},
	}
	switch stands.Status {
	case Running:
		return change, Transition
	case Failed:
		change.Note.What = "recovered" // the claim completed after all, and the claim is right
		return change, Transition
	case Completed:
		if stands.Result != nil && stands.Result.Digest == c.ResultDigest {
			return Change{}, NoOp
		}
		return Change{}, Contradiction
	case Cancelled:
		return record(stands, Note{At: now, What: "completed after cancel", Run: c.Run, Fence: c.Fence, Detail: c.ResultRef})
	}
	return Change{}, Contradiction
}

func failed(stands Execution, f message.Failed, now time.Time) (Change, Decision) {
	seen := Note{At: now, Run: f.Run, Fence: f.Fence, Detail: f.Reason}
	switch {
	case stands.Status == Running && f.Run >= stands.Run:
		return Change{
			From: Running, FromRun: stands.Run, Status: Failed, EndedAt: now,
			Failure: &Failure{Reason: f.Reason, Description: f.Description, Outcome: f.Outcome, Fence: f.Fence},
			Note:    Note{At: now, What: "failed", From: Running, To: Failed, Run: f.Run, Fence: f.Fence, Detail: f.Reason},
		}, Transition
	case stands.Status == Running:
		seen.What = "failure of an earlier run ignored"
		return record(stands, seen)
	case stands.Status == Completed:
		seen.What = "failure after completion ignored"
		return record(stands, seen)
	}
	return Change{}, NoOp // failed already, or cancelled
}

// maxNotes bounds the history against an endless stream of late events.
const maxNotes = 64

// record keeps what was seen, once.
func record(stands Execution, n Note) (Change, Decision) {
	if len(stands.History) >= maxNotes {
		return Change{}, NoOp
	}
	for _, h := range stands.History {
		if h.What == n.What && h.Run == n.Run && h.Fence == n.Fence {
			return Change{}, NoOp
		}
	}
	return Change{From: stands.Status, FromRun: stands.Run, Status: stands.Status, EndedAt: stands.EndedAt, Note: n}, Record
}

// Expected is the execution that a ticket stands for: as it was created, or as
// its run was begun.
func Expected(run int) Execution { return Execution{Status: Running, Run: run} }

// SameRequest reports whether a repeated request asks for what stands.
func (e Execution) SameRequest(other Execution) bool { return e.Request == other.Request }
