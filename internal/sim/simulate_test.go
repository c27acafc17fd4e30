package sim

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	simulate = flag.Bool("simulate", false, "instead of tests: -seeds histories in several processes, with counts of all that they have shown")
	seeds    = flag.Int("seeds", 0, "how many histories; by default a few")
	first    = flag.Uint64("first", 1, "the first seed")
	stride   = flag.Uint64("stride", 1, "from each seed to the next")
	seed     = flag.Uint64("seed", 0, "play this seed until it fails")
	tries    = flag.Int("tries", 30, "how often at most a seed is played again")
	shorten  = flag.Int("shorten", 40, "how many times a history that failed is played again, to find what it does not need")
	untilOne = flag.Bool("until", false, "stop at the first history that fails")
	keepIn   = flag.String("keep", filepath.Join(os.TempDir(), "oneeffect-sim"), "where histories that failed are kept")
	tallyIn  = flag.String("tally", "", "where the counts are written")
)

// few is how many histories `make test` plays, under the race detector, where each costs
// several times as much. enough is from how many on nothing may be missing.
const (
	few    = 50
	enough = 100
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *simulate {
		os.Exit(simulation())
	}
	os.Exit(m.Run())
}

// simulation plays many histories in as many processes as there are processors: each
// bubble runs one goroutine at a time for the most part.
func simulation() int {
	start := time.Now()
	total, err := children(max(*seeds, 1), runtime.GOMAXPROCS(0))
	total.print(os.Stdout)
	bad := total.Violations > 0
	if err != nil {
		fmt.Println("sim:", err)
		bad = true
	}
	if total.Histories >= enough {
		for _, what := range total.never() {
			fmt.Println("sim: never seen:", what)
			bad = true
		}
	}
	fmt.Printf("sim: %d histories, %d violations, %.1f virtual hours in %.0f s\n",
		total.Histories, total.Violations, total.Virtual.Hours(), time.Since(start).Seconds())
	if bad {
		return 1
	}
	return 0
}

func children(histories, processes int) (*tally, error) {
	total := newTally()
	folder, err := os.MkdirTemp("", "oneeffect-sim-")
	if err != nil {
		return total, err
	}
	defer os.RemoveAll(folder)
	self, err := os.Executable()
	if err != nil {
		return total, err
	}
	processes = min(processes, histories)
	errs := make([]error, processes)
	var running sync.WaitGroup
	for n := range processes {
		running.Go(func() {
			path := filepath.Join(folder, strconv.Itoa(n))
			share := (histories - n + processes - 1) / processes
			command := exec.CommandContext(context.Background(), self, "-test.run=^TestHistories$", "-test.timeout=2h",
				"-first="+strconv.FormatUint(*first+uint64(n), 10), "-stride="+strconv.Itoa(processes), "-seeds="+strconv.Itoa(share),
				"-shorten="+strconv.Itoa(*shorten), "-keep="+*keepIn, "-tally="+path)
			command.Env = append(os.Environ(), "GOMAXPROCS=1")
			output, err := command.CombinedOutput()
			if err != nil {
				fmt.Printf("%s\n", output)
				if _, failed := errors.AsType[*exec.ExitError](err); !failed {
					errs[n] = err
				}
			}
		})
	}
	running.Wait()
	for n := range processes {
		part, err := readTally(filepath.Join(folder, strconv.Itoa(n)))
		if err != nil {
			errs[n] = errors.Join(errs[n], fmt.Errorf("a process has come to no end: %w", err))
			continue
		}
		total.add(part)
	}
	return total, errors.Join(errs...)
}

