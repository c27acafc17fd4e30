package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"oneeffect/cmd/internal/process"
	cosmosemulator "oneeffect/emulator/cosmos"
	"oneeffect/measure"

	"github.com/spf13/cobra"
)

// programs are this one and those that it is about, built and running on ports of their
// own.
type programs struct {
	t        *testing.T
	ctx      context.Context
	bin      string
	env      process.Environment
	emulator *measure.Server
}

func startPrograms(t *testing.T) *programs {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Minute, errors.New("the test is bounded to four minutes"))
	t.Cleanup(cancel)
	p := &programs{t: t, ctx: ctx, bin: t.TempDir()}
	build := exec.CommandContext(ctx, "go", "build", "-o", p.bin+"/", "oneeffect/emulator", "oneeffect/cmd/worker", "oneeffect/cmd/orchestrator", "oneeffect/cmd/taskctl")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.emulator = p.launch("emulator", "-amqp=127.0.0.1:0", "-cosmos=127.0.0.1:0", "-downstream=127.0.0.1:0", "-control=127.0.0.1:0")
	p.env = process.Environment{
		"PATH=" + p.bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=xterm",
		"SERVICEBUS_CONNECTION_STRING=Endpoint=sb://" + p.emulator.AMQP + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true",
		"ONEEFFECT_TASKCTL_COSMOS_ENDPOINT=http://" + p.emulator.Cosmos,
		"COSMOS_KEY=" + cosmosemulator.EmulatorKey,
		"CRM_URL=http://" + p.emulator.Downstream, "PRINT_URL=http://" + p.emulator.Downstream,
	}
	if got := taskctl(t, p.env, "setup"); got.code != exitOK {
		t.Fatalf("setup: %+v", got)
	}
	ours := []string{"-cosmos-endpoint=http://" + p.emulator.Cosmos, "-log-level=error"}
	orchestrator := p.launch("orchestrator", append(ours, "-id=o", "-listen=127.0.0.1:0", "-follow-period=100ms")...)
	p.launch("worker", append(ours, "-id=worker-1", "-handlers=../../handlers.yaml")...)
	p.env = append(p.env, "ONEEFFECT_TASKCTL_ORCHESTRATOR_URL=http://"+orchestrator.HTTP)
	return p
}

func (p *programs) launch(program string, args ...string) *measure.Server {
	p.t.Helper()
	started, err := measure.Launch(context.WithoutCancel(p.ctx), p.env, filepath.Join(p.bin, program), args...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := started.Stop(); err != nil {
			p.t.Error(err)
		}
	})
	return started
}

// control asks the emulators for something, which they must grant.
func (p *programs) control(t *testing.T, method, path, body string) string {
	t.Helper()
	answer, err := p.emulator.Ask(p.ctx, method, "/control/"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// until tries again whenever something has happened at the emulators.
func (p *programs) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for seen := uint64(0); !holds(); {
		events, err := p.emulator.Events(p.ctx, seen)
		if err != nil {
			t.Fatalf("%s: %v (%v)", what, err, context.Cause(p.ctx))
		}
		for _, e := range events {
			seen = max(seen, e.Seq)
		}
	}
}

// What the page calls the state of the emulated downstream.
var downstreams = map[string]func(p *programs, t *testing.T){
	"the printer is slow":      func(p *programs, t *testing.T) { p.rule(t, "slow", `{"entity":"/letters"}`, `"do":"hold"`) },
	"the printer is as always": func(p *programs, t *testing.T) { p.control(t, "DELETE", "rules/slow", "") },
	"the downstream fails": func(p *programs, t *testing.T) {
		p.rule(t, "refused", `{"entity":"/customers"}`, `"do":"answer","status":400`)
		p.rule(t, "unknown", `{"entity":"/letters"}`, `"do":"answer","status":500`)
	},
	"the downstream is well": func(p *programs, t *testing.T) {
		p.control(t, "DELETE", "rules/refused", "")
		p.control(t, "DELETE", "rules/unknown", "")
	},
}

// rule arms a rule of the downstream's, or of another service that match names.
func (p *programs) rule(t *testing.T, name, match, do string) {
	t.Helper()
	if !strings.Contains(match, `"service"`) {
		match = strings.Replace(match, "{", `{"service":"downstream",`, 1)
	}
	p.control(t, "POST", "rules", fmt.Sprintf(`{"name":%q,"match":%s,%s}`, name, match, do))
}

// example is a command of the page, or a state of the downstream, which stands in a
// comment.
type example struct {
	line  string
	code  int
	parts []string // of what is printed, in this order
	state string
}

func examplesOf(t *testing.T, page string) (found []example) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	answer, state := regexp.MustCompile(`^# (\d)(?: (.*))?$`), regexp.MustCompile(`^<!-- (.*) -->$`)
	shell, waits := false, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		m, s := answer.FindStringSubmatch(line), state.FindStringSubmatch(line)
		switch {
		case s != nil:
			found = append(found, example{state: s[1]})
		case strings.HasPrefix(line, "```"):
			shell = line == "```sh"
		case !shell:
		case waits && m != nil:
			e := &found[len(found)-1]
			if e.code, err = strconv.Atoi(m[1]); err != nil {
				t.Fatal(err)
			}
			for part := range strings.SplitSeq(m[2], "…") {
				e.parts = append(e.parts, spaced(part))
			}
			waits = false
		case waits:
			t.Fatalf("%s: nothing is said of %s", page, found[len(found)-1].line)
		default:
			found, waits = append(found, example{line: line}), true
		}
	}
	if waits || len(found) == 0 {
		t.Fatalf("%s: %d examples, and an answer to the last: %t", page, len(found), !waits)
	}
	return found
}

