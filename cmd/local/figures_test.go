package main

import (
	"regexp"
	"strings"
	"testing"
)

var drillLine = regexp.MustCompile(`^drill: (\d+) tasks, (\d+) effects, takeover p50 \S+ max (\S+) \(bound (\S+)\)$`)

// Figures are of one run, on one machine. What holds for every run that is shown: its
// last line is what the command prints of a run that went well, by bounds of now.
func TestTheFiguresThatAreShownAreOfRunsThatWentWell(t *testing.T) {
	shown := 0
	for _, block := range regexp.MustCompile("(?s)```text\n(.*?)\n```").FindAllStringSubmatch(documented(t), -1) {
		lines := strings.Split(block[1], "\n")
		last := lines[len(lines)-1]
		if m := soakLine.FindStringSubmatch(last); m != nil && m[1] == m[2] && m[3] == "0" && m[4] == "0" {
			shown++
			for _, kind := range faultKinds() {
				if !strings.Contains(block[1], " "+kind) {
					t.Errorf("a soak now has %s, and the run that is shown had none", kind)
				}
			}
		} else if m := drillLine.FindStringSubmatch(last); m != nil && m[1] == m[2] && m[4] == takeoverBound.String() {
			shown++
		} else {
			t.Errorf("%q is no last line of a run that went well", last)
		}
	}
	if shown != 2 {
		t.Errorf("%d runs are shown, want a soak and a drill", shown)
	}
}
