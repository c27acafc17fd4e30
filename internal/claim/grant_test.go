package claim_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// The write of a Take: as a create, and as a takeover.
var grants = []struct {
	says      string
	operation string
	ok        string // the request that is applied
	fence     int64
	old       bool // somebody's stale claim stands
}{
	{"create", "create", "create 201", 1, false},
	{"takeover", "replace", "replace 200", 2, true},
}

// prepared is a world in which a Take makes the write in question.
func (w *world) prepared(old bool) claim.Ask {
	w.t.Helper()
	if !old {
		return task()
	}
	w.grant(w.desk("worker-0"), task()).Close()
	w.hub.Jump(10 * time.Minute)
	w.forget()
	return task(again)
}

func TestAGrantWhoseAnswerIsLostIsRecognisedByItsOwner(t *testing.T) { // C9
	for _, g := range grants {
		for _, lost := range []control.Rule{
			{When: "after", Do: "drop"},
			{When: "after", Do: "silence"},
			{When: "after", Do: "answer", Status: http.StatusServiceUnavailable},
			{When: "after", Do: "answer", Status: http.StatusRequestTimeout},
			{When: "after", Do: "answer", Status: http.StatusInternalServerError},
		} {
			t.Run(fmt.Sprintf("%s/%s %d", g.says, lost.Do, lost.Status), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					ask := w.prepared(g.old)
					lost.Match = control.Match{Operation: g.operation}
					lost.Times = 1
					w.arm(lost)
					asked := time.Now()
					lease := w.grant(w.desk("worker-1"), ask)
					if c := lease.Claim(); c.Fence != g.fence || c.W != w.stands().Claim.W {
						t.Errorf("granted %+v", c)
					}
					sent := w.requests("worker-1")
					if writes := slices.DeleteFunc(slices.Clone(sent), func(r string) bool { return r[:4] == "read" }); !slices.Equal(writes, []string{g.ok}) {
						t.Errorf("sent %q, want one write", sent)
					}
					if sent[len(sent)-1] != "read 200" {
						t.Errorf("sent %q, want it read back", sent)
					}
					if left, want := lease.Left(), trust-time.Since(asked); left != want {
						t.Errorf("trusted for %v, want %v: counted from before the first write", left, want) // C5
					}
				})
			})
		}
	}
}

func TestAGrantThatWasNotAppliedIsSentAgain(t *testing.T) { // C9
	for _, g := range grants {
		t.Run(g.says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				ask := w.prepared(g.old)
				w.arm(control.Rule{Match: control.Match{Operation: g.operation}, Do: "drop", Times: 2})
				lease := w.grant(w.desk("worker-1"), ask)
				if c := lease.Claim(); c.Fence != g.fence || c.Starts != int(g.fence) || c.W != w.stands().Claim.W {
					t.Errorf("granted %+v", c)
				}
				if sent := w.requests("worker-1"); sent[len(sent)-1] != g.ok {
					t.Errorf("sent %q, want the write last", sent)
				}
			})
		})
	}
}

// A write that its sender has given up may still be applied, before the second
// one or after it. Either way there is one grant, and its owner knows it.
func TestAGrantThatLandsLateIsNeverMistaken(t *testing.T) { // C9, C3
	for _, g := range grants {
		for _, landing := range []string{"before the second", "after the second"} {
			t.Run(g.says+"/"+landing, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					ask := w.prepared(g.old)
					late := w.arm(control.Rule{Match: control.Match{Operation: g.operation, Client: "worker-1"}, Do: "hold", Late: true, Times: 1})
					second := w.arm(control.Rule{Match: control.Match{Operation: g.operation, Client: "worker-1"}, Do: "hold", Times: 1})
					asked := time.Now()
					taking := w.taking(t.Context(), w.desk("worker-1"), ask)
					w.reached(second) // the first was given up, and read back in vain
					w.forget()
					if landing == "before the second" {
						w.release(late, "go")
						w.wantRequests("worker-1", g.ok)
						w.release(second, "go")
					} else {
						w.release(second, "go")
						w.release(late, "go")
					}
					got := taking()
					if got.err != nil || got.verdict.Kind != claim.Granted {
						t.Fatalf("%s, %v", got.verdict.Kind, got.err)
					}
					stands := w.stands().Claim
					if c := got.lease.Claim(); c.Fence != g.fence || c.Starts != int(g.fence) || c.W != stands.W || c.Owner != stands.Owner {
						t.Errorf("the lease holds %+v\nbut stored is %+v", c, stands)
					}
					if left, want := got.lease.Left(), trust-time.Since(asked); left != want {
						t.Errorf("trusted for %v, want %v: which of the two was applied is not known to the millisecond", left, want) // C5
					}
				})
			})
		}
	}
}

