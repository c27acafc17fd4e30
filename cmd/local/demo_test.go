package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// built is where the programs are, once some test has asked for them.
var built struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	sideBySide()
	built.dir, built.err = os.MkdirTemp("", "oneeffect-bin-")
	status := m.Run()
	_ = os.RemoveAll(built.dir)
	os.Exit(status)
}

// sideBySide has four tests run at a time, if go test was not told how many. Each has
// processes, ports and folders of its own, and most of its time it waits for them: a
// test for each processor would leave the processors idle.
func sideBySide() {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "4") // a flag of every test, and a number
	}
}

// programs makes the programs as `make demo` does, once for all tests.
func programs(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", built.dir+"/", "./emulator", "./cmd/local", "./cmd/worker", "./cmd/orchestrator", "./cmd/projector", "./cmd/taskctl")
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// runDemo runs the demo as a process and returns what it printed and its exit status.
func runDemo(t *testing.T, bin string, env []string, args ...string) (lines []string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*demoBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "local"), append([]string{"demo"}, args...)...)
	cmd.Env = append(append(os.Environ(), "KEEP=", "TMPDIR="+t.TempDir()), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends its own processes
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
		t.Logf("stderr: %s", exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Logf("stdout:\n%s", out)
	return strings.Split(strings.TrimSpace(string(out)), "\n"), status
}

// keepDemo runs the demo with KEEP=1, does something when it stands, and ends it. The
// lines are those that come before what is said of a demo that stands.
func keepDemo(t *testing.T, bin string, env []string, meanwhile func(t *testing.T, bin, command string)) (lines []string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*demoBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "local"), "demo")
	cmd.Env = append(append(os.Environ(), "KEEP=1", "TMPDIR="+t.TempDir()), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends its own processes
	cmd.WaitDelay = time.Minute
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stands := false
	for out := bufio.NewScanner(stdout); out.Scan(); {
		t.Log(out.Text())
		switch program, command, _ := strings.Cut(out.Text(), " "); {
		case program == "bin/taskctl":
			meanwhile(t, bin, command)
		case program == "Ctrl-C":
			stands = true
			cancel()
		case program != "orchestrator":
			lines = append(lines, out.Text())
		}
	}
	err = cmd.Wait()
	if !stands {
		t.Errorf("the demo is not left up: %v", err)
	}
	return append([]string{""}, lines...), cmd.ProcessState.ExitCode()
}

// drawn holds what taskctl draws of the demo's task to what the demo has shown.
func drawn(t *testing.T, bin, command string) {
	t.Helper()
	if task, _, _ := strings.Cut(strings.TrimPrefix(command, "timeline "), " "); task != "82f3" {
		t.Errorf("the demo says taskctl %s", command)
	}
	picture, status := program(t, filepath.Join(bin, "taskctl"), strings.Fields(command)...)
	rest := picture
	for _, part := range []string{
		"82f3  customer.create  COMPLETED", "worker-1", "worker-2", "Idempotency store", "Downstream system", "Orchestrator", "Cosmos DB",
		"deliver taskExecutionId 82f3 · attempt 1", "\n  1. ", "claim 82f3 · IN_PROGRESS", "\n  2. ", "customer.create · Idempotency-Key: 82f3", "\n  3. ", "\n  4. ",
		"\n  5. ", "× stopped before recording a result [crash", "lock expired · redeliver 82f3", "\n  6. ", "lease stale · take over, fence 2", "\n  7. ",
		"Idempotency-Key: 82f3", "\n  8. ", "applied · /customers/", "\n  9. ", "mark COMPLETED", "\n 10. ", "TaskCompleted · complete message", "\n 11. ",
		"completion for 82f3", "\n 12. ", "transition RUNNING → COMPLETED (ETag)", "\n 13. ", "already COMPLETED → no-op, message settled [duplicate]", "\n 14. ",
	} {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("exit status %d; %q is not drawn in its place:\n%s", status, part, picture)
		}
		rest = after
	}
	if status != 0 || strings.Contains(rest, "\n 15. ") {
		t.Errorf("exit status %d, or more than fourteen arrows:\n%s", status, picture)
	}
}

