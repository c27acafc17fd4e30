package worker

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

// What the topic did not take is told again by the next delivery, from the claim.
func TestAnEventThatIsNotTakenIsToldByTheNextDelivery(t *testing.T) { // D1
	for _, test := range []struct {
		what    string
		outcome message.Outcome
		event   string
		end     message.Action
	}{
		{"completion", message.Outcome{Effect: message.EffectApplied}, "82f3/completed", message.Complete},
		{"failure", message.Outcome{Effect: message.EffectNotApplied, Description: "422"}, "82f3/failed/1", message.DeadLetter},
	} {
		t.Run(test.what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.answer = func(context.Context, message.Call) message.Outcome { return test.outcome }
				publish := b.Publish
				b.Publish = func(context.Context, message.Message) error { return message.ErrUnknown }
				begun := time.Now()
				s := b.deliver(t.Context(), 1)
				if took := time.Since(begun); s.Action != message.CopyLater || took > b.PublishTimeout+time.Second {
					t.Errorf("%s after %v, want it put off after the budget of %v", s.Action, took, b.PublishTimeout)
				}
				b.Publish = publish
				if s := b.deliver(t.Context(), 2); s.Action != test.end || len(b.calls) != 1 {
					t.Errorf("%s after %d calls, want %s after 1", s.Action, len(b.calls), test.end)
				}
				if len(b.published) != 1 || b.published[0].ID != test.event {
					t.Errorf("published %v, want %s", b.published, test.event)
				}
			})
		})
	}
}

// The process stops while the downstream works: the call is cancelled, the claim
// given back, and the next delivery calls again under the same key.
func TestAStopGivesTheClaimBack(t *testing.T) { // C8 W3
	inBothWays(t, func(t *testing.T, b *bench) {
		ctx, stop := context.WithCancelCause(t.Context())
		stopping := errors.New("stopping")
		answer := b.answer
		b.answer = func(ctx context.Context, _ message.Call) message.Outcome {
			stop(stopping)
			<-ctx.Done()
			return message.Outcome{Effect: message.EffectUnknown, Retry: true, Description: context.Cause(ctx).Error()}
		}
		begun := time.Now()
		s := b.deliver(ctx, 1)
		if took := time.Since(begun); took >= b.declared.Timeout {
			t.Errorf("it took %v, want the call to end when the process stops", took)
		}
		c := b.stands()
		if s.Action != message.CopyLater || !c.Released || c.Starts != 0 || c.Answered != 1 {
			t.Errorf("%s; released %t, starts %d, answered %d, want it put off, given back, and one answer lost", s.Action, c.Released, c.Starts, c.Answered)
		}
		b.answer = answer
		time.Sleep(s.Delay)
		if s := b.deliver(t.Context(), 2); s.Action != message.Complete || b.calls[0].Key != b.calls[1].Key {
			t.Errorf("%s, called with keys %q and %q", s.Action, b.calls[0].Key, b.calls[1].Key)
		}
	})
}

