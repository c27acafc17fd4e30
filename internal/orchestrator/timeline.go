package orchestrator

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/diagram"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

func (o *Orchestrator) timeline(w http.ResponseWriter, r *http.Request) {
	id, err := executionID(r)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	stands, err := o.Store.Load(r.Context(), id)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	e := stands.Execution
	waiting, err := o.waiting(r.Context(), e)
	again, err2 := o.redispatched(r.Context(), id)
	held, err3 := o.claimOf(r.Context(), id)
	if err := errors.Join(err, err2, err3); err != nil {
		o.fail(w, r, err)
		return
	}
	t := diagram.Timeline{
		ExecutionID: id, Type: e.Type, Status: e.Status, Run: e.Run, TraceID: traceID(e.TraceParent),
		CreatedAt: e.CreatedAt, EndedAt: e.EndedAt, Deadline: e.Deadline, NotAfter: e.NotAfter, Asserted: e.Asserted,
		Result: e.Result, Failure: e.Failure, Dispatches: dispatches(e, waiting), Redispatch: again, Entries: entries(e.History, nil),
	}
	if held != nil {
		t.Claim, t.Entries = viewOf(*held), entries(e.History, held.Claim.Attempts)
	}
	t.Entries = o.seen.among(id, t.Entries)
	o.writeJSON(w, r, http.StatusOK, t)
}

// waiting are the outbox entries of an execution's tasks: its own, and of a part the
// one that its orchestration has for it.
func (o *Orchestrator) waiting(ctx context.Context, e execution.Execution) ([]execution.Entry, error) {
	entries, err := o.Views.Outbox(ctx, e.ExecutionID)
	if err != nil || e.Orchestration == "" {
		return entries, err
	}
	whole, err := o.Views.Outbox(ctx, e.Orchestration)
	for _, entry := range whole {
		if entry.Part == e.ExecutionID {
			entries = append(entries, entry)
		}
	}
	return entries, err
}

func (o *Orchestrator) redispatched(ctx context.Context, id string) (*diagram.Redispatch, error) {
	counted, err := o.Store.Redispatched(ctx, id)
	if errors.Is(err, message.ErrNotFound) {
		return nil, nil
	}
	return &diagram.Redispatch{Run: counted.Redispatch.Run, Times: counted.Redispatch.Count, AgeSeconds: int64(counted.Age / time.Second)}, err
}

// claimOf reads an execution's claim; nil: there is none.
func (o *Orchestrator) claimOf(ctx context.Context, id string) (*claim.Stored, error) {
	held, err := o.Claims.Store.Record(id).Read(ctx)
	if errors.Is(err, message.ErrNotFound) {
		return nil, nil
	}
	return &held, err
}

func viewOf(s claim.Stored) *diagram.Claim {
	c := s.Claim
	v := &diagram.Claim{
		Status: c.Status, Run: c.Run, Fence: c.Fence, Owner: c.Owner, LeaseSeconds: c.LeaseSeconds, AgeSeconds: int64(s.Age / time.Second),
		Keyed: c.Keyed, KeylessStep: c.KeylessStep, CallStarted: c.CallStarted, Released: c.Released,
		Starts: c.Starts, Answered: c.Answered, FirstCallAt: c.FirstCallAt, NotBefore: c.NotBefore,
	}
	if c.Result != nil {
		v.ResultRef = c.Result.Ref
	}
	if f := c.Failure; f != nil {
		v.Reason, v.Description, v.Outcome = f.Reason, f.Description, f.Outcome
	}
	for name, step := range c.Steps {
		if v.Steps == nil {
			v.Steps = make(map[string]string, len(c.Steps))
		}
		v.Steps[name] = step.Ref
	}
	return v
}

// dispatches are the task messages of all runs. A run that has begun has had one; an
// orchestration has none, and each of its parts its own.
func dispatches(e execution.Execution, waiting []execution.Entry) []diagram.Dispatch {
	list := make([]diagram.Dispatch, 0, e.Run)
	if len(e.Tasks) > 0 {
		return list
	}
	for run := 1; run <= min(e.Run, execution.MaxRuns); run++ {
		d := diagram.Dispatch{Run: run, MessageID: message.TaskMessageID(e.ExecutionID, run), State: diagram.DispatchSent}
		if slices.ContainsFunc(waiting, func(w execution.Entry) bool { return w.Run == run }) {
			d.State = diagram.DispatchWaiting
		}
		list = append(list, d)
	}
	return list
}

// entries merges what happened to an execution and to its claim by time. Each of the
// two stays in its own order, whatever the clocks that wrote it said. A grant without
// a time is an operator's: it stands before what the execution became by its fence.
func entries(history []execution.Note, attempts []claim.Attempt) []diagram.Moment {
	merged := make([]diagram.Moment, 0, len(history)+len(attempts))
	for _, n := range history {
		for len(attempts) > 0 && before(attempts[0], n) {
			merged = append(merged, granted(attempts[0]))
			attempts = attempts[1:]
		}
		merged = append(merged, diagram.Moment{
			At: n.At, Source: diagram.FromExecution, What: n.What, Run: n.Run, Fence: n.Fence, By: n.By, From: n.From, To: n.To, Detail: n.Detail,
		})
	}
	for _, a := range attempts {
		merged = append(merged, granted(a))
	}
	return merged
}

func before(a claim.Attempt, n execution.Note) bool {
	if a.At.IsZero() || a.At.Equal(n.At) {
		return n.Fence >= a.Fence
	}
	return a.At.Before(n.At)
}

func granted(a claim.Attempt) diagram.Moment {
	return diagram.Moment{At: a.At, Source: diagram.FromClaim, What: "granted", Fence: a.Fence, Owner: a.Owner, End: a.End, BusySeconds: a.Busy, LeaseSeconds: a.Lease}
}

// traceID is the second part of a W3C traceparent.
func traceID(traceparent string) string {
	if parts := strings.Split(traceparent, "-"); len(parts) > 1 {
		return parts[1]
	}
	return ""
}
