package variants

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	simulated = flag.Bool("simulated", false, "build every variant that the simulation catches, and play histories until one fails")
	rewrite   = flag.Bool("rewrite", false, "with -simulated: write what was measured into docs/guarantees.md")
)

// within is how many histories at most have to show that something is broken.
const within = 60

// byHistories are the variants that the simulation catches: of those of the table by
// what they say, and some that no other test is about.
var byHistories = []string{
	"a lease that stands is taken over",
	"two deliveries in one process share the claim",
	"a completed claim is granted again",
	"a completed claim is renewed",
	"a takeover keeps the fence",
	"a zombie adopts the grant that it finds",
	"an owner trusts its lease to the end",
	"nothing renews a lease",
	"another payload passes",
	"a fingerprint leaves the payload out",
	"a takeover counts no start",
	"a release keeps the start",
	"holding the claim is taken for having written",
	"a lost answer is taken for a write",
	"a grant whose answer was lost is somebody's",
	"one owner for all grants of a process",
	"a failure is told before it is written",
	"a failure is told and dead-lettered, and no claim knows",
	"a message is settled although its event was not taken",
	"a keyless call is made without a word in the claim",
	"a keyless call is made although that word was not proved",
	"a keyless call is made again after a failure",
	"the result of a keyless step is not kept",
	"a replay calls again without a key although nobody vouches",
	"a keyed call is made after the downstream may have forgotten",
	"the fence is in the key",
	"a call goes on after its lease",
	"waiting spends a delivery",
	"a second completion is a second transition",
	"a failure wins over a completion",
	"an execution fails although its claim may still be granted",
	"what is alive is sent again too",
	"an entry is forgotten although its task was not sent",
	"an execution is resolved and its claim is not",
	"a cancelled execution is completed after all",
	"the effect first, and then the receipt",
	"an equal version passes",
	"an event is known by its transport id too",
	"other content is taken for a duplicate",
	"two events share a receipt",
	"a gap leaves no trace",
	"a message is completed although nothing is known",
	"a conflict is completed",
	"nobody waits for the beginning of a sku",
	"the message's id is in the key",
}

// ownOfHistories are variants of whole rules, which no single test is about.
var ownOfHistories = []variant{
	{
		promises: "D1", says: "messages are settled before their event is published", file: "worker/worker.go",
		good: `		err = w.publish(ctx, job, verdict) // 11`,
		broken: `		go func() {
			time.Sleep(20 * time.Second)
			_ = w.publish(context.WithoutCancel(ctx), job, verdict)
		}()`,
	},
	{
		promises: "C4", says: "claims are replaced on no condition", file: "cosmos/claim.go",
		good:   `&azcosmos.ItemOptions{IfMatchEtag: condition})`,
		broken: `&azcosmos.ItemOptions{IfMatchEtag: map[bool]*azcore.ETag{true: condition}[false]})`,
	},
	{
		promises: "C6", says: "a lease is stale by the challenger's own clock", file: "claim/desk.go",
		good:   `return Take(&t.stands.Claim, t.stands.Age, t.ask,`,
		broken: `return Take(&t.stands.Claim, t.desk.read().Wall.Sub(t.stands.Claim.Attempts[len(t.stands.Claim.Attempts)-1].At), t.ask,`,
	},
	{
		promises: "W1", says: "a takeover forgets that a call was started", file: "claim/take.go",
		good: `case !keyed && (old.CallStarted || old.Keyed):`, broken: `case !keyed && old.Keyed:`,
	},
	{
		promises: "S4", says: "a copy bears its original's id", file: "servicebus/settle.go",
		good: `	id := d.copyID()`, broken: `	id := d.MessageID`,
	},
	{
		promises: "S4", says: "the original is settled without a copy", file: "servicebus/settle.go",
		good: `		if err := p.copyLater(ctx, d, s); err != nil {`, broken: `		if err := error(nil); err != nil {`,
	},
	{
		promises: "E8", says: "a claim that is held is cancelled", file: "claim/examine.go",
		good: `	free := old.Released || age > old.lease()+t.ChallengerMargin`, broken: `	free := true`,
	},
	{
		promises: "E4", says: "a claim that is held is failed for a dead letter", file: "claim/examine.go",
		good: `		case old.Status == InProgress && !old.Released && age <= old.lease()+t.ChallengerMargin,`, broken: `		case old.Status == InProgress && !old.Released && age <= 0,`,
	},
	{
		promises: "W2", says: "a keyed call has a new key every time", file: "worker/call.go",
		good: `c.Key = message.Key(j.task.ExecutionID, step.Name)`, broken: `c.Key = message.Key(j.task.ExecutionID, claim.Nonce())`,
	},
}

