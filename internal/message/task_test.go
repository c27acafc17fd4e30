package message_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// members are the members of a JSON object; "" as a value leaves one out.
type members map[string]string

// object writes members in a fixed order, without those left out.
func (m members) object() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != "" {
			texts = append(texts, `"`+name+`":`+m[name])
		}
	}
	return "{" + strings.Join(texts, ",") + "}"
}

// with is a copy in which some members differ.
func (m members) with(others members) members {
	all := maps.Clone(m)
	maps.Copy(all, others)
	return all
}

var (
	taskData = members{
		"taskExecutionId": `"82f3"`, "run": `1`, "type": `"customer.create"`, "payload": `{"name":"Ada"}`, "executionEtag": `"\"0x1\""`,
		"deadline": `"2026-01-02T00:00:00Z"`, "notAfter": `"2026-01-22T00:00:00Z"`,
	}
	completedData = members{
		"taskExecutionId": `"82f3"`, "run": `1`, "fence": `2`, "resultRef": `"/customers/7"`, "resultDigest": `"sha256:ab"`, "executionEtag": `"\"0x1\""`,
	}
	failedData = members{
		"taskExecutionId": `"82f3"`, "run": `1`, "fence": `2`, "reason": `"TooOld"`, "description": `"past notAfter"`, "outcome": `"none"`, "executionEtag": `"\"0x1\""`,
	}
)

func envelopeOf(eventType string, data members) members {
	return members{
		"specversion": `"1.0"`, "id": `"82f3"`, "source": `"/oneeffect/orchestrator"`, "type": `"` + eventType + `"`, "subject": `"82f3"`,
		"time": `"2026-01-01T00:00:00Z"`, "datacontenttype": `"application/json"`, "data": data.object(),
	}
}

