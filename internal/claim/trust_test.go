package claim_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
)

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

// A store that refuses a renewal is not asked again at once: the next one is an eighth of
// a period away.
func TestARefusedRenewalIsNotRepeatedAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d := w.desk("worker-1")
		var refused []time.Time
		d.Renewed = func(context.Context, error) { refused = append(refused, time.Now()) }
		lease := w.grant(d, task())
		w.arm(control.Rule{Match: control.Match{Client: "worker-1", Operation: "replace"}, Do: "answer", Status: http.StatusForbidden})
		<-lease.Context().Done()
		lease.Close()
		if len(refused) < 2 {
			t.Errorf("%d renewals, want it tried again", len(refused))
		}
		const eighth = 100 * time.Second / 8
		for i := range refused[min(1, len(refused)):] {
			if after := refused[i+1].Sub(refused[i]); after < eighth {
				t.Errorf("renewal %d comes %v after the one before it, want %v at least", i+2, after, eighth)
			}
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
