package rule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/servicebus/rule"
)

var errIDNeeded = errors.New("a message needs its id")

// letter is a message for tests: plain maps, user properties found without case.
type letter struct {
	system map[string]string
	user   map[string]any
}

func (l letter) System(name string) (any, bool) {
	v, ok := l.system[name]
	return v, ok
}

func (l letter) find(name string) (string, bool) {
	for key := range l.user {
		if strings.EqualFold(key, name) {
			return key, true
		}
	}
	return name, false
}

func (l letter) User(name string) (any, bool) {
	key, ok := l.find(name)
	return l.user[key], ok
}

func (l letter) SetSystem(name string, v *string) error {
	switch {
	case v != nil:
		l.system[name] = *v
	case name == "MessageId":
		return errIDNeeded
	default:
		delete(l.system, name)
	}
	return nil
}

func (l letter) SetUser(name string, v any) {
	key, _ := l.find(name)
	l.user[key] = v
}

func (l letter) RemoveUser(name string) {
	if key, ok := l.find(name); ok {
		delete(l.user, key)
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// order is the message that most tests look at.
func order() letter {
	return letter{
		system: map[string]string{"MessageId": "m-1", "Label": "order", "CorrelationId": "c'1", "SessionId": "s"},
		user: map[string]any{
			"Color": "blue", "quantity": int32(10), "price": 12.5, "big": uint64(1 << 63), "small": int8(-3), "ratio": float32(0.5),
			"urgent": true, "nothing": nil, "due": noon, "id": rule.GUID{1, 2}, "wait": time.Minute, "other": []byte("bytes"),
			"pattern": "b%", "50% off": "yes", "a.b": "dotted", "text": "5", "line": "one\ntwo",
		},
	}
}

func parse(t *testing.T, expression string) *rule.SQL {
	t.Helper()
	f, err := rule.ParseFilter(expression, map[string]any{
		"@text": "blue", "@int": 10, "@Float": 12.5, "@yes": true, "@noon": noon, "bare": "order", "@null": nil, "@guid": rule.GUID{1, 2}, "@minute": time.Minute,
	})
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return f
}

func match(t *testing.T, expression string) (bool, error) {
	t.Helper()
	return parse(t, expression).Match(order())
}
