package execution

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"oneeffect/internal/message"
)

// Status of an execution.
type Status string

// The states.
const (
	Running   Status = "RUNNING"
	Completed Status = "COMPLETED"
	Failed    Status = "FAILED"
	Cancelled Status = "CANCELLED"
)

// Statuses are all of them.
func Statuses() []Status { return []Status{Running, Completed, Failed, Cancelled} }

// How old a task may get: the first ends free waiting for a downstream, the
// second ends everything.
const (
	DeadlineAfter = 24 * time.Hour
	NotAfterAfter = 21 * 24 * time.Hour
)

// Execution is one document of the container "executions", partition key
// executionId, which is also its id.
type Execution struct {
	ID            string         `json:"id"`
	ExecutionID   string         `json:"executionId"`
	Kind          string         `json:"kind"` // KindExecution
	Type          string         `json:"type"`
	Payload       jsontext.Value `json:"payload"`
	Request       string         `json:"request"` // fingerprint of type and payload: tells a repeated request from another one
	Status        Status         `json:"status"`
	Run           int            `json:"run"`
	CreatedAt     time.Time      `json:"createdAt"`
	Deadline      time.Time      `json:"deadline"`
	NotAfter      time.Time      `json:"notAfter"`
	Asserted      bool           `json:"asserted,omitzero"`        // of this run: an operator asserts that the ones before had no effect
	Orchestration string         `json:"orchestrationId,omitzero"` // the execution that this one is a part of
	Tasks         []Part         `json:"tasks,omitzero"`           // of an orchestration: what it is made of
	TraceParent   string         `json:"traceparent,omitzero"`     // of the request, for what a relay sends later
	EndedAt       time.Time      `json:"endedAt,omitzero"`
	Result        *Result        `json:"result,omitzero"`
	Failure       *Failure       `json:"failure,omitzero"`
	History       []Note         `json:"history"`
	Unknown       jsontext.Value `json:",embed"`
}

// New is an execution as a request begins it.
func New(id, taskType string, payload jsontext.Value, request string, now time.Time) Execution {
	return Execution{
		ID: id, ExecutionID: id, Kind: KindExecution, Type: taskType, Payload: payload, Request: request,
		Status: Running, Run: 1, CreatedAt: now, Deadline: now.Add(DeadlineAfter), NotAfter: now.Add(NotAfterAfter),
		History: []Note{{At: now, What: "created", To: Running, Run: 1}},
	}
}

// The kinds of document that share an execution's partition.
const (
	KindExecution  = "execution"
	KindOutbox     = "outbox"
	KindRedispatch = "redispatch"
)

// Result says where the result is and how to know it again.
type Result struct {
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
	Fence  int64  `json:"fence"`
}

// Failure says why there is none.
type Failure struct {
	Reason      string `json:"reason"`
	Description string `json:"description"`
	Outcome     string `json:"outcome"`
	Fence       int64  `json:"fence"`
}

// Task is what asks a worker for one run of the execution; ticket is the version that
// stood when it was asked for, which the creator has from its write and everybody else
// from a read.
func (e Execution) Task(run int, ticket ETag) message.Task {
	return message.Task{
		ExecutionID: e.ExecutionID, Run: run, Type: e.Type, Payload: e.Payload,
		ExecutionETag: string(ticket), Deadline: e.Deadline, NotAfter: e.NotAfter, Asserted: e.Asserted,
		Orchestration: e.Orchestration,
	}
}

// Note is one entry of the history: what happened to this execution, oldest first.
type Note struct {
	At     time.Time `json:"at"`
	What   string    `json:"what"`        // "created", "completed", "failed", …
	By     string    `json:"by,omitzero"` // who asked for it; empty: an event did
	From   Status    `json:"from,omitzero"`
	To     Status    `json:"to,omitzero"`
	Run    int       `json:"run"`
	Fence  int64     `json:"fence,omitzero"`
	Detail string    `json:"detail,omitzero"`
}

// Entry is an outbox entry: a message that must be sent, in the partition of its
// execution and written with it. It cannot hold the execution's ETag, which the
// same write makes: whoever sends reads the execution first, or made it.
type Entry struct {
	ID          string `json:"id"` // KindOutbox:<MessageID>
	ExecutionID string `json:"executionId"`
	Kind        string `json:"kind"` // KindOutbox
	MessageID   string `json:"messageId"`
	Run         int    `json:"run"`
	Part        string `json:"part,omitzero"` // of an orchestration: the execution that is to be begun
}

// OutboxEntry is the entry for one run of an execution.
func OutboxEntry(executionID, messageID string, run int) Entry {
	// An item id may not contain "/", which a MessageID may.
	id := KindOutbox + ":" + executionID
	if run > 1 {
		id += ":" + strconv.Itoa(run)
	}
	return Entry{ID: id, ExecutionID: executionID, Kind: KindOutbox, MessageID: messageID, Run: run}
}
