package message

import (
	"errors"
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
// specification; data is ours, as text or as what it is read into.
type envelope[T any] struct {
	SpecVersion     string         `json:"specversion"`
	ID              string         `json:"id"`
	Source          string         `json:"source"`
	Type            string         `json:"type"`
	Subject         string         `json:"subject,omitzero"`
	Time            time.Time      `json:"time,omitzero"`
	DataContentType string         `json:"datacontenttype,omitzero"`
	Data            T              `json:"data"`
	Unknown         jsontext.Value `json:",embed"` // extension attributes, kept (M2)
}

// seal puts data into an envelope. The subject is the execution: the one thing
// that every event of ours is about.
func seal[T any](id, source, eventType, executionID string, at time.Time, data T) (Message, error) {
	body, err := json.Marshal(&envelope[T]{ // its address, or the library copies it
		SpecVersion: "1.0", ID: id, Source: source, Type: eventType, Subject: executionID,
		Time: at.UTC(), DataContentType: "application/json", Data: data,
	})
	if err != nil {
		return Message{}, fmt.Errorf("encode %s: %w", eventType, err)
	}
	return Message{ID: id, CorrelationID: executionID, Subject: eventType, Body: body}, nil
}

// open reads the envelope and hands back its type and data, or ErrPoison.
func open(body []byte) (eventType string, data jsontext.Value, err error) {
	var e envelope[jsontext.Value]
	if err := Decode(body, &e); err != nil {
		return "", nil, fmt.Errorf("%w: not a CloudEvents event: %w", ErrPoison, err)
	}
	if err := e.check(); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrPoison, err)
	}
	if e.Data.Kind() != '{' {
		return "", nil, fmt.Errorf("%w: data is not an object", ErrPoison)
	}
	return e.Type, e.Data, nil
}

func (e *envelope[T]) check() error {
	switch {
	case e.SpecVersion != "1.0":
		return fmt.Errorf("specversion is %q, this reader knows 1.0", e.SpecVersion)
	case e.ID == "", e.Source == "", e.Type == "":
		return errors.New("id, source and type are required of a CloudEvents event")
	case e.DataContentType != "" && e.DataContentType != "application/json":
		return fmt.Errorf("datacontenttype is %q, this reader knows application/json", e.DataContentType)
	}
	return nil
}

// openAs is open and openData at once, for the event that is expected. Of any other
// body it says nothing: open does.
func openAs[T any](body []byte, eventType string) (data T, ok bool) {
	var e envelope[*T] // nil where data is missing or null
	if Decode(body, &e) != nil || e.check() != nil || e.Type != eventType || e.Data == nil {
		return data, false
	}
	return *e.Data, true
}

// openData reads the data of one event type into v.
func openData(eventType string, data jsontext.Value, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: data of %s: %w", ErrPoison, eventType, err)
	}
	return nil
}
