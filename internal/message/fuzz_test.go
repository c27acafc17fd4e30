package message_test

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"
	"unicode/utf16"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzCanonical holds Canonical against the standard library's decoder, which
// shares no code with it: whatever has a canonical form means the same as that
// form, and the form is its own canonical form.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1,2.50,-0,1e30],"a":{"d":null,"c":true}}`, `"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`, `{"\ud83d\ude00":1,"\ufb33":2}`,
		`9007199254740993`, `9007199254740992.0`, `1e20`, `1e400`, `1e-400`, `{"a":1,"a":2}`, `{}{}`, `[[[[]]]]`, "\"\xff\"", ` `, ``,
		`0.000001`, `1e-7`, `333333333.33333329`, `{"":""}`, `{"a\u0000b":0}`, `"\ud800"`, `123456789012345678e3`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		canonical, err := message.Canonical(text)
		if why := message.CheckCanonical(text); (why == nil) != (err == nil) {
			t.Fatalf("%q: the canonical form is %q, %v, and checked it is %v", text, canonical, err, why)
		}
		if err != nil {
			if canonical != nil {
				t.Fatalf("refused with %v, and yet there is %s", err, canonical)
			}
			return
		}
		if again, err := message.Canonical(canonical); err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("%s has the canonical form %s, %v", canonical, again, err)
		}
		var before, after, decoded any
		if err := stdjson.Unmarshal(text, &before); err != nil {
			t.Fatalf("%q has a canonical form, but the standard library refuses it: %v", text, err)
		}
		if err := stdjson.Unmarshal(canonical, &after); err != nil {
			t.Fatal(err)
		}
		if err := message.Decode(text, &decoded); err != nil {
			t.Fatalf("%q has a canonical form, but Decode refuses it: %v", text, err)
		}
		if !reflect.DeepEqual(before, after) || !reflect.DeepEqual(before, decoded) {
			t.Fatalf("%q means\n%#v, its canonical form\n%#v, decoded\n%#v", text, before, after, decoded)
		}
		checkSorted(t, jsontext.NewDecoder(bytes.NewReader(canonical)))
	})
}

// checkSorted reads one value and finds members that do not rise by their UTF-16
// code units.
func checkSorted(t *testing.T, d *jsontext.Decoder) {
	var last []uint16
	token, err := d.ReadToken()
	if err != nil {
		t.Fatal(err)
	}
	switch token.Kind() {
	case '{':
		for d.PeekKind() != '}' {
			token, err := d.ReadToken()
			if err != nil {
				t.Fatal(err)
			}
			name := utf16.Encode([]rune(token.String()))
			if last != nil && !lessUTF16(last, name) {
				t.Fatalf("%s does not come after the member before it", token.String())
			}
			last = name
			checkSorted(t, d)
		}
	case '[':
		for d.PeekKind() != ']' {
			checkSorted(t, d)
		}
	default:
		return
	}
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
}

func lessUTF16(a, b []uint16) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return len(a) < len(b)
}

// seeds are bodies to begin with: good ones, and every one that the tables refuse.
func seeds(f *testing.F) {
	for eventType, data := range map[string]members{message.TypeTask: taskData, message.TypeCompleted: completedData, message.TypeFailed: failedData} {
		f.Add([]byte(envelopeOf(eventType, data).object()))
		f.Add([]byte(envelopeOf(eventType, data.with(members{"x": `{"y":[1.50]}`, "asserted": "true"})).with(members{"z": `"1"`}).object()))
		for _, r := range envelopeRefusals(eventType, data) {
			f.Add([]byte(r.body))
		}
	}
}

// FuzzParseTask: a body is refused as poison, or read into a task that is whole
// and comes back the same after it has travelled (M1, M2).
func FuzzParseTask(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		task, err := message.ParseTask(body)
		if err != nil {
			if !errors.Is(err, message.ErrPoison) || !reflect.DeepEqual(task, message.Task{}) {
				t.Fatalf("refused with %v, and there is %+v", err, task)
			}
			return
		}
		if message.CheckExecutionID(task.ExecutionID) != nil || message.CheckType(task.Type) != nil || task.Run < 1 || task.Payload == nil || task.Deadline.IsZero() || task.NotAfter.IsZero() {
			t.Fatalf("%+v has been read", task)
		}
		m, err := task.Message(message.TaskMessageID(task.ExecutionID, task.Run), time.Unix(0, 0))
		if err != nil {
			t.Fatalf("%+v cannot be sent: %v", task, err)
		}
		if len(m.ID) > 128 {
			t.Fatalf("MessageID %s", m.ID)
		}
		again, err := message.ParseTask(m.Body)
		if err != nil {
			t.Fatalf("%s is refused: %v", m.Body, err)
		}
		sameTimes := again.Deadline.Equal(task.Deadline) && again.NotAfter.Equal(task.NotAfter)
		sameTexts := canonical(t, again.Payload) == canonical(t, task.Payload) && canonical(t, again.Unknown) == canonical(t, task.Unknown)
		again.Deadline, again.NotAfter, again.Payload, again.Unknown = task.Deadline, task.NotAfter, task.Payload, task.Unknown
		if !sameTimes || !sameTexts || !reflect.DeepEqual(again, task) {
			t.Fatalf("%s came back as %+v, was %+v", m.Body, again, task)
		}
	})
}

func canonical(t *testing.T, text jsontext.Value) string {
	if text == nil {
		return ""
	}
	form, err := message.Canonical(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(form)
}

// FuzzParseEvent: a body is refused as poison, or read into exactly one event
// that comes back the same after it has travelled (M1, M2).
func FuzzParseEvent(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		event, err := message.ParseEvent(body)
		if err != nil {
			if !errors.Is(err, message.ErrPoison) || event != (message.Event{}) {
				t.Fatalf("refused with %v, and there is %+v", err, event)
			}
			return
		}
		if (event.Completed == nil) == (event.Failed == nil) || message.CheckExecutionID(event.ExecutionID()) != nil || event.Run() < 1 {
			t.Fatalf("%+v has been read", event)
		}
		m, err := event.Message(time.Unix(0, 0))
		if err != nil {
			t.Fatalf("%+v cannot be sent: %v", event, err)
		}
		if len(m.ID) > 128 {
			t.Fatalf("MessageID %s", m.ID)
		}
		again, err := message.ParseEvent(m.Body)
		if err != nil {
			t.Fatalf("%s is refused: %v", m.Body, err)
		}
		before, after := unknown(&event), unknown(&again)
		if canonical(t, *before) != canonical(t, *after) {
			t.Fatalf("%s came back with %s, was %s", m.Body, *after, *before)
		}
		*before, *after = nil, nil
		if !reflect.DeepEqual(again, event) {
			t.Fatalf("%s came back as %+v, was %+v", m.Body, again, event)
		}
	})
}

func unknown(e *message.Event) *jsontext.Value {
	if e.Completed != nil {
		return &e.Completed.Unknown
	}
	return &e.Failed.Unknown
}
