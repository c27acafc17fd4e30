package claim_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"oneeffect/internal/claim"
)

func TestAZombieChangesNothing(t *testing.T) { // C4
	for _, write := range writes {
		t.Run(write.says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				d := w.desk("worker-1")
				var fenced []string
				d.Fenced = func(_ context.Context, id string) { fenced = append(fenced, id) }
				zombie := w.grant(d, task())
				time.Sleep(aMinute)
				w.hub.Jump(10 * time.Minute)
				owner := w.grant(w.desk("worker-2"), task(again))
				before := w.stands()
				w.forget()
				if err := write.write(t, t.Context(), zombie); !errors.Is(err, claim.ErrFenced) || !errors.Is(err, claim.ErrLost) {
					t.Errorf("%v, want ErrFenced", err)
				}
				w.wantRequests("worker-1", "replace 412", "read 200")
				w.wantVersion(before)
				if !slices.Equal(fenced, []string{"82f3"}) {
					t.Errorf("fenced %q, want it counted once", fenced)
				}
				if cause := context.Cause(zombie.Context()); !errors.Is(cause, claim.ErrFenced) {
					t.Errorf("its context ended with %v, want ErrFenced", cause)
				}
				if _, err := owner.Complete(t.Context(), done(t)); err != nil {
					t.Errorf("the owner: %v", err)
				}
			})
		})
	}
}

// Whatever became of the claim meanwhile: a newer grant, its end, or nothing at all.
func TestAZombieIsFencedByWhateverStands(t *testing.T) { // C4, C9
	for says, meanwhile := range map[string]func(t *testing.T, w *world, owner *claim.Lease){
		"a newer grant": func(*testing.T, *world, *claim.Lease) {},
		"a completion": func(t *testing.T, _ *world, owner *claim.Lease) {
			if _, err := owner.Complete(t.Context(), done(t)); err != nil {
				t.Fatal(err)
			}
		},
		"a failure": func(t *testing.T, _ *world, owner *claim.Lease) {
			if _, err := owner.Fail(t.Context(), claim.Failure{Reason: claim.DownstreamRejected}); err != nil {
				t.Fatal(err)
			}
		},
		"a release": func(t *testing.T, _ *world, owner *claim.Lease) {
			if err := owner.Release(t.Context(), time.Time{}, false); err != nil {
				t.Fatal(err)
			}
		},
		"a first grant, since the record was too old to be kept": func(t *testing.T, w *world, owner *claim.Lease) {
			owner.Close()
			w.hub.Jump(31 * 24 * time.Hour)
			if c := w.grant(w.desk("worker-3"), task(again)).Claim(); c.Fence != 1 {
				t.Fatalf("fence %d, want the zombie's own", c.Fence)
			}
		},
		"nothing, since it was too old to be kept": func(_ *testing.T, w *world, owner *claim.Lease) {
			owner.Close()
			w.hub.Jump(31 * 24 * time.Hour)
		},
	} {
		t.Run(says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				zombie := w.grant(w.desk("worker-1"), task())
				w.hub.Jump(10 * time.Minute)
				meanwhile(t, w, w.grant(w.desk("worker-2"), task(again)))
				w.forget()
				if _, err := zombie.Complete(t.Context(), done(t)); !errors.Is(err, claim.ErrFenced) {
					t.Errorf("complete: %v, want ErrFenced", err)
				}
				if requests := w.requests("worker-1"); len(requests) != 2 {
					t.Errorf("it sent %q, want one write and one look", requests)
				}
			})
		})
	}
}

func TestAFencedOwnerAsksTheStoreNoMore(t *testing.T) { // C4
	inWorld(t, func(t *testing.T, w *world) {
		zombie := w.grant(w.desk("worker-1"), task())
		w.hub.Jump(10 * time.Minute)
		w.grant(w.desk("worker-2"), task(again))
		w.forget()
		time.Sleep(100*time.Second + 500*time.Millisecond) // its next renewal
		w.wantRequests("worker-1", "replace 412", "read 200")
		if cause := context.Cause(zombie.Context()); !errors.Is(cause, claim.ErrFenced) {
			t.Errorf("its context ended with %v, want ErrFenced", cause)
		}
		if left := zombie.Left(); left != 0 {
			t.Errorf("%v left of a lease that somebody else holds", left)
		}
		time.Sleep(time.Hour)
		w.wantRequests("worker-1", "replace 412", "read 200")
		w.forget()
		if err := zombie.Ensure(t.Context(), time.Second); !errors.Is(err, claim.ErrFenced) {
			t.Errorf("ensure: %v, want ErrFenced", err)
		}
		if err := zombie.CallStarting(t.Context()); !errors.Is(err, claim.ErrFenced) {
			t.Errorf("call starting: %v, want ErrFenced", err)
		}
		w.wantRequests("worker-1")
	})
}