// The demo shows the diagram, and it is worth something only if it can fail.
func TestTheDemoObservesEveryArrowAndFailsWhenItIsLiedTo(t *testing.T) {
	t.Parallel()
	bin := programs(t)
	t.Run("truth, left up", func(t *testing.T) {
		t.Parallel()
		told, env := watchDemo(t)
		lines, status := keepDemo(t, bin, env, drawn)
		told.wantOneTrace(t)
		if last := lines[len(lines)-1]; last != "demo: 14/14 arrows observed, 1 effect, 1 transition" || status != 0 {
			t.Errorf("last line %q, exit status %d", last, status)
		}
	})
	// As in Azure: no key is told to anyone, and every connection of orchestrator and
	// workers to broker and store is TLS.
	t.Run("with TLS and a managed identity", func(t *testing.T) {
		t.Parallel()
		lines, status := runDemo(t, bin, nil, "-entra")
		if last := lines[len(lines)-1]; last != "demo: 14/14 arrows observed, 1 effect, 1 transition" || status != 0 {
			t.Errorf("last line %q, exit status %d", last, status)
		}
	})
	for lie, missed := range map[string]int{ // the first arrow that cannot be observed
		lieForgetful:    9,
		lieNoKill:       5,
		lieLock:         6,
		lieNoDuplicate:  14,
		lieNoConditions: 14,
	} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			lines, status := runDemo(t, bin, nil, "-lie", lie)
			if status != 1 {
				t.Errorf("exit status %d, want 1", status)
			}
			last := regexp.MustCompile(`^demo: (\d+)/14 arrows observed, (\d+) effects?, \d+ transitions?$`).FindStringSubmatch(lines[len(lines)-1])
			if last == nil || last[1] == "14" && last[2] == "1" {
				t.Errorf("last line %q: it noticed nothing", lines[len(lines)-1])
			}
			first := regexp.MustCompile(`(?m)^arrow +(\d+)  NOT OBSERVED`).FindStringSubmatch(strings.Join(lines, "\n"))
			if first == nil || first[1] != fmt.Sprint(missed) {
				t.Errorf("first arrow missed: %v, want %d", first, missed)
			}
		})
	}
}

func TestABadCommandSaysWhatToGive(t *testing.T) {
	for _, args := range [][]string{{}, {"nonsense"}, {"up", "extra"}, {"demo", "extra"}, {"demo", "-lie", "nonsense"}, {"demo", "-nonsense"}, {"up", "-handlers"}} {
		var out, errs strings.Builder
		err := run(t.Context(), args, &out, &errs)
		if err == nil || out.Len() > 0 {
			t.Errorf("%v: err %v, printed %q", args, err, out.String())
		}
	}
}

func TestASecondRunLeavesTheLogsOfTheFirstAlone(t *testing.T) {
	dir := t.TempDir()
	release, err := holdFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "emulator.log")
	if err := os.WriteFile(log, []byte("the first run's"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	bin := t.TempDir() // no programs: whatever comes further says so
	if err := up(t.Context(), bin, []string{"-dir", dir}, &out, &errs); err == nil || !strings.Contains(err.Error(), "another run has its logs in "+dir) || out.Len() > 0 {
		t.Errorf("err %v, printed %q", err, out.String())
	}
	if kept, err := os.ReadFile(log); err != nil || string(kept) != "the first run's" {
		t.Errorf("the log is %q, %v", kept, err)
	}
	release()
	if err := up(t.Context(), bin, []string{"-dir", dir}, &out, &errs); err == nil || !strings.Contains(err.Error(), "start emulator") {
		t.Errorf("after the first run: %v", err)
	}
}

// Each of the two ends only after the other has been asked to end.
func TestWorkersStopAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	for _, pipe := range []string{"one", "two"} {
		if err := syscall.Mkfifo(filepath.Join(dir, pipe), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &system{bin: "/bin", dir: dir}
	t.Cleanup(s.stop)
	for _, child := range []struct{ name, last string }{
		{"emulator", "exit 0"},
		{"worker-1", "echo > one; read answer < two; exit 0"},
		{"worker-2", "read answer < one; echo > two; exit 0"},
	} {
		script := fmt.Sprintf("cd %s; trap 'kill $!; %s' TERM; sleep 60 >&- & echo ready; wait", dir, child.last)
		if _, err := s.start(t.Context(), child.name, "sh", "-c", script); err != nil {
			t.Fatal(err)
		}
	}
	s.stop()
	for _, c := range s.children {
		if c.killed() {
			t.Errorf("%s had to be killed", c.name)
		}
	}
}
