package evidence

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// about is a run's own record that says nothing particular.
func about(purpose string) About {
	return About{Purpose: purpose, Program: "test", ServiceBus: "nowhere", CosmosDB: "nowhere", Machine: "test"}
}

const someDigest = "sha256:00000000000000000000000000000000000000000000000000000000000000aa"

// stockRecord is a case of the table about stock, observed as the table says.
func stockRecord(c Case, reported Class, states ...State) Record {
	r := Record{
		Kind: KindProbe, Probe: &Probe{Number: c.Probe, Name: c.Name, Case: c.Case, Sense: c.Sense}, Expected: c.Expected,
		Fields: Fields{
			EventKey: c.EventKey, BusinessEntity: c.Entity, Version: c.Version,
			ReceiptState: "as observed", SideEffect: "as observed", DuplicateDecision: "as observed", OrderingDecision: "as observed",
			Evidence: Evidence{
				VendorFacts: []VendorFact{Sources()[0].Fact("a claim")}, Inference: []string{"an inference"},
				LocalObservations: []Observation{{Source: "producer", Saw: "sent", Sent: &Sent{EventKey: c.EventKey, Entity: c.Entity, Version: c.Version, Digest: someDigest, Delta: c.Delta}}},
			},
			ResidualRisk: []string{"a risk"},
		},
	}
	if c.Delta == 0 {
		r.Evidence.LocalObservations[0].Sent.Content = `{"tier":"gold"}`
	}
	for _, s := range states {
		r.Evidence.LocalObservations = append(r.Evidence.LocalObservations, Observation{Source: "store", Saw: s.String(), State: &s})
	}
	for i, id := range c.Deliveries {
		a := Attempt{Transport: "servicebus", ID: id, Count: i + 1, Process: "test", Ended: "complete"}
		if i == len(c.Deliveries)-1 {
			a.Reported = reported
		}
		if i < len(c.Deliveries)-1 {
			a.Ended = Killed
		}
		r.DeliveryAttempt = append(r.DeliveryAttempt, a)
	}
	return r
}

func seen(c Case, outcome string, found int64, delivery string) ReceiptSeen {
	return ReceiptSeen{Key: c.EventKey, Digest: someDigest, Outcome: outcome, Version: c.Version, Found: found, Delta: c.Delta, Writer: "w1", Delivery: delivery}
}

// records are those of a whole run of the probes in which all is as it must be.
func records(t *testing.T) []Record {
	t.Helper()
	c := Cases()
	opened := State{Version: 9, Stock: 100}
	done := State{Version: 10, Stock: 97, Receipts: []ReceiptSeen{seen(c[0], "applied", 9, "delivery-A")}}
	late := done
	late.Receipts = append(done.Receipts[:1:1], seen(c[4], "stale", 10, "delivery-C"))
	const gold = `{"tier":"gold"}`
	hook := State{Version: 7, Content: gold, Receipts: []ReceiptSeen{seen(c[6], "applied", 0, "attempt-1")}}
	hooked := hook
	hooked.Receipts = append(hook.Receipts[:1:1], seen(c[8], "stale", 7, "attempt-3"))
	all := []Record{
		stockRecord(c[0], Applied, opened, done),
		stockRecord(c[1], Duplicate, done, done),
		stockRecord(c[2], "", opened, State{Version: 9, Stock: 97}, State{Version: 10, Stock: 94, Receipts: done.Receipts}),
		stockRecord(c[3], Duplicate, opened, done, done),
		stockRecord(c[4], Stale, done, late),
		stockRecord(c[5], ""),
		stockRecord(c[6], Applied, State{}, hook),
		stockRecord(c[7], Duplicate, hook, hook),
		stockRecord(c[8], Stale, hook, hooked),
	}
	subject := all[0].Fields
	subject.ResidualRisk = nil
	text, err := json.Marshal(subject)
	if err != nil {
		t.Fatal(err)
	}
	all[5].Probe.Subject = text
	return all
}

// recorded is the folder of a run, and its head.
func recorded(t *testing.T, purpose string, all []Record) (dir, head string) {
	t.Helper()
	run, err := NewRun(t.TempDir(), about(purpose))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range all {
		if err := run.Append(r); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	if head, err = run.Close(); err != nil {
		t.Fatal(err)
	}
	return run.Dir(), head
}

func verified(t *testing.T, path, head string) Report {
	t.Helper()
	report, err := Verify(path, head)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// lines are the records of a run as they stand in its file.
func lines(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, RecordsFile))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// rewrite makes a folder with other records, and the manifest of dir if it is not "".
func rewrite(t *testing.T, dir string, lines []string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.WriteFile(filepath.Join(to, RecordsFile), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if dir != "" {
		manifest, err := os.ReadFile(filepath.Join(dir, ManifestFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, ManifestFile), manifest, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// blames says whether a report has a problem of an aspect.
func blames(r Report, a Aspect) bool {
	for _, p := range r.Problems {
		if p.Aspect == a {
			return true
		}
	}
	return false
}

func (r Report) String() string { return fmt.Sprintf("%d records, %v", len(r.Records), r.Problems) }
