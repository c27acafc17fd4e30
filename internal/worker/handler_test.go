package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

// What handlers in Go may do that declared ones cannot.

func TestAHandlerThatPanicsEndsItsOwnCallAlone(t *testing.T) { // W1 W2 C8
	for _, keyed := range []bool{true, false} {
		t.Run(fmt.Sprintf("keyed %t", keyed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				if !keyed {
					b.keyless()
				}
				b.answer = func(context.Context, message.Call) message.Outcome { panic("no such customer") }
				s := b.deliver(t.Context(), 1)
				if !keyed {
					if s.Action != message.DeadLetter || s.Reason != claim.OutcomeUnknown || !strings.Contains(s.Description, "no such customer") {
						t.Errorf("%s %s %q, want it dead-lettered as %s with the panic", s.Action, s.Reason, s.Description, claim.OutcomeUnknown)
					}
					return
				}
				if stands := b.stands(); s.Action != message.CopyLater || !stands.Released || stands.Answered != 1 {
					t.Errorf("%s, released %t, answered %d, want it put off and counted", s.Action, stands.Released, stands.Answered)
				}
			})
		})
	}
}

// A handler that ignores the end of its context is not waited for without end.
// What still runs is not given back: the lease ends by itself, and the start
// stays counted. A keyless one is never made again.
func TestAHandlerThatNeverReturnsIsLeftBehind(t *testing.T) { // C8 W1
	for _, keyed := range []bool{true, false} {
		t.Run(fmt.Sprintf("keyed %t", keyed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				if !keyed {
					b.keyless()
				}
				begins, never := make(chan struct{}), make(chan struct{})
				b.answer = func(context.Context, message.Call) message.Outcome {
					close(begins)
					<-never
					return message.Outcome{Effect: message.EffectApplied}
				}
				begun := time.Now()
				s := b.deliver(t.Context(), 1)
				<-begins
				if took := time.Since(begun); took != b.declared.Timeout+b.SettleTimeout {
					t.Errorf("it took %v, want timeout and settle timeout", took)
				}
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				if err := b.Wait(short); err == nil {
					t.Error("Wait says that no handler runs any more")
				}
				cancel()
				stands := b.stands()
				if keyed && (s.Action != message.CopyLater || stands.Released || stands.Starts != 1 || stands.Status != claim.InProgress) {
					t.Errorf("%s, claim %+v, want it put off until the lease has ended", s.Action, stands)
				}
				if !keyed && (s.Action != message.DeadLetter || s.Reason != claim.OutcomeUnknown) {
					t.Errorf("%s %s, want it dead-lettered as %s", s.Action, s.Reason, claim.OutcomeUnknown)
				}
				if keyed {
					b.answer = func(context.Context, message.Call) message.Outcome {
						return message.Outcome{Effect: message.EffectApplied}
					}
					time.Sleep(s.Delay)
					if s := b.deliver(t.Context(), 2); s.Action != message.Complete || b.stands().Fence != 2 {
						t.Errorf("%s %s, fence %d: want the next delivery to take over", s.Action, s.Reason, b.stands().Fence)
					}
				}
				close(never)
				if err := b.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAResultOfMegabytesIsKeptAsItsDigest(t *testing.T) { // C2
	inBubble(t, func(t *testing.T, b *bench) {
		b.answer = func(context.Context, message.Call) message.Outcome {
			return message.Outcome{Effect: message.EffectApplied, Ref: "/c/1", Value: jsontext.Value(`"` + strings.Repeat("x", 5<<20) + `"`)}
		}
		if s := b.deliver(t.Context(), 1); s.Action != message.Complete {
			t.Fatalf("%s %s", s.Action, s.Description)
		}
		first := *b.stands().Result
		if first.Value != nil || !strings.HasPrefix(first.Omitted, "sha256:") || first.Ref != "/c/1" {
			t.Errorf("result %+.200v", first)
		}
		if s := b.deliver(t.Context(), 2); s.Action != message.Complete || len(b.published) != 2 || string(b.published[0].Body) == "" {
			t.Errorf("%s, published %d", s.Action, len(b.published))
		}
	})
}