func TestATaskIsReadAsItWasWritten(t *testing.T) {
	got, err := message.ParseTask([]byte(envelopeOf(message.TypeTask, taskData.with(members{"asserted": "true"})).object()))
	if err != nil {
		t.Fatal(err)
	}
	want := message.Task{
		ExecutionID: "82f3", Run: 1, Type: "customer.create", Payload: jsontext.Value(`{"name":"Ada"}`), ExecutionETag: `"0x1"`,
		Deadline: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2026, 1, 22, 0, 0, 0, 0, time.UTC), Asserted: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// What no version of this program should send is still read, as CloudEvents asks.
func TestATaskIsReadFromEveryFormThatCloudEventsAllows(t *testing.T) {
	for name, body := range map[string]members{
		"without the optional attributes": envelopeOf(message.TypeTask, taskData).with(members{"subject": "", "time": "", "datacontenttype": ""}),
		"with an extension attribute":     envelopeOf(message.TypeTask, taskData).with(members{"traceparent": `"00-ab"`, "partitionkey": `"a"`}),
		"with a dataschema":               envelopeOf(message.TypeTask, taskData).with(members{"dataschema": `"https://example.com/task.json"`}),
		"with a time in another zone":     envelopeOf(message.TypeTask, taskData).with(members{"time": `"2026-01-01T02:00:00.123456789+02:00"`}),
		"with a payload of null":          envelopeOf(message.TypeTask, taskData.with(members{"payload": "null"})),
		"with a payload that is a number": envelopeOf(message.TypeTask, taskData.with(members{"payload": "7"})),
		"without a ticket":                envelopeOf(message.TypeTask, taskData.with(members{"executionEtag": ""})),
		"with the longest id":             envelopeOf(message.TypeTask, taskData.with(members{"taskExecutionId": `"` + strings.Repeat("x", 96) + `"`})),
		"with the longest type":           envelopeOf(message.TypeTask, taskData.with(members{"type": `"` + strings.Repeat("x", 64) + `"`})),
		"with the largest exact integers": envelopeOf(message.TypeTask, taskData.with(members{"payload": `[9007199254740992,-9007199254740992]`})),
		"with a later run":                envelopeOf(message.TypeTask, taskData.with(members{"run": "9007199254740992"})),
	} {
		if _, err := message.ParseTask([]byte(body.object())); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// refusal is one body that must be refused, and what must be said of it.
type refusal struct {
	name string
	body string
	want string // what the error's text must contain; the JSON library varies the words around it
}

// envelopeRefusals are common to every event type.
func envelopeRefusals(eventType string, data members) []refusal {
	good := envelopeOf(eventType, data)
	return []refusal{
		{"nothing", "", "not a CloudEvents event: jsontext: unexpected EOF"},
		{"an array", "[]", "unmarshal JSON array into Go message.envelope"},
		{"a string", `"x"`, "unmarshal JSON string into Go message.envelope"},
		{"null", "null", `specversion is "", this reader knows 1.0`},
		{"an empty object", "{}", `specversion is "", this reader knows 1.0`},
		{"trailing bytes", good.object() + "x", "invalid character 'x' at start of value after offset " + strconv.Itoa(len(good.object()))},
		{"a second event", good.object() + good.object(), "invalid character '{' after top-level value after offset " + strconv.Itoa(len(good.object()))},
		{"a batch of events", "[" + good.object() + "]", "unmarshal JSON array into Go message.envelope"},
		{"another specversion", good.with(members{"specversion": `"0.3"`}).object(), `specversion is "0.3", this reader knows 1.0`},
		{"a specversion that is a number", good.with(members{"specversion": `1.0`}).object(), `unmarshal JSON number into Go string within "/specversion"`},
		{"no id", good.with(members{"id": ""}).object(), "id, source and type are required of a CloudEvents event"},
		{"an empty id", good.with(members{"id": `""`}).object(), "id, source and type are required of a CloudEvents event"},
		{"no source", good.with(members{"source": ""}).object(), "id, source and type are required of a CloudEvents event"},
		{"no type", good.with(members{"type": ""}).object(), "id, source and type are required of a CloudEvents event"},
		{"another content type", good.with(members{"datacontenttype": `"application/xml"`}).object(), `datacontenttype is "application/xml", this reader knows application/json`},
		{"a time that is none", good.with(members{"time": `"yesterday"`}).object(), `within "/time"`},
		{"no data", good.with(members{"data": ""}).object(), "data is not an object"},
		{"data of null", good.with(members{"data": "null"}).object(), "data is not an object"},
		{"data that is a string", good.with(members{"data": `"{}"`}).object(), "data is not an object"},
		{"data in base64", good.with(members{"data": "", "data_base64": `"e30="`}).object(), "data is not an object"},
		{"a duplicate name in the envelope", strings.Replace(good.object(), "{", `{"id":"82f3",`, 1), `duplicate object member name "id"`},
		{"a duplicate name in data", good.with(members{"data": strings.Replace(data.object(), "{", `{"run":1,`, 1)}).object(), `duplicate object member name "run"`},
		{"an unknown duplicate name in data", good.with(members{"data": data.with(members{"x": `{"y":1,"y":1}`}).object()}).object(), `duplicate object member name "y"`},
		{"bad UTF-8", good.with(members{"data": data.with(members{"x": "\"\xff\""}).object()}).object(), `invalid UTF-8 within "/data/x"`},
		{"an integer beyond 2^53", good.with(members{"data": data.with(members{"x": "[9007199254740993]"}).object()}).object(), `at "/data/x/0": the integer 9007199254740993 is beyond 2^53: send it as a string`},
		{"1e400", good.with(members{"data": data.with(members{"x": "1e400"}).object()}).object(), `at "/data/x": the number 1e400 is out of range`},
		{"1e400 beside data", good.with(members{"x": "1e400"}).object(), `at "/x": the number 1e400 is out of range`},
		{"no execution id", good.with(members{"data": data.with(members{"taskExecutionId": ""}).object()}).object(), "taskExecutionId is missing: give 1 to 96 of A-Z a-z 0-9 ._:-"},
		{"an execution id that is too long", good.with(members{"data": data.with(members{"taskExecutionId": `"` + strings.Repeat("x", 97) + `"`}).object()}).object(), "taskExecutionId has 97 characters, 96 are allowed"},
		{"an execution id with a slash", good.with(members{"data": data.with(members{"taskExecutionId": `"a/completed"`}).object()}).object(), "taskExecutionId contains '/': only A-Z a-z 0-9 ._:- are allowed"},
		{"names in another case", good.with(members{"data": data.with(members{"taskExecutionId": "", "taskexecutionid": `"82f3"`}).object()}).object(), "taskExecutionId is missing: give 1 to 96 of A-Z a-z 0-9 ._:-"},
		{"a run that is a string", good.with(members{"data": data.with(members{"run": `"1"`}).object()}).object(), `unmarshal JSON string into Go int within "/run"`},
		{"a run with a fraction", good.with(members{"data": data.with(members{"run": `1.5`}).object()}).object(), `within "/run"`},
	}
}

// refuses holds a parser to M1: the reason names the cause, and nothing is read.
func refuses[T any](t *testing.T, parse func([]byte) (T, error), tests []refusal) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := parse([]byte(test.body))
			if !errors.Is(err, message.ErrPoison) {
				t.Fatalf("%v, want ErrPoison", err)
			}
			if !strings.HasPrefix(err.Error(), "poison message: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("refused with %q, want it to say %q", err, test.want)
			}
			var nothing T
			if !reflect.DeepEqual(got, nothing) {
				t.Errorf("refused, and yet there is %+v", got)
			}
		})
	}
}

