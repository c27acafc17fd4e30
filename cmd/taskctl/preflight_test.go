package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oneeffect/emulator/control"
	"oneeffect/internal/evidence"
	"oneeffect/internal/evidence/probe"
)

// The probes themselves are tested in virtual time, in internal/preflight. Here they
// are refused at once.
func TestAPreflightThatFailsIsSaidAndKeptAndMakesEvidenceInvalid(t *testing.T) {
	s := startSystem(t, nil, "")
	s.setUp(t)
	if _, err := s.hub.Arm(control.Rule{Match: control.Match{Service: "cosmos", Entity: "inventory"}, Do: "answer", Status: http.StatusForbidden}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	got := taskctl(t, s.env, "preflight", "--queue=tasks", "--dir="+dir)
	if got.code != exitFailed || !strings.HasSuffix(got.out, "\npreflight: 15 probes, 0 hold\n") || !strings.Contains(got.out, "kept in "+dir) {
		t.Fatalf("exit %d\n%s%s", got.code, got.out, got.errOut)
	}
	for _, text := range []string{"batch-rollback: a batch that is refused leaves nothing", "expected: ", "queue tasks is the product's own", "take no evidence there"} {
		if !strings.Contains(got.errOut, text) {
			t.Errorf("it does not say %q:\n%s", text, got.errOut)
		}
	}
	runs, err := os.ReadDir(dir)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	report, err := evidence.Verify(filepath.Join(dir, runs[0].Name()), "")
	if err != nil {
		t.Fatal(err)
	}
	if report.Passes() || report.Count(evidence.KindPreflight) != (evidence.Tally{Of: 15}) {
		t.Errorf("the evidence passes: %+v", report.Count(evidence.KindPreflight))
	}
	const named = "preflight: record 1: invalid: what is relied on does not hold where this run was made: "
	checked := taskctl(t, nil, "evidence", "verify", filepath.Join(dir, runs[0].Name()))
	if checked.code != exitFailed || !strings.HasSuffix(checked.out, "chain intact, 0 of 15 preflight verdicts as expected, invalid\n") {
		t.Errorf("verify: exit %d\n%s", checked.code, checked.out)
	}
	for _, text := range []string{named, "batch-rollback: a batch that is refused leaves nothing; expected: ", "and take no evidence on these endpoints"} {
		if !strings.Contains(checked.errOut, text) {
			t.Errorf("verify does not say %q:\n%s", text, checked.errOut)
		}
	}
	var out, errOut bytes.Buffer
	a := &app{stdout: &out, stderr: &errOut}
	code := a.exit(a.conclude([]probe.Result{{Name: evidence.Baseline}}, report, "index.html"))
	if code != exitFailed || !strings.HasSuffix(out.String(), ", invalid\n") || !strings.Contains(errOut.String(), named) || !strings.Contains(errOut.String(), "take no evidence on these endpoints") {
		t.Errorf("a run of the probes: exit %d\n%s%s", code, out.String(), errOut.String())
	}
	for _, e := range s.hub.Events(0) {
		if e.Kind == "enqueued" {
			t.Errorf("a message was sent to %s", e.Entity)
		}
	}
}

func TestAPreflightWithoutEndpointsIsAMistake(t *testing.T) {
	if got := taskctl(t, nil, "preflight", "--cosmos-endpoint=https://a.example"); got.code != exitUsage || !strings.Contains(got.errOut, "no Service Bus") {
		t.Errorf("exit %d\n%s", got.code, got.errOut)
	}
}
