package claim_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// trust is how long a lease is trusted after a write of its owner was sent.
const trust = 290 * time.Second

// aMinute passes before most writes here, so that Ensure has to renew.
const aMinute = time.Minute

// writes are all that an owner can do to its claim, each with what then stands.
var writes = []struct {
	says   string
	body   map[string]any // tells its request from others
	write  func(t *testing.T, ctx context.Context, l *claim.Lease) error
	stands func(c claim.Claim) bool
}{
	{
		"renew", nil,
		func(_ *testing.T, ctx context.Context, l *claim.Lease) error { return l.Ensure(ctx, 240*time.Second) },
		func(c claim.Claim) bool { return c.Status == claim.InProgress && !c.Released && !c.CallStarted },
	},
	{
		"record that the call starts", map[string]any{"/callStarted": true},
		func(_ *testing.T, ctx context.Context, l *claim.Lease) error { return l.CallStarting(ctx) },
		func(c claim.Claim) bool { return c.Status == claim.InProgress && !c.Released && c.CallStarted },
	},
	{
		"record that no call was made", map[string]any{"/callStarted": false},
		func(_ *testing.T, ctx context.Context, l *claim.Lease) error { return l.CallWithdrawn(ctx) },
		func(c claim.Claim) bool { return c.Status == claim.InProgress && !c.Released && !c.CallStarted },
	},
	{
		"complete", map[string]any{"/status": "COMPLETED"},
		func(t *testing.T, ctx context.Context, l *claim.Lease) error {
			v, err := l.Complete(ctx, done(t))
			if err == nil && (v.Kind != claim.Done || v.Claim.Result.Ref != done(t).Ref || v.Claim.Result.Digest != done(t).Digest) {
				t.Errorf("completed with %s %+v", v.Kind, v.Claim.Result)
			}
			return err
		},
		func(c claim.Claim) bool {
			return c.Status == claim.Completed && c.Result.Ref == "/customers/7" && c.Failure == nil && c.Attempts[len(c.Attempts)-1].End == "completed"
		},
	},
	{
		"fail", map[string]any{"/status": "FAILED"},
		func(t *testing.T, ctx context.Context, l *claim.Lease) error {
			f := claim.Failure{Reason: claim.DownstreamRejected, Description: "422", Outcome: claim.EffectNone}
			v, err := l.Fail(ctx, f)
			if err == nil && (v.Kind != claim.Over || *v.Claim.Failure != f) {
				t.Errorf("failed with %s %+v", v.Kind, v.Claim.Failure)
			}
			return err
		},
		func(c claim.Claim) bool {
			return c.Status == claim.Failed && c.Failure.Reason == claim.DownstreamRejected && c.Result == nil && c.Attempts[len(c.Attempts)-1].End == "failed: DownstreamRejected"
		},
	},
	{
		"release", map[string]any{"/released": true},
		func(_ *testing.T, ctx context.Context, l *claim.Lease) error {
			return l.Release(ctx, time.Time{}, true)
		},
		func(c claim.Claim) bool {
			return c.Status == claim.InProgress && c.Released && c.Starts == int(c.Fence)-1 && c.Answered == 1 && c.Attempts[len(c.Attempts)-1].End == "released"
		},
	},
}

// match is the rule's half that finds a write of worker-1.
func match(body map[string]any) control.Match {
	return control.Match{Operation: "replace", Client: "worker-1", Body: body}
}

func TestEveryWriteOfAnOwnerIsOneRequest(t *testing.T) {
	for _, write := range writes {
		t.Run(write.says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				lease := w.grant(w.desk("worker-1"), task())
				time.Sleep(aMinute)
				w.forget()
				if err := write.write(t, t.Context(), lease); err != nil {
					t.Fatal(err)
				}
				w.wantRequests("worker-1", "replace 200")
				if c := w.stands().Claim; !write.stands(c) || c.Fence != 1 || c.W != lease.Claim().W {
					t.Errorf("it left %+v", c)
				}
			})
		})
	}
}

func TestALeaseIsRenewedForAsLongAsItIsHeld(t *testing.T) { // C1, C5
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task())
		first := lease.Claim()
		w.forget()
		time.Sleep(time.Hour + time.Second)
		w.wantRequests("worker-1", slices.Repeat([]string{"replace 200"}, 36)...)
		if left := lease.Left(); left != trust-time.Second || lease.Context().Err() != nil {
			t.Errorf("%v left, %v", left, context.Cause(lease.Context()))
		}
		last := lease.Claim()
		if last.W == first.W {
			t.Error("the renewals share a nonce")
		}
		if v := w.answer(w.desk("worker-2"), task(again)); v.Kind != claim.Busy || v.Wait < 300*time.Second {
			t.Errorf("after an hour: %s for %v, want busy", v.Kind, v.Wait)
		}
		last.W = first.W
		if !reflect.DeepEqual(last, first) {
			t.Errorf("the renewals changed\n%+v\nto %+v", first, last)
		}
	})
}

