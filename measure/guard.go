package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// record is what one row of the table is held to: what a run once measured, and how much more another may. Of every row
// that is held, less is better.
type record struct {
	Row       string  `json:"row"`
	Than      string  `json:"than,omitempty"` // the row that it is divided by, turn by turn; "": it is held to its own figure
	Recorded  float64 `json:"recorded"`       // the median
	Tolerance float64 `json:"tolerance"`      // how much more it may be, as a share of what is recorded
	Why       string  `json:"why,omitempty"`
}

// name is that of the record in what is printed.
func (r record) name() string {
	if r.Than == "" {
		return r.Row
	}
	return r.Row + " / " + r.Than
}

// readRecords reads a file of records; there are none if the path is "".
func readRecords(path string) (records []record, err error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("-guard: %w", err)
	}
	lines := json.NewDecoder(bytes.NewReader(text))
	lines.DisallowUnknownFields()
	if err := lines.Decode(&records); err != nil {
		return nil, fmt.Errorf("-guard %s: %w", path, err)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("-guard %s: no row is held to anything", path)
	}
	for _, r := range records {
		if r.Row == "" || r.Recorded <= 0 || r.Tolerance < 0 {
			return nil, fmt.Errorf("-guard %s: %q: want a row, what is recorded of it, and a tolerance that is not negative", path, r.name())
		}
	}
	return records, nil
}

// guard fails if a row is worse than its record allows. The turns decide, not their median: a row is worse if that can
// be said of its median with 97 % confidence or more. On a busy machine the turns spread, and what they do not show is
// not taken for shown.
func (t *Table) guard(out io.Writer, path string, records []record) error {
	var worse []error
	for _, r := range records {
		turns, ok := t.turns(r)
		if !ok {
			worse = append(worse, fmt.Errorf("%s: not measured in this run: is the row called otherwise now, or its part not in -run?", r.name()))
			continue
		}
		median := summarize(turns).median
		low, high := interval(turns)
		switch limit := r.Recorded * (1 + r.Tolerance); {
		case low > limit:
			worse = append(worse, fmt.Errorf(
				"%s: measured %.4g (%.4g–%.4g in %d turns), recorded %.4g, at most %.4g allowed: find what was added (-profile DIR), or, if it is wanted, record %.4g and why in %s",
				r.name(), median, low, high, len(turns), r.Recorded, limit, median, path))
		case high < r.Recorded*(1-r.Tolerance):
			fmt.Fprintf(out, "guard: %s: measured %.4g, recorded %.4g: better, and %s can hold it\n", r.name(), median, r.Recorded, path)
		}
	}
	fmt.Fprintf(out, "guard: %d rows, %d worse than recorded\n", len(records), len(worse))
	return errors.Join(worse...)
}

// turns are the samples that a record is about.
func (t *Table) turns(r record) ([]float64, bool) {
	row := t.Find(r.Row)
	switch {
	case row == nil || len(row.samples) == 0:
		return nil, false
	case r.Than == "":
		return row.samples, true
	}
	return ratios(row, t.Find(r.Than))
}

// interval is where the median is with a confidence of 95 % or more, so that it is above the lower end with 97 % or
// more: from the k-th smallest sample to the k-th largest, as in the sign test, whatever the samples' distribution is.
// Fewer than six samples do not allow so much to be said, and the interval is all of them.
func interval(samples []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	// The chance that at most k of n samples are below the median, which as many are as coins show heads.
	chance, term, k := 0.0, 1.0, 0
	for range n {
		term /= 2
	}
	for chance = term; k+1 < n-k; k++ {
		term = term * float64(n-k) / float64(k+1)
		if chance += term; 2*chance > 0.05 {
			break
		}
	}
	return sorted[k], sorted[n-1-k]
}
