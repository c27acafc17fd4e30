package claim_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
)

func TestTheFirstGrantIsOneCreateAndNoRead(t *testing.T) { // C1, C3
	inWorld(t, func(t *testing.T, w *world) {
		d := w.desk("worker-1")
		lease := w.grant(d, task())
		w.wantRequests("worker-1", "create 201")
		if c := lease.Claim(); c.Fence != 1 || c.Starts != 1 || c.Status != claim.InProgress {
			t.Errorf("granted %+v", c)
		}
		if left := lease.Left(); left != trust {
			t.Errorf("trusted for %v, want the lease less the owner's margin", left)
		}
		if c := lease.Claim(); !strings.HasPrefix(c.Owner, "worker-1/") || strings.Count(c.Owner, "/") != 2 || len(c.W) != 16 || strings.Contains(c.Owner, c.W) {
			t.Errorf("owner %q, w %q, want two nonces", c.Owner, c.W)
		}
		if stored := w.stands().Claim; stored.W != lease.Claim().W || stored.Owner != lease.Claim().Owner {
			t.Errorf("the lease holds %+v\nbut stored is %+v", lease.Claim(), stored)
		}
	})
}

func TestARedeliveryReadsFirst(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.grant(w.desk("worker-1"), task(again))
		w.wantRequests("worker-1", "read 404", "create 201")
	})
}

func TestPastNotAfterNothingIsCreated(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		v := w.answer(w.desk("worker-1"), task(func(a *claim.Ask) { a.NotAfter = time.Now().Add(-time.Second) }))
		if v.Kind != claim.Refused || v.Reason != claim.TooOld {
			t.Errorf("%s %s, want it refused as too old", v.Kind, v.Reason)
		}
		w.wantRequests("worker-1", "read 404")
	})
}

func TestAClaimThatSomebodyHoldsIsBusy(t *testing.T) { // C1
	inWorld(t, func(t *testing.T, w *world) {
		w.grant(w.desk("worker-1"), task())
		before := w.stands()
		v := w.answer(w.desk("worker-2"), task())
		if v.Kind != claim.Busy || v.Wait != 306*time.Second {
			t.Errorf("%s for %v, want busy until lease and margin are over", v.Kind, v.Wait)
		}
		w.wantRequests("worker-2", "create 409", "read 200")
		w.wantVersion(before)
	})
}

func TestAClaimPassesOnWhenItsOwnerIsSilent(t *testing.T) { // C1, C3, C6
	inWorld(t, func(t *testing.T, w *world) {
		first := w.grant(w.desk("worker-1"), task())
		w.hub.Isolate("worker-1")
		second := w.desk("worker-2")
		v := w.answer(second, task(again))
		time.Sleep(v.Wait)
		if context.Cause(first.Context()) == nil {
			t.Error("the claim can be taken while its owner still trusts its lease") // C5
		}
		lease := w.grant(second, task(again))
		if c := lease.Claim(); c.Fence != 2 || c.Starts != 2 || len(c.Attempts) != 2 || c.Attempts[0].End != "lease expired" {
			t.Errorf("granted %+v", c)
		}
		w.wantRequests("worker-2", "read 200", "read 200", "replace 200")
	})
}

// Only the store's clock tells how old a lease is: it jumps, and ours does not.
func TestALeaseIsAsOldAsTheStoreSays(t *testing.T) { // C6
	inWorld(t, func(t *testing.T, w *world) {
		first := w.grant(w.desk("worker-1"), task())
		second := w.desk("worker-2")
		w.hub.Jump(305 * time.Second)
		if v := w.answer(second, task(again)); v.Kind != claim.Busy || v.Wait != time.Second {
			t.Fatalf("lease and margin old: %s for %v, want busy for a second", v.Kind, v.Wait)
		}
		w.hub.Jump(time.Second)
		lease := w.grant(second, task(again))
		if lease.Claim().Fence != 2 {
			t.Errorf("fence %d, want 2", lease.Claim().Fence)
		}
		if first.Left() != trust || first.Context().Err() != nil {
			t.Errorf("the first owner has %v left by its own clock, and %v", first.Left(), context.Cause(first.Context()))
		}
	})
}

