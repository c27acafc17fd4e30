package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// tally is what a number of histories have shown.
type tally struct {
	mu         sync.Mutex
	Histories  int
	Violations int
	Leaks      int // of azservicebus, see forgive
	Virtual    time.Duration
	Faults     map[string]int
	Verdicts   map[string]int
	Promises   map[string]int
}

func newTally() *tally {
	return &tally{Faults: map[string]int{}, Verdicts: map[string]int{}, Promises: map[string]int{}}
}

// verdicts are the ends that a delivery can come to, as the processes say them. They
// are counted, and believed by nobody. Contradictions there must be none of.
var verdicts = []string{
	"worker: done", "worker: over", "worker: busy", "worker: withdrawn", "worker: refused", "worker: undecided",
	"orchestrator: transition", "orchestrator: record", "orchestrator: no-op",
	"reconciler: transition", "reconciler: sent again",
	"projector: RECEIPT_COMMITTED_EFFECT_APPLIED", "projector: DUPLICATE_SUPPRESSED", "projector: STALE_EVENT_REJECTED", "projector: RECEIPT_CONFLICT",
	"projector: undecided",
}

// promises are those that are looked at. ONE is what they are for; W3 includes that
// everything ends; E9 is that a whole is what its parts are.
var promises = []string{
	"C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "D1", "W1", "W2", "W3", "S4",
	"E1", "E2", "E3", "E4", "E5", "E6", "E7", "E8", "E9",
	"R1", "R2", "R3", "R4", "R5", "R6", "R8", "P1", "P2", "P3", "ONE",
}

// kindsOfFaults are all that have to happen.
func kindsOfFaults() []string {
	all := []string{skews, drifts, copies, resends, tellsAgain, forges, garbage}
	for _, k := range faultKinds {
		all = append(all, k.name)
	}
	all = append(all, otherKinds...)
	slices.Sort(all)
	return slices.Compact(all)
}

func (t *tally) count(i *inspection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Histories++
	t.Violations += len(i.violations)
	t.Virtual += i.h.lasted
	if i.h.leaked {
		t.Leaks++
	}
	sum(t.Faults, i.h.faults)
	sum(t.Promises, i.held)
	for _, s := range i.h.said {
		if v := s.verdict(); v != "" {
			t.Verdicts[v]++
		}
	}
}

// verdict is what a line of a log says of a delivery, if it is about one.
func (s said) verdict() (v string) {
	role, _, _ := strings.Cut(s.process, "-")
	switch s.record.Message {
	case "reconciled":
		role = "reconciler"
	case "sent again":
		return "reconciler: sent again"
	case "handled":
	default:
		return ""
	}
	s.record.Attrs(func(a slog.Attr) bool {
		if a.Key == "verdict" || a.Key == "decision" || a.Key == "class" {
			v = role + ": " + a.Value.String()
		}
		return v == ""
	})
	return v
}

func (t *tally) add(other *tally) {
	t.Histories += other.Histories
	t.Violations += other.Violations
	t.Leaks += other.Leaks
	t.Virtual += other.Virtual
	sum(t.Faults, other.Faults)
	sum(t.Verdicts, other.Verdicts)
	sum(t.Promises, other.Promises)
}

func sum(to, from map[string]int) {
	for k, n := range from {
		to[k] += n
	}
}

// never are the things that should have happened and have not.
func (t *tally) never() (all []string) {
	for _, of := range []struct {
		what   string
		counts map[string]int
		wanted []string
	}{{"fault", t.Faults, kindsOfFaults()}, {"verdict", t.Verdicts, verdicts}, {"promise", t.Promises, promises}} {
		for _, name := range of.wanted {
			if of.counts[name] == 0 {
				all = append(all, of.what+" "+name)
			}
		}
	}
	return all
}

// print is the table of all counts.
func (t *tally) print(w io.Writer) {
	fmt.Fprintf(w, "histories at whose end azservicebus left a link's renewals running: %d\n", t.Leaks)
	for _, of := range []struct {
		what   string
		counts map[string]int
		wanted []string
	}{{"faults", t.Faults, kindsOfFaults()}, {"verdicts", t.Verdicts, verdicts}, {"promises exercised", t.Promises, promises}} {
		fmt.Fprintf(w, "%s:\n", of.what)
		names := slices.AppendSeq(slices.Clone(of.wanted), maps.Keys(of.counts))
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			fmt.Fprintf(w, "%9d  %s\n", of.counts[name], name)
		}
	}
}

func (t *tally) save(path string) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func readTally(path string) (*tally, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t := newTally()
	return t, json.Unmarshal(text, t)
}
