package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

// What handlers in Go may do that declared ones cannot.

// inBothWays runs a test with a handler that has a goroutine of its own, and with
// one that declares that it needs none.
func inBothWays(t *testing.T, test func(t *testing.T, b *bench)) {
	for _, prompt := range []bool{false, true} {
		t.Run(fmt.Sprintf("prompt %t", prompt), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.declared.Prompt = prompt
				test(t, b)
			})
		})
	}
}

func TestAHandlerThatPanicsEndsItsOwnCallAlone(t *testing.T) { // W1 W2 C8
	for _, test := range []struct {
		keyed bool
		words any
	}{{true, "no such customer"}, {false, "no such customer"}, {false, errors.New("no such customer")}} {
		t.Run(fmt.Sprintf("keyed %t %T", test.keyed, test.words), func(t *testing.T) {
			inBothWays(t, func(t *testing.T, b *bench) {
				if !test.keyed {
					b.keyless()
				}
				b.answer = func(context.Context, message.Call) message.Outcome { panic(test.words) }
				s := b.deliver(t.Context(), 1)
				if !test.keyed {
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
		if s := b.deliver(t.Context(), 2); s.Action != message.Complete || len(b.published) != 2 {
			t.Errorf("%s, published %d", s.Action, len(b.published))
		}
		for _, m := range b.published {
			if !strings.Contains(string(m.Body), first.Digest) {
				t.Errorf("told without the digest %s: %s", first.Digest, m.Body)
			}
		}
	})
}

// A handler may put anything into its words; the claim, the event and the dead
// letter have room for a line of text.
func TestWhateverAHandlerSaysFitsIntoClaimAndEvent(t *testing.T) { // D1 C8
	for name, words := range map[string]string{"no text": "\xff\xfe", "megabytes": strings.Repeat("x", 3<<20), "lines": "one\r\ntwo"} {
		for how, answer := range map[string]func() message.Outcome{
			"refused": func() message.Outcome {
				return message.Outcome{Effect: message.EffectNotApplied, Description: words}
			},
			"panics": func() message.Outcome { panic(words) },
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bench) {
					b.keyless()
					b.answer = func(context.Context, message.Call) message.Outcome { return answer() }
					s := b.deliver(t.Context(), 1)
					if s.Action != message.DeadLetter || b.stands().Status != claim.Failed || len(b.published) != 1 {
						t.Fatalf("%s, claim %s, %d events, want it failed, told and dead-lettered", s.Action, b.stands().Status, len(b.published))
					}
					if got := b.stands().Failure.Description; len(got) > message.MaxDescription || strings.ContainsAny(got, "\r\n") {
						t.Errorf("a description of %d bytes, want one short line", len(got))
					}
				})
			})
		}
	}
}

// An effect that happened is not lost because its result cannot be written down.
func TestAResultThatCannotBeKeptIsStillAResult(t *testing.T) { // C2
	for name, o := range map[string]message.Outcome{
		"a value that is no JSON":  {Ref: "/c/1", Value: jsontext.Value(`{"a":1,"a":2}`)},
		"a reference that is none": {Ref: "\xff"},
		"a reference without end":  {Ref: strings.Repeat("x", 3<<20)},
	} {
		for _, steps := range [][]string{nil, {"customer", "mail"}} {
			t.Run(fmt.Sprintf("%s %v", name, steps), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bench) {
					if steps != nil {
						b.steps(steps...)
					}
					o.Effect = message.EffectApplied
					b.answer = func(context.Context, message.Call) message.Outcome { return o }
					if s := b.deliver(t.Context(), 1); s.Action != message.Complete || len(b.calls) != max(1, len(steps)) {
						t.Errorf("%s %s after %d calls, want it completed", s.Action, s.Description, len(b.calls))
					}
				})
			})
		}
	}
}

// A panic's value may be what the handler worked on; only words are repeated.
func TestAPanicTellsNothingOfThePayload(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.keyless()
		var log strings.Builder
		b.Log = slog.New(slog.NewJSONHandler(&log, nil))
		b.answer = func(_ context.Context, c message.Call) message.Outcome {
			c.Payload = jsontext.Value(`{"card":"4111"}`)
			panic(c)
		}
		s := b.deliver(t.Context(), 1)
		for where, text := range map[string]string{"log": log.String(), "dead letter": s.Description, "claim": b.stands().Failure.Description} {
			if strings.Contains(text, "4111") || !strings.Contains(text, "a message.Call") {
				t.Errorf("%s: %s", where, text)
			}
		}
	})
}

// What is wrong with a message may be as long as the message.
func TestAMessageThatNobodyCanReadIsDescribedInALine(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		long := strings.Repeat("secret ", 10_000)
		for name, body := range map[string]string{
			"a name twice":   `{"` + long + `":1,"` + long + `":2}`,
			"a deep mistake": `{"` + long + `":[9007199254740993]}`,
			"a long number":  `[` + strings.Repeat("9", 100_000) + `]`,
		} {
			s := b.Handle(t.Context(), message.Delivery{Body: []byte(body), Count: 1, Taken: time.Now(), Received: time.Now()})
			if s.Action != message.DeadLetter || s.Reason != message.InvalidMessage || len(s.Description) > message.MaxDescription {
				t.Errorf("%s: %s %s with %d bytes", name, s.Action, s.Reason, len(s.Description))
			}
		}
	})
}
