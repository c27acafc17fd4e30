package worker

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

// steps makes the handler one of several steps; those whose names begin with "-"
// honour no key.
func (b *bench) steps(names ...string) {
	b.t.Helper()
	var steps []message.Step
	for _, name := range names {
		s := message.Step{Name: name, Keyed: true, KeyWindow: 24 * time.Hour, Timeout: 20 * time.Second}
		if name[0] == '-' {
			s = message.Step{Name: name[1:], Timeout: 20 * time.Second}
		}
		steps = append(steps, s)
	}
	d, err := message.Stepwise("t", steps...)
	if err != nil {
		b.t.Fatal(err)
	}
	d.Attempts, d.BackoffMin, d.BackoffMax = 1, 2*time.Second, 5*time.Minute
	if d.Keyed {
		d.Attempts = 8
	}
	b.declared = d
	b.answer = func(_ context.Context, c message.Call) message.Outcome {
		return message.Outcome{Effect: message.EffectApplied, Ref: "/" + c.Step}
	}
}

// made lists the calls by their steps and keys.
func (b *bench) made() []string {
	var all []string
	for _, c := range b.calls {
		all = append(all, c.Step+" "+c.Key)
	}
	return all
}

func (b *bench) wantMade(want ...string) {
	b.t.Helper()
	if got := b.made(); !slices.Equal(got, want) {
		b.t.Errorf("called %q, want %q", got, want)
	}
}

// writes are the requests on claims that the store has applied.
func (b *bench) writes(after uint64) int {
	n := 0
	for _, e := range b.hub.Events(after) {
		if e.Kind == "request" && e.Entity == "claims" && e.Operation != "read" && e.Status < 300 {
			n++
		}
	}
	return n
}

func TestStepsAreMadeInOrderEachUnderItsOwnKey(t *testing.T) { // W2
	inBubble(t, func(t *testing.T, b *bench) {
		b.steps("customer", "account", "mail")
		from := b.hub.Last()
		if s := b.deliver(t.Context(), 1); s.Action != message.Complete {
			t.Fatalf("%s %s", s.Action, s.Description)
		}
		b.wantMade("customer 82f3/customer", "account 82f3/account", "mail 82f3/mail")
		if got := b.writes(from); got != 4 {
			t.Errorf("%d writes for 3 steps, the budget is one and one for each", got)
		}
		wantBefore := map[string]message.StepResult{"customer": {Ref: "/customer"}, "account": {Ref: "/account"}}
		if got := b.calls[2].Results; !reflect.DeepEqual(got, wantBefore) {
			t.Errorf("the last step was told %v of those before it, want %v", got, wantBefore)
		}
		stands := b.stands()
		if !reflect.DeepEqual(stands.Steps, claim.Steps(wantBefore)) || stands.Result.Ref != "/mail" {
			t.Errorf("the claim has steps %v and result %+v", stands.Steps, stands.Result)
		}
	})
}

// Whatever a step ended with, the ones before it are not made again.
func TestAStepThatIsKeptIsNotMadeAgain(t *testing.T) { // W2 C8
	for name, first := range map[string]message.Outcome{
		"unknown":     {Effect: message.EffectUnknown, Retry: true},
		"not applied": {Effect: message.EffectNotApplied, Retry: true, Free: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.steps("customer", "account")
				succeed := b.answer
				b.answer = func(ctx context.Context, c message.Call) message.Outcome {
					if c.Step == "account" && len(b.calls) == 2 {
						return first
					}
					return succeed(ctx, c)
				}
				s := b.deliver(t.Context(), 1)
				if s.Action != message.CopyLater {
					t.Fatalf("%s %s, want it put off", s.Action, s.Reason)
				}
				time.Sleep(s.Delay)
				if s := b.deliver(t.Context(), 2); s.Action != message.Complete {
					t.Errorf("%s %s", s.Action, s.Reason)
				}
				b.wantMade("customer 82f3/customer", "account 82f3/account", "account 82f3/account")
			})
		})
	}
}

