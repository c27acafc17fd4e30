package main

import (
	"bytes"
	"context"
	"encoding/json"
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
	bin := buildEvidence(t)
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
		out, status := program(t, filepath.Join(bin, "broken", "local"), "evidence", "-dir="+t.TempDir())
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

// buildEvidence makes the programs as `make evidence` does; in the folder broken, taskctl
// is built from a projector without its version rule.
func buildEvidence(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	build := func(args ...string) {
		t.Helper()
		cmd := exec.Command("go", append([]string{"build", "-o"}, args...)...)
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	build(bin+"/", "./emulator", "./cmd/local", "./cmd/taskctl")
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(root, "internal", "receipt", "receipt.go")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const rule = "if e.Version <= stands.Version {"
	if bytes.Count(text, []byte(rule)) != 1 {
		t.Fatalf("the version rule is no longer %q", rule)
	}
	broken, overlay := filepath.Join(bin, "broken.go"), filepath.Join(bin, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: broken}})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		os.WriteFile(broken, bytes.Replace(text, []byte(rule), []byte("if e.Version < 0 && e.Version <= stands.Version {"), 1), 0o600),
		os.WriteFile(overlay, replace, 0o600), os.Mkdir(filepath.Join(bin, "broken"), 0o700),
	)
	for _, name := range []string{"emulator", "local"} { // a link would be followed to where it leads
		err = errors.Join(err, os.Link(filepath.Join(bin, name), filepath.Join(bin, "broken", name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	build(filepath.Join(bin, "broken", "taskctl"), "-overlay="+overlay, "./cmd/taskctl")
	return bin
}
