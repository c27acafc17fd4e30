package orchestrator

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// timeline is what GET …/timeline answers: what stands, and how it came to that.
// The names are the API's own, so that a picture drawn from it outlives a change of
// the documents.
type timeline struct {
	ExecutionID string             `json:"executionId"`
	Type        string             `json:"type"`
	Status      execution.Status   `json:"status"`
	Run         int                `json:"run"`
	TraceID     string             `json:"traceId,omitzero"`
	CreatedAt   time.Time          `json:"createdAt"`
	EndedAt     time.Time          `json:"endedAt,omitzero"`
	Deadline    time.Time          `json:"deadline"`
	NotAfter    time.Time          `json:"notAfter"`
	Asserted    bool               `json:"asserted"`
	Result      *execution.Result  `json:"result,omitzero"`
	Failure     *execution.Failure `json:"failure,omitzero"`
	Claim       *claimView         `json:"claim,omitzero"` // none: nobody has taken the task yet
	Dispatches  []dispatched       `json:"dispatches"`
	Redispatch  *redispatched      `json:"redispatched,omitzero"` // none: its run was never sent again for its age
	Entries     []moment           `json:"entries"`
}

// claimView is a claim as the API shows it.
type claimView struct {
	Status       claim.Status      `json:"status"`
	Run          int               `json:"run"`
	Fence        int64             `json:"fence"`
	Owner        string            `json:"owner"`
	LeaseSeconds int               `json:"leaseSeconds"`
	AgeSeconds   int64             `json:"ageSeconds"` // since its last write, by the store's clock
	Keyed        bool              `json:"keyed"`
	KeylessStep  string            `json:"keylessStep,omitzero"`
	CallStarted  bool              `json:"callStarted"`
	Released     bool              `json:"released"`
	Starts       int               `json:"starts"`
	Answered     int               `json:"answered"`
	FirstCallAt  time.Time         `json:"firstCallAt,omitzero"`
	NotBefore    time.Time         `json:"notBefore,omitzero"`
	Steps        map[string]string `json:"steps,omitzero"` // the results of those that are made
	ResultRef    string            `json:"resultRef,omitzero"`
	Reason       string            `json:"reason,omitzero"`
	Description  string            `json:"description,omitzero"`
	Outcome      string            `json:"outcome,omitzero"`
}

// dispatched is the task message of one run.
type dispatched struct {
	Run       int    `json:"run"`
	MessageID string `json:"messageId"`
	State     string `json:"state"` // waiting: it stands in the outbox; sent: it does not any more
}

// redispatched is how often the task of a run was sent again since nobody worked on it
// (E5).
type redispatched struct {
	Run        int   `json:"run"`
	Times      int   `json:"times"`
	AgeSeconds int64 `json:"ageSeconds"` // since the last time, by the store's clock
}

// moment is one entry of the history of an execution, or one grant of its claim.
type moment struct {
	At     time.Time        `json:"at,omitzero"`
	Source string           `json:"source"` // execution or claim
	What   string           `json:"what"`
	Run    int              `json:"run,omitzero"`
	Fence  int64            `json:"fence,omitzero"`
	By     string           `json:"by,omitzero"`    // of the execution: who asked
	From   execution.Status `json:"from,omitzero"`  // of the execution
	To     execution.Status `json:"to,omitzero"`    // of the execution
	Owner  string           `json:"owner,omitzero"` // of the claim: pod / process / grant
	End    string           `json:"end,omitzero"`   // of the claim: how the grant ended
	Detail string           `json:"detail,omitzero"`
}

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
	t := timeline{
		ExecutionID: id, Type: e.Type, Status: e.Status, Run: e.Run, TraceID: traceID(e.TraceParent),
		CreatedAt: e.CreatedAt, EndedAt: e.EndedAt, Deadline: e.Deadline, NotAfter: e.NotAfter, Asserted: e.Asserted,
		Result: e.Result, Failure: e.Failure, Dispatches: dispatches(e, waiting), Redispatch: again, Entries: entries(e.History, nil),
	}
	if held != nil {
		t.Claim, t.Entries = viewOf(*held), entries(e.History, held.Claim.Attempts)
	}
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

func (o *Orchestrator) redispatched(ctx context.Context, id string) (*redispatched, error) {
	counted, err := o.Store.Redispatched(ctx, id)
	if errors.Is(err, message.ErrNotFound) {
		return nil, nil
	}
	return &redispatched{counted.Redispatch.Run, counted.Redispatch.Count, int64(counted.Age / time.Second)}, err
}

// claimOf reads an execution's claim; nil: there is none.
func (o *Orchestrator) claimOf(ctx context.Context, id string) (*claim.Stored, error) {
	held, err := o.Claims.Store.Record(id).Read(ctx)
	if errors.Is(err, message.ErrNotFound) {
		return nil, nil
	}
	return &held, err
}

func viewOf(s claim.Stored) *claimView {
	c := s.Claim
	v := &claimView{
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
func dispatches(e execution.Execution, waiting []execution.Entry) []dispatched {
	list := make([]dispatched, 0, e.Run)
	if len(e.Tasks) > 0 {
		return list
	}
	for run := 1; run <= min(e.Run, execution.MaxRuns); run++ {
		d := dispatched{Run: run, MessageID: message.TaskMessageID(e.ExecutionID, run), State: "sent"}
		if slices.ContainsFunc(waiting, func(w execution.Entry) bool { return w.Run == run }) {
			d.State = "waiting"
		}
		list = append(list, d)
	}
	return list
}

// entries merges what happened to an execution and to its claim by time. Each of the
// two stays in its own order, whatever the clocks that wrote it said. A grant without
// a time is an operator's: it stands before what the execution became by its fence.
func entries(history []execution.Note, attempts []claim.Attempt) []moment {
	merged := make([]moment, 0, len(history)+len(attempts))
	for _, n := range history {
		for len(attempts) > 0 && before(attempts[0], n) {
			merged = append(merged, granted(attempts[0]))
			attempts = attempts[1:]
		}
		merged = append(merged, moment{
			At: n.At, Source: "execution", What: n.What, Run: n.Run, Fence: n.Fence, By: n.By, From: n.From, To: n.To, Detail: n.Detail,
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

func granted(a claim.Attempt) moment {
	return moment{At: a.At, Source: "claim", What: "granted", Fence: a.Fence, Owner: a.Owner, End: a.End}
}

// traceID is the second part of a W3C traceparent.
func traceID(traceparent string) string {
	if parts := strings.Split(traceparent, "-"); len(parts) > 1 {
		return parts[1]
	}
	return ""
}
