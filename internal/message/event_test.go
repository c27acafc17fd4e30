package message_test

import (
	"reflect"
	"testing"
	"time"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

func TestAnEventIsReadAsItWasWritten(t *testing.T) {
	for _, test := range []struct {
		name string
		body string
		want message.Event
	}{
		{
			"a completion", envelopeOf(message.TypeCompleted, completedData).object(),
			message.Event{Completed: &message.Completed{ExecutionID: "82f3", Run: 1, Fence: 2, ResultRef: "/customers/7", ResultDigest: "sha256:ab", ExecutionETag: `"0x1"`}},
		},
		{
			"a completion whose result has no place of its own", envelopeOf(message.TypeCompleted, completedData.with(members{"resultRef": ""})).object(),
			message.Event{Completed: &message.Completed{ExecutionID: "82f3", Run: 1, Fence: 2, ResultDigest: "sha256:ab", ExecutionETag: `"0x1"`}},
		},
		{
			"a failure", envelopeOf(message.TypeFailed, failedData).object(),
			message.Event{Failed: &message.Failed{ExecutionID: "82f3", Run: 1, Fence: 2, Reason: "TooOld", Description: "past notAfter", Outcome: "none", ExecutionETag: `"0x1"`}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := message.ParseEvent([]byte(test.body))
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, test.want)
			}
		})
	}
}

func TestAnEventThatDoesNotParseIsRefusedWithItsCause(t *testing.T) { // M1, M3
	const counts = "runs and fences count from 1"
	completed := func(m members) string { return envelopeOf(message.TypeCompleted, completedData.with(m)).object() }
	failed := func(m members) string { return envelopeOf(message.TypeFailed, failedData.with(m)).object() }
	for eventType, data := range map[string]members{message.TypeCompleted: completedData, message.TypeFailed: failedData} {
		t.Run(eventType, func(t *testing.T) { refuses(t, message.ParseEvent, envelopeRefusals(eventType, data)) })
	}
	refuses(t, message.ParseEvent, []refusal{
		{"another event type", envelopeOf(message.TypeTask, taskData).object(), `type is "TaskRequested", the topic carries TaskCompleted and TaskFailed`},
		{"a completion of run 0", completed(members{"run": "0"}), "run 0 and fence 2: " + counts},
		{"a completion without a run", completed(members{"run": ""}), "run 0 and fence 2: " + counts},
		{"a completion under fence 0", completed(members{"fence": "0"}), "run 1 and fence 0: " + counts},
		{"a completion under a negative fence", completed(members{"fence": "-2"}), "run 1 and fence -2: " + counts},
		{"a completion without a digest", completed(members{"resultDigest": ""}), "resultDigest is missing"},
		{"a completion whose reference is no string", completed(members{"resultRef": "7"}), `unmarshal JSON number into Go string within "/resultRef"`},
		{"a failure of run 0", failed(members{"run": "0"}), "run 0 and fence 2: " + counts},
		{"a failure without a fence", failed(members{"fence": ""}), "run 1 and fence 0: " + counts},
		{"a failure without a reason", failed(members{"reason": ""}), "reason is missing"},
		{"a failure whose reason is no string", failed(members{"reason": "[]"}), `unmarshal JSON array into Go string within "/reason"`},
		{"a fence beyond 2^53", failed(members{"fence": "9007199254740993"}), `at "/data/fence": the integer 9007199254740993 is beyond 2^53: send it as a string`},
	})
}

