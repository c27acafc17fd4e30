package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// measured is a table of a worker that allocates a tenth more than another, in nine turns that spread.
func measured() *Table {
	var t Table
	for _, speed := range []float64{1, 1.5, 0.8, 1.2, 1, 1.1, 0.9, 2, 1} {
		t.Row("ideal: client", "s", Goal{}, "").Add(speed)
	}
	for i, noise := range []float64{1.10, 1.12, 1.08, 1.30, 1.09, 1.11, 0.70, 1.10, 1.13} {
		t.Row("worker: client", "s", Goal{}, "ideal: client").Add(noise * t.Find("ideal: client").Sample(i))
	}
	t.Row("a keyed task: store operations", "", Goal{}, "").Add(2)
	return &t
}

func TestARowThatIsWorseThanItsRecordFailsTheRun(t *testing.T) {
	for _, test := range []struct {
		name   string
		record string
		want   string // of the error; "" for none
		told   string // on the output
	}{
		{
			"what is measured is what is recorded",
			`{"row": "a keyed task: store operations", "recorded": 2, "tolerance": 0}`,
			"", "guard: 1 rows, 0 worse than recorded\n",
		},
		{
			"an operation more",
			`{"row": "a keyed task: store operations", "recorded": 1, "tolerance": 0.5}`,
			"a keyed task: store operations: measured 2 (2–2 in 1 turns), recorded 1, at most 1.5 allowed: find what was added (-profile DIR), or, if it is wanted, record 2 and why in ",
			"guard: 1 rows, 1 worse than recorded\n",
		},
		{
			"a ratio that is within its tolerance, though two turns are not",
			`{"row": "worker: client", "than": "ideal: client", "recorded": 1.05, "tolerance": 0.1}`,
			"", "guard: 1 rows, 0 worse",
		},
		{
			"a ratio of which eight turns of nine are worse",
			`{"row": "worker: client", "than": "ideal: client", "recorded": 1.0, "tolerance": 0.05}`,
			"worker: client / ideal: client: measured 1.1 (1.08–1.13 in 9 turns), recorded 1, at most 1.05 allowed", "1 worse",
		},
		{
			"a ratio that has become better",
			`{"row": "worker: client", "than": "ideal: client", "recorded": 1.5, "tolerance": 0.1}`,
			"", "guard: worker: client / ideal: client: measured 1.1, recorded 1.5: better, and ",
		},
		{
			"a row that is not there any more",
			`{"row": "a keyless task: store operations", "recorded": 3, "tolerance": 0}`,
			"a keyless task: store operations: not measured in this run", "1 worse",
		},
		{
			"another row that is not there any more",
			`{"row": "worker: client", "than": "perfect: client", "recorded": 3, "tolerance": 0}`,
			"worker: client / perfect: client: not measured in this run", "1 worse",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := write(t, "["+test.record+"]")
			records, err := readRecords(file)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err = measured().guard(&out, file, records)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("it fails: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("it says\n%v\nwant\n%s", err, test.want)
			}
			if !strings.Contains(out.String(), test.told) {
				t.Errorf("it prints\n%s\nwant\n%s", out.String(), test.told)
			}
		})
	}
}

func TestAFileOfRecordsSaysWhatIsWrongWithIt(t *testing.T) {
	for text, want := range map[string]string{
		`[{"row": "a", "recorded": 1, "slack": 0}]`:      "slack",
		`[{"row": "a", "recorded": 0, "tolerance": 0}]`:  `"a": want`,
		`[{"row": "a", "recorded": 1, "tolerance": -1}]`: `"a": want`,
		`[{"recorded": 1, "tolerance": 0}]`:              "want a row",
		`[]`:                                             "no row",
		`{`:                                              "EOF",
	} {
		if _, err := readRecords(write(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s in it", text, err, want)
		}
	}
	if _, err := readRecords(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "-guard") {
		t.Errorf("no file: %v", err)
	}
}

// The ends are those of the sign test's tables.
func TestTheIntervalOfAMedianIsThatOfTheSignTest(t *testing.T) {
	for n, out := range map[int]int{1: 0, 2: 0, 5: 0, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 15: 3, 20: 5, 25: 7} {
		samples := make([]float64, n)
		for i := range samples {
			samples[i] = float64(n - i) // n … 1
		}
		if low, high := interval(samples); low != float64(1+out) || high != float64(n-out) {
			t.Errorf("of 1 to %d: %v to %v, want %d to %d", n, low, high, 1+out, n-out)
		}
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "recorded.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
