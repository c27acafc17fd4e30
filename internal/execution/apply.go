package execution

import (
	"slices"
	"time"
)

// With is the execution as a change leaves it, which is what a store shows after it.
func (e Execution) With(c Change) Execution {
	e.Status = c.Status
	if !c.EndedAt.IsZero() {
		e.EndedAt = c.EndedAt
	}
	if c.Result != nil {
		e.Result = c.Result
	}
	if c.Failure != nil {
		e.Failure = c.Failure
	}
	if r := c.Reopened; r != nil {
		e.Run, e.Deadline, e.Asserted = r.Run, r.Deadline, r.Asserted
		e.EndedAt, e.Failure = time.Time{}, nil
	}
	if j := c.Joined; j != nil {
		e.Tasks = slices.Clone(e.Tasks)
		e.Tasks[j.Index] = j.Part
	}
	if c.Note != (Note{}) {
		e.History = append(slices.Clip(e.History), c.Note)
	}
	return e
}
