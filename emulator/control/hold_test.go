package control

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// ask runs Before or After in a goroutine of the bubble and hands back its
// decision when there is one.
func ask(ctx context.Context, asked func(context.Context, Op) Decision, op Op) <-chan Decision {
	decided := make(chan Decision, 1)
	go func() { decided <- asked(ctx, op) }()
	return decided
}

func mustArm(t *testing.T, h *Hub, r Rule) string {
	t.Helper()
	name, err := h.Arm(r)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// wantNothing fails if a decision has been made once everything is at rest.
func wantNothing(t *testing.T, decided <-chan Decision) {
	t.Helper()
	synctest.Wait()
	select {
	case d := <-decided:
		t.Fatalf("decided %v, want it held", d.Kind)
	default:
	}
}

func wantKind(t *testing.T, decided <-chan Decision, want Kind) Decision {
	t.Helper()
	d := <-decided
	if d.Kind != want {
		t.Fatalf("decided %v, want %v", d.Kind, want)
	}
	return d
}

// wantKinds compares the events so far, each as "kind rule reason".
func wantKinds(t *testing.T, h *Hub, want ...string) {
	t.Helper()
	var got []string
	for _, e := range h.Events(0) {
		text := e.Kind + " " + e.Rule
		if e.Reason != "" {
			text += " " + e.Reason
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("events %q, want %q", got, want)
	}
}

var claimWrite = Op{
	Service: "cosmos", Operation: "replace", Entity: "claims", Client: "worker-1", Key: "82f3",
	Body: []byte(`{"id":"82f3","status":"COMPLETED","fence":1}`),
}

func TestAHoldBlocksItsCallerAndNothingElse(t *testing.T) { // H1, H8
	synctest.Test(t, func(t *testing.T) {
		h := New()
		name := mustArm(t, h, Rule{Match: Match{Key: "82f3"}, Do: "hold"})
		held := ask(t.Context(), h.Before, claimWrite)
		wantNothing(t, held)

		other := claimWrite
		other.Key = "77aa"
		wantKind(t, ask(t.Context(), h.Before, other), Proceed)
		wantKind(t, ask(t.Context(), h.After, claimWrite), Proceed)
		h.Record(Event{Kind: "request"})
		h.Jump(time.Minute)

		if err := h.Release(name, Release{Action: "go"}); err != nil {
			t.Fatal(err)
		}
		wantKind(t, held, Proceed)
		wantKinds(t, h, "rule-reached rule-1", "request ", "rule-released rule-1 go")
	})
}

func TestAReleaseSaysWhatBecomesOfAHeldOperation(t *testing.T) {
	for _, test := range []struct {
		release Release
		want    Decision
	}{
		{Release{Action: "go"}, Decision{}},
		{Release{Action: "drop"}, Decision{Kind: Drop}},
		{
			Release{Action: "answer", Status: 503, Description: "busy", RetryAfter: Duration(2 * time.Second)},
			Decision{Kind: Answer, Status: 503, Description: "busy", RetryAfter: 2 * time.Second},
		},
		{
			Release{Action: "answer", Condition: "com.microsoft:server-busy"},
			Decision{Kind: Answer, Condition: "com.microsoft:server-busy"},
		},
	} {
		t.Run(test.release.Action, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := New()
				name := mustArm(t, h, Rule{Do: "hold"})
				first, second := ask(t.Context(), h.Before, claimWrite), ask(t.Context(), h.Before, claimWrite)
				synctest.Wait()
				if err := h.Release(name, test.release); err != nil {
					t.Fatal(err)
				}
				for _, decided := range []<-chan Decision{first, second} {
					if d := <-decided; d != test.want {
						t.Errorf("decided %+v, want %+v", d, test.want)
					}
				}
			})
		})
	}
}