// A slow store must not stretch the period: it is the lease that is short.
func TestARenewalIsDueAThirdOfALeaseAfterTheLastWasSent(t *testing.T) { // C5
	inWorld(t, func(t *testing.T, w *world) {
		w.grant(w.desk("worker-1"), task())
		w.arm(control.Rule{Match: match(nil), When: "after", Do: "delay", Delay: control.Duration(9 * time.Second)})
		w.forget()
		time.Sleep(1010 * time.Second)
		w.wantRequests("worker-1", slices.Repeat([]string{"replace 200"}, 10)...)
	})
}

func TestARenewalPeriodMayBeChosen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d := w.desk("worker-1")
		d.Renewal = 20 * time.Second
		w.grant(d, task())
		w.forget()
		time.Sleep(61 * time.Second)
		w.wantRequests("worker-1", slices.Repeat([]string{"replace 200"}, 3)...)
	})
}

func TestAnyWriteIsARenewal(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task(withoutKey))
		time.Sleep(90 * time.Second)
		if err := lease.CallStarting(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := lease.Left(); left != trust {
			t.Errorf("%v left, want all of it", left)
		}
		w.forget()
		time.Sleep(99 * time.Second)
		w.wantRequests("worker-1")
		time.Sleep(2 * time.Second)
		w.wantRequests("worker-1", "replace 200")
		if !w.stands().Claim.CallStarted {
			t.Error("the renewal took the call back")
		}
	})
}

func TestAFinalStateIsNotRenewed(t *testing.T) { // C2
	for _, write := range writes[3:] {
		t.Run(write.says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				lease := w.grant(w.desk("worker-1"), task())
				if err := write.write(t, t.Context(), lease); err != nil {
					t.Fatal(err)
				}
				before := w.stands()
				w.forget()
				time.Sleep(time.Hour)
				w.wantRequests("worker-1")
				w.wantVersion(before)
			})
		})
	}
}

func TestACallStartsOnlyAfterProof(t *testing.T) { // C9
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task(withoutKey))
		held := w.arm(control.Rule{Match: match(map[string]any{"/callStarted": true}), When: "after", Do: "hold", Times: 1})
		reads := w.arm(control.Rule{Match: control.Match{Operation: "read", Client: "worker-1"}, Do: "drop"})
		ctx, cancel := context.WithCancelCause(t.Context())
		wait := going(func() error { return lease.CallStarting(ctx) })
		w.reached(held)
		w.release(held, "drop") // written, but nobody says so, and nothing can be read
		time.Sleep(time.Minute)
		stopping := errors.New("stopping")
		cancel(stopping)
		if err := wait(); !errors.Is(err, stopping) || !errors.Is(err, message.ErrUnknown) {
			t.Fatalf("%v, want it told that nothing is known", err)
		}
		if !w.stands().Claim.CallStarted {
			t.Fatal("it was not written")
		}
		w.disarm(reads)
		// The call was never made, and that can be said.
		if err := lease.CallWithdrawn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.stands().Claim.CallStarted {
			t.Error("it stands, although it was taken back")
		}
	})
}

// A claim whose call may have started is given back only by who knows that none
// was made.
func TestAClaimWhoseKeylessCallMayHaveBeenMadeIsNotReleased(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task(withoutKey))
		if err := lease.CallStarting(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := w.stands()
		if err := lease.Release(t.Context(), time.Time{}, false); !errors.Is(err, message.ErrRefused) {
			t.Errorf("release: %v, want it refused", err)
		}
		w.wantVersion(before)
		if err := lease.CallWithdrawn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context(), time.Time{}, false); err != nil {
			t.Errorf("release after the call was taken back: %v", err)
		}
	})
}

// The answer to CallStarting was lost, so no call was made, and Release says so:
// whether the record shows the call already or not, and also when the answer to
// CallWithdrawn was lost too.
func TestAReleaseTakesBackACallThatWasNeverMade(t *testing.T) { // C9
	starting := func(t *testing.T, w *world, l *claim.Lease) {
		held := w.arm(control.Rule{Match: match(map[string]any{"/callStarted": true}), When: "after", Do: "hold", Times: 1})
		ctx, cancel := context.WithCancel(t.Context())
		wait := going(func() error { return l.CallStarting(ctx) })
		w.reached(held)
		cancel()
		if err := wait(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	for says, before := range map[string]func(t *testing.T, w *world, l *claim.Lease){
		"at once": starting,
		"after a renewal has found it": func(t *testing.T, w *world, l *claim.Lease) {
			starting(t, w, l)
			time.Sleep(101 * time.Second)
			if !l.Claim().CallStarted {
				t.Fatal("the renewal has not found it")
			}
		},
		"after it was withdrawn in vain": func(t *testing.T, w *world, l *claim.Lease) {
			if err := l.CallStarting(t.Context()); err != nil {
				t.Fatal(err)
			}
			silence := w.arm(control.Rule{Match: control.Match{Client: "worker-1"}, When: "after", Do: "silence"})
			ctx, cancel := context.WithTimeout(t.Context(), aMinute)
			defer cancel()
			if err := l.CallWithdrawn(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			w.disarm(silence)
		},
	} {
		t.Run(says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				lease := w.grant(w.desk("worker-1"), task(withoutKey))
				before(t, w, lease)
				if err := lease.Release(t.Context(), time.Time{}, false); err != nil {
					t.Fatal(err)
				}
				lease.Close()
				c := w.grant(w.desk("worker-2"), task(withoutKey, again)).Claim()
				if c.Fence != 2 || c.CallStarted || c.Starts != 1 {
					t.Errorf("granted %+v", c)
				}
			})
		})
	}
}

