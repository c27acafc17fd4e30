package control

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheClockJumpsAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		jumped := h.Jumped()
		before := h.Now()
		h.Jump(5 * time.Minute)
		<-jumped
		if got := h.Now().Sub(before); got != 5*time.Minute {
			t.Errorf("went on by %v, want 5m", got)
		}
		select {
		case <-h.Jumped():
			t.Error("the next jump has happened already")
		default:
		}
		h.Jump(-6 * time.Minute)
		if got := h.Now().Sub(before); got != -time.Minute || h.Offset() != -time.Minute {
			t.Errorf("is at %v with an offset of %v, want -1m", got, h.Offset())
		}
		if h.Now().Location() != time.UTC {
			t.Error("the clock is not in UTC")
		}
	})
}

func TestSwitchesAreOnUntilTurnedOff(t *testing.T) {
	h := New()
	turn := func(name string, off bool) {
		t.Helper()
		if err := h.Switch(name, off); err != nil {
			t.Fatal(err)
		}
	}
	want := func(name string, off bool) {
		t.Helper()
		if h.Off(name) != off {
			t.Errorf("Off(%q) is %v", name, !off)
		}
	}
	want("cosmos.if-match/executions", false)
	turn("cosmos.if-match/executions", true)
	want("cosmos.if-match/executions", true)
	want("cosmos.if-match/claims", false)
	want("cosmos.if-match", false)
	if states := h.Switches(); len(states) != len(knownSwitches)+1 {
		t.Errorf("%d switches listed, want the known ones and the one for executions", len(states))
	}
	turn("cosmos.if-match/executions", false)
	turn("cosmos.if-match", true)
	want("cosmos.if-match/executions", true)
	turn("cosmos.if-match", false)
	want("cosmos.if-match/executions", false)
	for _, state := range h.Switches() {
		if state.Off || state.Says == "" {
			t.Errorf("switch %+v, want it on and explained", state)
		}
	}
}

func TestASwitchThatDoesNotExistIsRefused(t *testing.T) { // H7
	for name, want := range map[string]string{
		"cosmos.etags":                 "there is none of that name; there are cosmos.absent, ",
		"servicebus.lock-expiry/tasks": "has no switch per entity",
		"cosmos.if-match/":             "the entity after the / is missing",
	} {
		if err := New().Switch(name, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", name, err, want)
		}
	}
}

func TestEventsAreNumberedWithoutGaps(t *testing.T) { // H6
	synctest.Test(t, func(t *testing.T) {
		h := New()
		if h.Last() != 0 || h.Events(0) != nil {
			t.Fatal("a new hub has events")
		}
		start := h.Now()
		for range 3 {
			h.Record(Event{Kind: "request", Seq: 99})
		}
		events := h.Events(1)
		if len(events) != 2 || events[0].Seq != 2 || events[1].Seq != 3 || h.Last() != 3 {
			t.Errorf("after 1: %+v, want 2 and 3", events)
		}
		if !events[0].At.Equal(start) {
			t.Errorf("recorded at %v, want %v", events[0].At, start)
		}
		if h.Events(3) != nil || h.Events(1000) != nil {
			t.Error("there are events after the last")
		}
	})
}

func TestTheLogKeepsTheNewestAndAForgottenEventIsNeverSkippedInSilence(t *testing.T) { // H6
	h := New()
	for range eventsKept + 10 {
		h.Record(Event{Kind: "request"})
	}
	events := h.Events(0)
	if len(events) != eventsKept || events[0].Seq != 11 || events[len(events)-1].Seq != eventsKept+10 {
		t.Errorf("%d kept from %d to %d", len(events), events[0].Seq, events[len(events)-1].Seq)
	}
	if _, err := h.WaitEvent(t.Context(), 9, nil); !errors.Is(err, ErrForgotten) {
		t.Errorf("waiting after 9: %v, want ErrForgotten", err)
	}
	if e, err := h.WaitEvent(t.Context(), 10, nil); err != nil || e.Seq != 11 {
		t.Errorf("waiting after 10: event %d (%v), want 11", e.Seq, err)
	}
}

func TestWaitEventFindsTheFirstMatchThenOrLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		settled := func(e Event) bool { return e.Kind == "settled" }
		h.Record(Event{Kind: "settled", Key: "a"})
		h.Record(Event{Kind: "delivered"})
		h.Record(Event{Kind: "settled", Key: "b"})
		if e, err := h.WaitEvent(t.Context(), 1, settled); err != nil || e.Key != "b" {
			t.Errorf("after 1: %+v (%v), want b", e, err)
		}
		found := make(chan Event, 1)
		go func() {
			e, err := h.WaitEvent(t.Context(), h.Last(), settled)
			if err != nil {
				t.Error(err)
			}
			found <- e
		}()
		synctest.Wait()
		h.Record(Event{Kind: "delivered"})
		synctest.Wait()
		if len(found) != 0 {
			t.Fatal("found what does not match")
		}
		h.Record(Event{Kind: "settled", Key: "c"})
		if e := <-found; e.Key != "c" || e.Seq != 5 {
			t.Errorf("then: %+v, want c, the fifth", e)
		}
	})
}

func TestWaitEventEndsWithItsContextOrTheHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.WaitEvent(ctx, 0, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want a deadline exceeded", err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := h.WaitEvent(t.Context(), 0, nil)
			ended <- err
		}()
		synctest.Wait()
		h.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	})
}

func TestEventsMayBeRecordedAndReadFromEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		const writers, each = 8, 500
		for range writers {
			go func() {
				for range each {
					h.Record(Event{Kind: "request"})
				}
			}()
		}
		last := uint64(0)
		for last < writers*each {
			e, err := h.WaitEvent(t.Context(), last, nil)
			if err != nil || e.Seq != last+1 {
				t.Fatalf("after %d: %d (%v)", last, e.Seq, err)
			}
			last = e.Seq
		}
	})
}
