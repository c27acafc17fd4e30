package message_test

import (
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/internal/message"
)

func TestASettlementSaysWhatBecomesOfTheMessage(t *testing.T) {
	for _, test := range []struct {
		name string
		got  message.Settlement
		want message.Settlement
		text string // of the action
	}{
		{"the zero value is no settlement", message.Settlement{}, message.Settlement{}, "undecided"},
		{"done completes", message.Done(), message.Settlement{Action: message.Complete}, "complete"},
		{"retry gives back at once", message.Retry(), message.Settlement{Action: message.Abandon}, "abandon"},
		{"later schedules a copy", message.Later(time.Minute), message.Settlement{Action: message.CopyLater, Delay: time.Minute}, "copy later"},
		{"later is never at once: that would be a hot loop", message.Later(0), message.Settlement{Action: message.CopyLater, Delay: time.Second}, "copy later"},
		{"nor in the past", message.Later(-time.Hour), message.Settlement{Action: message.CopyLater, Delay: time.Second}, "copy later"},
		{"reject says why", message.Reject("TooOld", "past notAfter"), message.Settlement{Action: message.DeadLetter, Reason: "TooOld", Description: "past notAfter"}, "dead-letter"},
		{"let expire asks nothing", message.LetExpire(), message.Settlement{Action: message.Leave}, "leave"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, test.got, test.want)
		}
		if text := test.got.Action.String(); text != test.text {
			t.Errorf("%s: action %q, want %q", test.name, text, test.text)
		}
	}
}

func TestTheZeroActionIsNoneOfTheActions(t *testing.T) {
	actions := []message.Action{message.Complete, message.Abandon, message.DeadLetter, message.CopyLater, message.Leave}
	seen := map[string]bool{message.Action(0).String(): true}
	for _, a := range actions {
		if a == 0 || seen[a.String()] {
			t.Errorf("action %d %q is zero or shares its name", a, a)
		}
		seen[a.String()] = true
	}
}

func TestBrokerNowMovesAtOurOwnRateAndNeverComparesClocks(t *testing.T) { // C6
	synctest.Test(t, func(t *testing.T) {
		// The broker's clock is an hour behind ours.
		taken := time.Now().Add(-time.Hour)
		d := message.Delivery{Taken: taken, Received: time.Now()}
		if got := d.BrokerNow(); !got.Equal(taken) {
			t.Errorf("at receipt %v, want %v", got, taken)
		}
		time.Sleep(7 * time.Minute)
		if got, want := d.BrokerNow(), taken.Add(7*time.Minute); !got.Equal(want) {
			t.Errorf("seven minutes later %v, want %v", got, want)
		}
	})
}

func TestEffectsHaveNames(t *testing.T) {
	for effect, want := range map[message.Effect]string{
		0: "undecided", message.EffectApplied: "applied", message.EffectNotApplied: "not applied", message.EffectUnknown: "unknown",
	} {
		if got := effect.String(); got != want {
			t.Errorf("effect %d is %q, want %q", effect, got, want)
		}
	}
}

func TestAHeldMessageWaitsTwiceAsLongEachTimeUpToABound(t *testing.T) {
	for count, most := range map[int]time.Duration{
		-1: 10 * time.Second, 0: 10 * time.Second, 1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second,
		6: 320 * time.Second, 7: 10 * time.Minute, 64: 10 * time.Minute, 1 << 30: 10 * time.Minute,
	} {
		if s := message.Hold(count); s.Action != message.CopyLater || s.Delay > most || s.Delay < most*9/10 {
			t.Errorf("after %d: %s in %v, want within a tenth of %v", count, s.Action, s.Delay, most)
		}
	}
}
