package orchestrator

import (
	"fmt"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// Verdict is what a replay of a dead letter would come to, told without doing it.
type Verdict string

// The verdicts. The first that fits, in the order of judge.
const (
	// Inert: whatever is done with the message, nothing follows from it. Nobody can
	// read it, nobody knows its execution, a later run has replaced it, its execution was
	// cancelled, or its run has not ended yet.
	Inert Verdict = "inert"
	// PayloadConflict: it asks for something else than its execution, or its claim,
	// stands for.
	PayloadConflict Verdict = "payload conflict"
	// AlreadyDone: execution or claim is completed. A replay is refused; nothing is lost.
	AlreadyDone Verdict = "already done"
	// HorizonExpired: past notAfter. A replay is refused, since what would keep it from
	// a second effect may be forgotten.
	HorizonExpired Verdict = "horizon expired"
	// OutcomeUnknown: there may be an effect. A replay needs somebody who has looked.
	OutcomeUnknown Verdict = "outcome unknown"
	// Safe: a replay is another run, and no second effect.
	Safe Verdict = "safe"
)

// judge says what a replay of a dead letter would come to, and why: task is what the
// message asks for, stands its execution, held its claim; nil if there is none.
func judge(task *message.Task, stands *execution.Execution, held *claim.Claim, now time.Time) (Verdict, string) {
	switch {
	case task == nil:
		return Inert, "nobody can read it, so nobody knows what it asks for"
	case stands == nil:
		return Inert, "no execution has its id"
	}
	fingerprint, err := claim.Fingerprint(task.Type, task.Payload)
	switch {
	case err != nil || fingerprint != stands.Request:
		return PayloadConflict, "its execution was created for another type or payload"
	case held != nil && fingerprint != held.Fingerprint:
		return PayloadConflict, "its claim was taken for another type or payload"
	case stands.Status == execution.Completed:
		return AlreadyDone, "its execution is COMPLETED"
	case held != nil && held.Status == claim.Completed:
		return AlreadyDone, "its claim is COMPLETED, and its execution will be"
	case stands.Status == execution.Cancelled || held != nil && held.Status == claim.Cancelled:
		return Inert, "it was cancelled"
	case task.Run < stands.Run:
		return Inert, fmt.Sprintf("run %d has replaced its run %d", stands.Run, task.Run)
	}
	ended := held != nil && held.Status == claim.Failed && held.Run >= stands.Run
	switch {
	case now.After(stands.NotAfter):
		return HorizonExpired, "past notAfter, " + stands.NotAfter.Format(time.RFC3339)
	case stands.Uncertain():
		return OutcomeUnknown, "it failed with " + stands.Failure.Reason
	case ended && execution.UncertainReason(held.Failure.Reason):
		return OutcomeUnknown, "its claim failed with " + held.Failure.Reason
	case held != nil && held.Status == claim.InProgress && held.CallStarted && (!held.Keyed || held.KeylessStep != ""):
		return OutcomeUnknown, "a call without a key was started"
	case stands.Status == execution.Running:
		return Inert, fmt.Sprintf("its run %d has not ended: what becomes of it is read from the claim, and not from this message", stands.Run)
	}
	return Safe, "it failed with " + failureOf(stands)
}

func failureOf(e *execution.Execution) string {
	if e.Failure == nil {
		return "no reason"
	}
	return e.Failure.Reason
}
