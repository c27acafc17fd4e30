package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// evidenceTestBound is how long one run may take on a machine that has other work.
const evidenceTestBound = 3 * time.Minute

// program runs a program and returns what it printed and its exit status.
func program(t *testing.T, name string, args ...string) (out string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), evidenceTestBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), elsewhere+"=")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends its own processes
	cmd.WaitDelay = time.Minute
	text, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
		t.Logf("%s says: %s", filepath.Base(name), exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text)), status
}

func lastLine(text string) string { return text[strings.LastIndex(text, "\n")+1:] }

// The evidence is that of real processes, and it is worth something only if it can be
// other than expected.
func TestTheEvidenceIsGatheredAndFailsWhenTheProjectorIsBroken(t *testing.T) {
	t.Parallel()
	bin := programs(t)
	broken := withoutVersionRule(t, bin)
	t.Run("as it is", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		out, status := program(t, filepath.Join(bin, "local"), "evidence", "-dir="+dir)
		if last := lastLine(out); last != "evidence: 6 probes, 6 as expected, chain intact" || status != 0 {
			t.Fatalf("exit status %d\n%s", status, out)
		}
		verifyRun(t, filepath.Join(bin, "taskctl"), dir)
	})
	t.Run("with TLS and a managed identity", func(t *testing.T) {
		t.Parallel()
		out, status := program(t, filepath.Join(bin, "local"), "evidence", "-entra", "-dir="+t.TempDir())
		if last := lastLine(out); last != "evidence: 6 probes, 6 as expected, chain intact" || status != 0 {
			t.Errorf("exit status %d\n%s", status, out)
		}
	})
	// A projector without the version rule: the stale probe and the webhook's find it.
	t.Run("without the version rule", func(t *testing.T) {
		t.Parallel()
		out, status := program(t, filepath.Join(broken, "local"), "evidence", "-dir="+t.TempDir())
		if last := lastLine(out); last != "evidence: 6 probes, 4 as expected, chain intact" || status != 1 {
			t.Errorf("exit status %d\n%s", status, out)
		}
	})
}

// verifyRun has the only run in dir verified, as it is and with one value changed.
func verifyRun(t *testing.T, taskctl, dir string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "records.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("records: %v, %v, want one file", found, err)
	}
	out, status := program(t, taskctl, "evidence", "verify", found[0])
	if last := lastLine(out); last != "verify: 25 records, 6 of 6 probes as expected, chain intact, 15 of 15 preflight verdicts as expected" || status != 0 {
		t.Errorf("verify: exit status %d\n%s", status, out)
	}
	page, err := os.ReadFile(filepath.Join(filepath.Dir(found[0]), "index.html"))
	if err != nil || !bytes.Contains(page, []byte("Probes: 6 of 6 as expected.")) {
		t.Errorf("the page (%v) does not say how many probes were as expected", err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(found[0], bytes.Replace(text, []byte(`"stock":94`), []byte(`"stock":97`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, status := program(t, taskctl, "evidence", "verify", found[0]); status != 1 || !strings.Contains(lastLine(out), ", chain broken, ") {
		t.Errorf("verify of a changed file: exit status %d\n%s", status, out)
	}
}

// withoutVersionRule is a folder of programs of which taskctl is built from a projector
// without its version rule.
func withoutVersionRule(t *testing.T, good string) (bin string) {
	t.Helper()
	bin = buildBroken(t, "./cmd/taskctl", map[string][2]string{
		"receipt/receipt.go": {"if e.Version <= stands.Version {", "if e.Version < 0 && e.Version <= stands.Version {"},
	})
	for _, program := range []string{"emulator", "local"} { // a symbolic link would be followed to where it leads
		if err := os.Link(filepath.Join(good, program), filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}
