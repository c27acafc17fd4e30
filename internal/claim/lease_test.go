package claim_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
			f := claim.Failure{Reason: claim.PermanentFailure, Description: "422", Outcome: claim.EffectNone}
			v, err := l.Fail(ctx, f)
			if err == nil && (v.Kind != claim.Over || *v.Claim.Failure != f) {
				t.Errorf("failed with %s %+v", v.Kind, v.Claim.Failure)
			}
			return err
		},
		func(c claim.Claim) bool {
			return c.Status == claim.Failed && c.Failure.Reason == claim.PermanentFailure && c.Result == nil && c.Attempts[len(c.Attempts)-1].End == "failed: PermanentFailure"
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
			if _, err := owner.Fail(t.Context(), claim.Failure{Reason: claim.PermanentFailure}); err != nil {
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

// match is the rule's half that finds a write of worker-1.
func match(body map[string]any) control.Match {
	return control.Match{Operation: "replace", Client: "worker-1", Body: body}
}

func TestAWriteWhoseAnswerIsLostIsRecognisedByItsNonce(t *testing.T) { // C9
	for _, write := range writes {
		for _, lost := range []control.Rule{
			{When: "after", Do: "drop"},
			{When: "after", Do: "silence"},
			{When: "after", Do: "answer", Status: http.StatusServiceUnavailable},
		} {
			t.Run(write.says+"/"+lost.Do, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					lease := w.grant(w.desk("worker-1"), task())
					time.Sleep(aMinute)
					lost.Match, lost.Times = match(write.body), 1
					w.arm(lost)
					w.forget()
					sent := time.Now()
					if err := write.write(t, t.Context(), lease); err != nil {
						t.Fatal(err)
					}
					requests := w.requests("worker-1")
					if requests[0] != "replace 200" || requests[len(requests)-1] != "read 200" || strings.Count(strings.Join(requests, " "), "replace") != 1 {
						t.Errorf("sent %q, want one write, read back", requests)
					}
					if c := w.stands().Claim; !write.stands(c) || c.W != lease.Claim().W {
						t.Errorf("it left %+v", c)
					}
					if left, want := lease.Left(), trust-time.Since(sent); left != want {
						t.Errorf("trusted for %v, want %v: since it was sent", left, want) // C5
					}
				})
			})
		}
	}
}

func TestAWriteThatWasNotAppliedIsSentAgain(t *testing.T) { // C9
	for _, write := range writes {
		for _, cut := range []control.Rule{
			{Do: "drop"},
			{Do: "silence"},
			{Do: "answer", Status: http.StatusTooManyRequests},
			{Do: "answer", Status: http.StatusServiceUnavailable},
			{Do: "answer", Status: 449},
		} {
			t.Run(fmt.Sprintf("%s/%s %d", write.says, cut.Do, cut.Status), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					lease := w.grant(w.desk("worker-1"), task())
					time.Sleep(aMinute)
					cut.Match, cut.Times = match(write.body), 2
					w.arm(cut)
					if err := write.write(t, t.Context(), lease); err != nil {
						t.Fatal(err)
					}
					if c := w.stands().Claim; !write.stands(c) || c.W != lease.Claim().W {
						t.Errorf("it left %+v", c)
					}
				})
			})
		}
	}
}

// A write that was given up may still be applied, before the second one or
// after it. Either way it counts once.
func TestAWriteThatLandsLateIsNeverMistaken(t *testing.T) { // C9
	for _, write := range writes {
		for _, landing := range []string{"before the second", "after the second"} {
			t.Run(write.says+"/"+landing, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					lease := w.grant(w.desk("worker-1"), task())
					time.Sleep(aMinute)
					late := w.arm(control.Rule{Match: match(write.body), Do: "hold", Late: true, Times: 1})
					second := w.arm(control.Rule{Match: match(write.body), Do: "hold", Times: 1})
					sent := time.Now()
					wait := going(func() error { return write.write(t, t.Context(), lease) })
					w.reached(second) // the first was given up, and read back in vain
					again := time.Now()
					w.forget()
					if landing == "before the second" {
						w.release(late, "go")
						w.release(second, "go")
					} else {
						w.release(second, "go")
						w.release(late, "go")
						sent = again
					}
					if err := wait(); err != nil {
						t.Fatal(err)
					}
					if c := w.stands().Claim; !write.stands(c) || c.Fence != 1 || c.W != lease.Claim().W {
						t.Errorf("it left %+v\nthe lease holds %+v", c, lease.Claim())
					}
					if left, want := lease.Left(), trust-time.Since(sent); left != want {
						t.Errorf("trusted for %v, want %v: since the one that was applied was sent", left, want) // C5
					}
					requests := w.requests("worker-1")
					if strings.Count(strings.Join(requests, " "), "replace 200") != 1 {
						t.Errorf("sent %q, want one write applied", requests)
					}
				})
			})
		}
	}
}