// caught is what one variant has come to.
type caught struct {
	variant
	histories int // that it took
	promise   string
}

var (
	breaks = regexp.MustCompile(`seed (\d+) breaks ([A-Z]+[0-9]*) at event`)
	began  = regexp.MustCompile(`=== RUN +TestHistories/all/0/(\d+)\n`)
)

// panicked is what a history shows in which a process does not survive what is broken.
const panicked = "PANIC"

// played builds the simulation with the variant in it, and plays until a history fails;
// none is history 0.
func (v variant) played(ctx context.Context, folder string) (caught, error) {
	overlay, err := v.write(folder)
	if err != nil {
		return caught{}, err
	}
	binary := filepath.Join(folder, "sim.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay="+overlay, "-o", binary, "./sim")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		return caught{}, fmt.Errorf("build: %w\n%s", err, text)
	}
	defer os.Remove(binary)
	command := exec.CommandContext(ctx, binary, "-test.v", "-test.run=^TestHistories$", "-test.timeout=20m", "-seeds="+strconv.Itoa(within), "-until", "-shorten=0",
		"-keep="+folder, "-tally="+filepath.Join(folder, "tally"))
	command.Dir = filepath.Join(root, "sim")
	command.Env = append(os.Environ(), "GOMAXPROCS=1")
	text, err := command.CombinedOutput()
	seed, promise, shown := shownBy(string(text))
	if !shown && err != nil {
		return caught{}, fmt.Errorf("histories end without showing anything: %w\n%s", err, tail(string(text)))
	}
	return caught{v, seed, promise}, nil
}

// shownBy is the history that fails, and as what.
func shownBy(output string) (seed int, promise string, shown bool) {
	if found := breaks.FindStringSubmatch(output); found != nil {
		seed, err := strconv.Atoi(found[1])
		return seed, found[2], err == nil
	}
	all := began.FindAllStringSubmatch(output, -1)
	if len(all) == 0 || !strings.Contains(output, "\npanic: ") || strings.Contains(output, "panic: test timed out") {
		return 0, "", false
	}
	seed, err := strconv.Atoi(all[len(all)-1][1])
	return seed, panicked, err == nil
}

func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// inHistories are the variants, found in the table by what they say.
func inHistories(t *testing.T) []variant {
	t.Helper()
	all := slices.Clone(ownOfHistories)
	for _, says := range byHistories {
		i := slices.IndexFunc(table, func(v variant) bool { return v.says == says })
		if i < 0 {
			t.Errorf("the table has no variant %q", says)
			continue
		}
		all = append(all, table[i])
	}
	return all
}

