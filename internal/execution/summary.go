package execution

import "time"

// Summary is what a list shows of an execution. It is small, whatever the payload
// and the history are.
type Summary struct {
	ExecutionID string    `json:"executionId"`
	Type        string    `json:"type"`
	Status      Status    `json:"status"`
	Run         int       `json:"run"`
	CreatedAt   time.Time `json:"createdAt"`
	EndedAt     time.Time `json:"endedAt,omitzero"`
	Reason      string    `json:"reason,omitzero"` // of its failure
	ETag        ETag      `json:"etag"`
}

// Filter chooses executions: of any of the states, and of any of the types. None
// given is all.
type Filter struct {
	Statuses []Status
	Types    []string
}