func TestAnOperationWhosePeerGoesAwayIsNeverApplied(t *testing.T) { // H2
	synctest.Test(t, func(t *testing.T) {
		h := New()
		name := mustArm(t, h, Rule{Do: "hold"})
		peer, die := context.WithCancel(t.Context())
		held := ask(peer, h.Before, claimWrite)
		if _, err := h.WaitReached(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		die()
		if err := h.WaitPeerGone(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		wantKind(t, held, Drop)
		firing, err := h.WaitReached(t.Context(), name)
		if err != nil || !firing.PeerGone || firing.Op.Key != "82f3" {
			t.Errorf("reached by %+v (%v), want key 82f3 with its peer gone", firing, err)
		}
		if state := h.Rules()[0]; state.Held != 0 || !state.Reached || !state.PeerGone {
			t.Errorf("state %+v, want nothing held, reached, peer gone", state)
		}
		// A driver that releases after the death it waited for is right to do so.
		if err := h.Release(name, Release{Action: "drop"}); err != nil {
			t.Error(err)
		}
		wantKinds(t, h, "rule-reached rule-1", "peer-gone rule-1")
	})
}

func TestALateHoldOutlivesItsPeerAndIsThenApplied(t *testing.T) { // H2
	synctest.Test(t, func(t *testing.T) {
		h := New()
		name := mustArm(t, h, Rule{Do: "hold", Late: true})
		peer, die := context.WithCancel(t.Context())
		held := ask(peer, h.Before, claimWrite)
		synctest.Wait()
		die()
		if err := h.WaitPeerGone(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		wantNothing(t, held)
		if err := h.Release(name, Release{Action: "go"}); err != nil {
			t.Fatal(err)
		}
		wantKind(t, held, Proceed)
	})
}

func TestAReleaseThatComesBeforeThePeerIsGoneStands(t *testing.T) { // H2
	for range 50 { // the select is random where both have happened before it: the lock has to decide
		h := New()
		name := mustArm(t, h, Rule{Do: "hold"})
		peer, die := context.WithCancel(t.Context())
		held, _ := h.fire(h.rules[0], claimWrite)
		if err := h.Release(name, Release{Action: "go"}); err != nil {
			t.Fatal(err)
		}
		die()
		if d := h.wait(peer, h.rules[0], held); d.Kind != Proceed {
			t.Fatalf("decided %v, want %v", d.Kind, Proceed)
		}
		wantKinds(t, h, "rule-reached rule-1", "rule-released rule-1 go")
	}
}

func TestAHoldAfterApplyWhosePeerGoesAwaySendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		mustArm(t, h, Rule{Do: "hold", When: "after"})
		wantKind(t, ask(t.Context(), h.Before, claimWrite), Proceed)
		peer, die := context.WithCancel(t.Context())
		held := ask(peer, h.After, claimWrite)
		wantNothing(t, held)
		die()
		wantKind(t, held, Drop)
	})
}

func TestADelayPassesTheOperationOnAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		mustArm(t, h, Rule{Name: "slow", Do: "delay", Delay: Duration(3 * time.Second)})
		mustArm(t, h, Rule{Name: "broken", Do: "answer", Status: 500})
		start := time.Now()
		d := wantKind(t, ask(t.Context(), h.Before, claimWrite), Answer)
		if took := time.Since(start); took != 3*time.Second || d.Status != 500 {
			t.Errorf("status %d after %v, want 500 after 3s", d.Status, took)
		}
	})
}

func TestADelayedOperationWhosePeerGoesAwayIsDroppedUnlessItIsLate(t *testing.T) { // H2
	for _, test := range []struct {
		name string
		late bool
		want Kind
		took time.Duration
	}{
		{"dropped at once", false, Drop, time.Second},
		{"late, applied in its time", true, Proceed, 10 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := New()
				mustArm(t, h, Rule{Do: "delay", Delay: Duration(10 * time.Second), Late: test.late})
				peer, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				wantKind(t, ask(peer, h.Before, claimWrite), test.want)
				if took := time.Since(start); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
			})
		})
	}
}

func TestWaitersSeeWhatHappenedBeforeAndWhatHappensAfter(t *testing.T) { // H3
	synctest.Test(t, func(t *testing.T) {
		h := New()
		name := mustArm(t, h, Rule{Do: "hold"})
		reached := make(chan Firing, 2)
		wait := func() {
			firing, err := h.WaitReached(t.Context(), name)
			if err != nil {
				t.Error(err)
			}
			reached <- firing
		}
		go wait() // begins before it happens
		synctest.Wait()
		held := ask(t.Context(), h.Before, claimWrite)
		<-reached
		go wait() // begins after it happened
		<-reached

		if err := h.Release(name, Release{Action: "go"}); err != nil {
			t.Fatal(err)
		}
		wantKind(t, held, Proceed)
		go wait() // of the next firing, since the last one was released
		synctest.Wait()
		if len(reached) != 0 {
			t.Fatal("a released firing counts as reached")
		}
		held = ask(t.Context(), h.Before, claimWrite)
		<-reached
		if err := h.Disarm(name); err != nil {
			t.Fatal(err)
		}
		wantKind(t, held, Proceed)
	})
}

