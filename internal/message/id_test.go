package message_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"oneeffect/internal/message"
)

func TestNamesThatTravelAreLimited(t *testing.T) {
	const idAlphabet = "A-Z a-z 0-9 ._:-"
	const typeAlphabet = "A-Z a-z 0-9 ._-"
	for _, test := range []struct {
		name, id, taskType string // what is wrong with the name as an id, and as a type; "" for nothing
	}{
		{"a", "", ""},
		{"AZaz09._-", "", ""},
		{".", `taskExecutionId is ".", which no URL can name: choose another`, ""},
		{"..", `taskExecutionId is "..", which no URL can name: choose another`, ""},
		{"...", "", ""},
		{"-", "", ""},
		{"order:82f3", "", `task type contains ':': only ` + typeAlphabet + ` are allowed`},
		{
			"", "taskExecutionId is missing: give 1 to 96 of A-Z a-z 0-9 ._:-",
			"task type is missing: give 1 to 64 of A-Z a-z 0-9 ._-",
		},
		{strings.Repeat("x", 64), "", ""},
		{strings.Repeat("x", 65), "", "task type has 65 characters, 64 are allowed"},
		{strings.Repeat("x", 96), "", "task type has 96 characters, 64 are allowed"},
		{strings.Repeat("x", 97), "taskExecutionId has 97 characters, 96 are allowed", "task type has 97 characters, 64 are allowed"},
		{"a/b", "taskExecutionId contains '/': only " + idAlphabet + " are allowed", "task type contains '/': only " + typeAlphabet + " are allowed"},
		{"a b", "taskExecutionId contains ' ': only " + idAlphabet + " are allowed", "task type contains ' ': only " + typeAlphabet + " are allowed"},
		{"a\n", `taskExecutionId contains '\n': only ` + idAlphabet + " are allowed", `task type contains '\n': only ` + typeAlphabet + " are allowed"},
		{"a\x00", `taskExecutionId contains '\x00': only ` + idAlphabet + " are allowed", `task type contains '\x00': only ` + typeAlphabet + " are allowed"},
		{"größe", "taskExecutionId contains 'ö': only " + idAlphabet + " are allowed", "task type contains 'ö': only " + typeAlphabet + " are allowed"},
		{"a\xff", "taskExecutionId contains '�': only " + idAlphabet + " are allowed", "task type contains '�': only " + typeAlphabet + " are allowed"},
		{"٣", "taskExecutionId contains '٣': only " + idAlphabet + " are allowed", "task type contains '٣': only " + typeAlphabet + " are allowed"},
		{"_", "", ""},
		{"a_b", "", ""},
		{"a?b", "taskExecutionId contains '?': only " + idAlphabet + " are allowed", "task type contains '?': only " + typeAlphabet + " are allowed"},
		{`a\b`, `taskExecutionId contains '\\': only ` + idAlphabet + " are allowed", `task type contains '\\': only ` + typeAlphabet + " are allowed"},
		{"a#b", "taskExecutionId contains '#': only " + idAlphabet + " are allowed", "task type contains '#': only " + typeAlphabet + " are allowed"},
	} {
		check := func(what string, err error, want string) {
			t.Helper()
			if got := errorText(err); got != want {
				t.Errorf("%s(%q) = %q, want %q", what, test.name, got, want)
			}
		}
		check("CheckExecutionID", message.CheckExecutionID(test.name), test.id)
		check("CheckType", message.CheckType(test.name), test.taskType)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestMessageIDs(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	completed, err := message.Completed{ExecutionID: "82f3", Run: 2, Fence: 7}.Message(at)
	if err != nil {
		t.Fatal(err)
	}
	failed, err := message.Failed{ExecutionID: "82f3", Run: 2, Fence: 7}.Message(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ what, got, want string }{
		{"first dispatch", message.TaskMessageID("82f3", 1), "82f3"},
		{"second run", message.TaskMessageID("82f3", 2), "82f3/run/2"},
		{"tenth run", message.TaskMessageID("82f3", 10), "82f3/run/10"},
		{"delayed copy", message.CopyMessageID("82f3", "5f3a9c"), "82f3/copy/5f3a9c"},
		{"completion", completed.ID, "82f3/completed"},
		{"failure", failed.ID, "82f3/failed/7"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %s, want %s", test.what, test.got, test.want)
		}
	}
}

// M4, also for ids that are made to look like parts of others.
func TestNoTwoMessagesShareAMessageID(t *testing.T) {
	longest := strings.Repeat("z", message.MaxExecutionID)
	ids := []string{"a", "b", "a:", "a:completed", "a-copy-1", "copy", "run", "failed", "completed", "run:2", "2", "1", "a.run.2", longest, longest[1:]}
	numbers := []int64{1, 2, 3, 10, 12, 1 << 53, math.MaxInt64}
	made := map[string]string{}
	add := func(messageID, what string) {
		if other, taken := made[messageID]; taken {
			t.Errorf("%s is the MessageID of %s and of %s", messageID, other, what)
		}
		made[messageID] = what
		if len(messageID) > 128 {
			t.Errorf("the MessageID of %s has %d characters, the service allows 128", what, len(messageID))
		}
	}
	for _, id := range ids {
		if err := message.CheckExecutionID(id); err != nil {
			t.Fatal(err)
		}
		completed, err := message.Completed{ExecutionID: id}.Message(time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		add(completed.ID, "the completion of "+id)
		for _, n := range numbers {
			failed, err := message.Failed{ExecutionID: id, Fence: n}.Message(time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			add(message.TaskMessageID(id, int(n)), fmt.Sprintf("run %d of %s", n, id))
			add(message.CopyMessageID(id, fmt.Sprintf("%016x", n)), fmt.Sprintf("copy %016x of %s", n, id))
			add(failed.ID, fmt.Sprintf("the failure under fence %d of %s", n, id))
		}
	}
}

func TestARelayResendsARunUnderTheSameMessageID(t *testing.T) { // M4
	if a, b := message.TaskMessageID("82f3", 3), message.TaskMessageID("82f3", 3); a != b {
		t.Errorf("%s, then %s", a, b)
	}
}
