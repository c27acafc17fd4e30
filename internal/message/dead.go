package message

import "time"

// Dead is a message that was given up. Of the execution that it was about it
// is a hint and no more: a worker or the broker wrote the reason, and the body may
// be anything.
type Dead struct {
	Sequence      int64 // the broker's number of it, in the dead-letter queue
	MessageID     string
	CorrelationID string
	Body          []byte
	Reason        string
	Description   string
	EnqueuedAt    time.Time // broker time, of the message and not of its end
	DeliveryCount int
}
