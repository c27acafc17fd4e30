package execution_test

import (
	"testing"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

func TestReDispatchesBackOffByDoubling(t *testing.T) { // E5
	const first = 15 * time.Minute
	stands := execution.Execution{ExecutionID: "82f3", Run: 2}
	counted := func(run, count int) *execution.Redispatch { return &execution.Redispatch{Run: run, Count: count} }
	for _, test := range []struct {
		what    string
		counted *execution.Redispatch
		age     time.Duration
		want    int // the count that is written; 0: it is not due
	}{
		{"the first, when the caller finds it due", nil, 0, 1},
		{"the second, too soon", counted(2, 1), first - time.Second, 0},
		{"the second", counted(2, 1), first, 2},
		{"the third, too soon", counted(2, 2), 2*first - time.Second, 0},
		{"the third", counted(2, 2), 2 * first, 3},
		{"the fourth", counted(2, 3), 4 * first, 4},
		{"after a hundred, within a day", counted(2, 100), 24*time.Hour - time.Second, 0},
		{"after a hundred, a day later", counted(2, 100), 24 * time.Hour, 101},
		{"another run begins anew", counted(1, 7), 0, 1},
		{"a later run than the one that was read", counted(3, 1), 24 * time.Hour, 0},
	} {
		next, due := execution.Again(stands, test.counted, test.age, first)
		if due != (test.want > 0) || next.Count != test.want {
			t.Errorf("%s: count %d, due %v, want %d", test.what, next.Count, due, test.want)
		}
		if due && (next.Run != 2 || next.ExecutionID != "82f3" || next.Kind != execution.KindRedispatch || next.ID != execution.RedispatchID) {
			t.Errorf("%s: %+v", test.what, next)
		}
	}
}

func TestNoExecutionHasTheIDOfACountOrOfAnOutboxEntry(t *testing.T) { // E5 E6
	if message.CheckExecutionID(execution.RedispatchID) == nil {
		t.Errorf("%q is an execution's id too", execution.RedispatchID)
	}
	for _, id := range []string{"a", "outbox:a", "outbox:outbox:a"} {
		if entry := execution.OutboxEntry(id, id, 1); entry.ID == id {
			t.Errorf("the entry of %s has its id", id)
		}
	}
}
