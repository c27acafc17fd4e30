package main

import (
	"strings"
	"testing"
	"time"

	"oneeffect/internal/horizon"
)

func TestTheScalerDecidesAsKEDADoes(t *testing.T) {
	r := scaleRule{target: 8, most: 8, cooldown: 14 * time.Second, settle: 5 * time.Second}
	begun := time.Now()
	var m scaleMemory
	running := 0
	for _, step := range []struct {
		at           int // seconds
		length, want int
		why          string
	}{
		{0, 0, 0, "nothing there, nobody needed"},
		{2, 1, 1, "the first message wakes one"},
		{4, 9, 2, "one more message than one is for"},
		{6, 1000, 8, "never more than the most"},
		{8, 3, 8, "a lower number has to stand for a while"},
		{10, 17, 8, "still"},
		{12, 17, 3, "the highest of the last five seconds"},
		{14, 0, 3, "no message, yet the last decisions count"},
		{18, 0, 1, "and then one stays for the cooldown"},
		{24, 0, 1, "which is not over"},
		{26, 0, 0, "since the last message was seen fourteen seconds ago"},
		{28, 0, 0, "and nobody is woken for nothing"},
		{30, 8, 1, "until there is something again"},
	} {
		var got int
		got, m = r.decide(m, begun.Add(time.Duration(step.at)*time.Second), step.length, running)
		if got != step.want {
			t.Errorf("at %d s, %d messages, %d workers: %d, want %d: %s", step.at, step.length, running, got, step.want, step.why)
		}
		running = got
	}
}

// The processes hold the other relations themselves; the scaler's nobody else does.
func TestTheDrillsCooldownKeepsItsRelation(t *testing.T) { // HORIZON H24
	for cooldown, broken := range map[time.Duration]bool{drillRule.cooldown: false, loadGrace - time.Second: true} {
		s := horizon.Defaults()
		s.Tasks.Lock = horizon.Is("lock", loadLock)
		s.Worker.Lease, s.Worker.Grace = horizon.Is("lease", loadLease), horizon.Is("grace", loadGrace)
		s.Worker.StoreTimeout, s.Worker.Cooldown = horizon.Is("store", 900*time.Millisecond), horizon.Is("cooldown", cooldown)
		for i := range s.Handlers {
			s.Handlers[i].Call = horizon.Is("call", 3*time.Second)
		}
		violations, _ := horizon.Check(s)
		found := false
		for _, v := range violations {
			found = found || v.Relation == "H24"
		}
		if found != broken {
			t.Errorf("a cooldown of %v: broken %v, want %v: %v", cooldown, found, broken, violations)
		}
	}
}

func TestATakeoverBeyondItsBoundFailsTheDrill(t *testing.T) {
	for name, test := range map[string]struct {
		took []time.Duration
		line string
		says string
	}{
		"none":     {nil, "no takeover", "nothing was measured"},
		"in time":  {[]time.Duration{8 * time.Second, 7 * time.Second, takeoverBound}, "takeover p50 8s max 11s (bound 11s)", ""},
		"too late": {[]time.Duration{7 * time.Second, takeoverBound + time.Millisecond}, "max 11.001s", "more than 11s"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			d := &drilling{crew: &crew{tally: newTally()}, out: &out}
			for _, took := range test.took {
				d.tally.takeovers = append(d.tally.takeovers, takeover{took: took})
			}
			line, err := d.measured()
			if !strings.Contains(line, test.line) || (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q, %v", line, err)
			}
		})
	}
}
