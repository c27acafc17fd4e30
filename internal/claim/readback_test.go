package claim_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

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
			{Do: "drop", Times: 2},
			{Do: "silence", Times: 2},
			{Do: "answer", Status: http.StatusTooManyRequests, Times: 2}, // the SDK's own tries outlast it
			{Do: "answer", Status: http.StatusTooManyRequests, Times: 9}, // they do not
			{Do: "answer", Status: http.StatusServiceUnavailable, Times: 2},
			{Do: "answer", Status: http.StatusGone, Times: 2},
			{Do: "answer", Status: 449, Times: 2},
		} {
			t.Run(fmt.Sprintf("%s/%s %d for %d times", write.says, cut.Do, cut.Status, cut.Times), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					lease := w.grant(w.desk("worker-1"), task())
					time.Sleep(aMinute)
					cut.Match = match(write.body)
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
