package message

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Task asks for one piece of work. One execution is one task, whose id names it
// everywhere: the claim's key, the downstream's Idempotency-Key, the correlation
// of every message about it.
type Task struct {
	ExecutionID   string         `json:"taskExecutionId"`
	Run           int            `json:"run"`           // 1, and one more per operator's replay
	Type          string         `json:"type"`          // chooses the handler
	Payload       jsontext.Value `json:"payload"`       // the handler's business alone
	ExecutionETag string         `json:"executionEtag"` // the ticket: brought back by the completion, decides nothing by itself
	Deadline      time.Time      `json:"deadline"`      // ends free waiting for a downstream
	NotAfter      time.Time      `json:"notAfter"`      // from here on nobody runs it any more
	Asserted      bool           `json:"asserted,omitzero"`
	Orchestration string         `json:"orchestrationId,omitzero"` // the execution that this one is a part of; its events bring it back
	Unknown       jsontext.Value `json:",embed"`
}

// Message is the task as it travels; id is TaskMessageID or CopyMessageID.
func (t Task) Message(id string, at time.Time) (Message, error) {
	return seal(id, "/oneeffect/orchestrator", TypeTask, t.ExecutionID, at, t)
}

// ParseTask reads a task, or says with ErrPoison why nobody ever will.
func ParseTask(body []byte) (Task, error) {
	t, ok := openAs[Task](body, TypeTask)
	if !ok {
		eventType, data, err := open(body)
		if err != nil {
			return Task{}, err
		}
		if eventType != TypeTask {
			return Task{}, fmt.Errorf("%w: type is %q, the queue carries %s", ErrPoison, eventType, TypeTask)
		}
		if err := openData(eventType, data, &t); err != nil {
			return Task{}, err
		}
	}
	if err := errors.Join(CheckExecutionID(t.ExecutionID), CheckType(t.Type), t.checkRest()); err != nil {
		return Task{}, fmt.Errorf("%w: %w", ErrPoison, err)
	}
	return t, nil
}

func (t Task) checkRest() error {
	var errs []error
	if t.Run < 1 {
		errs = append(errs, fmt.Errorf("run is %d, the first is 1", t.Run))
	}
	if t.Payload == nil {
		errs = append(errs, errors.New("payload is missing"))
	}
	if t.Deadline.IsZero() || t.NotAfter.IsZero() {
		errs = append(errs, errors.New("deadline and notAfter are required"))
	}
	return errors.Join(errs...)
}

// Completed says that the work of an execution is done, and where its result is.
type Completed struct {
	ExecutionID   string         `json:"taskExecutionId"`
	Run           int            `json:"run"`
	Fence         int64          `json:"fence"` // of the grant that completed the claim
	ResultRef     string         `json:"resultRef"`
	ResultDigest  string         `json:"resultDigest"` // sha256:… over the stored canonical result
	ExecutionETag string         `json:"executionEtag"`
	Orchestration string         `json:"orchestrationId,omitzero"`
	Fenced        int64          `json:"fenced,omitzero"` // for people: who says this had written under this fence, and was refused
	Unknown       jsontext.Value `json:",embed"`
}

// Message is the completion as it travels. A redelivery publishes it again under
// the same id.
func (c Completed) Message(at time.Time) (Message, error) {
	return seal(c.ExecutionID+"/completed", "/oneeffect/worker", TypeCompleted, c.ExecutionID, at, c)
}

// Failed says that nothing more will be tried, why, and what is known of the
// effect: Outcome is "none", "partial" (some steps were made) or "unknown".
type Failed struct {
	ExecutionID   string         `json:"taskExecutionId"`
	Run           int            `json:"run"`
	Fence         int64          `json:"fence"`
	Reason        string         `json:"reason"`
	Description   string         `json:"description"`
	Outcome       string         `json:"outcome"`
	ExecutionETag string         `json:"executionEtag"`
	Orchestration string         `json:"orchestrationId,omitzero"`
	Fenced        int64          `json:"fenced,omitzero"` // as of Completed
	Unknown       jsontext.Value `json:",embed"`
}

// Message is the failure as it travels.
func (f Failed) Message(at time.Time) (Message, error) {
	return seal(fmt.Sprintf("%s/failed/%d", f.ExecutionID, f.Fence), "/oneeffect/worker", TypeFailed, f.ExecutionID, at, f)
}

// Event is what the worker tells the orchestrator: exactly one of the two is set.
type Event struct {
	Completed *Completed
	Failed    *Failed
}

// ExecutionID is the execution it is about.
func (e Event) ExecutionID() string {
	if e.Completed != nil {
		return e.Completed.ExecutionID
	}
	return e.Failed.ExecutionID
}

// Run is the run that ended.
func (e Event) Run() int {
	if e.Completed != nil {
		return e.Completed.Run
	}
	return e.Failed.Run
}

// Ticket is the execution's ETag as the task carried it.
func (e Event) Ticket() string {
	if e.Completed != nil {
		return e.Completed.ExecutionETag
	}
	return e.Failed.ExecutionETag
}

// Orchestration is the execution that this one is a part of, if any.
func (e Event) Orchestration() string {
	if e.Completed != nil {
		return e.Completed.Orchestration
	}
	return e.Failed.Orchestration
}

// Fenced is the fence of its sender, if that had been refused a write before: another
// had the claim by then. It decides nothing.
func (e Event) Fenced() int64 {
	if e.Completed != nil {
		return e.Completed.Fenced
	}
	return e.Failed.Fenced
}

// Type is the event type, the Subject of the message.
func (e Event) Type() string {
	if e.Completed != nil {
		return TypeCompleted
	}
	return TypeFailed
}

// Message is the event as it travels.
func (e Event) Message(at time.Time) (Message, error) {
	if e.Completed != nil {
		return e.Completed.Message(at)
	}
	return e.Failed.Message(at)
}

// ParseEvent reads a task event, or says with ErrPoison why nobody ever will.
func ParseEvent(body []byte) (Event, error) {
	eventType, data, err := open(body)
	if err != nil {
		return Event{}, err
	}
	switch eventType {
	case TypeCompleted:
		var c Completed
		if err := openData(eventType, data, &c); err != nil {
			return Event{}, err
		}
		if err := checkEvent(c.ExecutionID, c.Run, c.Fence, "resultDigest", c.ResultDigest); err != nil {
			return Event{}, err
		}
		return Event{Completed: &c}, nil
	case TypeFailed:
		var f Failed
		if err := openData(eventType, data, &f); err != nil {
			return Event{}, err
		}
		if err := checkEvent(f.ExecutionID, f.Run, f.Fence, "reason", f.Reason); err != nil {
			return Event{}, err
		}
		return Event{Failed: &f}, nil
	}
	return Event{}, fmt.Errorf("%w: type is %q, the topic carries %s and %s", ErrPoison, eventType, TypeCompleted, TypeFailed)
}

func checkEvent(id string, run int, fence int64, required, value string) error {
	err := CheckExecutionID(id)
	switch {
	case err != nil:
	case run < 1 || fence < 1:
		err = fmt.Errorf("run %d and fence %d: runs and fences count from 1", run, fence)
	case value == "":
		err = fmt.Errorf("%s is missing", required)
	default:
		return nil
	}
	return fmt.Errorf("%w: %w", ErrPoison, err)
}
