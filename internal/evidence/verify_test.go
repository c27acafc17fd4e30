package evidence

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func TestAWholeRunPasses(t *testing.T) { // V2 V3 V6 V7
	dir, head := recorded(t, PurposeProbes, records(t))
	report := verified(t, dir, head)
	if !report.Passes() || !report.Intact() || report.Head != head || len(report.Records) != 10 {
		t.Fatalf("it does not pass: %v", report)
	}
	if got := report.Probes(); got != (Tally{6, 6}) {
		t.Errorf("probes: %+v, want 6 of 6", got)
	}
	if notices := report.Notices(time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)); len(notices) != 0 {
		t.Errorf("on the day of the review: %v", notices)
	}
	if notices := report.Notices(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)); len(notices) != 3 || !report.Passes() { // V7
		t.Errorf("past the review: %d notices, want 3, and no failure", len(notices))
	}
}

// Every value is changed, one at a time, in records that have every member between them.
func TestNoValueCanBeChanged(t *testing.T) { // V3
	probes := records(t)
	cell := probes[0]
	cell.Kind, cell.Probe, cell.Expected = KindCell, nil, Held
	cell.Cell = &Cell{Row: "a row", Handler: "keyed", Signal: "SIGKILL", Expected: []Counts{{Effects: 1, DeadLetters: 1, Failures: 1}}, Observed: Counts{Effects: 1, DeadLetters: 1, Failures: 1}}
	dir, head := recorded(t, "test", []Record{probes[2], probes[5], probes[8], cell, {Kind: KindPreflight, Expected: Held, Preflight: &Verdict{Reliance: "a", Expected: "b", Seen: "b", Holds: true}}})
	all := lines(t, dir)
	s, err := compile()
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for i, line := range all {
		for _, other := range flips(t, line) {
			if other == line {
				t.Fatalf("record %d was not changed", i)
			}
			changed++
			tampered := slices.Clone(all)
			tampered[i] = other
			report, err := s.verify(strings.NewReader(strings.Join(tampered, "\n")), nil, head)
			if err != nil || report.Passes() || report.Intact() {
				t.Fatalf("it passes (%v) with record %d as\n%s\nand was\n%s", err, i, other, line)
			}
		}
	}
	t.Logf("%d values", changed)
	if changed < 200 {
		t.Errorf("%d values were changed: that cannot be all of them", changed)
	}
}

// flips are a record's texts with one scalar changed in each.
func flips(t *testing.T, line string) []string {
	t.Helper()
	var out []string
	tokens := jsontext.NewDecoder(strings.NewReader(line))
	for {
		kind := tokens.PeekKind()
		if kind == 0 {
			return out
		}
		_, _ = tokens.ReadToken()
		end := int(tokens.InputOffset())
		length, _ := tokens.StackIndex(tokens.StackDepth())
		switch last := line[end-1]; {
		case kind == '"' && length == '{' && strings.HasPrefix(line[end:], ":"): // a name
			continue
		case kind == '"':
			if last = line[end-2]; last == '"' { // the empty text
				out = append(out, line[:end-1]+"x"+line[end-1:])
				continue
			}
			out = append(out, line[:end-2]+string('a'+(last+1)%26)+line[end-1:])
		case kind == '0':
			out = append(out, line[:end-1]+string('0'+(last-'0'+1)%10)+line[end:])
		case kind == 't':
			out = append(out, line[:end-4]+"false"+line[end:])
		case !strings.ContainsRune("{}[]", rune(kind)):
			t.Fatalf("nobody here changes a value of the kind %v", kind)
		}
	}
}