// The worker dies in a step; another takes over when the lease has ended.
func TestAnotherWorkerGoesOnAfterTheLastStepThatIsKept(t *testing.T) { // W1 W2 C3
	for _, test := range []struct {
		steps  []string
		dies   string // in which step
		end    message.Action
		reason string
		made   []string
	}{
		{[]string{"customer", "account"}, "customer", message.Complete, "", []string{"customer 82f3/customer", "customer 82f3/customer", "account 82f3/account"}},
		{[]string{"customer", "account"}, "account", message.Complete, "", []string{"customer 82f3/customer", "account 82f3/account", "account 82f3/account"}},
		{[]string{"customer", "-letter", "mail"}, "customer", message.Complete, "", []string{"customer 82f3/customer", "customer 82f3/customer", "letter ", "mail 82f3/mail"}},
		{[]string{"customer", "-letter", "mail"}, "letter", message.DeadLetter, claim.OutcomeUnknown, []string{"customer 82f3/customer", "letter "}},
		{[]string{"customer", "-letter", "mail"}, "mail", message.Complete, "", []string{"customer 82f3/customer", "letter ", "mail 82f3/mail", "mail 82f3/mail"}},
	} {
		t.Run(fmt.Sprintf("%v dies in %s", test.steps, test.dies), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.steps(test.steps...)
				succeed := b.answer
				b.answer = func(ctx context.Context, c message.Call) message.Outcome {
					if c.Step == test.dies && !b.hub.Isolated("worker-1") {
						b.hub.Isolate("worker-1") // nothing of it gets through any more
						<-ctx.Done()
						return message.Outcome{Effect: message.EffectUnknown}
					}
					return succeed(ctx, c)
				}
				b.deliver(t.Context(), 1)
				b.Worker = b.another("worker-2")
				time.Sleep(10 * time.Minute)
				s := b.deliver(t.Context(), 2)
				if s.Action != test.end || s.Reason != test.reason {
					t.Errorf("%s %s %s, want %s %s", s.Action, s.Reason, s.Description, test.end, test.reason)
				}
				b.wantMade(test.made...)
			})
		})
	}
}

// Only around the keyless step does the claim say that a call may have been made.
func TestTheClaimSaysThatACallStartsAroundTheKeylessStepAlone(t *testing.T) { // W1
	inBubble(t, func(t *testing.T, b *bench) {
		b.steps("customer", "-letter", "mail")
		succeed := b.answer
		started := map[string]bool{}
		b.answer = func(ctx context.Context, c message.Call) message.Outcome {
			started[c.Step] = b.stands().CallStarted
			return succeed(ctx, c)
		}
		from := b.hub.Last()
		if s := b.deliver(t.Context(), 1); s.Action != message.Complete {
			t.Fatalf("%s %s", s.Action, s.Reason)
		}
		if want := map[string]bool{"customer": false, "letter": true, "mail": false}; !reflect.DeepEqual(started, want) {
			t.Errorf("callStarted %v, want %v", started, want)
		}
		if got := b.writes(from); got != 5 {
			t.Errorf("%d writes for 3 steps with a keyless one, the budget is 5", got)
		}
		if stands := b.stands(); stands.Keyed || stands.KeylessStep != "letter" {
			t.Errorf("the claim says keyed %t, keyless step %q", stands.Keyed, stands.KeylessStep)
		}
	})
}

func TestTheFirstFailureOfATaskWithAKeylessStepIsFinal(t *testing.T) { // W1 D1
	for _, test := range []struct {
		fails   string
		outcome message.Outcome
		reason  string
		effect  string
	}{
		{"customer", message.Outcome{Effect: message.EffectUnknown, Retry: true}, claim.OutcomeUnknown, claim.EffectUnknown},
		{"customer", message.Outcome{Effect: message.EffectNotApplied, Retry: true, Free: true}, claim.DownstreamRejected, claim.EffectNone},
		{"letter", message.Outcome{Effect: message.EffectUnknown}, claim.OutcomeUnknown, claim.EffectUnknown},
		{"letter", message.Outcome{Effect: message.EffectNotApplied}, claim.DownstreamRejected, claim.EffectPartial},
		{"mail", message.Outcome{Effect: message.EffectNotApplied, Retry: true}, claim.DownstreamRejected, claim.EffectPartial},
	} {
		t.Run(fmt.Sprintf("%s %s", test.fails, test.outcome.Effect), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.steps("customer", "-letter", "mail")
				succeed := b.answer
				b.answer = func(ctx context.Context, c message.Call) message.Outcome {
					if c.Step == test.fails {
						return test.outcome
					}
					return succeed(ctx, c)
				}
				s := b.deliver(t.Context(), 1)
				if s.Action != message.DeadLetter || s.Reason != test.reason {
					t.Errorf("%s %s, want it dead-lettered as %s", s.Action, s.Reason, test.reason)
				}
				if f := b.stands().Failure; f == nil || f.Outcome != test.effect {
					t.Errorf("the claim says %+v, want outcome %s", f, test.effect)
				}
			})
		})
	}
}

