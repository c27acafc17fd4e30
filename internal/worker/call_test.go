package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

// starting is the write that says that a keyless call starts.
var starting = control.Match{Operation: "replace", Body: map[string]any{"/callStarted": true, "/status": "IN_PROGRESS"}}

func TestAKeylessCallIsMadeOnlyAfterTheClaimSaysSo(t *testing.T) { // W1
	inBubble(t, func(t *testing.T, b *bench) {
		b.keyless()
		b.answer = func(_ context.Context, c message.Call) message.Outcome {
			if stands := b.stands(); !stands.CallStarted || stands.Keyed {
				t.Errorf("during the call the claim says callStarted %t, keyed %t", stands.CallStarted, stands.Keyed)
			}
			if c.Key != "" {
				t.Errorf("a key %q for a downstream that honours none", c.Key)
			}
			return message.Outcome{Effect: message.EffectApplied}
		}
		if s := b.deliver(t.Context(), 1); s.Action != message.Complete || len(b.calls) != 1 {
			t.Errorf("%s after %d calls", s.Action, len(b.calls))
		}
	})
}

// Whatever becomes of that write, one call is made, or none and the next delivery
// makes it.
func TestALostAnswerToCallStartedCostsNoEffectAndNoSecondCall(t *testing.T) { // W1 C9
	for _, fault := range []control.Rule{
		{When: "before", Do: "drop", Times: 1},
		{When: "after", Do: "drop", Times: 1},
		{When: "before", Do: "answer", Status: http.StatusServiceUnavailable, Times: 1},
		{When: "after", Do: "answer", Status: http.StatusRequestTimeout, Times: 1},
	} {
		t.Run(fmt.Sprintf("%s %s %d", fault.When, fault.Do, fault.Status), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.keyless()
				fault.Match = starting
				b.arm(fault)
				s := b.deliver(t.Context(), 1)
				for count := 2; s.Action == message.CopyLater && count < 5; count++ {
					time.Sleep(s.Delay)
					s = b.deliver(t.Context(), count)
				}
				if s.Action != message.Complete || len(b.calls) != 1 {
					t.Errorf("%s after %d calls, want complete after 1", s.Action, len(b.calls))
				}
			})
		})
	}
}

// The store refuses to write that a call starts, and goes on refusing: while the
// lease stands as well as after it, no call is made.
func TestACallThatCannotBeAnnouncedIsNotMade(t *testing.T) { // W1
	inBubble(t, func(t *testing.T, b *bench) {
		b.keyless()
		b.arm(control.Rule{Match: starting, Do: "answer", Status: http.StatusForbidden})
		if s := b.deliver(t.Context(), 1); s.Action != message.CopyLater || len(b.calls) > 0 {
			t.Errorf("%s after %d calls, want it put off and none", s.Action, len(b.calls))
		}
	})
}

// Cancelled between "call started" and the call: nothing was called, and the claim
// goes back so that the next delivery calls.
func TestAKeylessCallThatIsNotMadeAfterAllIsMadeLater(t *testing.T) { // W1
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("withdrawal lost %t", lost), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.keyless()
				ctx, stop := context.WithCancelCause(t.Context())
				b.afterWrite(func(c claim.Claim) {
					if c.CallStarted {
						stop(errors.New("stopping"))
					}
				})
				if lost {
					b.arm(control.Rule{Name: "withdrawal", Match: control.Match{Operation: "replace", Body: map[string]any{"/callStarted": false, "/released": false}}, Do: "drop"})
				}
				s := b.deliver(ctx, 1)
				if s.Action != message.CopyLater || len(b.calls) > 0 {
					t.Fatalf("%s %s after %d calls, want it put off and none", s.Action, s.Reason, len(b.calls))
				}
				if stands := b.stands(); stands.CallStarted || !stands.Released || stands.Starts != 0 {
					t.Errorf("callStarted %t, released %t, starts %d, want it given back", stands.CallStarted, stands.Released, stands.Starts)
				}
				if lost {
					if err := b.hub.Disarm("withdrawal"); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(s.Delay)
				if s := b.deliver(t.Context(), 2); s.Action != message.Complete || len(b.calls) != 1 {
					t.Errorf("%s after %d calls, want complete after 1", s.Action, len(b.calls))
				}
			})
		})
	}
}