func TestNoRecordCanBeRemovedAddedOrMoved(t *testing.T) { // V3
	dir, head := recorded(t, PurposeProbes, records(t))
	all := lines(t, dir)
	s, err := compile()
	if err != nil {
		t.Fatal(err)
	}
	passes := func(lines []string) bool {
		report, err := s.verify(strings.NewReader(strings.Join(lines, "\n")), nil, head)
		return err != nil || report.Passes() || report.Intact()
	}
	if passes(all[:0]) {
		t.Error("nothing passes")
	}
	for i := range all {
		if passes(slices.Delete(slices.Clone(all), i, i+1)) {
			t.Errorf("without record %d it passes", i)
		}
		if passes(slices.Insert(slices.Clone(all), i, all[i])) {
			t.Errorf("with record %d twice it passes", i)
		}
		if i > 0 {
			moved := slices.Clone(all)
			moved[i-1], moved[i] = moved[i], moved[i-1]
			if passes(moved) {
				t.Errorf("with record %d before the one before it, it passes", i)
			}
		}
	}
	// One that fits in itself: only the record behind it says what stood there.
	var replaced Record
	if err := json.Unmarshal([]byte(all[1]), &replaced); err != nil {
		t.Fatal(err)
	}
	replaced.ResidualRisk = []string{"none whatsoever"}
	line, err := seal(&replaced)
	if err != nil {
		t.Fatal(err)
	}
	tampered := slices.Clone(all)
	tampered[1] = string(line)
	if passes(tampered) {
		t.Error("with a record replaced by another one it passes")
	}
	for says, line := range map[string]string{"no JSON": "{", "two members of one name": strings.Replace(all[1], `{`, `{"run":"x",`, 1), "a blank": " " + all[1], "an unknown member": strings.Replace(all[1], `{`, `{"a":1,`, 1)} {
		tampered := slices.Clone(all)
		tampered[1] = line
		if passes(tampered) {
			t.Errorf("with %s in it, it passes", says)
		}
	}
}

// chained computes a chain anew, as anybody can.
func chained(t *testing.T, all []Record) []string {
	t.Helper()
	out := make([]string, len(all))
	previous := ""
	for i := range all {
		all[i].Sequence, all[i].Previous = i, previous
		line, err := seal(&all[i])
		if err != nil {
			t.Fatal(err)
		}
		out[i], previous = string(line), all[i].Hash
	}
	return out
}