// Random histories of everything, with everything that can go wrong, and each
// promise held against what was seen.
func TestHistories(t *testing.T) { // C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 D1 W1 W2 W3 E1 E2 E3 E4 E5 E6 E7 E8 R1 R2 R3 R4 R5 R6 R8 P1 P2 P3 S4
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // a history makes a hundred megabytes of garbage, and keeps little of it
	total := newTally()
	start := time.Now()
	shares := 1
	if *tallyIn == "" {
		shares = runtime.GOMAXPROCS(0)
	}
	t.Run("all", func(t *testing.T) {
		for share := range shares {
			t.Run(strconv.Itoa(share), func(t *testing.T) {
				t.Parallel()
				total.play(t, share, shares)
			})
		}
	})
	t.Logf("%d histories, %d violations, %.1f virtual hours in %.0f s", total.Histories, total.Violations, total.Virtual.Hours(), time.Since(start).Seconds())
	if *tallyIn != "" {
		if err := total.save(*tallyIn); err != nil {
			t.Fatal(err)
		}
	}
}

// play plays a share of the seeds.
func (total *tally) play(t *testing.T, share, shares int) {
	for n := share; n < cmp.Or(*seeds, few); n += shares {
		number := *first + uint64(n)**stride
		holds := t.Run(strconv.FormatUint(number, 10), func(t *testing.T) { // by its name a history that panics is found again
			i := inspect(play(t, planOf(number)))
			total.count(i)
			if len(i.violations) > 0 {
				t.Error(i.report(t))
			}
		})
		if !holds && *untilOne {
			return
		}
	}
}

// One seed, again and again until it fails: it fixes what is asked for and what goes
// wrong, and not who comes first.
func TestOneHistory(t *testing.T) {
	if *seed == 0 {
		t.Skip("give -seed, as a history that failed says")
	}
	for n := range *tries {
		i := inspect(play(t, planOf(*seed)))
		if len(i.violations) > 0 {
			t.Fatalf("seed %d failed in run %d of at most %d\n%s", *seed, n+1, *tries, i.report(t))
		}
	}
	t.Logf("seed %d has not failed in %d runs", *seed, *tries)
}

// report says what a history breaks, how to see it again and where it is kept, made
// shorter if it can be.
func (i *inspection) report(t *testing.T) string {
	var text strings.Builder
	for n, v := range i.violations {
		if n == 5 {
			fmt.Fprintf(&text, "and %d more\n", len(i.violations)-n)
			break
		}
		fmt.Fprintf(&text, "seed %d breaks %s at event %d: %s\n", i.h.plan.Seed, v.Promise, v.Seq, v.Text)
	}
	fmt.Fprintf(&text, "again: go test ./internal/sim -run '^TestOneHistory$' -v -seed=%d\n", i.h.plan.Seed)
	shorter, runs := i.shortened(t)
	path, err := shorter.keep(*keepIn)
	fmt.Fprintf(&text, "history: %s %v\n", path, errOrNothing(err))
	if runs > 0 {
		fmt.Fprintf(&text, "shortened from %d to %d steps in %d runs\n", len(i.h.plan.Steps), len(shorter.h.plan.Steps), runs)
	}
	return text.String()
}

func errOrNothing(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// shortened drops whatever the violation does not need, as far as the bound goes: a
// piece is dropped when what is left breaks the same promise in one of two runs.
func (i *inspection) shortened(t *testing.T) (shorter *inspection, runs int) {
	promise := i.violations[0].Promise
	shorter = i
	for size := len(i.h.plan.Steps) / 2; size > 0; size /= 2 {
		for from := 0; from < len(shorter.h.plan.Steps); {
			candidate := shorter.h.plan.without(from, size)
			if len(candidate.Steps) == len(shorter.h.plan.Steps) {
				from += size
				continue
			}
			broken := false
			for range 2 {
				if runs >= *shorten {
					return shorter, runs
				}
				runs++
				next := inspect(play(t, candidate))
				if broken = slices.ContainsFunc(next.violations, func(v violation) bool { return v.Promise == promise }); broken {
					shorter = next
					break
				}
			}
			if !broken {
				from += size
			}
		}
	}
	return shorter, runs
}

// without is a plan without those of its steps, from one on, that can be done without.
func (p plan) without(from, size int) plan {
	steps := slices.Clone(p.Steps[:from])
	for n, s := range p.Steps[from:] {
		if n >= size || !s.Droppable {
			steps = append(steps, s)
		}
	}
	p.Steps = steps
	return p
}