// A rolling deploy that adds a key: the claim began without one, and may yet pass
// to a worker that knows of none, whose call would be a second effect. So a call
// under it is made once, as if there were no key.
func TestAClaimThatBeganKeylessKeepsItsRules(t *testing.T) { // W1 W2
	inBubble(t, func(t *testing.T, b *bench) {
		b.keyless()
		ctx, stop := context.WithCancelCause(t.Context())
		b.afterWrite(func(claim.Claim) { stop(errors.New("stopping")) }) // given back before any call
		s := b.deliver(ctx, 1)
		if s.Action != message.CopyLater {
			t.Fatalf("%s, want it put off", s.Action)
		}
		time.Sleep(s.Delay)

		b.declared.Keyed, b.declared.KeyWindow, b.declared.Attempts = true, 24*time.Hour, 8
		b.answer = func(_ context.Context, c message.Call) message.Outcome {
			if c.Key != "82f3" {
				t.Errorf("called with key %q, the handler declares one", c.Key)
			}
			if !b.stands().CallStarted {
				t.Error("called, and the claim does not say so")
			}
			return message.Outcome{Effect: message.EffectUnknown, Retry: true, Description: "reset"}
		}
		if s := b.deliver(t.Context(), 2); s.Action != message.DeadLetter || s.Reason != claim.OutcomeUnknown {
			t.Errorf("%s %s, want it dead-lettered as %s", s.Action, s.Reason, claim.OutcomeUnknown)
		}

		b.keyless() // the old worker again
		if s := b.deliver(t.Context(), 3); s.Action != message.DeadLetter || len(b.calls) != 1 {
			t.Errorf("%s after %d calls, want it dead-lettered after 1", s.Action, len(b.calls))
		}
	})
}

// A call may have been made in the first run. An operator's replay makes a second
// only with the assertion that there was none; by mistake without it, none.
func TestAReplayCallsAgainWithoutAKeyOnlyIfSomebodyVouches(t *testing.T) { // W1
	for _, asserted := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *bench) {
			b.keyless()
			b.answer = func(context.Context, message.Call) message.Outcome {
				return message.Outcome{Effect: message.EffectUnknown}
			}
			b.deliver(t.Context(), 1)
			b.answer = func(context.Context, message.Call) message.Outcome {
				return message.Outcome{Effect: message.EffectApplied}
			}
			s := b.deliverTask(t.Context(), message.Task{
				ExecutionID: "82f3", Run: 2, Type: "t", Payload: jsontext.Value(`{}`), Asserted: asserted,
				Deadline: time.Now().Add(time.Hour), NotAfter: time.Now().Add(time.Hour),
			}, 1)
			if asserted && (s.Action != message.Complete || len(b.calls) != 2) {
				t.Errorf("asserted: %s %s after %d calls, want complete after 2", s.Action, s.Reason, len(b.calls))
			}
			if !asserted && (s.Action != message.DeadLetter || s.Reason != claim.OutcomeUnknown || len(b.calls) != 1 || b.stands().Run != 2) {
				t.Errorf("not asserted: %s %s after %d calls, want it dead-lettered after 1", s.Action, s.Reason, len(b.calls))
			}
		})
	}
}

