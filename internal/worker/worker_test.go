package worker

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// What the stories in internal/sim cannot reach one by one.

func TestEveryVerdictHasASettlement(t *testing.T) { // D1 W3
	failure := claim.Claim{Failure: &claim.Failure{Reason: claim.OutcomeUnknown, Description: "cut off"}}
	for _, test := range []struct {
		verdict claim.Verdict
		err     error
		want    message.Action
		reason  string
	}{
		{claim.Verdict{Kind: claim.Done}, nil, message.Complete, ""},
		{claim.Verdict{Kind: claim.Withdrawn}, nil, message.Complete, ""},
		{claim.Verdict{Kind: claim.Busy, Wait: time.Minute}, nil, message.CopyLater, ""},
		{claim.Verdict{Kind: claim.Over, Claim: failure}, nil, message.DeadLetter, claim.OutcomeUnknown},
		{claim.Verdict{Kind: claim.Refused, Reason: claim.TooOld}, nil, message.DeadLetter, claim.TooOld},
		{claim.Verdict{Kind: claim.Refused, Reason: claim.IdempotencyKeyReused}, nil, message.DeadLetter, claim.IdempotencyKeyReused},
		// An error outweighs whatever verdict it came with: a completion that was not
		// published must not be settled, a failure that was not told not dead-lettered.
		{claim.Verdict{Kind: claim.Done}, errors.New("no topic"), message.CopyLater, ""},
		{claim.Verdict{Kind: claim.Over, Claim: failure}, errors.New("no topic"), message.CopyLater, ""},
		{claim.Verdict{}, errors.New("no store"), message.CopyLater, ""},
		// A verdict that nobody thought of decides nothing.
		{claim.Verdict{}, nil, 0, ""},
	} {
		got := settlementFor(test.verdict, test.err, time.Hour, 0)
		if got.Action != test.want || got.Reason != test.reason {
			t.Errorf("%v, %v: %v %q, want %v %q", test.verdict.Kind, test.err, got.Action, got.Reason, test.want, test.reason)
		}
		// Past notAfter nothing else changes; but whoever does not answer is asked no more.
		late := settlementFor(test.verdict, test.err, -time.Hour, 0)
		if test.err != nil {
			if late.Action != message.DeadLetter || late.Reason != claim.TooOld {
				t.Errorf("%v, %v past notAfter: %v %q, want it dead-lettered as %s", test.verdict.Kind, test.err, late.Action, late.Reason, claim.TooOld)
			}
		} else if late != got {
			t.Errorf("%v past notAfter: %v, want %v", test.verdict.Kind, late, got)
		}
		if got.Action == message.DeadLetter && got.Description == "" {
			t.Errorf("%v %s: dead-lettered without a word for people", test.verdict.Kind, got.Reason)
		}
	}
}