// The simulation finds what is broken without being told where to look.
func TestEverySimulatedVariantIsCaught(t *testing.T) {
	if !*simulated {
		t.Skip("each variant is a build of its own: make sim-variants runs them")
	}
	var mu sync.Mutex
	caught := 0
	all, known := inHistories(t), documented(t)
	start := time.Now()
	t.Run("all", func(t *testing.T) {
		for _, v := range all {
			t.Run(v.promises+" "+v.says, func(t *testing.T) {
				t.Parallel()
				c, err := v.played(t.Context(), t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				// What a history has shown is shown again, unless it is measured anew: by other plans.
				if c.histories == 0 && (v.test == "" || known[v.says].histories > 0 && !*rewrite) {
					t.Fatalf("%d histories show nothing", within)
				}
				mu.Lock()
				defer mu.Unlock()
				if c.histories == 0 {
					fmt.Printf("%d histories do not show: %s: its own test does: %s\n", within, v.says, v.test)
				} else {
					fmt.Printf("history %d breaks %s: %s\n", c.histories, c.promise, v.says)
					caught++
				}
				if *rewrite {
					known[v.says] = c
					writeTable(t, known) // at once: a run that is cut off has not been in vain
				}
			})
		}
	})
	fmt.Printf("sim-variants: %d of %d caught by histories in %.0f s\n", caught, len(all), time.Since(start).Seconds())
}

const (
	guarantees = "../../docs/guarantees.md"
	tableBegin = "<!-- begin: simulated, made by: make sim-variants REWRITE=1 -->\n"
	tableEnd   = "<!-- end: simulated -->\n"
)

// writeTable puts what was measured into the documentation; what this run has not
// tried stays.
func writeTable(t *testing.T, known map[string]caught) {
	t.Helper()
	text, err := os.ReadFile(guarantees)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has no table of simulated variants", guarantees)
	}
	rows := slices.Collect(maps.Values(known))
	slices.SortFunc(rows, func(a, b caught) int {
		return cmp.Or(strings.Compare(a.promises, b.promises), strings.Compare(a.says, b.says))
	})
	var table strings.Builder
	table.WriteString("| promise | broken on purpose | shown as | by history, or else by |\n|---|---|---|---|\n")
	for _, c := range rows {
		if c.histories > 0 {
			fmt.Fprintf(&table, "| %s | %s | %s | %d |\n", c.promises, c.says, c.promise, c.histories)
		} else {
			fmt.Fprintf(&table, "| %s | %s | | `%s` |\n", c.promises, c.says, c.test)
		}
	}
	if err := os.WriteFile(guarantees, []byte(before+tableBegin+"\n"+table.String()+"\n"+tableEnd+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

var tableRow = regexp.MustCompile("(?m)^\\| [A-Z][0-9A-Z ]* \\| (.*) \\| ([A-Z0-9]*) ?\\| `?([0-9]+|[a-z]+\\.Test[A-Za-z]+)`? \\|$")

// documented is what the documentation says of each variant: which history shows it, or
// that a test of its own does.
func documented(t *testing.T) map[string]caught {
	t.Helper()
	text, err := os.ReadFile(guarantees)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), tableBegin)
	table, _, _ = strings.Cut(table, tableEnd)
	tried := map[string]variant{}
	for _, v := range inHistories(t) {
		tried[v.says] = v
	}
	known := map[string]caught{}
	rows := tableRow.FindAllStringSubmatch(table, -1)
	if lines := strings.Count(table, "\n| ") - 1; len(rows) != lines {
		t.Errorf("of %d rows %d can be read", lines, len(rows))
	}
	for _, row := range rows {
		says, promise, by := row[1], row[2], row[3]
		v, ok := tried[says]
		if !ok {
			t.Errorf("nobody tries %q", says)
		}
		n, err := strconv.Atoi(by)
		switch {
		case err == nil && (n < 1 || n > within || promise == ""):
			t.Errorf("%q is shown by history %d as %q, want at most %d", says, n, promise, within)
		case err != nil && by != v.test:
			t.Errorf("%q is shown by %s, want %s", says, by, v.test)
		}
		known[says] = caught{v, n, promise}
	}
	return known
}

// enough is how many the histories have to show.
const enough = 25

// What the documentation says of each variant is what is tried, of each that is tried it
// says something, and all of it stands in the code.
func TestTheGuaranteesNameVariantsThatAreTried(t *testing.T) {
	known, shown := documented(t), 0
	for _, v := range inHistories(t) {
		if _, err := v.write(t.TempDir()); err != nil {
			t.Error(err)
		}
		if _, says := known[v.says]; !says {
			t.Errorf("nothing is said of %q: make sim-variants REWRITE=1", v.says)
		}
		if known[v.says].histories > 0 {
			shown++
		}
	}
	if shown < enough {
		t.Errorf("%d variants are shown by histories, want at least %d", shown, enough)
	}
}

// A process that does not survive what is broken shows it as well as a promise does.
func TestAHistoryThatPanicsShowsAVariant(t *testing.T) {
	for _, c := range []struct {
		output  string
		seed    int
		promise string
		shown   bool
	}{
		{"=== RUN   TestHistories/all/0/3\n=== RUN   TestHistories/all/0/4\npanic: nil pointer\n", 4, panicked, true},
		{"=== RUN   TestHistories/all/0/3\n    simulate_test.go:1: seed 3 breaks C9 at event 7: it\n", 3, "C9", true},
		{"=== RUN   TestHistories/all/0/60\nPASS\n", 0, "", false},
		{"=== RUN   TestHistories/all/0/9\npanic: test timed out after 20m0s\n", 0, "", false},
		{"\npanic: flag redefined\n", 0, "", false},
	} {
		seed, promise, shown := shownBy(c.output)
		if seed != c.seed || promise != c.promise || shown != c.shown {
			t.Errorf("%q is history %d as %q, shown %t", c.output, seed, promise, shown)
		}
	}
}