func TestATaskThatDoesNotParseIsRefusedWithItsCause(t *testing.T) { // M1, M3
	task := func(m members) string { return envelopeOf(message.TypeTask, taskData.with(m)).object() }
	refuses(t, message.ParseTask, append(envelopeRefusals(message.TypeTask, taskData), []refusal{
		{"another event type", envelopeOf(message.TypeCompleted, completedData).object(), `type is "TaskCompleted", the queue carries TaskRequested`},
		{"an event type in another case", envelopeOf("taskrequested", taskData).object(), `type is "taskrequested", the queue carries TaskRequested`},
		{"no run", task(members{"run": ""}), "run is 0, the first is 1"},
		{"run 0", task(members{"run": "0"}), "run is 0, the first is 1"},
		{"a negative run", task(members{"run": "-1"}), "run is -1, the first is 1"},
		{"no task type", task(members{"type": ""}), "task type is missing: give 1 to 64 of A-Z a-z 0-9 ._-"},
		{"a task type that is too long", task(members{"type": `"` + strings.Repeat("x", 65) + `"`}), "task type has 65 characters, 64 are allowed"},
		{"a task type with a colon", task(members{"type": `"a:b"`}), "task type contains ':': only A-Z a-z 0-9 ._- are allowed"},
		{"no payload", task(members{"payload": ""}), "payload is missing"},
		{"no deadline", task(members{"deadline": ""}), "deadline and notAfter are required"},
		{"no notAfter", task(members{"notAfter": ""}), "deadline and notAfter are required"},
		{"a deadline of null", task(members{"deadline": "null"}), "deadline and notAfter are required"},
		{"a deadline without a zone", task(members{"deadline": `"2026-01-02T00:00:00"`}), `within "/deadline"`},
		{"a notAfter that is a number", task(members{"notAfter": "1767312000"}), `unmarshal JSON number into Go time.Time within "/notAfter"`},
		{"asserted that is a string", task(members{"asserted": `"true"`}), `unmarshal JSON string into Go bool within "/asserted"`},
	}...))
}

func TestATaskIsToldAllItsMistakesAtOnce(t *testing.T) { // M1
	_, err := message.ParseTask([]byte(envelopeOf(message.TypeTask, members{"x": "1"}).object()))
	const want = `poison message: taskExecutionId is missing: give 1 to 96 of A-Z a-z 0-9 ._:-
task type is missing: give 1 to 64 of A-Z a-z 0-9 ._-
run is 0, the first is 1
payload is missing
deadline and notAfter are required`
	if got := errorText(err); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWhatALaterVersionAddsToATaskIsKept(t *testing.T) { // M2
	body := envelopeOf(message.TypeTask, taskData.with(members{"priority": `{"class":["a",1.50,null]}`, "Run": "5"})).object()
	task, err := message.ParseTask([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	m, err := task.Message(message.CopyMessageID("82f3", "ab"), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	data := dataOf(t, m.Body)
	for name, want := range map[string]string{"priority": `{"class":["a",1.50,null]}`, "Run": "5", "run": "1"} {
		if got := string(data[name]); got != want {
			t.Errorf("member %q is %s, want %s", name, got, want)
		}
	}
	again, err := message.ParseTask(m.Body)
	if err != nil || !reflect.DeepEqual(again, task) {
		t.Errorf("got  %+v, %v\nwant %+v", again, err, task)
	}
}

func dataOf(t *testing.T, body []byte) map[string]jsontext.Value {
	t.Helper()
	var envelope struct {
		Data map[string]jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		t.Fatal(err)
	}
	return envelope.Data
}

func TestATaskTravelsAsACloudEvent(t *testing.T) {
	task := message.Task{
		ExecutionID: "82f3", Run: 2, Type: "customer.create", Payload: jsontext.Value(`{"name": "Ada" }`), ExecutionETag: `"0x1"`,
		Deadline: time.Date(2026, 1, 2, 1, 0, 0, 0, time.FixedZone("", 3600)), NotAfter: time.Date(2026, 1, 22, 0, 0, 0, 5, time.UTC),
	}
	got, err := task.Message("82f3/run/2", time.Date(2026, 1, 1, 1, 0, 0, 0, time.FixedZone("", 3600)))
	if err != nil {
		t.Fatal(err)
	}
	want := message.Message{
		ID: "82f3/run/2", CorrelationID: "82f3", Subject: "TaskRequested",
		Body: []byte(`{"specversion":"1.0","id":"82f3/run/2","source":"/oneeffect/orchestrator","type":"TaskRequested","subject":"82f3",` +
			`"time":"2026-01-01T00:00:00Z","datacontenttype":"application/json","data":{"taskExecutionId":"82f3","run":2,"type":"customer.create",` +
			`"payload":{"name":"Ada"},"executionEtag":"\"0x1\"","deadline":"2026-01-02T01:00:00+01:00","notAfter":"2026-01-22T00:00:00.000000005Z"}}`),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\n     %s\nwant %s", got, got.Body, want.Body)
	}
}

func TestWhatHasNoJSONIsNotSent(t *testing.T) {
	good := message.Task{ExecutionID: "82f3", Run: 1, Type: "a", Payload: jsontext.Value("{}")}
	if _, err := good.Message("82f3", time.Time{}); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*message.Task){
		"a payload that is no JSON":      func(t *message.Task) { t.Payload = jsontext.Value("{") },
		"a ticket that is no UTF-8":      func(t *message.Task) { t.ExecutionETag = "\xff" },
		"a deadline after the year 9999": func(t *message.Task) { t.Deadline = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		task := good
		spoil(&task)
		if m, err := task.Message("82f3", time.Time{}); err == nil || !strings.HasPrefix(err.Error(), "encode TaskRequested: ") {
			t.Errorf("%s: %s, %v, want it refused", name, m.Body, err)
		}
	}
}