// A write that its caller gave up lands while the next one is on its way.
func TestAWriteThatLandsDuringTheNextOneIsNeverMistaken(t *testing.T) { // C9
	for _, first := range writes[:2] { // the others are the last of their lease
		for _, next := range writes {
			t.Run(first.says+"/"+next.says, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					lease := w.grant(w.desk("worker-1"), task())
					time.Sleep(aMinute)
					late := w.arm(control.Rule{Match: match(nil), Do: "hold", Late: true, Times: 1})
					second := w.arm(control.Rule{Match: match(nil), Do: "hold", Times: 1})
					ctx, cancel := context.WithCancel(t.Context())
					given := going(func() error { return first.write(t, ctx, lease) })
					w.reached(late)
					cancel()
					if err := given(); !errors.Is(err, context.Canceled) {
						t.Fatalf("the first: %v, want it given up", err)
					}
					wait := going(func() error { return next.write(t, t.Context(), lease) })
					w.reached(second)
					w.release(late, "go")
					w.release(second, "go")
					if err := wait(); err != nil {
						t.Fatal(err)
					}
					stands := next.stands(w.stands().Claim)
					if first.says == "record that the call starts" && next.says == "renew" {
						stands = w.stands().Claim.CallStarted // a renewal takes nothing back
					}
					if c := w.stands().Claim; !stands || c.W != lease.Claim().W || c.Fence != 1 {
						t.Errorf("it left %+v\nthe lease holds %+v", c, lease.Claim())
					}
				})
			})
		}
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
		if fmt.Sprintf("%+v", last) != fmt.Sprintf("%+v", first) {
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

func TestTrustEndsBeforeAnyoneElseMayTakeTheClaim(t *testing.T) { // C5
	for says, fault := range map[string]control.Rule{
		"the store is silent":         {Do: "silence"},
		"the connection breaks":       {Do: "drop"},
		"the store is overloaded":     {Do: "answer", Status: http.StatusServiceUnavailable},
		"the store throttles":         {Do: "answer", Status: http.StatusTooManyRequests},
		"only its writes are refused": {Do: "answer", Status: http.StatusForbidden, Match: control.Match{Operation: "replace"}},
	} {
		t.Run(says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				asked := time.Now()
				lease := w.grant(w.desk("worker-1"), task())
				fault.Match.Client = "worker-1"
				w.arm(fault)
				<-lease.Context().Done()
				if lost := time.Since(asked); lost != trust {
					t.Errorf("trust ended after %v, want %v", lost, trust)
				}
				if cause := context.Cause(lease.Context()); !errors.Is(cause, claim.ErrLost) || errors.Is(cause, claim.ErrFenced) {
					t.Errorf("it ended with %v, want ErrLost", cause)
				}
				if left := lease.Left(); left != 0 {
					t.Errorf("%v left", left)
				}
				second := w.desk("worker-2")
				v := w.answer(second, task(again))
				if v.Kind != claim.Busy {
					t.Fatalf("%s the moment that trust ended, want busy", v.Kind)
				}
				time.Sleep(v.Wait)
				if c := w.grant(second, task(again)).Claim(); c.Fence != 2 {
					t.Errorf("granted %+v", c)
				}
			})
		})
	}
}