func TestTheLogSaysWhyATaskComesBack(t *testing.T) {
	refused := outcome{Outcome: message.Outcome{Effect: message.EffectNotApplied, Retry: true, Free: true, Description: "POST: connection refused"}}
	for name, test := range map[string]struct {
		outcome outcome
		err     error
		want    string
	}{
		"applied":     {outcome{Outcome: message.Outcome{Effect: message.EffectApplied}}, nil, `level=INFO msg=handled task=82f3 run=1 delivery=2 fence=7 verdict=busy settlement="copy later"`},
		"no call":     {outcome{}, nil, `level=INFO msg=handled task=82f3 run=1 delivery=2 fence=7 verdict=busy settlement="copy later"`},
		"call failed": {refused, nil, `level=WARN msg=handled task=82f3 run=1 delivery=2 fence=7 verdict=busy settlement="copy later" call="POST: connection refused"`},
		"no store":    {outcome{}, errors.New("no store"), `level=WARN msg=handled task=82f3 run=1 delivery=2 fence=7 verdict=busy settlement="copy later" err="no store"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			w := Worker{Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey || a.Key == "took" {
					return slog.Attr{}
				}
				return a
			}}))}
			j := &job{delivery: message.Delivery{Count: 2}, task: message.Task{ExecutionID: "82f3", Run: 1}}
			w.tell(t.Context(), j, test.outcome, claim.Verdict{Kind: claim.Busy, Claim: claim.Claim{Fence: 7}}, message.Later(time.Minute), test.err)
			if got := strings.TrimSpace(out.String()); got != test.want {
				t.Errorf("logged %s\nwant   %s", got, test.want)
			}
		})
	}
}

func TestOnlyVerdictsThatEndSomethingAreTold(t *testing.T) { // D1
	c := claim.Claim{ID: "82f3", Run: 3, Fence: 7, Result: &claim.Result{Ref: "/c/1", Digest: "sha256:00"}, Failure: &claim.Failure{Reason: "r", Outcome: "none"}}
	task := message.Task{Run: 2, ExecutionETag: `"e"`}
	for kind, told := range map[claim.Kind]bool{claim.Done: true, claim.Over: true, claim.Busy: false, claim.Withdrawn: false, claim.Refused: false} {
		event, tell := eventFor(&job{task: task}, claim.Verdict{Kind: kind, Claim: c})
		if tell != told {
			t.Errorf("%v: told %v, want %v", kind, tell, told)
		}
		if tell && (event.ExecutionID() != "82f3" || event.Run() != 3 || event.Ticket() != `"e"`) {
			t.Errorf("%v: %+v: an event is about the claim's run, under the task's ticket", kind, event)
		}
		again, _ := eventFor(&job{task: task, fenced: 6}, claim.Verdict{Kind: kind, Claim: c})
		if tell && (event.Fenced() != 0 || again.Fenced() != 6) {
			t.Errorf("%v: fenced is %d, after a refused write under fence 6 %d", kind, event.Fenced(), again.Fenced())
		}
	}
}

func TestTheBackoffDoublesUpToItsMaximumAndObeysTheDownstream(t *testing.T) {
	j := &job{declared: message.Declaration{BackoffMin: 2 * time.Second, BackoffMax: 5 * time.Minute}}
	for grants, want := range map[int64]time.Duration{0: 2 * time.Second, 1: 4 * time.Second, 5: 64 * time.Second, 8: 5 * time.Minute, 1 << 40: 5 * time.Minute} {
		for range 100 {
			if got := backoff(j, grants, 0); got < want*3/4 || got > want*5/4 {
				t.Fatalf("after %d grants: %v, want about %v", grants, got, want)
			}
		}
	}
	if got := backoff(j, 0, time.Hour); got != time.Hour {
		t.Errorf("Retry-After of an hour: %v", got)
	}
	if got := backoff(&job{}, 0, 0); got != time.Second {
		t.Errorf("nothing declared: %v, want the least a copy can wait", got)
	}
}

func TestNoEffectIsClaimedOnlyWhereNoEarlierCallCanHaveHadOne(t *testing.T) {
	notApplied := outcome{Outcome: message.Outcome{Effect: message.EffectNotApplied}}
	fresh := claim.Claim{Keyed: true, Fence: 1, Starts: 1}
	again, answered, keyless := fresh, fresh, claim.Claim{Fence: 3, Starts: 1}
	again.Fence, answered.Answered = 2, 1
	for _, test := range []struct {
		what   string
		stands claim.Claim
		o      outcome
		want   string
	}{
		{"the first call was refused", fresh, notApplied, claim.EffectNone},
		{"a later call was refused", again, notApplied, claim.EffectUnknown},
		{"an earlier answer was lost", answered, notApplied, claim.EffectUnknown},
		{"keyless: no call was ever cut off, else there were none now", keyless, notApplied, claim.EffectNone},
		{"the answer was lost", fresh, outcome{Outcome: message.Outcome{Effect: message.EffectUnknown}}, claim.EffectUnknown},
	} {
		if got := effectOf(test.stands, test.o); got != test.want {
			t.Errorf("%s: %s, want %s", test.what, got, test.want)
		}
	}
}
