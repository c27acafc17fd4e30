// Package broken shows that tests can fail. A test that stays green whatever its
// subject does proves nothing; so each rule of an emulator has a switch that breaks
// it (see control), and here the rule's own test runs without it, and has to be red.
//
//	table of rules ──rule R is off──▶ its own binary, -test.run=^TestOfR$
//	    ▲                                  │
//	    └──────red, by an assertion────────┘
//
// It is for the tests of emulators, and no part of them.
package broken

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"oneeffect/emulator/control"
)

// Rule is a rule of an emulator, the switch of control that breaks it, without the
// service's name, and the test that must notice. Each package of tests has a type
// of its own for them, so that its table is one of plain lines.
type Rule interface {
	~struct{ Says, Off, Test string }
}

type rule struct{ Says, Off, Test string }

// variable is the environment variable that names the switch with which every
// world of a process begins.
const variable = "EMULATOR_BROKEN_RULE"

// Break turns off the rule that this process is to be without, if there is one.
// Every test makes its worlds with it.
func Break(t testing.TB, hub *control.Hub) {
	t.Helper()
	if name := os.Getenv(variable); name != "" {
		if err := hub.Switch(name, true); err != nil {
			t.Fatal(err)
		}
	}
}

// variantLimit is how long a test may take without its rule, and wholeLimit how
// long all may with every rule in force. No variant is caught by it: a hang fails
// the test.
const (
	variantLimit = time.Minute
	wholeLimit   = 3 * time.Minute
)

// EveryVariantIsCaught runs each rule's test in a process of its own against a
// service without that rule, and wants it red: by an assertion, neither by a panic
// nor by the clock.
func EveryVariantIsCaught[R Rule](t *testing.T, service string, table []R) {
	rules := plain(table)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	for _, r := range rules {
		tests = append(tests, r.Test)
	}
	tests = slices.Compact(slices.Sorted(slices.Values(tests)))
	start := time.Now()
	if out, err := run(t.Context(), wholeLimit, binary, "", tests...); err != nil || strings.Contains(out, "no tests to run") {
		t.Fatalf("with every rule in force: %v\n%s", err, out)
	} else if passed := strings.Count(out, "\n--- PASS: "); passed != len(tests) {
		t.Fatalf("with every rule in force %d of %d tests passed\n%s", passed, len(tests), out)
	}
	whole := time.Since(start)

	verdicts := make([]string, len(rules))
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var running sync.WaitGroup
	for i, r := range rules {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			begun := time.Now()
			out, err := run(t.Context(), variantLimit, binary, service+"."+r.Off, r.Test)
			how, caught := verdict(out, err, r.Test)
			if !caught {
				t.Errorf("without %q, %s: %s", r.Off, r.Test, how)
			}
			verdicts[i] = fmt.Sprintf("%-55s %-28s %5.2fs  %s", r.Says, r.Off, time.Since(begun).Seconds(), how)
		})
	}
	running.Wait()
	t.Logf("%d tests pass with every rule in force (%.1fs); without its rule each fails (%.1fs):\n%s",
		len(tests), whole.Seconds(), time.Since(start).Seconds(), strings.Join(verdicts, "\n"))
}

// EverySwitchHasATest wants a rule for every switch of a service, and a switch for
// every rule.
func EverySwitchHasATest[R Rule](t *testing.T, service string, table []R) {
	rules := plain(table)
	known := make(map[string]bool)
	for _, s := range control.New().Switches() {
		if name, ok := strings.CutPrefix(s.Name, service+"."); ok {
			known[name] = false
		}
	}
	for _, r := range rules {
		if _, ok := known[r.Off]; !ok {
			t.Errorf("the rule %q has a switch %q that control does not know", r.Says, r.Off)
		}
		known[r.Off] = true
	}
	for name, tested := range known {
		if !tested {
			t.Errorf("no test notices that %q is off", name)
		}
	}
}

func plain[R Rule](table []R) []rule {
	rules := make([]rule, len(table))
	for i, r := range table {
		rules[i] = rule(r)
	}
	return rules
}

// run runs tests of a binary in a process whose worlds are without a rule.
func run(ctx context.Context, limit time.Duration, binary, without string, tests ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit+5*time.Second) // after its own timeout, which says more
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.timeout="+limit.String(), "-test.run=^("+strings.Join(tests, "|")+")$")
	cmd.Env = append(os.Environ(), variable+"="+without)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// said finds what an assertion said.
var said = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: (.*)$`)

// verdict tells how a broken variant was caught, if it was.
func verdict(out string, err error, test string) (how string, caught bool) {
	words := said.FindStringSubmatch(out)
	switch {
	case err == nil:
		return "PASSED, although the rule is off", false
	case strings.Contains(out, "panic: "), strings.Contains(out, "DATA RACE"), words == nil, !strings.Contains(out, "--- FAIL: "+test+" "):
		return fmt.Sprintf("ended without a word of an assertion: %v\n%s", err, out), false
	}
	if len(words[1]) > 90 {
		words[1] = words[1][:90] + "…"
	}
	return words[1], true
}