func TestWaitingEndsWithTheContextTheRuleOrTheHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		name := mustArm(t, h, Rule{Do: "hold"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := h.WaitReached(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after a minute: %v, want a deadline exceeded", err)
		}
		if err := h.WaitPeerGone(t.Context(), "another"); !errors.Is(err, ErrNoRule) {
			t.Errorf("an unknown rule: %v, want ErrNoRule", err)
		}
		waits := make(chan error, 1)
		go func() { waits <- h.WaitPeerGone(t.Context(), name) }()
		synctest.Wait()
		if err := h.Disarm(name); err != nil {
			t.Fatal(err)
		}
		if err := <-waits; !errors.Is(err, ErrNoRule) {
			t.Errorf("a disarmed rule: %v, want ErrNoRule", err)
		}
		name = mustArm(t, h, Rule{Do: "hold"})
		go func() { waits <- h.WaitPeerGone(t.Context(), name) }()
		synctest.Wait()
		h.Close()
		h.Close()
		if err := <-waits; !errors.Is(err, ErrClosed) {
			t.Errorf("a closed hub: %v, want ErrClosed", err)
		}
	})
}

func TestAClosedHubDropsWhatItHoldsAndWhatItWouldHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		mustArm(t, h, Rule{Do: "hold", Late: true})
		peer, die := context.WithCancel(t.Context())
		held := ask(peer, h.Before, claimWrite)
		die()
		wantNothing(t, held)
		h.Close()
		wantKind(t, held, Drop)
		wantKind(t, ask(t.Context(), h.Before, claimWrite), Drop)
		if _, err := h.Arm(Rule{Do: "hold"}); !errors.Is(err, ErrClosed) {
			t.Errorf("arming: %v, want ErrClosed", err)
		}
	})
}

func TestNothingOfAnIsolatedClientGetsThrough(t *testing.T) { // H5
	synctest.Test(t, func(t *testing.T) {
		h := New()
		name := mustArm(t, h, Rule{Match: Match{Operation: "replace"}, Do: "hold"})
		held := ask(t.Context(), h.Before, claimWrite)
		wantNothing(t, held)
		isolated := h.IsolatedC("worker-1")

		h.Isolate("worker-1")
		h.Isolate("worker-1")
		<-isolated
		wantKind(t, held, Silence)
		if err := h.WaitPeerGone(t.Context(), name); err != nil {
			t.Error(err)
		}
		wantKind(t, ask(t.Context(), h.Before, claimWrite), Silence)
		wantKind(t, ask(t.Context(), h.After, claimWrite), Silence)
		if !h.Isolated("worker-1") || h.Isolated("worker-2") {
			t.Errorf("isolated: worker-1 %v, worker-2 %v", h.Isolated("worker-1"), h.Isolated("worker-2"))
		}
		other := Op{Service: "cosmos", Operation: "read", Client: "worker-2"}
		wantKind(t, ask(t.Context(), h.Before, other), Proceed)
		if state := h.Rules()[0]; state.Matched != 1 {
			t.Errorf("%d operations counted, want 1: those of the dead do not count", state.Matched)
		}

		h.Rejoin("worker-1")
		if h.Isolated("worker-1") {
			t.Error("still isolated after Rejoin")
		}
		select {
		case <-h.IsolatedC("worker-1"):
			t.Error("the channel of a client that has rejoined is closed")
		default:
		}
		wantKind(t, ask(t.Context(), h.After, claimWrite), Proceed)
	})
}

func TestALateHoldOfAnIsolatedClientIsAppliedOnRelease(t *testing.T) { // H2, H5
	synctest.Test(t, func(t *testing.T) {
		h := New()
		name := mustArm(t, h, Rule{Do: "hold", Late: true})
		held := ask(t.Context(), h.Before, claimWrite)
		synctest.Wait()
		h.Isolate("worker-1")
		wantNothing(t, held)
		if err := h.Release(name, Release{Action: "go"}); err != nil {
			t.Fatal(err)
		}
		wantKind(t, held, Proceed)
		wantKind(t, ask(t.Context(), h.After, claimWrite), Silence)
	})
}