func TestAStoreWhoseClockWasSetBackShowsNoLeaseAsStale(t *testing.T) { // C6
	inWorld(t, func(t *testing.T, w *world) {
		first := w.grant(w.desk("worker-1"), task())
		first.Close()
		w.hub.Jump(-time.Hour)
		time.Sleep(10 * time.Minute)
		if v := w.answer(w.desk("worker-2"), task(again)); v.Kind != claim.Busy {
			t.Errorf("%s, want busy", v.Kind)
		}
	})
}

func TestAnotherPayloadIsRefusedAndNothingIsWritten(t *testing.T) { // C7
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task())
		other := task(func(a *claim.Ask) { a.Fingerprint = "sha256:other" })
		check := func(when string) {
			t.Helper()
			before := w.stands()
			if v := w.answer(w.desk("worker-2"), other); v.Kind != claim.Refused || v.Reason != claim.IdempotencyKeyReused {
				t.Errorf("%s: %s %s, want it refused", when, v.Kind, v.Reason)
			}
			w.wantVersion(before)
		}
		check("while the work runs")
		if _, err := lease.Complete(t.Context(), done(t)); err != nil {
			t.Fatal(err)
		}
		check("after completion")
		time.Sleep(time.Hour)
		check("an hour later")
	})
}

func TestACompletedClaimIsToldAgainAndNeverChanged(t *testing.T) { // C2, C10
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task())
		if _, err := lease.Complete(t.Context(), done(t)); err != nil {
			t.Fatal(err)
		}
		lease.Close()
		before := w.stands()
		for i, ask := range []claim.Ask{task(), task(again), task(func(a *claim.Ask) { a.Run, a.Asserted = 2, true }), task(withoutKey)} {
			v := w.answer(w.desk(fmt.Sprintf("worker-%d", i+2)), ask)
			if v.Kind != claim.Done || !reflect.DeepEqual(v.Claim.Result, before.Claim.Result) {
				t.Errorf("ask %d: %s with %+v, want the stored result", i, v.Kind, v.Claim.Result)
			}
			time.Sleep(10 * time.Minute)
		}
		w.wantVersion(before)
	})
}

func TestAKeylessCallThatMayHaveBeenMadeIsFailedOnce(t *testing.T) { // C10
	inWorld(t, func(t *testing.T, w *world) {
		first := w.grant(w.desk("worker-1"), task(withoutKey))
		if err := first.CallStarting(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.hub.Isolate("worker-1")
		time.Sleep(10 * time.Minute)
		v := w.answer(w.desk("worker-2"), task(withoutKey, again))
		if v.Kind != claim.Over || v.Claim.Failure.Reason != claim.OutcomeUnknown || v.Claim.Fence != 2 {
			t.Errorf("%s %+v", v.Kind, v.Claim)
		}
		w.wantRequests("worker-2", "read 200", "replace 200")
		v = w.answer(w.desk("worker-3"), task(withoutKey, again))
		if v.Kind != claim.Over || v.Claim.Fence != 2 {
			t.Errorf("the second look: %s, fence %d", v.Kind, v.Claim.Fence)
		}
		w.wantRequests("worker-3", "read 200")
	})
}

func TestOfManyWhoAskAtOnceOneIsGranted(t *testing.T) { // C1, C3
	inWorld(t, func(t *testing.T, w *world) {
		ask := func(says string, fence int64, change func(*claim.Ask)) {
			var mu sync.Mutex
			var granted []*claim.Lease
			var all sync.WaitGroup
			for i := range 12 {
				d := w.desk(fmt.Sprintf("worker-%d", i))
				all.Go(func() {
					lease, v, err := d.Take(t.Context(), task(change))
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err != nil:
						t.Errorf("%s: %v", says, err)
					case v.Kind == claim.Granted:
						granted = append(granted, lease)
					case v.Kind != claim.Busy:
						t.Errorf("%s: %s, want busy", says, v.Kind)
					}
				})
			}
			all.Wait()
			if len(granted) != 1 {
				t.Fatalf("%s: granted %d times", says, len(granted))
			}
			granted[0].Close() // and silent from here on
			if c := w.stands().Claim; c.Fence != fence || c.Owner != granted[0].Claim().Owner {
				t.Errorf("%s: %+v stands", says, c)
			}
			time.Sleep(306 * time.Second)
		}
		ask("at first", 1, func(*claim.Ask) {})
		ask("once stale", 2, again)
		ask("once stale again", 3, func(*claim.Ask) {})
	})
}

