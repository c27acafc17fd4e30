package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"oneeffect/internal/claim"
	proof "oneeffect/internal/evidence"
)

// some are cells of every kind. The others are `make crash`'s.
const some = `^(claim sent, answer lost / keyed / (killed|alive)` +
	`|request on the wire, no answer / applied / key(ed|less) / killed` +
	`|paused past the lease around the call, then resumed / after the effect / keyless / paused` +
	`|orchestrator: batch written, message not sent / batch answered / keyed / killed` +
	`|projector: batch sent, answer lost / killed)$`

func TestSomeCellsOfTheMatrix(t *testing.T) {
	t.Parallel()
	bin := programs(t)
	var out, errs strings.Builder
	records := t.TempDir()
	err := crash(t.Context(), bin, []string{"-cells", some, "-parallel", "3", "-evidence", records}, &out, &errs)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; err != nil || last != "crash: 7 cells, 7 passed, 0 failed" {
		t.Fatalf("%v, printed %s", err, out.String())
	}
	runs, err := filepath.Glob(filepath.Join(records, "*"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs of evidence: %v, %v", runs, err)
	}
	report, err := proof.Verify(runs[0], "")
	if err != nil || len(report.Problems) > 0 || len(report.Records) != 8 {
		t.Fatalf("%d records of evidence, %v, %v", len(report.Records), report.Problems, err)
	}
	page, err := os.ReadFile(filepath.Join(runs[0], proof.PageFile))
	if err != nil || !strings.Contains(string(page), "request on the wire, no answer") {
		t.Errorf("the page does not show the cells: %v", err)
	}
	if !strings.Contains(out.String(), report.Head) {
		t.Errorf("the head %s of the chain is not told", report.Head)
	}
	for _, r := range report.Records[1:] {
		if r.Observed != proof.Held {
			t.Errorf("%+v is %s", r.Cell, r.Observed)
		}
	}
}

// alone plays one cell, with nothing of it left behind.
func alone(t *testing.T, bin string, c cell) verdict {
	t.Helper()
	r := &crashing{bin: bin, folder: t.TempDir()}
	return r.play(t.Context(), c)
}

// called is the cell of a name.
func called(t *testing.T, name string) cell {
	t.Helper()
	all := cells(matrix)
	i := slices.IndexFunc(all, func(c cell) bool { return c.name() == name })
	if i < 0 {
		t.Fatalf("no cell is called %q", name)
	}
	return all[i]
}

// All is as it should be in the end, but nothing was tried.
func TestACellWhoseRuleNeverFiresFails(t *testing.T) {
	t.Parallel()
	c := called(t, "claim sent, answer lost / keyed / alive")
	c.point.at.Operation = "upsert" // nobody does
	v := alone(t, programs(t), c)
	if v.passed() || !errors.Is(v.err, errNeverFired) {
		t.Errorf("passed %v, %v", v.passed(), v.err)
	}
	if kept, err := os.ReadFile(filepath.Join(v.dir, "events.jsonl")); err != nil || !strings.Contains(string(kept), `"delivered"`) {
		t.Errorf("the event log is not kept: %v", err)
	}
	if r := v.record(); r.Cell.Observed == r.Cell.Expected[0] {
		t.Errorf("its record is %+v", r.Cell)
	}
}

// doubling are the words of a worker that calls again where nobody can know, and whose
// key is new for every grant.
var doubling = map[string][2]string{
	"claim/take.go":  {"case !keyed && (old.CallStarted || old.Keyed):", "case false:"},
	"worker/call.go": {"c.Key = message.Key(j.task.ExecutionID, step.Name)", "c.Key = message.Key(j.task.ExecutionID, fmt.Sprint(step.Name, stands.Fence))"},
}

// Either of its two mistakes is two effects, and the cells say so.
func TestABrokenWorkerMakesCellsFail(t *testing.T) {
	t.Parallel()
	bin := brokenWorker(t, programs(t))
	for _, kind := range []string{"keyed", "keyless"} {
		v := alone(t, bin, called(t, "request on the wire, no answer / applied / "+kind+" / killed"))
		if v.passed() || v.saw.Effects != 2 || v.err != nil {
			t.Errorf("%s: passed %v, %v, %v", kind, v.passed(), v.saw, v.err)
		}
		if r := v.record(); r.Cell.Observed == r.Cell.Expected[0] {
			t.Errorf("%s: its record is %+v", kind, r.Cell)
		}
	}
	// It is whole everywhere else.
	if v := alone(t, bin, called(t, "claim sent, answer lost / keyed / alive")); !v.passed() {
		t.Errorf("where nothing is broken: %v, %v", v.saw, v.err)
	}
}

// brokenWorker is a folder of programs of which the worker doubles effects.
func brokenWorker(t *testing.T, good string) (bin string) {
	t.Helper()
	bin = buildBroken(t, "./cmd/worker", doubling)
	for _, program := range []string{"emulator", "orchestrator"} {
		if err := os.Symlink(filepath.Join(good, program), filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// buildBroken builds a program into a folder of its own, from files below internal/ in
// which some words are replaced.
func buildBroken(t *testing.T, program string, broken map[string][2]string) (bin string) {
	t.Helper()
	bin = t.TempDir()
	replaced := map[string]string{}
	for file, words := range broken {
		path, err := filepath.Abs(filepath.Join("..", "..", "internal", file))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Count(string(text), words[0]) != 1 {
			t.Fatalf("%s does not have %q once (%v): the test is not of this code any more", file, words[0], err)
		}
		replaced[path] = filepath.Join(bin, filepath.Base(path))
		if err := os.WriteFile(replaced[path], []byte(strings.Replace(string(text), words[0], words[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(bin, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay="+file, "-o", bin+"/", program)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// An interrupt ends the processes of all cells under way, also those that are stopped.
func TestNoProcessIsLeftBehind(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := &crashing{bin: programs(t), folder: t.TempDir()}
	s := r.stage(called(t, "claim held, nothing sent downstream / keyless / paused"), r.folder)
	defer s.leave()
	if err := errors.Join(s.prepare(ctx), s.begin(ctx), s.arrive(ctx), s.victim.stopped()); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := s.play(ctx); err == nil {
		t.Error("played on after an interrupt")
	}
	s.leave()
	for _, c := range s.children {
		if err := syscall.Kill(c.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s is still there: %v", c.name, err)
		}
	}
}

func TestDeadLettersCountForTheirReasonOnly(t *testing.T) {
	want := unknown(1)
	other := want
	other.DeadLetters = []string{claim.TooOld}
	none := want
	none.DeadLetters = nil
	two := want
	two.DeadLetters = []string{claim.OutcomeUnknown, claim.OutcomeUnknown}
	for why, saw := range map[string]outcome{"another reason": other, "none": none, "two": two} {
		if same(saw, want) || counts(saw, want) == counts(want, want) {
			t.Errorf("%s: %v counts as %v", why, counts(saw, want), want)
		}
	}
	if !same(want, unknown(1)) {
		t.Error("the same is not the same")
	}
}

func TestMistakesOfTheMatrixsFlagsAreSaid(t *testing.T) {
	for _, args := range [][]string{{"-cells", "("}, {"-cells", "no such cell"}, {"-parallel", "0"}, {"extra"}} {
		var out, errs strings.Builder
		if err := crash(t.Context(), t.TempDir(), args, &out, &errs); err == nil || strings.Contains(out.String(), "crash:") {
			t.Errorf("%v: %v, printed %q", args, err, out.String())
		}
	}
	var out, errs strings.Builder
	if err := crash(t.Context(), t.TempDir(), []string{"-list", "-cells", "^projector"}, &out, &errs); err != nil || strings.Count(out.String(), "\n") != 5 {
		t.Errorf("-list: %v, printed %s", err, fmt.Sprint(out.String()))
	}
}
