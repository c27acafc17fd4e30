package claim_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"oneeffect/internal/claim"
)

// clock is a machine's whose wall clock is wrong, and may be set.
type clock struct{ wrong atomic.Int64 }

func newClock(wrong time.Duration) *clock {
	c := new(clock)
	c.set(wrong)
	return c
}

func (c *clock) set(wrong time.Duration) { c.wrong.Store(int64(wrong)) }

func (c *clock) read() claim.Reading {
	now := time.Now()
	return claim.Reading{Monotonic: now, Wall: now.Round(0).Add(time.Duration(c.wrong.Load()))}
}

// Two workers whose clocks are twenty minutes apart, and a store whose clock is
// wrong as well: a live lease is busy, a dead one is taken, at the same moments as
// with clocks that are right.
func TestNoClockIsComparedWithAnother(t *testing.T) { // C6
	for _, skew := range []struct{ one, other, store time.Duration }{
		{10 * time.Minute, -10 * time.Minute, 0},
		{-10 * time.Minute, 10 * time.Minute, 0},
		{0, 0, 10 * time.Minute},
		{10 * time.Minute, -10 * time.Minute, -10 * time.Minute},
	} {
		t.Run(fmt.Sprintf("%v %v store %v", skew.one, skew.other, skew.store), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.hub.Jump(skew.store)
				first, second := w.desk("worker-1"), w.desk("worker-2")
				first.Clock, second.Clock = newClock(skew.one).read, newClock(skew.other).read
				lease := w.grant(first, task())
				time.Sleep(20*time.Minute + 30*time.Second) // it is renewed all the while, and not at this very moment
				if v := w.answer(second, task(again)); v.Kind != claim.Busy {
					t.Fatalf("%s while the lease stands", v.Kind)
				}
				w.hub.Isolate("worker-1")
				<-lease.Context().Done()
				v := w.answer(second, task(again))
				if v.Kind != claim.Busy || v.Wait < 15*time.Second || v.Wait > 17*time.Second {
					t.Fatalf("%s for %v the moment that trust ended, want busy for the margins", v.Kind, v.Wait)
				}
				time.Sleep(v.Wait)
				if c := w.grant(second, task(again)).Claim(); c.Fence != 2 {
					t.Errorf("granted %+v", c)
				}
			})
		})
	}
}

// A wall clock that is suddenly ahead takes trust away, since the machine may have
// slept, while timers stood still: the loss is found within half a margin of waking.
// One set back gives none.
func TestTrustSurvivesNoJumpOfTheWallClockAndGainsByNone(t *testing.T) { // C5 C6
	for jump, left := range map[time.Duration]time.Duration{
		-10 * time.Minute: trust - time.Second, time.Minute: trust - time.Minute - time.Second, 10 * time.Minute: 0,
	} {
		t.Run(jump.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				desk, c := w.desk("worker-1"), newClock(0)
				desk.Clock = c.read
				lease := w.grant(desk, task())
				time.Sleep(time.Second)
				c.set(jump)
				if got := max(lease.Left(), 0); got != left {
					t.Errorf("%v left, want %v", got, left)
				}
				time.Sleep(desk.OwnerMargin / 2)
				if lost := lease.Context().Err() != nil; lost != (left == 0) {
					t.Errorf("half a margin later: lost %t, %v left", lost, lease.Left())
				}
			})
		})
	}
}

// The store's own clock jumps while a lease stands: forward, and another takes
// over although the owner still trusts; the owner's next write is fenced, and what
// it does under its key happens once. Time protects efficiency, not safety.
func TestAJumpOfTheStoresClockCostsALeaseAndNoMore(t *testing.T) { // C4 C6
	for _, jump := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		t.Run(jump.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				lease := w.grant(w.desk("worker-1"), task())
				w.hub.Jump(jump)
				second := w.desk("worker-2")
				if jump < 0 {
					if v := w.answer(second, task(again)); v.Kind != claim.Busy {
						t.Errorf("%s, want busy", v.Kind)
					}
					if _, err := lease.Complete(t.Context(), done(t)); err != nil {
						t.Error(err)
					}
					return
				}
				taken := w.grant(second, task(again))
				if _, err := lease.Complete(t.Context(), done(t)); !errors.Is(err, claim.ErrFenced) {
					t.Errorf("complete: %v, want ErrFenced", err)
				}
				if cause := context.Cause(lease.Context()); !errors.Is(cause, claim.ErrFenced) {
					t.Errorf("the lease ended with %v", cause)
				}
				if _, err := taken.Complete(t.Context(), done(t)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A store whose clock was set back shows a record from its future. Nobody waits for
// that future (HORIZON H25).
func TestAClockThatWasSetBackIsNotWaitedFor(t *testing.T) { // C6
	_, v, write := claim.Take(held(), -24*time.Hour, asking(), "other", terms)
	if v.Kind != claim.Busy || write || v.Wait > 306*time.Second {
		t.Errorf("%s for %v, want busy for a lease and its margins", v.Kind, v.Wait)
	}
}