func TestTwoDeliveriesInOneProcessShareNothing(t *testing.T) { // C1
	inWorld(t, func(t *testing.T, w *world) {
		d := w.desk("worker-1")
		lease := w.grant(d, task())
		w.forget()
		if v := w.answer(d, task(again)); v.Kind != claim.Busy || v.Wait != 305*time.Second {
			t.Errorf("%s for %v, want busy for a lease and its margin", v.Kind, v.Wait)
		}
		w.wantRequests("worker-1")
		// Even when its own lease is stale, it is not the process's to take over.
		w.hub.Jump(time.Hour)
		if v := w.answer(d, task(again)); v.Kind != claim.Busy {
			t.Errorf("an hour later by the store's clock: %s, want busy", v.Kind)
		}
		w.wantRequests("worker-1")
		if other := w.grant(d, task(func(a *claim.Ask) { a.ID = "91aa" })); other.Claim().Fence != 1 {
			t.Errorf("another task: %+v", other.Claim())
		}
		first := lease.Claim().Owner
		lease.Close()
		if second := w.grant(d, task(again)).Claim(); second.Fence != 2 || second.Owner == first {
			t.Errorf("after it ended: %+v, the owner before was %s", second, first)
		}
	})
}

func TestATakeThatIsNotGrantedLeavesItsIDFree(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		holder := w.grant(w.desk("worker-1"), task())
		d := w.desk("worker-2")
		w.answer(d, task())
		holder.Close()
		w.hub.Jump(time.Hour)
		w.grant(d, task(again))
	})
}

// A create found a record, and a replica has not heard of it yet.
func TestARecordThatAReplicaDoesNotKnowYetIsNotCreatedTwice(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.grant(w.desk("worker-1"), task())
		d := w.desk("worker-2")
		d.Store = laggard{d.Store, notFound}
		if v := w.answer(d, task()); v.Kind != claim.Busy {
			t.Errorf("%s, want busy", v.Kind)
		}
		w.wantRequests("worker-2", "create 409", "read 200", "read 200")
	})
}

// A replica shows a stale claim that somebody has taken over meanwhile. The
// takeover fails, and the replica still shows it: no reason to spin.
func TestAReplicaThatLagsBehindATakeoverIsBusy(t *testing.T) { // C6
	inWorld(t, func(t *testing.T, w *world) {
		w.grant(w.desk("worker-0"), task()).Close()
		w.hub.Jump(10 * time.Minute)
		old := w.stands()
		w.grant(w.desk("worker-1"), task(again))
		before := w.stands()
		d := w.desk("worker-2")
		d.Store = laggard{d.Store, func(int, claim.Stored, error) (claim.Stored, error) { return old, nil }}
		if v := w.answer(d, task(again)); v.Kind != claim.Busy || v.Wait < time.Second {
			t.Errorf("%s for %v, want busy for a second at least", v.Kind, v.Wait)
		}
		w.wantRequests("worker-2", "read 200", "replace 412", "read 200")
		w.wantVersion(before)
	})
}

func TestALostRaceIsDecidedAnew(t *testing.T) { // C1
	inWorld(t, func(t *testing.T, w *world) {
		ask := w.prepared(true)
		hold := w.arm(control.Rule{Match: control.Match{Operation: "replace", Client: "worker-1"}, Do: "hold", Times: 1})
		taking := w.taking(t.Context(), w.desk("worker-1"), ask)
		w.reached(hold)
		winner := w.grant(w.desk("worker-2"), ask)
		if _, err := winner.Complete(t.Context(), done(t)); err != nil {
			t.Fatal(err)
		}
		w.release(hold, "go")
		if got := taking(); got.err != nil || got.verdict.Kind != claim.Done {
			t.Errorf("%s, %v, want the result that is stored meanwhile", got.verdict.Kind, got.err)
		}
		w.wantRequests("worker-1", "read 200", "replace 412", "read 200")
	})
}

func TestAnAskThatIsCancelledSendsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d := w.desk("worker-1")
		w.grant(d, task(func(a *claim.Ask) { a.ID = "91aa" })) // the client is at work
		w.forget()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		lease, v, err := d.Take(ctx, task())
		if lease != nil || v.Kind != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("lease %t, %s, %v", lease != nil, v.Kind, err)
		}
		synctest.Wait()
		w.wantRequests("worker-1")
	})
}
