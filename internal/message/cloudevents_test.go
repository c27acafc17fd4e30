package message_test

import (
	"encoding/json"
	"testing"
	"time"

	"oneeffect/internal/message"

	"github.com/cloudevents/sdk-go/v2/event"
)

// The envelope is ours; the CloudEvents SDK says whether it is one.
func TestOurEnvelopeIsACloudEventToTheSDK(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)
	task := message.Task{
		ExecutionID: "82f3", Run: 1, Type: "customer.create", Payload: []byte(`{"name":"Ada"}`),
		ExecutionETag: `"e1"`, Deadline: at.Add(time.Hour), NotAfter: at.Add(2 * time.Hour),
	}
	completed := message.Completed{ExecutionID: "82f3", Run: 1, Fence: 2, ResultRef: "/customers/1", ResultDigest: "sha256:00"}
	failed := message.Failed{ExecutionID: "82f3", Run: 1, Fence: 2, Reason: "OutcomeUnknown", Outcome: "unknown"}
	for _, test := range []struct {
		make func() (message.Message, error)
		id   string
		kind string
	}{
		{func() (message.Message, error) { return task.Message("82f3/run/2", at) }, "82f3/run/2", message.TypeTask},
		{func() (message.Message, error) { return completed.Message(at) }, "82f3/completed", message.TypeCompleted},
		{func() (message.Message, error) { return failed.Message(at) }, "82f3/failed/2", message.TypeFailed},
	} {
		m, err := test.make()
		if err != nil {
			t.Fatal(err)
		}
		var e event.Event
		if err := json.Unmarshal(m.Body, &e); err != nil {
			t.Fatalf("%s: %v\n%s", test.kind, err, m.Body)
		}
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", test.kind, err)
		}
		if e.SpecVersion() != "1.0" || e.ID() != test.id || e.Type() != test.kind || e.Subject() != "82f3" || !e.Time().Equal(at) || e.DataContentType() != "application/json" {
			t.Errorf("%s: the SDK reads %v", test.kind, e)
		}
		if m.ID != test.id || m.Subject != test.kind || m.CorrelationID != "82f3" {
			t.Errorf("%s: beside the body: %+v", test.kind, m)
		}
	}
}

func TestAnEventMadeByTheSDKIsRead(t *testing.T) {
	e := event.New()
	e.SetID("x")
	e.SetSource("/elsewhere")
	e.SetType(message.TypeCompleted)
	e.SetExtension("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if err := e.SetData("application/json", map[string]any{
		"taskExecutionId": "82f3", "run": 1, "fence": 2, "resultRef": "/c/1", "resultDigest": "sha256:00", "executionEtag": "",
	}); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	got, err := message.ParseEvent(body)
	if err != nil {
		t.Fatal(err)
	}
	if got.Completed == nil || got.Completed.ExecutionID != "82f3" || got.Completed.Fence != 2 {
		t.Errorf("read %+v", got)
	}
}