func TestAChainThatIsComputedAnewFailsByItsHead(t *testing.T) { // V4
	dir, head := recorded(t, PurposeProbes, records(t))
	forged := verified(t, dir, "").Records
	forged[1].ResidualRisk = []string{"none whatsoever"}
	again := chained(t, forged)
	for says, r := range map[string]Report{
		"beside the manifest of the run": verified(t, rewrite(t, dir, again), ""),
		"against the head that was told": verified(t, rewrite(t, "", again), head),
		"without anything to compare":    verified(t, rewrite(t, "", again), ""),
	} {
		if r.Passes() || r.Intact() {
			t.Errorf("%s: it passes", says)
		}
	}
	// With the manifest forged as well, only the head that was told says it.
	to := rewrite(t, dir, again)
	text, err := os.ReadFile(filepath.Join(to, ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, ManifestFile), bytes.ReplaceAll(text, []byte(head), []byte(forged[len(forged)-1].Hash)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := verified(t, to, ""); !r.Passes() {
		t.Errorf("with a forged manifest: %v; it should pass, which is why the head is told", r)
	}
	if r := verified(t, to, head); r.Passes() || r.Intact() {
		t.Error("with a forged manifest it passes against the head that was told")
	}
}

// A class that does not follow from the observations, a fixture that is not the
// table's and a case that is left out show even in a chain without a fault.
func TestAForgedChainMustStillAgreeWithItself(t *testing.T) { // V1 V2 V6
	dir, _ := recorded(t, PurposeProbes, records(t))
	for _, c := range []struct {
		says  string
		blame Aspect
		forge func(all []Record) []Record
	}{
		{"another class", AspectClass, func(all []Record) []Record { all[2].Observed = Applied; return all }},
		{"the negative evidence made good", AspectClass, func(all []Record) []Record {
			all[3].Observed, all[3].Expected = Duplicate, Duplicate
			return all
		}},
		{"what was expected made to fit", AspectCoverage, func(all []Record) []Record {
			states := all[1].Evidence.LocalObservations
			states[1].State, all[1].DeliveryAttempt[0].Reported = states[2].State, Duplicate
			all[1].DeliveryAttempt[0].Count = 2
			all[1].Observed, all[1].Expected = Duplicate, Duplicate
			return all
		}},
		{"another stock", AspectCoverage, func(all []Record) []Record {
			for _, o := range all[1].Evidence.LocalObservations {
				if o.State != nil {
					o.State.Stock += 100
				}
			}
			return all
		}},
		{"a class without what was seen", AspectClass, func(all []Record) []Record {
			all[1].Evidence.LocalObservations = []Observation{{Source: "broker", Saw: "it was applied"}}
			return all
		}},
		{"another transport id", AspectCoverage, func(all []Record) []Record { all[2].DeliveryAttempt[0].ID = "delivery-Z"; return all }},
		{"no negative evidence", AspectCoverage, func(all []Record) []Record { return slices.Delete(all, 3, 4) }},
		{"a case of nobody's", AspectCoverage, func(all []Record) []Record { all[1].Probe.Name = "something_else"; return all }},
		{"no residual risk", AspectCompleteness, func(all []Record) []Record { all[1].ResidualRisk = nil; return all }},
		{"a subject that is complete", AspectClass, func(all []Record) []Record {
			text, _ := json.Marshal(all[1].Fields)
			all[6].Probe.Subject = text
			return all
		}},
	} {
		lines := chained(t, c.forge(verified(t, dir, "").Records))
		var last Record
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
			t.Fatal(err)
		}
		report := verified(t, rewrite(t, "", lines), last.Hash)
		if report.Passes() || !report.Intact() || !blames(report, c.blame) {
			t.Errorf("%s: %v, want a problem of %s and a chain without a fault", c.says, report, c.blame)
		}
	}
}

func TestWhatIsNoFileOfRecordsIsSaid(t *testing.T) {
	if _, err := Verify(filepath.Join(t.TempDir(), "nothing"), ""); err == nil {
		t.Error("a file that is not there: no error")
	}
	if report := verified(t, rewrite(t, "", nil), ""); report.Passes() || report.Intact() {
		t.Error("an empty file passes")
	}
	if _, err := Verify(rewrite(t, "", []string{strings.Repeat("x", maxLine+1)}), ""); err == nil || !strings.Contains(err.Error(), "longer") {
		t.Errorf("a line without end: %v", err)
	}
	dir, head := recorded(t, PurposeProbes, records(t))
	manifest := filepath.Join(dir, ManifestFile)
	if err := os.WriteFile(manifest, bytes.Repeat([]byte{' '}, maxLine+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(dir, head); err == nil || !strings.Contains(err.Error(), "longer") {
		t.Errorf("a manifest without end: %v", err)
	}
}

// A run that is honest about what did not come out is intact, and does not pass.
func TestARunThatFailedIsIntactAndDoesNotPass(t *testing.T) {
	all := records(t)
	all[1].DeliveryAttempt[0].Reported = Applied // the projector says something else than the store
	dir, head := recorded(t, PurposeProbes, all)
	report := verified(t, dir, head)
	if report.Passes() || !report.Intact() || report.Probes() != (Tally{6, 5}) {
		t.Errorf("%v, %+v, want an intact chain and 5 of 6 probes", report, report.Probes())
	}
}

func TestCellsAndPreflightsAreCounted(t *testing.T) {
	cell := records(t)[0]
	cell.Kind, cell.Probe, cell.Expected = KindCell, nil, Held
	cell.Cell = &Cell{Row: "request on the wire, no answer", Handler: "keyless", Signal: "SIGKILL", Expected: []Counts{{DeadLetters: 1}, {Effects: 1, DeadLetters: 1}}, Observed: Counts{Effects: 1, DeadLetters: 1}}
	broken := cell
	broken.Cell = &Cell{Row: "request on the wire, no answer", Handler: "keyless", Signal: "SIGKILL", Expected: cell.Cell.Expected, Observed: Counts{Effects: 2}}
	flight := func(holds bool) Record {
		return Record{Kind: KindPreflight, Expected: Held, Preflight: &Verdict{Reliance: "a batch leaves nothing when it fails", Expected: "nothing", Seen: fmt.Sprint(holds), Holds: holds}}
	}
	dir, head := recorded(t, "crash matrix", []Record{cell, flight(true)})
	if report := verified(t, dir, head); !report.Passes() || report.Count(KindCell) != (Tally{1, 1}) || report.Count(KindPreflight) != (Tally{1, 1}) {
		t.Errorf("%v, want it to pass", report)
	}
	dir, head = recorded(t, "crash matrix", []Record{cell, broken, flight(false)})
	if report := verified(t, dir, head); report.Passes() || !report.Intact() || report.Count(KindCell) != (Tally{2, 1}) || report.Count(KindPreflight) != (Tally{1, 0}) {
		t.Errorf("%v, want one cell of two and no preflight", report)
	}
}
