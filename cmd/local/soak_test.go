package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var soakLine = regexp.MustCompile(`^soak: (\d+) tasks, (\d+) effects, (\d+) lost, (\d+) doubled$`)

// shortSoak is a soak of ten seconds, its faults at the operations that the seed says.
func shortSoak(t *testing.T, bin string, seed int) (out string, counts []string, err error) {
	t.Helper()
	var printed, errs strings.Builder
	err = soak(t.Context(), bin, []string{"-for=10s", "-rate=20", "-kill-every=3s", fmt.Sprintf("-seed=%d", seed)}, &printed, &errs)
	if logs := regexp.MustCompile(`logs are in (.+), and stay there`).FindStringSubmatch(printed.String()); logs != nil {
		t.Cleanup(func() {
			if !t.Failed() {
				_ = os.RemoveAll(logs[1]) // there already, unless the soak has failed
			}
		})
	}
	lines := strings.Split(strings.TrimSpace(printed.String()), "\n")
	if counts = soakLine.FindStringSubmatch(lines[len(lines)-1]); counts == nil {
		t.Fatalf("%v, printed %s", err, printed.String())
	}
	return printed.String(), counts, err
}

func TestAShortSoakCountsExactly(t *testing.T) {
	t.Parallel()
	out, counts, err := shortSoak(t, programs(t), 1)
	if err != nil || counts[1] != counts[2] || counts[1] == "0" || counts[3] != "0" || counts[4] != "0" {
		t.Errorf("%v, printed %s", err, out)
	}
}

// The worker of TestABrokenWorkerMakesCellsFail.
func TestASoakOfABrokenWorkerSaysDoubled(t *testing.T) {
	t.Parallel()
	bin := brokenWorker(t, programs(t))
	// Of the first calls under this seed several answers are lost, wherever the kills fall.
	out, counts, err := shortSoak(t, bin, 5)
	if err == nil || counts[4] == "0" {
		t.Errorf("%v, printed %s", err, out)
	}
}

// Ctrl-C ends every process of a soak, whenever it comes.
func TestAnInterruptedSoakLeavesNoProcess(t *testing.T) {
	t.Parallel()
	bin, dir := programs(t), t.TempDir()
	if left := running(t, dir); len(left) > 0 { // which skips the test before anything runs
		t.Fatalf("before anything runs: %q", left)
	}
	ctx, cancel := context.WithTimeout(t.Context(), drainBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "local"), "soak", "-for=5m")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "soak: it runs") {
	}
	if n := len(running(t, dir)); n < 5 {
		t.Errorf("%d processes of it run, want emulators, orchestrator and three workers", n)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	if err := cmd.Wait(); err == nil || soakLine.MatchString(last) {
		t.Errorf("it ended with %v and %q, as if it had counted", err, last)
	}
	if left := running(t, dir); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
}

// running are the processes that write their logs to a folder, and those logs.
func running(t *testing.T, dir string) []string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(processes) == 0 {
		t.Skipf("there is no /proc to look into: %v", err)
	}
	var found []string
	for _, p := range processes {
		log, err := os.Readlink(filepath.Join(p, "fd", "2")) // it may end just now, or be another user's
		if err == nil && strings.HasPrefix(log, dir) {
			found = append(found, p+" "+log)
		}
	}
	return found
}

func TestMistakesOfTheFlagsOfSoakAndDrillAreSaid(t *testing.T) {
	for _, args := range [][]string{{"soak", "-for=0s"}, {"soak", "-rate=0"}, {"soak", "-workers=1"}, {"soak", "-kill-every=-1s"}, {"soak", "extra"}, {"drill", "extra"}, {"drill", "-fast"}} {
		var out, errs strings.Builder
		if err := run(t.Context(), args, &out, &errs); err == nil || out.Len() > 0 {
			t.Errorf("%v: %v, printed %q", args, err, out.String())
		}
	}
}
