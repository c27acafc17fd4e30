package rule_test

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"oneeffect/emulator/servicebus/rule"
)

func act(t *testing.T, expression string) (letter, error) {
	t.Helper()
	a, err := rule.ParseAction(expression, map[string]any{"@text": "red", "@int": 7})
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	l := order()
	return l, a.Apply(l)
}

func TestActionsSetAndRemoveProperties(t *testing.T) { // R8
	for expression, want := range map[string]map[string]any{
		"SET color = 'red'":                             {"Color": "red"},
		"set COLOR = @text;":                            {"Color": "red"},
		"SET user.fresh = 'new'":                        {"fresh": "new"},
		"SET [a name] = 1":                              {"a name": int64(1)},
		"SET quantity = quantity / 2":                   {"quantity": int32(5)},
		"SET quantity = quantity + 0.5":                 {"quantity": 10.5},
		"SET quantity = 4294967296":                     {"quantity": int64(4294967296)},
		"SET quantity = 'ten'":                          {"quantity": "ten"},
		"SET small = 100 SET small = small + 100":       {"small": int64(200)},
		"SET ratio = 0.25":                              {"ratio": float32(0.25)},
		"SET ratio = 0.1":                               {"ratio": 0.1},
		"SET price = 3":                                 {"price": 3.0},
		"SET big = 5":                                   {"big": uint64(5)},
		"SET color = missing":                           {"Color": nil},
		"SET color = NULL":                              {"Color": nil},
		"SET a = 1; SET b = a + 1; SET a = b * 10":      {"a": int64(20), "b": int64(2)},
		"REMOVE color":                                  {"Color": gone},
		"REMOVE missing":                                {},
		"REMOVE color SET color = 'back'":               {"Color": gone, "color": "back"},
		"SET color = p('COL' + 'or') + '!' REMOVE text": {"Color": "blue!", "text": gone},
		"SET x = @int SET y = -@int SET z = TRUE":       {"x": int64(7), "y": int64(-7), "z": true},
	} {
		got, err := act(t, expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		expected := order().user
		for name, v := range want {
			expected[name] = v
			if v == any(gone) {
				delete(expected, name)
			}
		}
		if !reflect.DeepEqual(got.user, expected) {
			t.Errorf("%s: %v\nwant %v", expression, got.user, expected)
		}
	}
}

// gone stands for a property that an action takes away.
var gone = &struct{ string }{"gone"}

func TestActionsSetSystemPropertiesAsStrings(t *testing.T) {
	got, err := act(t, "SET sys.Label = 'parcel'; SET sys.ReplyTo = 1 + 1; SET sys.To = newid(); REMOVE sys.CorrelationId; SET sys.sessionid = missing; SET sys.MessageId = sys.Label + '-' + quantity")
	if err != nil {
		t.Fatal(err)
	}
	if to := got.system["To"]; len(to) != 36 || to[14] != '4' {
		t.Errorf("newid() gave %q", to)
	}
	delete(got.system, "To")
	if want := map[string]string{"Label": "parcel", "ReplyTo": "2", "MessageId": "parcel-10"}; !maps.Equal(got.system, want) {
		t.Errorf("system properties %v, want %v", got.system, want)
	}
}

func TestActionsThatCannotBeApplied(t *testing.T) { // R7
	for expression, want := range map[string]string{
		"SET a = 'grows' " + strings.Repeat("SET a=a+a ", 31): "a string of 81920 bytes is longer than any that a message has room for",
		"SET a = 1 / 0":         "division by zero",
		"SET sys.Label = other": "sys.Label cannot be a []uint8",
		"SET color = color * 2": "a string * an integer",
	} {
		if _, err := act(t, expression); !errors.Is(err, rule.ErrEvaluation) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", expression, err, want)
		}
	}
	if _, err := act(t, "REMOVE sys.MessageId"); !errors.Is(err, errIDNeeded) {
		t.Errorf("what the message refuses: %v, want %v", err, errIDNeeded)
	}
}

