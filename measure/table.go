package measure

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// Goal is what a median is held to. The zero Goal is none.
type Goal struct {
	value   float64
	atLeast bool // otherwise at most
	set     bool
}

// AtLeast is met by what is not smaller.
func AtLeast(v float64) Goal { return Goal{value: v, atLeast: true, set: true} }

// AtMost is met by what is not larger.
func AtMost(v float64) Goal { return Goal{value: v, set: true} }

func (g Goal) met(v float64) bool {
	if g.atLeast {
		return v >= g.value
	}
	return v <= g.value
}

// Row is one line of the table.
type Row struct {
	name    string
	unit    string
	goal    Goal
	than    string // the row it is compared with, whose samples were taken in turns with this one's
	samples []float64
}

// Table is all rows, in the order in which they were first named. Its zero value is empty.
type Table struct{ rows []*Row }

// Row finds a row, or makes one. than names the row that it is compared with, "" for none, whose samples are taken in
// turns with this one's.
func (t *Table) Row(name, unit string, g Goal, than string) *Row {
	if r := t.Find(name); r != nil {
		return r
	}
	r := &Row{name: name, unit: unit, goal: g, than: than}
	t.rows = append(t.rows, r)
	return r
}

// Find is the row of that name, nil if there is none.
func (t *Table) Find(name string) *Row {
	for _, r := range t.rows {
		if r.name == name {
			return r
		}
	}
	return nil
}

// Add adds a sample.
func (r *Row) Add(v float64) { r.samples = append(r.samples, v) }

// Sample is that of a turn, the first being 0.
func (r *Row) Sample(turn int) float64 { return r.samples[turn] }

// Turns is how many samples there are.
func (r *Row) Turns() int { return len(r.samples) }

// summary is a median with the smallest and the largest.
type summary struct{ median, low, high float64 }

func summarize(samples []float64) summary {
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	return summary{median: (sorted[(n-1)/2] + sorted[n/2]) / 2, low: sorted[0], high: sorted[n-1]}
}

// ratios compare two rows turn by turn.
func ratios(of, than *Row) ([]float64, bool) {
	if than == nil || len(of.samples) == 0 || len(of.samples) != len(than.samples) {
		return nil, false
	}
	turns := make([]float64, len(of.samples))
	for i := range turns {
		if than.samples[i] == 0 {
			return nil, false
		}
		turns[i] = of.samples[i] / than.samples[i]
	}
	return turns, true
}

// print writes the table and, last, what can be counted, with how busy the machine was before and after.
func (t *Table) print(out io.Writer, before, after string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROW\tMEDIAN\tMIN–MAX\tUNIT\tTARGET\tRATIO\tTHAN")
	goals, met := 0, 0
	for _, r := range t.rows {
		s := summarize(r.samples)
		target := ""
		if r.goal.set {
			goals++
			sign, verdict := "≤", "missed"
			if r.goal.atLeast {
				sign = "≥"
			}
			if r.goal.met(s.median) {
				met++
				verdict = "met"
			}
			target = fmt.Sprintf("%s %s %s", sign, number(r.goal.value), verdict)
		}
		compared := ""
		if turns, ok := ratios(r, t.Find(r.than)); ok {
			c := summarize(turns)
			compared = fmt.Sprintf("%.2f (%.2f–%.2f)", c.median, c.low, c.high)
		}
		fmt.Fprintf(w, "%s\t%s\t%s–%s\t%s\t%s\t%s\t%s\n",
			r.name, number(s.median), number(s.low), number(s.high), r.unit, target, compared, r.than)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	_, err := fmt.Fprintf(out, "bench: %d rows, %d of %d targets met; %d processors, load average %s before, %s after\n",
		len(t.rows), met, goals, runtime.NumCPU(), before, after)
	return err
}

// number writes three or more significant digits, in groups of three.
func number(v float64) string {
	switch {
	case v != 0 && math.Abs(v) < 10:
		return fmt.Sprintf("%.2f", v)
	case math.Abs(v) < 100:
		return fmt.Sprintf("%.4g", v)
	}
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// writeSamples writes every sample to a file as benchstat reads it.
func (t *Table) writeSamples(path string) error {
	var text strings.Builder
	for _, r := range t.rows {
		name := strings.NewReplacer(" ", "-", ",", "", ":", "").Replace(r.name)
		for _, v := range r.samples {
			fmt.Fprintf(&text, "Benchmark%s 1 %g %s\n", strings.ToUpper(name[:1])+name[1:], v, strings.ReplaceAll(r.unit, " ", "-"))
		}
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
		return fmt.Errorf("write the samples: %w", err)
	}
	return nil
}
