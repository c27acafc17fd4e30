package execution_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func TestAnExecutionBeginsRunningInItsFirstRun(t *testing.T) {
	got := execution.New("82f3", "customer.create", jsontext.Value(`{"name":"Ada"}`), "sha256:req", created)
	want := execution.Execution{
		ID: "82f3", ExecutionID: "82f3", Kind: "execution", Type: "customer.create", Payload: jsontext.Value(`{"name":"Ada"}`), Request: "sha256:req",
		Status: execution.Running, Run: 1, CreatedAt: created, Deadline: created.Add(24 * time.Hour), NotAfter: created.Add(21 * 24 * time.Hour),
		History: []execution.Note{{At: created, What: "created", To: execution.Running, Run: 1}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAnExecutionIsOneDocument(t *testing.T) {
	e := execution.New("82f3", "customer.create", jsontext.Value(`{"name":"Ada"}`), "sha256:req", created)
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"82f3","executionId":"82f3","kind":"execution","type":"customer.create","payload":{"name":"Ada"},"request":"sha256:req",` +
		`"status":"RUNNING","run":1,"createdAt":"2026-01-01T00:00:00Z","deadline":"2026-01-02T00:00:00Z","notAfter":"2026-01-22T00:00:00Z",` +
		`"history":[{"at":"2026-01-01T00:00:00Z","what":"created","to":"RUNNING","run":1}]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestAnExecutionIsReadAsItWasWrittenWithWhatALaterVersionAdds(t *testing.T) {
	for _, status := range execution.Statuses() {
		want := stood(status)
		want.TraceParent, want.Unknown = "00-ab", jsontext.Value(`{"parts":[1.50,{"b":1,"a":2}]}`)
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got execution.Execution
		if err := message.Decode(text, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got  %+v, %v\nwant %+v", status, got, err, want)
		}
	}
}

func TestARepeatedRequestIsToldFromAnotherOne(t *testing.T) {
	first := execution.New("82f3", "customer.create", jsontext.Value(`{}`), "sha256:req", created)
	again := execution.New("82f3", "customer.create", jsontext.Value(`{ }`), "sha256:req", now)
	other := execution.New("82f3", "customer.create", jsontext.Value(`{"a":1}`), "sha256:other", created)
	if !first.SameRequest(again) || first.SameRequest(other) {
		t.Errorf("the same: %t, another: %t", first.SameRequest(again), first.SameRequest(other))
	}
}

// An outbox entry shares its partition with its execution and the entries of
// other runs, so within one execution no two ids may be equal.
func TestOutboxEntriesHaveIDsThatAStoreTakesAndThatDiffer(t *testing.T) {
	for _, id := range []string{"82f3", "outbox", "outbox:82f3", "a:2", strings.Repeat("x", message.MaxExecutionID)} {
		taken := map[string]bool{execution.New(id, "a", nil, "", created).ID: true}
		for _, run := range []int{1, 2, 3, 12, 1 << 53} {
			messageID := message.TaskMessageID(id, run)
			entry := execution.OutboxEntry(id, messageID, run)
			if entry.ExecutionID != id || entry.Kind != "outbox" || entry.MessageID != messageID || entry.Run != run {
				t.Errorf("run %d of %s: %+v", run, id, entry)
			}
			if taken[entry.ID] || strings.ContainsAny(entry.ID, `/\?#`) || len(entry.ID) > 255 {
				t.Errorf("run %d of %s has the entry id %q, which is taken, or no item id", run, id, entry.ID)
			}
			taken[entry.ID] = true
		}
	}
}
