package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oneeffect/internal/evidence"
	"oneeffect/internal/evidence/probe"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
)

// cells is the folder of a run that is not about probes, and its head.
func cells(t *testing.T, observed evidence.Counts) (dir, head string) {
	t.Helper()
	run, err := evidence.NewRun(t.TempDir(), evidence.About{Purpose: "test", Program: "test", ServiceBus: "nowhere", CosmosDB: "nowhere", Machine: "test"})
	if err != nil {
		t.Fatal(err)
	}
	r := evidence.Record{
		Kind: evidence.KindCell, Expected: evidence.Held,
		Cell: &evidence.Cell{Row: "claim held, nothing sent", Handler: "keyed", Signal: "SIGKILL", Expected: []evidence.Counts{{Effects: 1, Completions: 1}}, Observed: observed},
		Fields: evidence.Fields{
			EventKey: "82f3", BusinessEntity: "execution 82f3", Version: 1, DeliveryAttempt: []evidence.Attempt{{Transport: "servicebus", ID: "82f3", Count: 1, Process: "worker-1", Ended: evidence.Killed}},
			ReceiptState: "a", SideEffect: "b", DuplicateDecision: "c", OrderingDecision: "d", ResidualRisk: []string{"e"},
			Evidence: evidence.Evidence{VendorFacts: []evidence.VendorFact{}, LocalObservations: []evidence.Observation{{Source: "downstream", Saw: "one effect"}}, Inference: []string{"f"}},
		},
	}
	if err := run.Append(r); err != nil {
		t.Fatal(err)
	}
	if head, err = run.Close(); err != nil {
		t.Fatal(err)
	}
	return run.Dir(), head
}

func TestVerifyTellsByItsExitCode(t *testing.T) {
	good, head := cells(t, evidence.Counts{Effects: 1, Completions: 1})
	bad, _ := cells(t, evidence.Counts{Effects: 2, Completions: 1})
	file := filepath.Join(good, evidence.RecordsFile)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{file}, exitOK, "verify: 2 records, 0 of 0 probes as expected, chain intact, 1 of 1 cells as expected"},
		{[]string{good, "--head=" + head}, exitOK, "chain intact"},
		{[]string{good, "--head=sha256:1"}, exitFailed, "the run told sha256:1"},
		{[]string{bad}, exitFailed, "chain intact, 0 of 1 cells as expected"},
		{[]string{filepath.Join(t.TempDir(), "nothing")}, exitUsage, "no such file"},
		{nil, exitUsage, "accepts 1 arg"},
	} {
		got := taskctl(t, nil, append([]string{"evidence", "verify"}, c.args...)...)
		if got.code != c.code || !strings.Contains(got.out+got.errOut, c.want) || got.code != exitOK && !strings.Contains(got.errOut, "\nnext: ") {
			t.Errorf("%v: exit %d, want %d and %q\n%s%s", c.args, got.code, c.code, c.want, got.out, got.errOut)
		}
	}
	// A copy under another name, without its manifest, is named as it is.
	records, err := os.ReadFile(filepath.Join(good, evidence.RecordsFile))
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copied")
	if err := os.WriteFile(copied, records, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := taskctl(t, nil, "evidence", "verify", copied, "--head", head); !strings.Contains(got.out, "records  "+copied+"\n") {
		t.Errorf("of %s it says\n%s", copied, got.out)
	}
	got := taskctl(t, nil, "evidence", "verify", good, "--output=json")
	var told struct {
		Head    string `json:"head"`
		Passes  bool   `json:"passes"`
		Records []struct {
			Observed string `json:"observed"`
		} `json:"records"`
	}
	if err := json.Unmarshal([]byte(got.out), &told); err != nil || told.Head != head || !told.Passes || len(told.Records) != 1 || told.Records[0].Observed != "HELD" {
		t.Errorf("as JSON: %v\n%s", err, got.out)
	}
}

func TestTheProbesKeepOutOfTheSystemsOwnData(t *testing.T) {
	for _, args := range [][]string{
		{"evidence", "run", "--evidence-database=oneeffect"},
		{"evidence", "run", "--topic="},
		{"evidence", "run", "--lock=1ms"},
		{"evidence"},
		{"evidence", "nonsense"},
	} {
		if got := taskctl(t, nil, args...); got.code != exitUsage || !strings.Contains(got.errOut, "\nnext: ") {
			t.Errorf("%v: exit %d, want %d\n%s", args, got.code, exitUsage, got.errOut)
		}
	}
	if got := taskctl(t, nil, "evidence", "--help"); got.code != exitOK || strings.Contains(got.out, "attempt") {
		t.Errorf("the process that kills itself is shown as a command:\n%s", got.out)
	}
}

// What keeps a probe from being carried out is told from what it has shown.
func TestAProbeThatCouldNotBeCarriedOutIsNotOneThatFailed(t *testing.T) {
	dir, head := cells(t, evidence.Counts{Effects: 1, Completions: 1})
	report, err := evidence.Verify(dir, head)
	if err != nil {
		t.Fatal(err)
	}
	for cause, want := range map[error]int{message.ErrUnknown: exitUnreachable, message.ErrRefused: exitFailed, errors.New("else"): exitFailed} {
		var out, errOut bytes.Buffer
		a := &app{stdout: &out, stderr: &errOut}
		code := a.exit(a.conclude([]probe.Result{{Name: evidence.Baseline, Err: fmt.Errorf("send: %w", cause)}}, report, "page"))
		if code != want || !strings.HasSuffix(out.String(), "evidence: 1 probes, 0 as expected, chain intact\n") {
			t.Errorf("%v: exit %d, want %d\n%s%s", cause, code, want, out.String(), errOut.String())
		}
	}
}

func TestAnUnwritableFolderIsSaid(t *testing.T) {
	at := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := evidence.NewRun(at, evidence.About{})
	if p, ok := errors.AsType[*problem](file(err)); !ok || p.code != exitUsage || p.next == "" {
		t.Errorf("got %v", err)
	}
}