func TestAnEventTravelsAsACloudEventAndComesBack(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name  string
		event message.Event
		want  message.Message
	}{
		{
			"a completion",
			message.Event{Completed: &message.Completed{ExecutionID: "82f3", Run: 3, Fence: 5, ResultRef: "/customers/7", ResultDigest: "sha256:ab", ExecutionETag: `"0x1"`}},
			message.Message{ID: "82f3/completed", CorrelationID: "82f3", Subject: "TaskCompleted", Body: []byte(
				`{"specversion":"1.0","id":"82f3/completed","source":"/oneeffect/worker","type":"TaskCompleted","subject":"82f3","time":"2026-01-01T00:00:00Z","datacontenttype":"application/json",` +
					`"data":{"taskExecutionId":"82f3","run":3,"fence":5,"resultRef":"/customers/7","resultDigest":"sha256:ab","executionEtag":"\"0x1\""}}`)},
		},
		{
			"a completion by a worker that was refused a write",
			message.Event{Completed: &message.Completed{ExecutionID: "82f3", Run: 3, Fence: 5, ResultDigest: "sha256:ab", Fenced: 4}},
			message.Message{ID: "82f3/completed", CorrelationID: "82f3", Subject: "TaskCompleted", Body: []byte(
				`{"specversion":"1.0","id":"82f3/completed","source":"/oneeffect/worker","type":"TaskCompleted","subject":"82f3","time":"2026-01-01T00:00:00Z","datacontenttype":"application/json",` +
					`"data":{"taskExecutionId":"82f3","run":3,"fence":5,"resultRef":"","resultDigest":"sha256:ab","executionEtag":"","fenced":4}}`)},
		},
		{
			"a failure, with what a later version adds", // M2
			message.Event{Failed: &message.Failed{ExecutionID: "82f3", Run: 3, Fence: 5, Reason: "TooOld", Description: "past notAfter", Outcome: "none", Unknown: jsontext.Value(`{"hint":[1.0]}`)}},
			message.Message{ID: "82f3/failed/5", CorrelationID: "82f3", Subject: "TaskFailed", Body: []byte(
				`{"specversion":"1.0","id":"82f3/failed/5","source":"/oneeffect/worker","type":"TaskFailed","subject":"82f3","time":"2026-01-01T00:00:00Z","datacontenttype":"application/json",` +
					`"data":{"taskExecutionId":"82f3","run":3,"fence":5,"reason":"TooOld","description":"past notAfter","outcome":"none","executionEtag":"","hint":[1.0]}}`)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := test.event.Message(at)
			if err != nil || !reflect.DeepEqual(m, test.want) {
				t.Fatalf("got  %+v, %v\n     %s\nwant %s", m, err, m.Body, test.want.Body)
			}
			if m.Subject != test.event.Type() || m.CorrelationID != test.event.ExecutionID() {
				t.Errorf("the event says %s of %s, the message %s of %s", test.event.Type(), test.event.ExecutionID(), m.Subject, m.CorrelationID)
			}
			again, err := message.ParseEvent(m.Body)
			if err != nil || !reflect.DeepEqual(again, test.event) {
				t.Errorf("it comes back as %+v, %v, want %+v", again, err, test.event)
			}
		})
	}
}

func TestAnEventSaysWhatItIsAbout(t *testing.T) {
	completed := message.Event{Completed: &message.Completed{ExecutionID: "c", Run: 3, ExecutionETag: "ticket c"}}
	failed := message.Event{Failed: &message.Failed{ExecutionID: "f", Run: 4, ExecutionETag: "ticket f"}}
	if completed.ExecutionID() != "c" || completed.Run() != 3 || completed.Ticket() != "ticket c" || completed.Type() != message.TypeCompleted {
		t.Errorf("a completion is read as %s, run %d, ticket %s, type %s", completed.ExecutionID(), completed.Run(), completed.Ticket(), completed.Type())
	}
	if failed.ExecutionID() != "f" || failed.Run() != 4 || failed.Ticket() != "ticket f" || failed.Type() != message.TypeFailed {
		t.Errorf("a failure is read as %s, run %d, ticket %s, type %s", failed.ExecutionID(), failed.Run(), failed.Ticket(), failed.Type())
	}
}

// A redelivery publishes again what the claim holds: the same bytes, but for the time.
func TestAnEventPublishedAgainHasTheSameID(t *testing.T) {
	event := message.Event{Failed: &message.Failed{ExecutionID: "82f3", Run: 1, Fence: 2, Reason: "TooOld"}}
	first, err := event.Message(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	second, err := event.Message(time.Date(2026, 1, 1, 0, 5, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	if first.ID != second.ID || !reflect.DeepEqual(dataOf(t, first.Body), dataOf(t, second.Body)) {
		t.Errorf("first  %s %s\nsecond %s %s", first.ID, first.Body, second.ID, second.Body)
	}
}