// The result of the keyless step may be stored or not: its call is never made again.
func TestALostAnswerToTheResultOfAStepCostsNoSecondCall(t *testing.T) { // W1 C9
	kept := control.Match{Operation: "replace", Body: map[string]any{"/steps/letter/resultRef": "/letter", "/status": "IN_PROGRESS"}}
	for _, fault := range []control.Rule{
		{When: "before", Do: "drop", Times: 1},
		{When: "after", Do: "drop", Times: 1},
		{When: "before", Do: "answer", Status: 503, Times: 2},
		{When: "after", Do: "answer", Status: 408, Times: 1},
	} {
		t.Run(fmt.Sprintf("%s %s %d", fault.When, fault.Do, fault.Status), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.steps("-letter", "mail")
				fault.Match = kept
				b.arm(fault)
				if s := b.deliver(t.Context(), 1); s.Action != message.Complete {
					t.Errorf("%s %s", s.Action, s.Description)
				}
				b.wantMade("letter ", "mail 82f3/mail")
			})
		})
	}
}

func TestAResultOfAKeylessStepThatCannotBeKeptEndsTheTask(t *testing.T) { // W1 C9
	inBubble(t, func(t *testing.T, b *bench) {
		b.steps("-letter", "mail")
		b.arm(control.Rule{Match: control.Match{Operation: "replace", Body: map[string]any{"/steps/letter/resultRef": "/letter"}}, Do: "drop"})
		s := b.deliver(t.Context(), 1)
		for count := 2; s.Action == message.CopyLater && count < 9; count++ {
			time.Sleep(s.Delay)
			s = b.deliver(t.Context(), count)
		}
		if s.Action != message.DeadLetter || s.Reason != claim.OutcomeUnknown {
			t.Errorf("%s %s, want it dead-lettered as %s", s.Action, s.Reason, claim.OutcomeUnknown)
		}
		b.wantMade("letter ")
	})
}

// A rolling deploy that changes which step honours no key.
func TestAClaimOfAnotherKeylessStepIsNotGoneOnWith(t *testing.T) { // W1
	inBubble(t, func(t *testing.T, b *bench) {
		b.steps("customer", "-letter")
		b.answer = func(ctx context.Context, _ message.Call) message.Outcome {
			b.hub.Isolate("worker-1")
			<-ctx.Done()
			return message.Outcome{Effect: message.EffectUnknown}
		}
		b.deliver(t.Context(), 1)
		b.Worker = b.another("worker-2")
		b.steps("-customer", "letter")
		time.Sleep(10 * time.Minute)
		if s := b.deliver(t.Context(), 2); s.Action != message.DeadLetter || s.Reason != claim.OutcomeUnknown {
			t.Errorf("%s %s, want it dead-lettered as %s", s.Action, s.Reason, claim.OutcomeUnknown)
		}
		b.wantMade("customer 82f3/customer")
	})
}

// The other way round: what began with a keyless step is finished under its rules
// by a handler that has none any more.
func TestAClaimThatBeganWithAKeylessStepKeepsItsRules(t *testing.T) { // W1
	inBubble(t, func(t *testing.T, b *bench) {
		b.steps("customer", "-letter")
		ctx, stop := context.WithCancel(t.Context())
		b.afterWrite(func(claim.Claim) { stop() }) // given back before any call
		s := b.deliver(ctx, 1)
		b.steps("customer", "letter")
		b.answer = func(_ context.Context, c message.Call) message.Outcome {
			if !b.stands().CallStarted {
				t.Errorf("%s is called, and the claim does not say so", c.Step)
			}
			return message.Outcome{Effect: message.EffectApplied, Ref: "/" + c.Step}
		}
		time.Sleep(s.Delay)
		if s := b.deliver(t.Context(), 2); s.Action != message.Complete {
			t.Errorf("%s %s", s.Action, s.Reason)
		}
		b.wantMade("customer 82f3/customer", "letter 82f3/letter")
	})
}