// Another takes the claim over during the call: the call is told to end, what it
// brought is not recorded, and the message waits for what the other one does.
func TestACallEndsWithItsLeaseAndItsResultDoesNotCount(t *testing.T) { // C4 C5 W2
	inBothWays(t, func(t *testing.T, b *bench) {
		fingerprint, err := claim.Fingerprint("t", jsontext.Value(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		other := &claim.Desk{Store: b.Claims.Store, Process: "worker-2/77aa", Timeout: storeTimeout, Terms: b.Claims.Terms}
		var theirs *claim.Lease
		b.declared.Timeout = 4 * time.Minute
		b.answer = func(ctx context.Context, _ message.Call) message.Outcome {
			b.hub.Jump(10 * time.Minute) // to the store this owner is silent
			if theirs, _, err = other.Take(ctx, claim.Ask{
				ID: "82f3", TaskType: "t", Fingerprint: fingerprint, Run: 1, Keyed: true, KeyWindow: 24 * time.Hour,
				NotAfter: time.Now().Add(time.Hour), Now: time.Now, ReadFirst: true,
			}); err != nil || theirs == nil {
				t.Fatalf("worker 2 is not granted the claim: %v", err)
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), claim.ErrLost) {
				t.Errorf("the call ends with %v, want %v", context.Cause(ctx), claim.ErrLost)
			}
			return message.Outcome{Effect: message.EffectApplied, Ref: "/c/of-a-zombie"}
		}
		begun := time.Now()
		s := b.deliver(t.Context(), 1)
		defer theirs.Close()
		if took := time.Since(begun); took >= b.declared.Timeout {
			t.Errorf("it took %v, want no longer than to the next renewal", took)
		}
		if s.Action != message.CopyLater || len(b.published) > 0 {
			t.Errorf("%s, published %v, want it put off and nothing told", s.Action, b.published)
		}
		if _, err := theirs.Complete(t.Context(), claim.Result{Ref: "/c/1", Digest: "sha256:theirs"}); err != nil {
			t.Fatal(err)
		}
		if s := b.deliver(t.Context(), 2); s.Action != message.Complete || len(b.calls) != 1 {
			t.Errorf("%s after %d calls, want complete after 1", s.Action, len(b.calls))
		}
		if len(b.published) != 1 || !strings.Contains(string(b.published[0].Body), "sha256:theirs") {
			t.Errorf("published %v, want what stands in the claim", b.published)
		}
	})
}

// A store that refuses for ever is not asked for ever.
func TestATaskThatNobodyCanJudgeEndsAtNotAfter(t *testing.T) { // W3
	inBubble(t, func(t *testing.T, b *bench) {
		b.arm(control.Rule{Do: "answer", Status: http.StatusForbidden})
		task := message.Task{ExecutionID: "82f3", Run: 1, Type: "t", Payload: jsontext.Value(`{}`), Deadline: time.Now().Add(time.Minute), NotAfter: time.Now().Add(time.Minute)}
		s := b.deliverTask(t.Context(), task, 1)
		deliveries := 1
		for ; s.Action == message.CopyLater && deliveries < 100; deliveries++ {
			time.Sleep(s.Delay)
			s = b.deliverTask(t.Context(), task, 1)
		}
		if s.Action != message.DeadLetter || s.Reason != claim.TooOld || !strings.Contains(s.Description, "403") || deliveries < 4 {
			t.Errorf("%s %s %q after %d deliveries", s.Action, s.Reason, s.Description, deliveries)
		}
		if len(b.published) > 0 {
			t.Errorf("published %v, and nothing is known", b.published)
		}
	})
}

// A downstream that never does what is asked: every way of waiting for it ends.
func TestNothingIsTriedForEver(t *testing.T) { // C8 W3
	for _, test := range []struct {
		what        string
		outcome     message.Outcome
		reason      string
		calls       int           // at least
		after, upTo time.Duration // when it ends
	}{
		{"it cannot be reached", message.Outcome{Effect: message.EffectNotApplied, Retry: true, Free: true}, claim.DeadlinePassed, 10, time.Hour, time.Hour + 7*time.Minute},
		{"it asks for more time than there is", message.Outcome{Effect: message.EffectUnknown, Retry: true, Free: true, After: 5 * time.Hour}, claim.DeadlinePassed, 2, time.Hour, time.Hour + time.Minute},
		{"it never answers", message.Outcome{Effect: message.EffectUnknown, Retry: true}, claim.AttemptsExhausted, 8, time.Minute, time.Hour},
	} {
		t.Run(test.what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.answer = func(context.Context, message.Call) message.Outcome { return test.outcome }
				begun := time.Now()
				task := message.Task{ExecutionID: "82f3", Run: 1, Type: "t", Payload: jsontext.Value(`{}`), Deadline: begun.Add(time.Hour), NotAfter: begun.Add(21 * 24 * time.Hour)}
				s := b.deliverTask(t.Context(), task, 1)
				for range 100 {
					if s.Action != message.CopyLater {
						break
					}
					time.Sleep(s.Delay)
					s = b.deliverTask(t.Context(), task, 1)
				}
				took := time.Since(begun)
				if s.Action != message.DeadLetter || s.Reason != test.reason || took < test.after || took > test.upTo {
					t.Errorf("%s %s after %v, want it dead-lettered as %s after %v to %v", s.Action, s.Reason, took, test.reason, test.after, test.upTo)
				}
				if len(b.calls) < test.calls || test.reason == claim.AttemptsExhausted && len(b.calls) != test.calls {
					t.Errorf("%d calls, want %d", len(b.calls), test.calls)
				}
				if len(b.published) != 1 || b.published[0].Subject != message.TypeFailed {
					t.Errorf("published %v, want one failure", b.published)
				}
			})
		})
	}
}
