package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheTableSaysMedianSpreadTargetAndRatio(t *testing.T) {
	var table Table
	file := filepath.Join(t.TempDir(), "samples")
	for i, v := range []float64{10, 30, 20} {
		table.Row("memory: send", "messages/s", AtLeast(15), "").Add(1000 * v)
		table.Row("disk: send", "messages/s", AtLeast(15_000), "memory: send").Add(100 * v * float64(i+1))
	}
	table.Row("memory", "MB", AtMost(15), "").Add(4.5)

	var out strings.Builder
	if err := table.print(&out, "0.50", "1.25"); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{
		"ROW MEDIAN MIN–MAX UNIT TARGET RATIO THAN",
		"memory: send 20,000 10,000–30,000 messages/s ≥ 15 met",
		"disk: send 6,000 1,000–6,000 messages/s ≥ 15,000 missed 0.20 (0.10–0.30) memory: send",
		"memory 4.50 4.50–4.50 MB ≤ 15 met",
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("line %d is\n%s\nwant\n%s", i, got, want)
		}
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "bench: 3 rows, 2 of 3 targets met; ") ||
		!strings.HasSuffix(last, "load average 0.50 before, 1.25 after") {
		t.Errorf("the last line is %q", last)
	}

	if err := table.writeSamples(file); err != nil {
		t.Fatal(err)
	}
	samples, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(samples); !strings.Contains(got, "BenchmarkDisk-send 1 1000 messages/s\n") || strings.Count(got, "\n") != 7 {
		t.Errorf("the samples are\n%s", got)
	}
}

func TestRowsThatWereNotMeasuredInTurnsAreNotCompared(t *testing.T) {
	of := &Row{samples: []float64{1, 2}}
	for name, than := range map[string]*Row{
		"no such row":                 nil,
		"another number of samples":   {samples: []float64{1}},
		"nothing to be compared with": {samples: []float64{0, 1}},
	} {
		if _, ok := ratios(of, than); ok {
			t.Errorf("%s: compared", name)
		}
	}
}

func TestNumbersAreWrittenInGroups(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1.234: "1.23", 45.678: "45.68", 123.4: "123", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

func TestTheGoroutinesOfOthersAreNotCounted(t *testing.T) {
	var dump tail
	for _, part := range []string{
		"SIGQUIT: quit\n\ngoroutine 1 [chan receive]:\nmain.run()\n\ngoroutine 2 [select]:\ncreat", "ed by main.run in goroutine 1\n",
		"created by runtime.gcenable in goroutine 1\ncreated by net/http.(*Server).Serve in goroutine 28\n",
		"created by sync.(*WaitGroup).Go in goroutine 8\n",
	} {
		if _, err := dump.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if dump.goroutines != 2 {
		t.Errorf("%d goroutines, want 2", dump.goroutines)
	}
}
