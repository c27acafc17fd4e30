package execution_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"oneeffect/internal/execution"
)

func orchestration(t *testing.T, n int) execution.Execution {
	t.Helper()
	parts := make([]execution.Part, n)
	for i := range parts {
		parts[i] = execution.Part{Type: "letter.print", Payload: []byte(`{}`)}
	}
	e, entries, err := execution.NewOrchestration("82f3", parts, "sha256:req", created)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != n || entries[0].Part != "82f3:0" || entries[0].ExecutionID != "82f3" {
		t.Fatalf("entries %+v", entries)
	}
	return e
}

func part(i int, status execution.Status, run int) execution.Part {
	p := execution.Part{ExecutionID: fmt.Sprintf("82f3:%d", i), Status: status, Run: run}
	switch status {
	case execution.Completed:
		p.Ref, p.Digest = fmt.Sprintf("/letters/%d", i), fmt.Sprintf("sha256:%d", i)
	case execution.Failed:
		p.Reason = "OutcomeUnknown"
	}
	return p
}

// Every order in which three parts can end, each with every end, each end joined
// twice: RUNNING until all have ended, COMPLETED or FAILED once.
func TestAnOrchestrationEndsWithItsLastPartOnce(t *testing.T) { // E1
	ends := []execution.Status{execution.Completed, execution.Failed, execution.Cancelled}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for n := range 27 {
			of := []execution.Status{ends[n%3], ends[n/3%3], ends[n/9]}
			e := orchestration(t, 3)
			transitions := 0
			for joined, i := range order {
				change, d, err := execution.Join(e, part(i, of[i], 1), now)
				if err != nil || d != execution.Transition && d != execution.Record {
					t.Fatalf("%v %v: part %d: %s, %v", order, of, i, d, err)
				}
				if d == execution.Transition {
					transitions++
				}
				if last := joined == 2; (d == execution.Transition) != last {
					t.Errorf("%v %v: part %d: %s, want the transition with the last alone", order, of, i, d)
				}
				e = e.With(change)
				if _, d, err := execution.Join(e, part(i, of[i], 1), now); d != execution.NoOp || err != nil {
					t.Errorf("%v %v: part %d again: %s, %v", order, of, i, d, err)
				}
			}
			want := execution.Failed
			if n == 0 {
				want = execution.Completed
			}
			if e.Status != want || transitions != 1 {
				t.Errorf("%v %v: %s after %d transitions, want %s after 1", order, of, e.Status, transitions, want)
			}
			for i, s := range of {
				if named := want == execution.Failed && strings.Contains(e.Failure.Description, part(i, s, 1).ExecutionID); named != (want == execution.Failed && s != execution.Completed) {
					t.Errorf("%v: the failure names %q", of, e.Failure.Description)
				}
			}
		}
	}
}

// A failed part that is replayed to its completion recovers the whole; what it
// failed with before changes nothing any more.
func TestAReplayedPartRecoversItsOrchestration(t *testing.T) { // E3 E7
	e := orchestration(t, 2)
	for _, p := range []execution.Part{part(0, execution.Failed, 1), part(1, execution.Completed, 1)} {
		change, _, err := execution.Join(e, p, now)
		if err != nil {
			t.Fatal(err)
		}
		e = e.With(change)
	}
	change, d, err := execution.Join(e, part(0, execution.Failed, 2), now)
	if e.Status != execution.Failed || d != execution.Record || err != nil {
		t.Errorf("%s; a second failure: %s, %v", e.Status, d, err)
	}
	e = e.With(change)
	change, d, err = execution.Join(e, part(0, execution.Completed, 3), now)
	if d != execution.Transition || err != nil || change.Status != execution.Completed || change.From != execution.Failed {
		t.Fatalf("%s, %v, %+v", d, err, change)
	}
	e = e.With(change)
	for _, late := range []execution.Part{part(0, execution.Failed, 1), part(0, execution.Failed, 9)} {
		if _, d, err := execution.Join(e, late, now); d != execution.NoOp || err != nil {
			t.Errorf("a failure after completion: %s, %v", d, err)
		}
	}
	other := part(0, execution.Completed, 3)
	other.Digest = "sha256:other"
	if _, d, err := execution.Join(e, other, now); d != execution.Contradiction || err == nil {
		t.Errorf("another result: %s, %v", d, err)
	}
	if _, d, err := execution.Join(e, part(7, execution.Completed, 1), now); d != execution.Contradiction || err == nil {
		t.Errorf("a part of another: %s, %v", d, err)
	}
}

