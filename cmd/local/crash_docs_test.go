package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promisedRow is a row of the table in the documentation.
type promisedRow struct {
	text           string
	keyed, keyless string
}

const document = "../../docs/guarantees.md"

func documented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// promisedRows reads the table as a person does.
func promisedRows(t *testing.T) []promisedRow {
	t.Helper()
	_, rest, opened := strings.Cut(documented(t), "<!-- begin: crash matrix")
	section, _, closed := strings.Cut(rest, "<!-- end: crash matrix -->")
	if !opened || !closed {
		t.Fatalf("%s has no crash matrix", document)
	}
	var rows []promisedRow
	for _, m := range regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \| (.+?) \|$`).FindAllStringSubmatch(section, -1) {
		rows = append(rows, promisedRow{m[1], m[2], m[3]})
	}
	if len(rows) < 2 || rows[0].keyed != "keyed" || rows[0].keyless != "keyless" {
		t.Fatalf("the table begins with %v", rows)
	}
	return rows[1:]
}

// outcomes are what the words of the table allow.
var outcomes = map[string][]outcome{
	"1/1":                                 {once},
	"1 transition":                        {once},
	"FAILED once":                         {rejected},
	"1 more run":                          {again},
	"1 effect":                            {applied},
	"dead-letter, effect 0":               {unknown(0)},
	"dead-letter, effect 1":               {unknown(1)},
	"dead-letter, effect 0 or 1, never 2": {unknown(0), unknown(1)},
}

// allowed is what one column allows, by what becomes of the process; nil: there is
// nothing to be tried.
func allowed(t *testing.T, column string) map[mode][]outcome {
	t.Helper()
	if column == "–" {
		return nil
	}
	of := map[mode][]outcome{}
	for part := range strings.SplitSeq(column, "; ") {
		words, limited := part, modes
		if who, what, ok := strings.Cut(part, ": "); ok {
			words, limited = what, nil
			for m := range strings.SplitSeq(who, " or ") {
				if !slices.Contains(modes, mode(m)) {
					t.Fatalf("%q: nothing is %s", column, m)
				}
				limited = append(limited, mode(m))
			}
		}
		if outcomes[words] == nil {
			t.Fatalf("%q: what is %q?", column, words)
		}
		for _, m := range limited {
			of[m] = append(of[m], outcomes[words]...)
		}
	}
	return of
}

// never are the points at which a process is not killed, since they are about
// something else.
var never = []string{"paused past the lease around the call, then resumed", "renewal in flight at SIGTERM"}

// The matrix has every row of the table in the documentation and none beside, and no
// cell wants what its row does not allow. Every point has its kill, and every lost
// answer is also one that a process lives on without.
func TestTheMatrixIsThatOfTheDocumentation(t *testing.T) {
	rows := promisedRows(t)
	found := map[string][]cell{}
	names := map[string]bool{}
	played := cells(matrix)
	for _, c := range played {
		column := " keyed"
		if !c.isKeyed {
			column = " keyless"
		}
		found[c.row+column] = append(found[c.row+column], c)
		if names[c.name()] {
			t.Errorf("two cells are called %q", c.name())
		}
		names[c.name()] = true
		if !slices.ContainsFunc(rows, func(r promisedRow) bool { return r.text == c.row }) {
			t.Errorf("%q is no row of the documentation", c.row)
		}
	}
	if said := fmt.Sprintf("They are %d cells.", len(played)); len(played) < 60 || !strings.Contains(documented(t), said) {
		t.Errorf("%d cells: want 60 at least, and %q in the documentation", len(played), said)
	}
	for _, r := range rows {
		for column, text := range map[string]string{" keyed": r.keyed, " keyless": r.keyless} {
			may, have := allowed(t, text), found[r.text+column]
			if may == nil && len(have) > 0 {
				t.Errorf("%q,%s: there are cells where nothing is promised", r.text, column)
			}
			if may == nil {
				continue
			}
			for _, problem := range gaps(r.text, may, have) {
				t.Errorf("%q,%s: %s", r.text, column, problem)
			}
		}
	}
}

// gaps is what is wrong with the cells of one column of a row.
func gaps(row string, may map[mode][]outcome, have []cell) []string {
	var problems []string
	with := map[mode]bool{}
	for _, c := range have {
		with[c.mode] = true
		if !slices.ContainsFunc(may[c.mode], func(o outcome) bool { return same(o, c.want) }) {
			problems = append(problems, fmt.Sprintf("%s wants %v", c.name(), c.want))
		}
	}
	for m := range may {
		if len(may) < len(modes) && !with[m] { // the table names it
			problems = append(problems, fmt.Sprintf("no cell is %s", m))
		}
	}
	if len(have) == 0 || !with[sigkill] && !slices.Contains(never, row) {
		problems = append(problems, "nothing is killed there")
	}
	if strings.Contains(row, "answer lost") && !with[alive] {
		problems = append(problems, "nothing lives on without the answer")
	}
	return problems
}

// What the test above rests on: a matrix with a gap is seen.
func TestAGapInTheMatrixIsSeen(t *testing.T) {
	lost := crossing{row: "claim sent, answer lost", keyed: all(once, sigkill, alive)}
	may := allowed(t, "1/1")
	if problems := gaps(lost.row, may, cells([]crossing{lost})); len(problems) > 0 {
		t.Errorf("a whole row: %v", problems)
	}
	for why, ends := range map[string]ends{
		"no cell": nil, "no kill": all(once, alive), "nobody alive": all(once, sigkill), "another outcome": all(unknown(0), sigkill, alive),
	} {
		lost.keyed = ends
		if problems := gaps(lost.row, may, cells([]crossing{lost})); len(problems) == 0 {
			t.Errorf("%s: not seen", why)
		}
	}
	if problems := gaps("callStarted sent", allowed(t, "alive: 1/1; killed or paused: dead-letter, effect 0"), cells([]crossing{{keyless: ends{sigkill: unknown(0), alive: once}}})); len(problems) != 1 {
		t.Errorf("nothing paused where the table names it: %v", problems)
	}
}
