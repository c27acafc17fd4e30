package orchestrator

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// What one page of dead letters is bounded by: each takes two reads of the store.
const (
	lettersPage    = 20
	maxLettersPage = 100
	lettersAtOnce  = 8
)

// letter is a dead letter as the API shows it. Its body is not shown: it may be
// anything.
type letter struct {
	Sequence      int64            `json:"sequence"`
	MessageID     string           `json:"messageId"`
	Reason        string           `json:"reason"`
	Description   string           `json:"description"`
	EnqueuedAt    time.Time        `json:"enqueuedAt"`
	DeliveryCount int              `json:"deliveryCount"`
	ExecutionID   string           `json:"executionId,omitzero"` // of what its body asks for, if anybody can read it
	Type          string           `json:"type,omitzero"`
	Run           int              `json:"run,omitzero"`
	Status        execution.Status `json:"status,omitzero"`     // of the execution
	CurrentRun    int              `json:"currentRun,omitzero"` // of the execution
	ETag          execution.ETag   `json:"etag,omitzero"`       // of the execution: the version that the verdict is about
	Claim         claim.Status     `json:"claim,omitzero"`
	Verdict       Verdict          `json:"verdict"`
	Why           string           `json:"why"`
}

// deadLetters lists dead letters by their sequence numbers, each with what a replay
// of its execution would come to. Nothing is taken, and nothing changes.
func (o *Orchestrator) deadLetters(w http.ResponseWriter, r *http.Request) {
	from, err := number(r, "from", 0, math.MaxInt64, 0)
	limit, err2 := number(r, "limit", 1, maxLettersPage, lettersPage)
	if err := errors.Join(err, err2); err != nil {
		o.fail(w, r, err)
		return
	}
	dead, err := o.DeadLetters.Browse(r.Context(), from, int(limit))
	if err != nil {
		o.fail(w, r, err)
		return
	}
	page := struct {
		DeadLetters []letter `json:"deadLetters"`
		Next        string   `json:"next,omitzero"`
	}{DeadLetters: make([]letter, len(dead))}
	errs := make([]error, len(dead))
	var looking sync.WaitGroup
	for first := range min(lettersAtOnce, len(dead)) {
		looking.Go(func() {
			for i := first; i < len(dead); i += lettersAtOnce {
				page.DeadLetters[i], errs[i] = o.examine(r.Context(), dead[i])
			}
		})
	}
	looking.Wait()
	if err := errors.Join(errs...); err != nil {
		o.fail(w, r, err)
		return
	}
	if last := len(dead) - 1; last >= 0 && len(dead) >= int(limit) && dead[last].Sequence < math.MaxInt64 {
		page.Next = "/v1/dead-letters?from=" + strconv.FormatInt(dead[last].Sequence+1, 10) + "&limit=" + strconv.FormatInt(limit, 10)
		w.Header().Set("Link", "<"+page.Next+`>; rel="next"`)
	}
	o.writeJSON(w, r, http.StatusOK, page)
}

// examine reads what a dead letter is about.
func (o *Orchestrator) examine(ctx context.Context, d DeadLetter) (letter, error) {
	l := letter{
		Sequence: d.Sequence, MessageID: d.MessageID, Reason: d.Reason, Description: d.Description,
		EnqueuedAt: d.EnqueuedAt, DeliveryCount: d.DeliveryCount,
	}
	var stands *execution.Execution
	var held *claim.Claim
	var task *message.Task
	if asked, err := message.ParseTask(d.Body); err == nil {
		task, l.ExecutionID, l.Type, l.Run = &asked, asked.ExecutionID, asked.Type, asked.Run
		stored, err := o.Store.Load(ctx, asked.ExecutionID)
		switch {
		case err == nil:
			stands, l.Status, l.CurrentRun, l.ETag = &stored.Execution, stored.Execution.Status, stored.Execution.Run, stored.ETag
		case !errors.Is(err, message.ErrNotFound):
			return letter{}, err
		}
		claimed, err := o.claimOf(ctx, asked.ExecutionID)
		if err != nil {
			return letter{}, err
		}
		if claimed != nil {
			held, l.Claim = &claimed.Claim, claimed.Claim.Status
		}
	}
	l.Verdict, l.Why = judge(task, stands, held, time.Now())
	return l, nil
}