// spaced is text with one blank where there are several.
func spaced(text string) string { return strings.Join(strings.Fields(text), " ") }

// holds reports whether an outcome is what the page says.
func (e example) holds(got outcome) bool {
	rest := spaced(got.out + " " + got.errOut)
	for _, part := range e.parts {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			return false
		}
		rest = after
	}
	return got.code == e.code
}

// run runs a line in a shell, in the folder that the page is read in.
func (p *programs) run(t *testing.T, line string) outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	c := exec.CommandContext(p.ctx, "bash", "-c", line)
	c.Dir, c.Env, c.Stdout, c.Stderr = "../..", p.env, &out, &errOut
	err := c.Run()
	exit, ended := errors.AsType[*exec.ExitError](err)
	if err != nil && !ended {
		t.Fatalf("%s: %v", line, err)
	}
	got := outcome{out: out.String(), errOut: errOut.String()}
	if ended {
		got.code = exit.ExitCode()
	}
	return got
}

// What only looks, and may be tried again.
var looks = []string{"list", "get", "timeline"}

// play runs an example. To look is repeated when something has happened at the
// emulators, until it fits: what the page shows is done by other processes.
func (p *programs) play(t *testing.T, e example) {
	t.Helper()
	if e.state != "" {
		change, known := downstreams[e.state]
		if !known {
			t.Fatalf("nobody here knows what it means that %s", e.state)
		}
		change(p, t)
		return
	}
	var got outcome
	looking := slices.ContainsFunc(looks, func(name string) bool { return strings.Contains(e.line, " "+name) })
	p.until(t, e.line, func() bool {
		if got = p.run(t, e.line); e.holds(got) {
			return true
		}
		if !looking || p.ctx.Err() != nil {
			t.Fatalf("%s\nends with %d and prints\n%s%s\nand not %d and %q", e.line, got.code, got.out, got.errOut, e.code, e.parts)
		}
		return false
	})
	if strings.Contains(got.out+got.errOut, "\x1b") {
		t.Errorf("%s: colours, and nobody looks:\n%q", e.line, got.out+got.errOut)
	}
}

// Commands whose examples are played elsewhere, since they take their time.
var playedElsewhere = map[string]string{
	"taskctl preflight":        "../local/evidence_test.go", // within the evidence
	"taskctl evidence run":     "../local/evidence_test.go",
	"taskctl evidence attempt": "../local/evidence_test.go", // which evidence run starts
}

// The programs themselves: the page, and then a terminal.
func TestTheProgramsAtWork(t *testing.T) {
	p := startPrograms(t)
	t.Run("docs/taskctl.md", p.playThePage)
	t.Run("completion in a terminal", p.completeInATerminal)
	t.Run("watch in a terminal", p.watchInATerminal)
	t.Run("watch over a proxy", p.watchOverAProxy)
	t.Run("an interrupted replay in a terminal", p.replayInATerminal)
	t.Run("an assertion", p.assertNothingApplied)
	t.Run("the trace", p.nameTheTrace)
	t.Run("with tokens", p.bringTokens)
}

func (p *programs) playThePage(t *testing.T) {
	played := ""
	for _, e := range examplesOf(t, "../../docs/taskctl.md") {
		p.play(t, e)
		played += e.line + "\n"
	}
	root := (&app{}).root()
	root.InitDefaultCompletionCmd()
	missing := maps.Clone(playedElsewhere)
	eachCommand(root, func(c *cobra.Command) {
		name := c.CommandPath()
		if strings.HasPrefix(name, "taskctl drill ") {
			return // a drill is its own test
		}
		if _, elsewhere := missing[name]; elsewhere {
			delete(missing, name)
		} else if !strings.Contains(played, name+" ") && !strings.Contains(played, name+"\n") && c.Parent().Name() != "completion" {
			t.Errorf("the page has no example of %s", name)
		}
	})
	for name := range missing {
		t.Errorf("there is no command %s any more", name)
	}
}

// eachCommand calls f for every command that does something.
func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if sub.HasSubCommands() {
			eachCommand(sub, f)
		} else if sub.Runnable() {
			f(sub)
		}
	}
}

// Once the last call cannot be on its way any more, and somebody asserts that nothing was
// applied, an unknown outcome is one more run.
func (p *programs) assertNothingApplied(t *testing.T) {
	downstreams["the downstream fails"](p, t)
	failed := taskctl(t, p.env, "submit", "letter.print", `{"to":"Ada"}`, "--execution-id=letter-20", "--watch")
	downstreams["the downstream is well"](p, t)
	if failed.code != exitFailed || !strings.Contains(failed.errOut, "letter-20 is FAILED: OutcomeUnknown") {
		t.Fatalf("%+v", failed)
	}
	p.control(t, "POST", "clock", `{"jump":"30m"}`)
	got := taskctl(t, p.env, "dead-letters", "replay", "letter-20", "--reason=the tray is empty", "--assert-not-applied", "-o=json")
	if got.code != exitOK || !strings.Contains(got.out, `"result": "replayed"`) || !strings.Contains(got.out, `"run": 2`) {
		t.Fatalf("%+v", got)
	}
	got = taskctl(t, p.env, "watch", "letter-20", "-o=json")
	if got.code != exitOK || !strings.Contains(got.out, "asserting that nothing was applied") || strings.Count(got.out, "\n") < 4 {
		t.Errorf("%+v", got)
	}
}
