package main

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A process that does not answer has not been shown to be flat.
func TestAProcessThatDoesNotAnswerIsNotJudgedFlat(t *testing.T) {
	for name, v := range map[string]vitals{
		"never":        {child: &child{name: "w1"}},
		"now and then": {child: &child{name: "w1"}, seen: looks(30, 0), missed: 30*60 + 1},
	} {
		if _, err := v.judge(30 * time.Minute); err == nil || !strings.Contains(err.Error(), "nothing is known") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// looks are a process looked at once a second: what rises, by so much a minute, and
// what scatters.
func looks(minutes, rise float64) []vital {
	chance := rand.New(rand.NewPCG(1, 1))
	var seen []vital
	for at := time.Duration(0); at.Minutes() < minutes; at += time.Second {
		up := rise * at.Minutes()
		seen = append(seen, vital{at, 40 + 20*chance.Float64() + up, 4, 2e6 + 5e5*chance.Float64(), 3e7})
	}
	return seen
}

// What the SDK forgets is told apart from what we do.
func TestRenewalsOfTokensAreCountedApart(t *testing.T) {
	const profile = `goroutine profile: total 52
4 @ 0x1 0x2
#	0x9df5a2	github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal.(*Namespace).startNegotiateClaimRenewer.func3+0x202	/x/namespace.go:437

2 @ 0x1 0x3
#	0x4e0e37	time.Sleep+0x1	/x/sleep.go:1
#	0x9df5a3	github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal.(*Namespace).startNegotiateClaimRenewer.func3+0x303	/x/namespace.go:440

46 @ 0x4
#	0x4e0e38	main.main+0x1	/x/main.go:1
`
	if others, renewals, err := goroutinesIn([]byte(profile)); err != nil || others != 46 || renewals != 6 {
		t.Errorf("%v others and %v renewals, %v, want 46 and 6", others, renewals, err)
	}
	if _, _, err := goroutinesIn([]byte("<html>")); err == nil {
		t.Error("a page that is no profile was counted")
	}
}

func TestASlopeIsThatOfTheLine(t *testing.T) {
	var seen []vital
	for n := range 10 {
		seen = append(seen, vital{after: time.Duration(n) * time.Minute, heap: 5 + 3*float64(n)})
	}
	if s := fit(seen, func(v vital) float64 { return v.heap }); math.Abs(s.rise-3) > 1e-9 || s.err > 1e-9 {
		t.Errorf("%+v, want a rise of 3 a minute and no scatter", s)
	}
}

func TestGrowthIsSaidAndScatterIsNot(t *testing.T) {
	for name, test := range map[string]struct {
		minutes, rise float64
		says, line    string
	}{
		"flat":               {30, 0, "", "goroutines"},
		"it falls":           {30, -5, "", "goroutines"},
		"one for every kill": {30, 15, "goroutines of w1 grow by", "bound 1"},
		"too short to say":   {1, 15, "", "not judged"},
	} {
		t.Run(name, func(t *testing.T) {
			v := vitals{child: &child{name: "w1"}, seen: looks(test.minutes, test.rise)}
			line, err := v.judge(30 * time.Minute)
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) || !strings.Contains(line, test.line) {
				t.Errorf("%q, %v", line, err)
			}
		})
	}
}
