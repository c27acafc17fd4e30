package main

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

// goal is what a median is held to. The zero goal is none.
type goal struct {
	value   float64
	atLeast bool // otherwise at most
	set     bool
}

func atLeast(v float64) goal { return goal{value: v, atLeast: true, set: true} }
func atMost(v float64) goal  { return goal{value: v, set: true} }

func (g goal) met(v float64) bool {
	if g.atLeast {
		return v >= g.value
	}
	return v <= g.value
}

// row is one line of the table.
type row struct {
	name    string
	unit    string
	goal    goal
	than    string // the row it is compared with, whose samples were taken in turns with this one's
	samples []float64
	skipped string // why there are no samples
}

// table is all rows, in the order in which they were first named.
type table struct{ rows []*row }

// row finds a row, or makes one.
func (t *table) row(name, unit string, g goal, than string) *row {
	if r := t.find(name); r != nil {
		return r
	}
	r := &row{name: name, unit: unit, goal: g, than: than}
	t.rows = append(t.rows, r)
	return r
}

func (t *table) find(name string) *row {
	for _, r := range t.rows {
		if r.name == name {
			return r
		}
	}
	return nil
}

func (r *row) add(v float64) { r.samples = append(r.samples, v) }

// summary is a median with the smallest and the largest.
type summary struct{ median, low, high float64 }

func summarize(samples []float64) summary {
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	return summary{median: (sorted[(n-1)/2] + sorted[n/2]) / 2, low: sorted[0], high: sorted[n-1]}
}

// ratio compares two rows turn by turn.
func ratio(of, than *row) (summary, bool) {
	if than == nil || len(of.samples) == 0 || len(of.samples) != len(than.samples) {
		return summary{}, false
	}
	turns := make([]float64, len(of.samples))
	for i := range turns {
		if than.samples[i] == 0 {
			return summary{}, false
		}
		turns[i] = of.samples[i] / than.samples[i]
	}
	return summarize(turns), true
}

// print writes the table and, last, what can be counted.
func (t *table) print(out io.Writer, before, after string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROW\tMEDIAN\tMIN–MAX\tUNIT\tTARGET\tRATIO\tTHAN")
	goals, met, skipped := 0, 0, 0
	for _, r := range t.rows {
		if r.skipped != "" {
			skipped++
			fmt.Fprintf(w, "%s\tskipped: %s\n", r.name, r.skipped)
			continue
		}
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
		if c, ok := ratio(r, t.find(r.than)); ok {
			compared = fmt.Sprintf("%.2f (%.2f–%.2f)", c.median, c.low, c.high)
		}
		fmt.Fprintf(w, "%s\t%s\t%s–%s\t%s\t%s\t%s\t%s\n",
			r.name, number(s.median), number(s.low), number(s.high), r.unit, target, compared, r.than)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	_, err := fmt.Fprintf(out, "bench: %d rows, %d of %d targets met, %d skipped; %d processors, load average %s before, %s after\n",
		len(t.rows)-skipped, met, goals, skipped, runtime.NumCPU(), before, after)
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

// writeSamples writes every sample as benchstat reads it.
func (b *bench) writeSamples() error {
	if b.Samples == "" {
		return nil
	}
	var text strings.Builder
	for _, r := range b.table.rows {
		name := strings.NewReplacer(" ", "-", ",", "", ":", "").Replace(r.name)
		for _, v := range r.samples {
			fmt.Fprintf(&text, "Benchmark%s 1 %g %s\n", strings.ToUpper(name[:1])+name[1:], v, strings.ReplaceAll(r.unit, " ", "-"))
		}
	}
	if err := os.WriteFile(b.Samples, []byte(text.String()), 0o666); err != nil {
		return fmt.Errorf("-samples: %w", err)
	}
	return nil
}