// What is written without a look is what a look would have decided, and the end of
// the whole follows from what stands then.
func TestAPartThatIsJoinedUnseenIsJoinedAsIfItWasSeen(t *testing.T) { // E1
	for _, ends := range [][]execution.Status{{execution.Completed, execution.Completed}, {execution.Failed, execution.Completed}, {execution.Completed, execution.Failed}} {
		seen, unseen := orchestration(t, 2), orchestration(t, 2)
		for i, status := range ends {
			change, _, err := execution.Join(seen, part(i, status, 1), now)
			if err != nil {
				t.Fatal(err)
			}
			seen = seen.With(change)
			joined, note, ok := execution.Unseen("82f3", part(i, status, 1), now)
			if !ok || joined.Index != i {
				t.Fatalf("part %d: %+v, %t", i, joined, ok)
			}
			kept := unseen.Tasks[i]
			kept.Status, kept.Run, kept.Ref, kept.Digest, kept.Reason = joined.Part.Status, joined.Part.Run, joined.Part.Ref, joined.Part.Digest, joined.Part.Reason
			unseen.Tasks[i], unseen.History = kept, append(unseen.History, note)
			end, d := execution.Conclude(unseen, now)
			if last := i == 1; (d == execution.Transition) != last {
				t.Errorf("%v: after part %d: %s", ends, i, d)
			} else if last {
				unseen = unseen.With(end)
			}
			if _, d := execution.Conclude(unseen, now); d != execution.NoOp {
				t.Errorf("%v: concluded twice: %s", ends, d)
			}
		}
		seen.History, unseen.History = nil, nil // the one has a note more
		if !reflect.DeepEqual(seen, unseen) {
			t.Errorf("%v:\nseen   %+v\nunseen %+v", ends, seen, unseen)
		}
	}
}

func TestOnlyAPartTellsItsPlace(t *testing.T) {
	for id, want := range map[string]int{
		"82f3:0": 0, "82f3:89": 89, "82f3:90": -1, "82f3:-1": -1, "82f3:+1": -1, "82f3:01": -1, "82f3:": -1, "82f3": -1, "82f4:1": -1, "82f3:1:1": -1,
	} {
		joined, _, ok := execution.Unseen("82f3", execution.Part{ExecutionID: id, Status: execution.Completed}, now)
		if ok != (want >= 0) || ok && joined.Index != want {
			t.Errorf("%s: %d, %t", id, joined.Index, ok)
		}
	}
}

// The last part was joined, and whoever did it died: the next one ends the whole.
func TestWhatIsJoinedAgainEndsTheWholeIfNobodyHas(t *testing.T) { // E1 E4
	e := orchestration(t, 1)
	e.Tasks[0] = part(0, execution.Completed, 1)
	change, d, err := execution.Join(e, part(0, execution.Completed, 1), now)
	if d != execution.Transition || err != nil || change.Status != execution.Completed || change.Joined != nil {
		t.Errorf("%s, %v, %+v", d, err, change)
	}
}

// A part that fails again and again leaves no endless history, and its end is joined
// all the same.
func TestTheHistoryIsBoundedAgainstPartsThatFailAgain(t *testing.T) {
	e := orchestration(t, execution.MaxParts)
	for run := 1; run <= 10; run++ {
		for i := range execution.MaxParts {
			change, d, err := execution.Join(e, part(i, execution.Failed, run), now)
			if err != nil || d == execution.NoOp {
				t.Fatalf("run %d of part %d: %s, %v", run, i, d, err)
			}
			e = e.With(change)
		}
	}
	if len(e.History) > 64+execution.MaxParts || e.Tasks[89].Run != 10 || e.Status != execution.Failed {
		t.Errorf("%d notes, %s, %+v", len(e.History), e.Status, e.Tasks[89])
	}
}

func TestACancelledOrchestrationStaysCancelled(t *testing.T) { // E3
	e := orchestration(t, 1)
	e.Status, e.EndedAt = execution.Cancelled, ended
	change, d, err := execution.Join(e, part(0, execution.Completed, 1), now)
	if d != execution.Record || err != nil || change.Status != execution.Cancelled {
		t.Errorf("%s, %v, %+v", d, err, change)
	}
}

// It has no task, so an event in its name is nobody's.
func TestNoEventEndsAnOrchestration(t *testing.T) { // E2
	e := orchestration(t, 1)
	if _, d := execution.Next(e, completion(1, "sha256:00"), now); d != execution.Contradiction {
		t.Errorf("%s", d)
	}
}

func TestAnOrchestrationHasLimits(t *testing.T) {
	for n, taken := range map[int]bool{0: false, 1: true, 90: true, 91: false} {
		_, _, err := execution.NewOrchestration("82f3", make([]execution.Part, n), "", created)
		if (err == nil) != taken {
			t.Errorf("%d parts: %v", n, err)
		}
	}
	for length, taken := range map[int]bool{93: true, 94: false} {
		e, _, err := execution.NewOrchestration(strings.Repeat("x", length), make([]execution.Part, 90), "", created)
		if (err == nil) != taken {
			t.Errorf("an id of %d characters: %v", length, err)
		}
		if taken {
			begun, err := e.Begin(e.Tasks[89].ExecutionID, now)
			if err != nil || begun.Orchestration != e.ExecutionID || !begun.NotAfter.Equal(e.NotAfter) || len(begun.ExecutionID) > 96 {
				t.Errorf("its last part: %+v, %v", begun, err)
			}
		}
	}
	if _, err := orchestration(t, 1).Begin("82f3:1", now); err == nil {
		t.Error("a part that is none is begun")
	}
}