func TestTrustIsCountedFromBeforeTheRequestWasSent(t *testing.T) { // C5
	const slow = 8 * time.Second
	for _, when := range []string{"before", "after"} {
		for _, write := range []string{"create", "replace"} {
			t.Run(write+" is slow "+when, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					w.arm(control.Rule{Match: control.Match{Client: "worker-1", Operation: write}, When: when, Do: "delay", Delay: control.Duration(slow)})
					sent := time.Now()
					lease := w.grant(w.desk("worker-1"), task())
					if write == "replace" {
						time.Sleep(100*time.Second + slow + time.Second) // one renewal
						sent = sent.Add(100 * time.Second)
					}
					if left, want := lease.Left(), trust-time.Since(sent); left != want {
						t.Errorf("%v left, want %v", left, want)
					}
					w.hub.Isolate("worker-1")
					<-lease.Context().Done()
					if lost := time.Since(sent); lost != trust {
						t.Errorf("trust ended %v after the request was sent, want %v", lost, trust)
					}
				})
			})
		}
	}
}

func TestAFailedRenewalIsMadeUpFor(t *testing.T) { // C5
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task())
		rule := w.arm(control.Rule{Match: control.Match{Client: "worker-1"}, Do: "silence"})
		time.Sleep(250 * time.Second)
		w.disarm(rule)
		time.Sleep(30 * time.Second)
		if err := context.Cause(lease.Context()); err != nil || lease.Left() < 250*time.Second {
			t.Errorf("%v left, %v, want it renewed", lease.Left(), err)
		}
	})
}

// Trust that has ended is never regained, although nobody has taken over: the
// caller was told.
func TestTrustThatHasEndedIsNotRegained(t *testing.T) { // C5
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task())
		rule := w.arm(control.Rule{Match: control.Match{Client: "worker-1"}, Do: "drop"})
		<-lease.Context().Done()
		w.disarm(rule)
		before := w.stands()
		w.forget()
		if err := lease.Ensure(t.Context(), time.Second); !errors.Is(err, claim.ErrLost) {
			t.Errorf("ensure: %v, want ErrLost", err)
		}
		if err := lease.CallStarting(t.Context()); !errors.Is(err, claim.ErrLost) {
			t.Errorf("call starting: %v, want ErrLost", err)
		}
		time.Sleep(time.Hour)
		w.wantRequests("worker-1")
		w.wantVersion(before)
	})
}

// A result is worth storing for as long as nobody else has begun.
func TestWhatWasDoneInTimeMayBeStoredLate(t *testing.T) { // C4, C5
	for _, write := range writes[2:] {
		t.Run(write.says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				lease := w.grant(w.desk("worker-1"), task())
				rule := w.arm(control.Rule{Match: control.Match{Client: "worker-1"}, Do: "drop"})
				<-lease.Context().Done()
				w.disarm(rule)
				if err := write.write(t, t.Context(), lease); err != nil {
					t.Fatal(err)
				}
				if c := w.stands().Claim; !write.stands(c) {
					t.Errorf("it left %+v", c)
				}
			})
		})
	}
}

func TestEnsure(t *testing.T) { // C5
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task())
		time.Sleep(50 * time.Second)
		w.forget()
		if err := lease.Ensure(t.Context(), 240*time.Second); err != nil {
			t.Errorf("as much as is left: %v", err)
		}
		w.wantRequests("worker-1")
		if err := lease.Ensure(t.Context(), 241*time.Second); err != nil || lease.Left() != trust {
			t.Errorf("a second more: %v, %v left, want it renewed", err, lease.Left())
		}
		w.wantRequests("worker-1", "replace 200")
		if err := lease.Ensure(t.Context(), trust+1); !errors.Is(err, claim.ErrLost) {
			t.Errorf("more than a lease gives: %v, want ErrLost", err)
		}
	})
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

// The answer to CallStarting was lost, so no call was made, and Release says so.
func TestAReleaseTakesBackACallThatWasNeverProved(t *testing.T) { // C9
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task(withoutKey))
		held := w.arm(control.Rule{Match: match(map[string]any{"/callStarted": true}), When: "after", Do: "hold", Times: 1})
		ctx, cancel := context.WithCancel(t.Context())
		wait := going(func() error { return lease.CallStarting(ctx) })
		w.reached(held)
		cancel()
		if err := wait(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context(), time.Time{}, false); err != nil {
			t.Fatal(err)
		}
		lease.Close()
		c := w.grant(w.desk("worker-2"), task(withoutKey, again)).Claim()
		if c.Fence != 2 || c.CallStarted || c.Starts != 1 {
			t.Errorf("granted %+v", c)
		}
	})
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