// What a handler says of retrying counts for nothing where no key is honoured.
func TestTheFirstFailureOfAKeylessHandlerIsFinal(t *testing.T) { // W1 D1
	for _, test := range []struct {
		outcome message.Outcome
		reason  string
		effect  string
	}{
		{message.Outcome{Effect: message.EffectNotApplied, Retry: true, Free: true}, claim.DownstreamRejected, claim.EffectNone},
		{message.Outcome{Effect: message.EffectUnknown, Retry: true}, claim.OutcomeUnknown, claim.EffectUnknown},
		{message.Outcome{}, claim.OutcomeUnknown, claim.EffectUnknown},
	} {
		t.Run(test.outcome.Effect.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.keyless()
				b.answer = func(context.Context, message.Call) message.Outcome { return test.outcome }
				s := b.deliver(t.Context(), 1)
				if s.Action != message.DeadLetter || s.Reason != test.reason || len(b.calls) != 1 {
					t.Errorf("%s %s after %d calls, want it dead-lettered as %s after 1", s.Action, s.Reason, len(b.calls), test.reason)
				}
				if f := b.stands().Failure; f == nil || f.Outcome != test.effect {
					t.Errorf("the claim says %+v, want outcome %s", f, test.effect)
				}
				if len(b.published) != 1 || b.published[0].ID != "82f3/failed/1" {
					t.Errorf("published %v", b.published)
				}
			})
		})
	}
}

// The window would end during the very first call.
func TestACallThatOutlastsTheKeyWindowIsNotMade(t *testing.T) { // W2
	inBubble(t, func(t *testing.T, b *bench) {
		b.declared.KeyWindow = b.KeyMargin + b.declared.Timeout
		if s := b.deliver(t.Context(), 1); s.Action != message.DeadLetter || s.Reason != claim.KeyWindowPassed || len(b.calls) > 0 {
			t.Errorf("%s %s after %d calls, want it dead-lettered as %s after none", s.Action, s.Reason, len(b.calls), claim.KeyWindowPassed)
		}
	})
}

// The window ends during the wait for the next try: no call can be sure of it any more.
func TestNoKeyedCallIsMadeThatTheDownstreamMayNotRecognise(t *testing.T) { // W2
	inBubble(t, func(t *testing.T, b *bench) {
		b.declared.KeyWindow = time.Hour
		b.answer = func(context.Context, message.Call) message.Outcome {
			return message.Outcome{Effect: message.EffectUnknown, Retry: true, Free: true}
		}
		begun := time.Now()
		s := b.deliver(t.Context(), 1)
		for count := 2; s.Action == message.CopyLater && count < 1000; count++ {
			time.Sleep(s.Delay)
			s = b.deliver(t.Context(), count)
		}
		if s.Action != message.DeadLetter || s.Reason != claim.KeyWindowPassed {
			t.Errorf("%s %s, want it dead-lettered as %s", s.Action, s.Reason, claim.KeyWindowPassed)
		}
		if took := time.Since(begun); took < 30*time.Minute || took > time.Hour {
			t.Errorf("it ended after %v, want a moment before the window and its margin", took)
		}
	})
}

// The downstream asks for more time than it remembers the key for. It is asked once
// more while it does.
func TestRetryAfterIsObeyedWithinTheKeyWindow(t *testing.T) { // W2
	inBubble(t, func(t *testing.T, b *bench) {
		b.declared.KeyWindow = time.Hour
		b.answer = func(context.Context, message.Call) message.Outcome {
			return message.Outcome{Effect: message.EffectUnknown, Retry: true, Free: true, After: 2 * time.Hour}
		}
		s := b.deliver(t.Context(), 1)
		if s.Action != message.CopyLater || s.Delay < 40*time.Minute || s.Delay > 45*time.Minute {
			t.Fatalf("%s after %v, want it put off to the end of the window less its margin of a quarter of an hour", s.Action, s.Delay)
		}
		time.Sleep(s.Delay)
		b.answer = func(context.Context, message.Call) message.Outcome {
			return message.Outcome{Effect: message.EffectApplied}
		}
		if s := b.deliver(t.Context(), 2); s.Action != message.Complete {
			t.Errorf("%s %s, want it completed by the last call", s.Action, s.Reason)
		}
	})
}
