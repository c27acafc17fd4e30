package servicebus

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
)

// bury sends tasks and has them dead-lettered, in their order.
func (w *world) bury(reason string, ids ...string) {
	w.t.Helper()
	stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement {
		return message.Reject(reason, "why "+reason)
	})
	w.send("tasks", ids...)
	for _, id := range ids {
		w.await("dead-lettered", id, 0)
	}
	synctest.Wait()
	stop()
}

func idsOf(all []message.Dead) []string {
	var ids []string
	for _, d := range all {
		ids = append(ids, d.MessageID)
	}
	return ids
}

func TestDeadLettersAreSeenInTheirOrderAndStay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		dead := w.client.DeadLetters("tasks")
		if none, err := dead.Browse(t.Context(), 0, 10); err != nil || len(none) > 0 {
			t.Fatalf("%v, %v, want none", none, err)
		}
		w.bury("OutcomeUnknown", "a", "b", "c")
		for range 2 {
			all, err := dead.Browse(t.Context(), 0, 10)
			if err != nil || !slices.Equal(idsOf(all), []string{"a", "b", "c"}) {
				t.Fatalf("%v, %v", idsOf(all), err)
			}
			b := all[1]
			if b.Reason != "OutcomeUnknown" || b.Description != "why OutcomeUnknown" || b.CorrelationID != "b" || string(b.Body) != `{"task":"b"}` || b.EnqueuedAt.IsZero() {
				t.Errorf("%+v", b)
			}
			rest, err := dead.Browse(t.Context(), b.Sequence+1, 10)
			if err != nil || !slices.Equal(idsOf(rest), []string{"c"}) {
				t.Errorf("after b: %v, %v", idsOf(rest), err)
			}
			two, err := dead.Browse(t.Context(), 0, 2)
			if err != nil || !slices.Equal(idsOf(two), []string{"a", "b"}) {
				t.Errorf("two: %v, %v", idsOf(two), err)
			}
		}
	})
}

func TestDeadLettersAreSeenPageByPage(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var ids []string
		for i := range browsePage + 30 {
			ids = append(ids, fmt.Sprintf("%03d", i))
		}
		w.bury("OutcomeUnknown", ids...)
		all, err := w.client.DeadLetters("tasks").Browse(t.Context(), 0, 1000)
		if err != nil || !slices.Equal(idsOf(all), ids) {
			t.Errorf("%d dead letters, %v, want %d", len(all), err, len(ids))
		}
	})
}

func TestLookingAtDeadLettersHasAnEndAndSaysWhatIsWrong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, err := w.client.DeadLetters("nothing").Browse(t.Context(), 0, 10)
		wantErr(t, err, message.ErrNotFound)
		w.bury("OutcomeUnknown", "a")
		rule := w.arm(control.Rule{Match: control.Match{Operation: "peek"}, Do: "silence"})
		begun := time.Now()
		_, err = w.client.DeadLetters("tasks").Browse(t.Context(), 0, 10)
		wantErr(t, err, message.ErrTransient)
		if took := time.Since(begun); took > browseTimeout+DefaultSettleTimeout {
			t.Errorf("it took %v", took)
		}
		if err := w.hub.Disarm(rule); err != nil {
			t.Fatal(err)
		}
		w.cutAll()
		if all, err := w.client.DeadLetters("tasks").Browse(t.Context(), 0, 10); err != nil || len(all) != 1 {
			t.Errorf("after the connection was lost: %v, %v", all, err)
		}
	})
}

func TestADeadLetterIsTakenFromAmongOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.bury("OutcomeUnknown", "a", "b", "c", "d")
		dead := w.client.DeadLetters("tasks")
		removed, err := dead.Discard(t.Context(), func(d message.Dead) bool { return d.CorrelationID == "c" || d.CorrelationID == "d" }, 3)
		if err != nil || removed != 1 {
			t.Errorf("removed %d, %v, want c alone: d is the fourth", removed, err)
		}
		all, err := dead.Browse(t.Context(), 0, 10)
		if err != nil || !slices.Equal(idsOf(all), []string{"a", "b", "d"}) || all[0].DeliveryCount > 1 {
			t.Errorf("left %v, %v", all, err)
		}
		if removed, err := dead.Discard(t.Context(), func(message.Dead) bool { return true }, 100); err != nil || removed != 3 {
			t.Errorf("removed %d, %v, want what has gone back at once", removed, err)
		}
		if removed, err := dead.Discard(t.Context(), func(message.Dead) bool { return true }, 100); err != nil || removed != 0 {
			t.Errorf("removed %d of nothing, %v", removed, err)
		}
	})
}

// What was received and not removed is not kept from the next who looks.
func TestRemovingDeadLettersThatFailsGivesBackTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.bury("OutcomeUnknown", "a", "b", "c", "d")
		dead := w.client.DeadLetters("tasks")
		all := func(message.Dead) bool { return true }
		w.arm(control.Rule{Match: control.Match{Operation: "complete"}, Do: "answer", Condition: "com.microsoft:message-lock-lost", Nth: 2})
		removed, err := dead.Discard(t.Context(), all, 100)
		wantErr(t, err, message.ErrTransient)
		if removed != 1 {
			t.Errorf("removed %d, want a alone", removed)
		}
		begun := time.Now()
		if removed, err := dead.Discard(t.Context(), all, 100); err != nil || removed != 2 || time.Since(begun) > lock/2 {
			t.Errorf("removed %d, %v, after %v, want c and d at once", removed, err, time.Since(begun))
		}
		time.Sleep(lock)
		if removed, err := dead.Discard(t.Context(), all, 100); err != nil || removed != 1 {
			t.Errorf("removed %d, %v, want b after its lock", removed, err)
		}
	})
}