func TestAWriteWaitsForTheRenewalInFlight(t *testing.T) { // C9
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task())
		renewal := w.arm(control.Rule{Match: match(map[string]any{"/status": "IN_PROGRESS"}), Do: "hold", Times: 1})
		w.reached(renewal)
		w.forget()
		wait := going(func() error {
			_, err := lease.Complete(t.Context(), done(t))
			return err
		})
		time.Sleep(5 * time.Second)
		w.wantRequests("worker-1")
		w.release(renewal, "go")
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		w.wantRequests("worker-1", "replace 200", "replace 200")
		if c := w.stands().Claim; c.Status != claim.Completed {
			t.Errorf("it left %+v", c)
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

func TestManyWritesAtOnceOvertakeNoOther(t *testing.T) { // C4, C9
	inWorld(t, func(t *testing.T, w *world) {
		lease := w.grant(w.desk("worker-1"), task(withoutKey))
		w.arm(control.Rule{Match: match(nil), When: "after", Do: "drop", Probability: 0.3, Seed: 7})
		w.arm(control.Rule{Match: match(nil), Do: "drop", Probability: 0.3, Seed: 11})
		var results []func() error
		for range 20 {
			results = append(results, going(func() error { return lease.CallWithdrawn(t.Context()) }))
		}
		for _, result := range results {
			if err := result(); err != nil {
				t.Error(err)
			}
		}
		if c := w.stands().Claim; c.W != lease.Claim().W || c.Fence != 1 || c.Starts != 1 {
			t.Errorf("it left %+v\nthe lease holds %+v", c, lease.Claim())
		}
	})
}

func TestAWriteGivesUpWithItsCaller(t *testing.T) { // C9
	for _, write := range writes {
		t.Run(write.says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				lease := w.grant(w.desk("worker-1"), task())
				time.Sleep(aMinute)
				w.arm(control.Rule{Match: control.Match{Client: "worker-1"}, Do: "silence"})
				stopping := errors.New("stopping")
				ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, stopping)
				defer cancel()
				begun := time.Now()
				if err := write.write(t, ctx, lease); !errors.Is(err, stopping) {
					t.Errorf("%v, want the cause of its context", err)
				}
				if took := time.Since(begun); took != 30*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// What is worth doing only while the lease stands ends with it.
func TestACallIsNotWaitedForLongerThanTheLeaseIsTrusted(t *testing.T) { // C5
	for _, write := range writes[:2] {
		t.Run(write.says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				asked := time.Now()
				lease := w.grant(w.desk("worker-1"), task())
				time.Sleep(aMinute)
				w.arm(control.Rule{Match: control.Match{Client: "worker-1"}, Do: "silence"})
				if err := write.write(t, t.Context(), lease); !errors.Is(err, claim.ErrLost) {
					t.Errorf("%v, want ErrLost", err)
				}
				if ended := time.Since(asked); ended != trust {
					t.Errorf("it ended after %v, want %v", ended, trust)
				}
			})
		})
	}
}

func TestAWriteThatTheStoreRefusesIsNotTriedAgain(t *testing.T) {
	for _, write := range writes {
		t.Run(write.says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				lease := w.grant(w.desk("worker-1"), task())
				time.Sleep(aMinute)
				before := w.stands()
				w.arm(control.Rule{Match: match(write.body), Do: "answer", Status: http.StatusRequestEntityTooLarge})
				w.forget()
				if err := write.write(t, t.Context(), lease); !errors.Is(err, message.ErrRefused) || errors.Is(err, claim.ErrLost) {
					t.Errorf("%v, want it refused", err)
				}
				w.wantRequests("worker-1", "replace 413")
				w.wantVersion(before)
				if lease.Context().Err() != nil {
					t.Error("the lease is lost, although nobody else has it")
				}
			})
		})
	}
}

func TestAWriteIsTriedForNoLongerThanALease(t *testing.T) { // C9
	for _, write := range writes {
		t.Run(write.says, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				lease := w.grant(w.desk("worker-1"), task())
				time.Sleep(aMinute)
				w.arm(control.Rule{Match: control.Match{Client: "worker-1"}, Do: "drop"})
				begun := time.Now()
				if err := write.write(t, context.WithoutCancel(t.Context()), lease); err == nil {
					t.Error("it was written, it says")
				}
				if took := time.Since(begun); took > 300*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
