package message

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ContentType of every body (CloudEvents 1.0, JSON format §3).
const ContentType = "application/cloudevents+json"

// The event types, which are also the Subject of the Service Bus message.
const (
	TypeTask      = "TaskRequested"
	TypeCompleted = "TaskCompleted"
	TypeFailed    = "TaskFailed"
)

// Message is one message on its way out: body and the properties beside it.
type Message struct {
	ID            string // MessageID
	CorrelationID string // the execution
	Subject       string // the event type
	Session       string // SessionID: what its order is kept within, if it is received by session
	Body          []byte
}

// envelope is a CloudEvents 1.0 event. Its context attributes are fixed by that
// specification; data is ours.
type envelope struct {
	SpecVersion     string         `json:"specversion"`
	ID              string         `json:"id"`
	Source          string         `json:"source"`
	Type            string         `json:"type"`
	Subject         string         `json:"subject,omitzero"`
	Time            time.Time      `json:"time,omitzero"`
	DataContentType string         `json:"datacontenttype,omitzero"`
	Data            jsontext.Value `json:"data"`
	Unknown         jsontext.Value `json:",embed"` // extension attributes, kept (M2)
}

// seal puts data into an envelope. The subject is the execution: the one thing
// that every event of ours is about.
func seal(id, source, eventType, executionID string, at time.Time, data any) (Message, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return Message{}, fmt.Errorf("encode %s: %w", eventType, err)
	}
	body, err := json.Marshal(envelope{
		SpecVersion: "1.0", ID: id, Source: source, Type: eventType, Subject: executionID,
		Time: at.UTC(), DataContentType: "application/json", Data: text,
	})
	if err != nil {
		return Message{}, fmt.Errorf("encode %s: %w", eventType, err)
	}
	return Message{ID: id, CorrelationID: executionID, Subject: eventType, Body: body}, nil
}

// open reads the envelope and hands back its type and data, or ErrPoison.
func open(body []byte) (eventType string, data jsontext.Value, err error) {
	var e envelope
	if err := Decode(body, &e); err != nil {
		return "", nil, fmt.Errorf("%w: not a CloudEvents event: %w", ErrPoison, err)
	}
	switch {
	case e.SpecVersion != "1.0":
		return "", nil, fmt.Errorf("%w: specversion is %q, this reader knows 1.0", ErrPoison, e.SpecVersion)
	case e.ID == "", e.Source == "", e.Type == "":
		return "", nil, fmt.Errorf("%w: id, source and type are required of a CloudEvents event", ErrPoison)
	case e.DataContentType != "" && e.DataContentType != "application/json":
		return "", nil, fmt.Errorf("%w: datacontenttype is %q, this reader knows application/json", ErrPoison, e.DataContentType)
	case e.Data.Kind() != '{':
		return "", nil, fmt.Errorf("%w: data is not an object", ErrPoison)
	}
	return e.Type, e.Data, nil
}

// openData reads the data of one event type into v.
func openData(eventType string, data jsontext.Value, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: data of %s: %w", ErrPoison, eventType, err)
	}
	return nil
}