// Whoever gives up knows nothing, holds nothing, and harms nobody.
func TestATakeThatIsGivenUpHoldsNothing(t *testing.T) { // C1, C9
	for _, g := range grants {
		t.Run(g.says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				ask := w.prepared(g.old)
				late := w.arm(control.Rule{Match: control.Match{Operation: g.operation, Client: "worker-1"}, Do: "hold", Late: true, Times: 1})
				ctx, cancel := context.WithCancelCause(t.Context())
				d := w.desk("worker-1")
				taking := w.taking(ctx, d, ask)
				w.reached(late)
				stopping := errors.New("stopping")
				cancel(stopping)
				if got := taking(); !errors.Is(got.err, stopping) || got.lease != nil || got.verdict.Kind != 0 {
					t.Fatalf("%s, lease %t, %v, want only the error", got.verdict.Kind, got.lease != nil, got.err)
				}
				// Somebody else is faster than the late write.
				lease := w.grant(w.desk("worker-2"), ask)
				before := w.stands()
				w.release(late, "go")
				w.wantVersion(before)
				if _, err := lease.Complete(t.Context(), done(t)); err != nil {
					t.Errorf("the late write has harmed the owner: %v", err)
				}
			})
		})
	}
}

func TestAGrantOfNobodyEndsByItself(t *testing.T) { // C9
	inWorld(t, func(t *testing.T, w *world) {
		late := w.arm(control.Rule{Match: control.Match{Operation: "create"}, Do: "hold", Late: true, Times: 1})
		ctx, cancel := context.WithCancel(t.Context())
		d := w.desk("worker-1")
		taking := w.taking(ctx, d, task())
		w.reached(late)
		cancel()
		taking()
		w.release(late, "go") // applied: a lease that nobody knows of
		v := w.answer(d, task(again))
		if v.Kind != claim.Busy {
			t.Fatalf("%s, want busy, since the process cannot know that this grant was its own", v.Kind)
		}
		time.Sleep(v.Wait)
		if c := w.grant(d, task(again)).Claim(); c.Fence != 2 {
			t.Errorf("granted %+v", c)
		}
	})
}

func TestAFailureWhoseAnswerIsLostIsWrittenOnce(t *testing.T) { // C9, C10
	inWorld(t, func(t *testing.T, w *world) {
		first := w.grant(w.desk("worker-1"), task())
		first.Close()
		time.Sleep(25 * time.Hour) // past the key window
		w.arm(control.Rule{Match: control.Match{Operation: "replace"}, When: "after", Do: "drop", Times: 1})
		v := w.answer(w.desk("worker-2"), task(again))
		if v.Kind != claim.Over || v.Claim.Failure.Reason != claim.KeyWindowPassed || v.Claim.Fence != 2 {
			t.Errorf("%s %+v", v.Kind, v.Claim)
		}
		w.wantRequests("worker-2", "read 200", "replace 200", "read 200")
	})
}

