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
		other := &claim.Desk{Store: b.Claims.Store, Process: "worker-2/77aa", Timeout: storeTimeout, Terms: b.Claims.Terms}
		var theirs *claim.Lease
		var err error
		b.declared.Timeout = 4 * time.Minute
		b.answer = func(ctx context.Context, _ message.Call) message.Outcome {
			b.hub.Jump(10 * time.Minute) // to the store this owner is silent
			theirs, err = b.takenBy(t.Context(), other)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), claim.ErrLost) {
				t.Errorf("the call ends with %v, want %v", context.Cause(ctx), claim.ErrLost)
			}
			return message.Outcome{Effect: message.EffectApplied, Ref: "/c/of-a-zombie"}
		}
		begun := time.Now()
		s := b.deliver(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
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

// Another has taken the claim over and given it back by the time that the first owner
// writes: it is granted the claim once more, and does not call once more. What it has to
// say comes with a copy, and nothing of it counts.
func TestWhoeverIsFencedAndGrantedTheClaimAgainGivesItBack(t *testing.T) { // C4 C8
	inBothWays(t, func(t *testing.T, b *bench) {
		other := b.another("worker-2").Claims
		var err error
		b.answer = func(context.Context, message.Call) message.Outcome {
			b.hub.Jump(10 * time.Minute) // to the store this owner is silent
			var theirs *claim.Lease
			if theirs, err = b.takenBy(t.Context(), other); err == nil {
				err = theirs.Release(t.Context(), time.Time{}, false)
				theirs.Close()
			}
			return message.Outcome{Effect: message.EffectApplied, Ref: "/c/1"}
		}
		s := b.deliver(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if s.Action != message.CopyLater || len(b.calls) != 1 || len(b.published) > 0 {
			t.Errorf("%s after %d calls, published %v, want it put off after 1 and nothing told", s.Action, len(b.calls), b.published)
		}
		if c := b.stands(); c.Fence != 3 || !c.Released || c.Answered != 0 || c.Starts != 1 {
			t.Errorf("fence %d, released %t, answered %d, starts %d, want fence 3 given back, and only the first start counted", c.Fence, c.Released, c.Answered, c.Starts)
		}
	})
}

// Somebody else works on the task, under a lease that is short and renewed: a delivery
// waits here for as long as it may, and then a copy does.
func TestADeliveryWaitsForABusyClaimNoLongerThanItMay(t *testing.T) { // W3
	inBubble(t, func(t *testing.T, b *bench) {
		other := b.another("worker-2").Claims
		other.Lease, other.OwnerMargin = 10*time.Second, 2*time.Second
		theirs, err := b.takenBy(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		defer time.AfterFunc(time.Hour, theirs.Close).Stop()
		begun := time.Now()
		s := b.deliver(t.Context(), 1)
		if took := time.Since(begun); s.Action != message.CopyLater || took == 0 || took > b.BusyWait {
			t.Errorf("%s after %v, want it to have waited for at most %v, and put off", s.Action, took, b.BusyWait)
		}
		if len(b.calls) > 0 {
			t.Errorf("%d calls under somebody else's lease", len(b.calls))
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

// Neither a store that is out for long nor a worker that waits for a newer one keeps
// the broker busy with copies: waits double to five minutes, at which end whatever it
// was is noticed. What has been answered begins anew.
func TestWhatComesToNothingComesBackLaterEveryTime(t *testing.T) { // W3
	for _, test := range []struct {
		what     string
		taskType string
		first    time.Duration
		most     int // copies in an hour
	}{
		{"the store is out", "t", 10 * time.Second, 26},
		{"the type is not known", "of-a-newer-worker", time.Minute, 24},
	} {
		t.Run(test.what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.arm(control.Rule{Name: "out", Do: "answer", Status: http.StatusForbidden})
				task := message.Task{ExecutionID: "82f3", Run: 1, Type: test.taskType, Payload: jsontext.Value(`{}`), Deadline: time.Now().Add(24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
				begun, copies, s := time.Now(), 0, message.Settlement{}
				for last := time.Duration(0); time.Since(begun) < time.Hour; copies++ {
					s = b.deliverCopy(t.Context(), task, s)
					if copies == 0 && (s.Delay < test.first*3/4 || s.Delay > test.first*5/4) {
						t.Errorf("the first copy comes after %v, want about %v", s.Delay, test.first)
					}
					if s.Action != message.CopyLater || s.Delay > 5*time.Minute || copies < 3 && s.Delay < last {
						t.Fatalf("copy %d: %s after %v, the one before after %v", copies, s.Action, s.Delay, last)
					}
					last = s.Delay
					time.Sleep(s.Delay)
				}
				if copies > test.most {
					t.Errorf("%d copies in an hour, want at most %d", copies, test.most)
				}
				if err := b.hub.Disarm("out"); err != nil {
					t.Fatal(err)
				}
				task.Type = "t"
				b.answer = func(context.Context, message.Call) message.Outcome {
					return message.Outcome{Effect: message.EffectNotApplied, Retry: true, Free: true}
				}
				if s = b.deliverCopy(t.Context(), task, s); s.Action != message.CopyLater || s.InVain != 0 {
					t.Errorf("%s, in vain %d times: want it put off, and nothing in vain", s.Action, s.InVain)
				}
			})
		})
	}
}

// Whatever it is that a task waits for: at notAfter it is over.
func TestNoCopyComesAfterNotAfter(t *testing.T) { // W3 H25
	const left = 3 * time.Minute
	for _, test := range []struct {
		what     string
		taskType string
		store    int // what the store answers, if anything
		outcome  message.Outcome
	}{
		{"the downstream asks for two days", "t", 0, message.Outcome{Effect: message.EffectUnknown, Retry: true, After: 48 * time.Hour}},
		{"the store is out", "t", http.StatusForbidden, message.Outcome{}},
		{"the type is not known", "of-a-newer-worker", 0, message.Outcome{}},
	} {
		t.Run(test.what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				if test.store != 0 {
					b.arm(control.Rule{Do: "answer", Status: test.store})
				}
				b.answer = func(context.Context, message.Call) message.Outcome { return test.outcome }
				// The deadline is over: only what is not free is waited for.
				task := message.Task{ExecutionID: "82f3", Run: 1, Type: test.taskType, Payload: jsontext.Value(`{}`), Deadline: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(left)}
				s := b.deliverCopy(t.Context(), task, message.Settlement{InVain: 20})
				if s.Action != message.CopyLater || time.Now().Add(s.Delay).After(task.NotAfter) {
					t.Fatalf("%s after %v, want a copy within %v", s.Action, s.Delay, time.Until(task.NotAfter))
				}
				for deliveries := 0; s.Action == message.CopyLater && deliveries < 5; deliveries++ {
					time.Sleep(s.Delay)
					s = b.deliverCopy(t.Context(), task, s)
				}
				if late := time.Since(task.NotAfter); s.Action != message.DeadLetter || s.Reason != claim.TooOld || late > time.Minute {
					t.Errorf("%s %s, %v after notAfter", s.Action, s.Reason, late)
				}
			})
		})
	}
}

// A message of an earlier run that was left over may be granted the run of now. Of
// its deadline it knows nothing: its own is that of a run that is over.
func TestARunIsNotEndedByTheDeadlineOfAnEarlierOne(t *testing.T) { // W3 E7
	inBubble(t, func(t *testing.T, b *bench) {
		b.declared.KeyWindow = 7 * 24 * time.Hour
		now := time.Now()
		first := message.Task{ExecutionID: "82f3", Run: 1, Type: "t", Payload: jsontext.Value(`{}`), Deadline: now.Add(time.Minute), NotAfter: now.Add(21 * 24 * time.Hour)}
		b.answer = func(context.Context, message.Call) message.Outcome {
			return message.Outcome{Effect: message.EffectNotApplied, Description: "422"}
		}
		if s := b.deliverTask(t.Context(), first, 1); s.Action != message.DeadLetter {
			t.Fatalf("%s, want run 1 failed", s.Action)
		}
		time.Sleep(time.Hour)
		second := first
		second.Run, second.Deadline = 2, time.Now().Add(24*time.Hour)
		b.answer = func(context.Context, message.Call) message.Outcome {
			return message.Outcome{Effect: message.EffectNotApplied, Retry: true, Free: true, After: 10 * time.Minute}
		}
		s := b.deliverTask(t.Context(), second, 1)
		time.Sleep(s.Delay)
		if s = b.deliverTask(t.Context(), first, 2); s.Action != message.CopyLater || s.Delay != 10*time.Minute {
			t.Errorf("%s %s after %v, want run 2 put off for as long as was asked", s.Action, s.Reason, s.Delay)
		}
		if stands := b.stands(); stands.Status != claim.InProgress || stands.Run != 2 || !stands.Released {
			t.Errorf("the claim is %s of run %d, released %t", stands.Status, stands.Run, stands.Released)
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
