package execution

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"oneeffect/internal/message"
)

// Operator is who asks for something that no event does, and why. Both go into the
// history.
type Operator struct {
	Name   string
	Reason string
}

func (o Operator) note(what string, from, to Status, run int, now time.Time) Note {
	return Note{At: now, What: what, By: o.Name, From: from, To: to, Run: run, Detail: o.Reason}
}

// Cancel ends a running execution at somebody's request (E8). What its task does
// meanwhile is recorded and changes nothing any more.
func Cancel(stands Execution, o Operator, now time.Time) (Change, Decision, error) {
	switch stands.Status {
	case Running:
		return Change{From: Running, Status: Cancelled, EndedAt: now, Note: o.note("cancelled", Running, Cancelled, stands.Run, now)}, Transition, nil
	case Cancelled:
		return Change{}, NoOp, nil
	}
	return Change{}, Refusal, fmt.Errorf("it is %s: only what is RUNNING can be cancelled", stands.Status)
}

// CancelledBy is who has cancelled an execution, and why.
func (e Execution) CancelledBy() Operator {
	for _, n := range e.History {
		if n.To == Cancelled {
			return Operator{n.By, n.Detail}
		}
	}
	return Operator{}
}

var errOfParts = errors.New("it is made of parts: replay or resolve those that failed, and it follows")

// uncertain are the reasons after which nobody knows of an effect, whatever the
// downstream honours: a second run needs somebody who has looked.
var uncertain = []string{message.OutcomeUnknown, message.KeyWindowPassed}

// Uncertain reports whether another run needs an assertion that the last one had no
// effect.
func (e Execution) Uncertain() bool {
	return e.Status == Failed && e.Failure != nil && UncertainReason(e.Failure.Reason)
}

// UncertainReason reports whether what failed for a reason may have had an effect.
func UncertainReason(reason string) bool { return slices.Contains(uncertain, reason) }

// MaxRuns bounds what replays add to an execution's document.
const MaxRuns = 1000

// Replay begins another run of a failed execution (E7). asserted says that an
// operator has looked and nothing was applied; settle is how long the last caller
// may still be on its way after a failure whose outcome is unknown. A second replay
// finds the run begun and is a no-op.
func Replay(stands Execution, o Operator, asserted bool, settle time.Duration, now time.Time) (Change, Decision, error) {
	switch {
	case len(stands.Tasks) > 0:
		return Change{}, Refusal, errOfParts
	case stands.Status == Running && stands.Run > 1:
		return Change{}, NoOp, nil
	case stands.Status != Failed:
		return Change{}, Refusal, fmt.Errorf("it is %s: only what is FAILED can be replayed", stands.Status)
	case stands.Run >= MaxRuns:
		return Change{}, Refusal, fmt.Errorf("it was run %d times, and every run is in its history: start a new execution", stands.Run)
	case now.After(stands.NotAfter):
		return Change{}, Refusal, fmt.Errorf("it is past its notAfter, %s: nobody would run it; start a new execution", stands.NotAfter.Format(time.RFC3339))
	case stands.Uncertain() && !asserted:
		return Change{}, Refusal, fmt.Errorf("it failed with %s, so there may be an effect: look, and either assert that there is none, or resolve it", stands.Failure.Reason)
	case (asserted || stands.Uncertain()) && now.Before(stands.EndedAt.Add(settle)):
		// Whoever asserts has seen what is there now, not what is still to arrive.
		return Change{}, Refusal, fmt.Errorf("it failed with %s, and its last call may still be on its way: not before %s", stands.Failure.Reason, stands.EndedAt.Add(settle).Format(time.RFC3339))
	}
	deadline := now.Add(DeadlineAfter)
	if deadline.After(stands.NotAfter) {
		deadline = stands.NotAfter
	}
	run := stands.Run + 1
	note := o.note("replayed", Failed, Running, run, now)
	if asserted {
		note.What = "replayed, asserting that nothing was applied"
	}
	return Change{From: Failed, Status: Running, Note: note, Reopened: &Reopened{Run: run, Deadline: deadline, Asserted: asserted}}, Transition, nil
}

// Resolve closes a failed execution as applied, from its claim, which an operator
// has resolved: nothing is called.
func Resolve(stands Execution, c message.Completed, o Operator, now time.Time) (Change, Decision, error) {
	switch {
	case len(stands.Tasks) > 0:
		return Change{}, Refusal, errOfParts
	case stands.Status == Completed && stands.Result != nil && stands.Result.Digest == c.ResultDigest:
		return Change{}, NoOp, nil
	case stands.Status != Failed:
		return Change{}, Refusal, fmt.Errorf("it is %s: only what is FAILED can be resolved", stands.Status)
	}
	note := o.note("resolved", Failed, Completed, c.Run, now)
	note.Fence = c.Fence
	return Change{
		From: Failed, Status: Completed, EndedAt: now,
		Result: &Result{Ref: c.ResultRef, Digest: c.ResultDigest, Fence: c.Fence}, Note: note,
	}, Transition, nil
}