func TestATakeSurvivesAThrottledOrFailingStore(t *testing.T) { // C9
	for _, g := range grants {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInternalServerError, http.StatusRequestTimeout, http.StatusGone, 449} {
			for _, operation := range []string{g.operation, "read"} {
				t.Run(fmt.Sprintf("%s/%d to every %s", g.says, status, operation), func(t *testing.T) {
					inWorld(t, func(t *testing.T, w *world) {
						ask := w.prepared(g.old)
						ask.ReadFirst = true
						rule := w.arm(control.Rule{Match: control.Match{Operation: operation, Client: "worker-1"}, Do: "answer", Status: status})
						taking := w.taking(t.Context(), w.desk("worker-1"), ask)
						w.reached(rule)
						time.Sleep(700 * time.Millisecond)
						w.disarm(rule)
						got := taking()
						if got.err != nil || got.verdict.Kind != claim.Granted || got.lease.Claim().Fence != g.fence || got.lease.Claim().Starts != int(g.fence) {
							t.Errorf("%s, %v, %+v", got.verdict.Kind, got.err, got.verdict.Claim)
						}
					})
				})
			}
		}
	}
}

func TestAStoreThatStaysDownIsAnErrorInBoundedTime(t *testing.T) { // C9
	for _, fault := range []control.Rule{{Do: "answer", Status: 429}, {Do: "answer", Status: 503}, {Do: "drop"}, {Do: "silence"}, {Do: "silence", When: "after"}} {
		for _, g := range grants {
			t.Run(fmt.Sprintf("%s/%s %d %s", g.says, fault.Do, fault.Status, fault.When), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					ask := w.prepared(g.old)
					fault.Match = control.Match{Client: "worker-1"}
					rule := w.arm(fault)
					d := w.desk("worker-1")
					begun := time.Now()
					lease, v, err := d.Take(t.Context(), ask)
					if lease != nil || v.Kind != 0 || !errors.Is(err, message.ErrTransient) && !errors.Is(err, message.ErrUnknown) {
						t.Errorf("lease %t, %s, %v, want an error that invites another try", lease != nil, v.Kind, err)
					}
					if took := time.Since(begun); took > 3*time.Minute {
						t.Errorf("it took %v", took)
					}
					w.disarm(rule)
					w.hub.Jump(10 * time.Minute) // what was applied after all is stale
					if c := w.grant(d, task(again)).Claim(); c.Fence > g.fence+1 {
						t.Errorf("granted %+v", c)
					}
				})
			})
		}
	}
}

// The desk's bound is shorter than the store's own here.
func TestEveryOperationIsBounded(t *testing.T) {
	for _, operation := range []string{"create", "replace", "read"} {
		t.Run(operation, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				d := w.desk("worker-1")
				d.Timeout = 3 * time.Second
				w.arm(control.Rule{Match: control.Match{Operation: operation, Client: "worker-1"}, When: "after", Do: "silence", Times: 1})
				begun := time.Now()
				lease := w.grant(d, task(again))
				if operation == "replace" {
					begun = time.Now()
					if err := lease.CallWithdrawn(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(begun); took < d.Timeout || took > d.Timeout+time.Second {
					t.Errorf("it took %v, want a moment more than %v", took, d.Timeout)
				}
			})
		})
	}
}

func TestAStoreThatRefusesIsAskedOnce(t *testing.T) {
	for _, g := range grants {
		for _, operation := range []string{g.operation, "read"} {
			t.Run(g.says+"/"+operation, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					ask := w.prepared(g.old)
					ask.ReadFirst = true
					w.arm(control.Rule{Match: control.Match{Operation: operation, Client: "worker-1"}, Do: "answer", Status: http.StatusForbidden})
					lease, v, err := w.desk("worker-1").Take(t.Context(), ask)
					if lease != nil || v.Kind != 0 || !errors.Is(err, message.ErrRefused) {
						t.Errorf("lease %t, %s, %v, want it refused", lease != nil, v.Kind, err)
					}
					refused := 0
					for _, r := range w.requests("worker-1") {
						if r == operation+" 403" {
							refused++
						}
					}
					if refused != 1 {
						t.Errorf("sent %q, want one %s", w.requests("worker-1"), operation)
					}
				})
			})
		}
	}
}
