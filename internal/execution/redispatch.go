package execution

import "time"

// Redispatch counts how often the task of a run was sent again, beside its
// execution: counted in it, every time would change the ETag that is the ticket of
// the task on its way.
type Redispatch struct {
	ID          string `json:"id"` // RedispatchID
	ExecutionID string `json:"executionId"`
	Kind        string `json:"kind"` // KindRedispatch, which no relay takes
	Run         int    `json:"run"`
	Count       int    `json:"count"`
}

// RedispatchID is no execution's id, since none contains "~": the two are items of
// one partition, and an execution of this name would be taken for its own count.
const RedispatchID = "~redispatch"

// longestBackoff bounds the waits, so that what has been away for long is met
// within a day of its return.
const longestBackoff = 24 * time.Hour

// Again decides whether the task of a run is sent once more, and what to count then
// (E5). The first time is due when the caller finds it so; counted, if there was a
// time before, and age is how long ago that was. The waits double from first on.
func Again(stands Execution, counted *Redispatch, age, first time.Duration) (next Redispatch, due bool) {
	next = Redispatch{ID: RedispatchID, ExecutionID: stands.ExecutionID, Kind: KindRedispatch, Run: stands.Run, Count: 1}
	if counted == nil || counted.Run < stands.Run {
		return next, true
	}
	if counted.Run > stands.Run {
		return Redispatch{}, false // a replica that lags: another run has begun
	}
	wait := first
	for range counted.Count - 1 {
		if wait *= 2; wait >= longestBackoff {
			wait = longestBackoff
			break
		}
	}
	if age < wait {
		return Redispatch{}, false
	}
	next.Count = counted.Count + 1
	return next, true
}