func TestAReleasedClaimPassesOnAtItsTime(t *testing.T) { // C3, C8
	inWorld(t, func(t *testing.T, w *world) {
		first := w.grant(w.desk("worker-1"), task())
		notBefore := time.Now().Add(2 * time.Minute)
		if err := first.Release(t.Context(), notBefore, true); err != nil {
			t.Fatal(err)
		}
		first.Close()
		second := w.desk("worker-2")
		v := w.answer(second, task(again))
		if v.Kind != claim.Busy || v.Wait != 2*time.Minute {
			t.Fatalf("%s for %v, want busy until notBefore", v.Kind, v.Wait)
		}
		time.Sleep(v.Wait)
		c := w.grant(second, task(again)).Claim()
		if c.Fence != 2 || c.Starts != 1 || c.Answered != 1 || c.Released || !c.NotBefore.IsZero() || c.Attempts[0].End != "released" {
			t.Errorf("granted %+v", c)
		}
	})
}

func TestStartsThatWereSurvivedAreGivenBack(t *testing.T) { // C8
	inWorld(t, func(t *testing.T, w *world) {
		d := w.desk("worker-1")
		for round := range 3 * terms.MaxAttempts {
			lease := w.grant(d, task(again))
			if err := lease.Release(t.Context(), time.Time{}, false); err != nil {
				t.Fatal(err)
			}
			lease.Close()
			if c := w.stands().Claim; c.Starts != 0 || c.Answered != 0 || c.Fence != int64(round+1) {
				t.Fatalf("round %d left %+v", round, c)
			}
		}
	})
}

func TestATaskThatKillsItsWorkersEnds(t *testing.T) { // C8
	inWorld(t, func(t *testing.T, w *world) {
		for n := range terms.MaxAttempts {
			w.grant(w.desk(fmt.Sprintf("worker-%d", n)), task(again)).Close() // no word of it: dead
			w.hub.Jump(10 * time.Minute)
		}
		v := w.answer(w.desk("worker-9"), task(again))
		if v.Kind != claim.Over || v.Claim.Failure.Reason != claim.AttemptsExhausted || v.Claim.Starts != terms.MaxAttempts {
			t.Errorf("%s %+v, want it ended", v.Kind, v.Claim)
		}
	})
}

func TestCloseEndsARenewalInFlight(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %t", late), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				d := w.desk("worker-1")
				lease := w.grant(d, task())
				renewal := w.arm(control.Rule{Match: match(nil), Do: "hold", Late: late, Times: 1})
				w.reached(renewal)
				before := w.stands()
				asked := time.Now()
				lease.Close()
				if took := time.Since(asked); took != 0 {
					t.Errorf("it took %v", took)
				}
				lease.Close() // once more is nothing
				if cause := context.Cause(lease.Context()); !errors.Is(cause, claim.ErrLost) {
					t.Errorf("its context ended with %v, want ErrLost", cause)
				}
				for _, write := range writes {
					if err := write.write(t, t.Context(), lease); !errors.Is(err, claim.ErrLost) {
						t.Errorf("%s after Close: %v, want ErrLost", write.says, err)
					}
				}
				w.wantVersion(before)
				if late {
					w.release(renewal, "go") // applied after all: the lease lasts longer, and ends by itself
				}
				w.hub.Jump(10 * time.Minute)
				if c := w.grant(d, task(again)).Claim(); c.Fence != 2 {
					t.Errorf("granted %+v", c)
				}
			})
		})
	}
}

func TestCloseMayBeCalledFromEverywhereAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task())
		var results []func() struct{}
		for range 8 {
			results = append(results, going(func() struct{} { lease.Close(); return struct{}{} }))
		}
		asks := going(func() error { return lease.Ensure(t.Context(), trust) })
		for _, closed := range results {
			closed()
		}
		if err := asks(); err != nil && !errors.Is(err, claim.ErrLost) {
			t.Errorf("an ask at the same moment: %v", err)
		}
		synctest.Wait()
	})
}