// A rolling deploy that drops the steps after one that is made, or puts it last.
func TestAStepThatIsKeptIsNotMadeAgainWhereverItStandsNow(t *testing.T) { // W1
	for _, now := range [][]string{{"-letter"}, {"mail", "-letter"}} {
		t.Run(fmt.Sprint(now), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.steps("-letter", "mail")
				succeed := b.answer
				b.answer = func(ctx context.Context, c message.Call) message.Outcome {
					if c.Step == "mail" {
						b.hub.Isolate("worker-1")
						<-ctx.Done()
						return message.Outcome{Effect: message.EffectUnknown}
					}
					return succeed(ctx, c)
				}
				b.deliver(t.Context(), 1)
				b.Worker = b.another("worker-2")
				b.steps(now...)
				time.Sleep(10 * time.Minute)
				if s := b.deliver(t.Context(), 2); s.Action != message.Complete || b.stands().Result.Ref != "/letter" {
					t.Errorf("%s %s, want it completed with the letter that is printed", s.Action, s.Reason)
				}
				letters := 0
				for _, c := range b.calls {
					if c.Step == "letter" {
						letters++
					}
				}
				if letters != 1 {
					t.Errorf("%d letters printed: %q", letters, b.made())
				}
			})
		})
	}
}

// The keyed step beside a keyless one was called, and its result not kept. Long
// after, a version of the handler that declares keys for all takes over: the
// downstream may have forgotten the key, so the step is not called again, announced
// or not.
func TestAKeyThatMayBeForgottenIsNotUsedUnderARuleThatAnnounces(t *testing.T) { // W2
	for says, late := range map[string]time.Duration{"before it is announced": 0, "while it is announced": -2 * time.Second} {
		t.Run(says, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.steps("customer", "-letter")
				b.answer = func(ctx context.Context, _ message.Call) message.Outcome {
					b.hub.Isolate("worker-1")
					<-ctx.Done()
					return message.Outcome{Effect: message.EffectApplied}
				}
				begun := time.Now()
				b.deliver(t.Context(), 1)
				b.Worker = b.another("worker-2")
				b.steps("customer", "letter")
				b.arm(control.Rule{Match: starting, Do: "delay", Delay: control.Duration(5 * time.Second)})
				customer := b.declared.Steps[0]
				last := begun.Add(customer.KeyWindow - b.KeyMargin - customer.Timeout) // at which a call may begin
				time.Sleep(time.Until(last.Add(late)))
				if s := b.deliver(t.Context(), 2); s.Action != message.DeadLetter || s.Reason != claim.OutcomeUnknown {
					t.Errorf("%s %s, want it dead-lettered as %s", s.Action, s.Reason, claim.OutcomeUnknown)
				}
				b.wantMade("customer 82f3/customer")
				if b.stands().CallStarted {
					t.Error("the claim says that a call started, and none did")
				}
			})
		})
	}
}

// Steps hand on what is small. What is larger its step has made all the same.
func TestAStepsValueIsKeptForTheStepsAfterItUnlessItIsLarge(t *testing.T) { // C2
	for size, kept := range map[int]bool{claim.MaxStepValue: true, claim.MaxStepValue + 1: false} {
		inBubble(t, func(t *testing.T, b *bench) {
			b.steps("customer", "account")
			value := jsontext.Value(`"` + strings.Repeat("x", size-2) + `"`)
			b.answer = func(_ context.Context, c message.Call) message.Outcome {
				return message.Outcome{Effect: message.EffectApplied, Ref: "/" + c.Step, Value: value}
			}
			if s := b.deliver(t.Context(), 1); s.Action != message.Complete {
				t.Fatalf("%s %s", s.Action, s.Description)
			}
			told := b.calls[1].Results["customer"]
			if !kept {
				value = nil
			}
			if told.Ref != "/customer" || string(told.Value) != string(value) || string(b.stands().Steps["customer"].Value) != string(value) {
				t.Errorf("of %d bytes the next step was told %d, and %q", size, len(told.Value), told.Ref)
			}
		})
	}
}
