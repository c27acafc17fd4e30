package diagram

import (
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
)

// Timeline is what GET …/timeline answers: what stands, and how it came to that.
// The names are the API's own, so that a picture drawn from it outlives a change of
// the documents.
type Timeline struct {
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
	Claim       *Claim             `json:"claim,omitzero"` // none: nobody has taken the task yet
	Dispatches  []Dispatch         `json:"dispatches"`
	Redispatch  *Redispatch        `json:"redispatched,omitzero"` // none: its run was never sent again for its age
	Entries     []Moment           `json:"entries"`
}

// Claim is a claim as the API shows it.
type Claim struct {
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

// Dispatch is the task message of one run.
type Dispatch struct {
	Run       int    `json:"run"`
	MessageID string `json:"messageId"`
	State     string `json:"state"` // DispatchWaiting or DispatchSent
}

// The states of a dispatch: its message stands in the outbox, or does not any more.
const (
	DispatchWaiting = "waiting"
	DispatchSent    = "sent"
)

// Redispatch is how often the task of a run was sent again since nobody worked on it
// (E5).
type Redispatch struct {
	Run        int   `json:"run"`
	Times      int   `json:"times"`
	AgeSeconds int64 `json:"ageSeconds"` // since the last time, by the store's clock
}

// Moment is one entry of the history of an execution, one grant of its claim, or
// what an orchestrator has seen and nobody has written down.
type Moment struct {
	At     time.Time        `json:"at,omitzero"`
	Source string           `json:"source"` // FromExecution, FromClaim or Seen
	What   string           `json:"what"`
	Run    int              `json:"run,omitzero"`
	Fence  int64            `json:"fence,omitzero"`
	By     string           `json:"by,omitzero"`    // of the execution: who asked
	From   execution.Status `json:"from,omitzero"`  // of the execution
	To     execution.Status `json:"to,omitzero"`    // of the execution
	Owner  string           `json:"owner,omitzero"` // of the claim: pod / process / grant
	End    string           `json:"end,omitzero"`   // of the claim: how the grant ended
	// Of the claim: so long its delivery had found the claim busy before, and waited.
	BusySeconds int `json:"busySeconds,omitzero"`
	// Of the claim: its lease, if that of the grant after it was another.
	LeaseSeconds int    `json:"leaseSeconds,omitzero"`
	Detail       string `json:"detail,omitzero"`
}

// Where a moment comes from.
const (
	FromExecution = "execution"
	FromClaim     = "claim"
	Seen          = "seen" // by this orchestrator's process, since it began
)

// What a seen moment is: an event that came and changed nothing, one that says another
// result, or that the sender of an event, under a fence, had been refused a write.
const (
	NoOp          = "no-op"
	Contradiction = "contradiction"
	Refused       = "fenced"
)