func TestNumbersKeepTheTypeOfTheirPropertyIfTheyFit(t *testing.T) { // R8
	for _, row := range []struct{ old, given, want any }{
		{int8(1), 127, int8(127)}, {int8(1), 128, int64(128)},
		{int16(1), -1 << 15, int16(-1 << 15)}, {int16(1), 1 << 15, int64(1 << 15)},
		{int32(1), 7, int32(7)}, {int32(1), int64(1 << 31), int64(1 << 31)},
		{int64(1), uint8(9), int64(9)}, {uint8(1), 255, uint8(255)}, {uint8(1), 256, int64(256)}, {uint8(1), -1, int64(-1)},
		{uint16(1), 1<<16 - 1, uint16(1<<16 - 1)}, {uint16(1), 1 << 16, int64(1 << 16)},
		{uint32(1), 1<<32 - 1, uint32(1<<32 - 1)}, {uint32(1), 1 << 32, int64(1 << 32)},
		{uint64(1), 5, uint64(5)}, {uint64(1), -5, int64(-5)}, {uint64(1), uint64(1 << 63), float64(1 << 63)},
		{float32(1), 3, float32(3)}, {float32(1), 0.5, float32(0.5)}, {float32(1), 0.1, 0.1}, {1.5, 3, 3.0},
		{int32(1), 0.5, 0.5}, {int32(1), "text", "text"}, {"text", int16(3), int64(3)}, {nil, uint16(3), int64(3)}, {true, false, false},
	} {
		a, err := rule.ParseAction("SET x = @v", map[string]any{"@v": row.given})
		if err != nil {
			t.Fatal(err)
		}
		l := letter{user: map[string]any{"x": row.old}}
		if err := a.Apply(l); err != nil || l.user["x"] != row.want {
			t.Errorf("%v (%T) set to %v (%T): %v (%T), %v; want %v (%T)", row.old, row.old, row.given, row.given, l.user["x"], l.user["x"], err, row.want, row.want)
		}
	}
}

func TestValuesAreWrittenAsCSharpWritesThem(t *testing.T) {
	for _, row := range []struct {
		value any
		want  string
	}{
		{"text", "text"}, {int8(-3), "-3"}, {uint64(7), "7"}, {1.5, "1.5"}, {1e21, "1E+21"}, {float32(0.5), "0.5"}, {true, "True"}, {false, "False"},
		{rule.GUID{0xde, 0xad, 0xbe, 0xef}, "deadbeef-0000-0000-0000-000000000000"}, {noon, "2026-01-02T12:00:00Z"},
	} {
		a, err := rule.ParseAction("SET sys.To = @v", map[string]any{"@v": row.value})
		if err != nil {
			t.Fatal(err)
		}
		l := order()
		if err := a.Apply(l); err != nil || l.system["To"] != row.want {
			t.Errorf("%v (%T) is written %q, %v; want %q", row.value, row.value, l.system["To"], err, row.want)
		}
	}
}

func TestMistakesInActionsAreSaidWithTheirPlace(t *testing.T) { // R6
	for expression, want := range map[string]string{
		"":                              "character 1: an action needs at least one statement",
		"color = 1":                     `character 1: here is "color" where SET or REMOVE should stand`,
		"SET color 1":                   `character 11: here is the constant 1 where "=" should stand`,
		"SET color = ":                  "character 13: here is the end where a value should stand",
		"SET 1 = 1":                     "character 5: here is the constant 1 where a value should stand",
		"SET a = 1, SET b = 2":          `character 10: here is "," where SET or REMOVE should stand`,
		"SET a = 1 AND 2":               `character 11: here is "AND" where SET or REMOVE should stand`,
		"SET a = (1=1)":                 "character 9: SET takes values, and this is a condition",
		"SET sys.Size = 1":              "character 5: an action cannot change sys.Size",
		"REMOVE sys.TimeToLive":         "character 8: an action cannot change sys.TimeToLive",
		"SET sys.Nothing = 1":           "character 9: there is no system property Nothing",
		"SET a = @b":                    "character 9: the parameter @b has no value",
		strings.Repeat("REMOVE a ", 33): "character 289: an action has at most 32 statements, and this is one more",
	} {
		_, err := rule.ParseAction(expression, nil)
		syntax, ok := errors.AsType[*rule.SyntaxError](err)
		if !ok || !strings.HasPrefix(syntax.Error(), want) {
			t.Errorf("%s: %v; want %q", expression, err, want)
		}
	}
	if _, err := rule.ParseAction(strings.Repeat("REMOVE a;", 32), nil); err != nil {
		t.Errorf("32 statements: %v", err)
	}
}
