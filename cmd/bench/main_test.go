package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The program starts itself as the collector, and in a test it is the test's.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{collectCommand}) {
		main()
		return
	}
	os.Exit(m.Run())
}

// programs builds what is measured and returns the flags that name it.
func programs(t *testing.T) []string {
	t.Helper()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "oneeffect/emulator", "oneeffect/cmd/worker", "oneeffect/cmd/orchestrator")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return []string{"-emulator", filepath.Join(bin, "emulator"), "-worker", filepath.Join(bin, "worker"), "-orchestrator", filepath.Join(bin, "orchestrator")}
}

// Every row has a figure, every task ends well in every variant, and nothing is left of any of them. A guard whose
// record is lower than what is measured says so after the table.
func TestEveryRowIsMeasured(t *testing.T) {
	lowered := filepath.Join(t.TempDir(), "recorded.json")
	text := `[{"row": "a keyed task: worker's store operations", "recorded": 1, "tolerance": 0.5}, {"row": "a keyed task: calls", "recorded": 1, "tolerance": 0}]`
	if err := os.WriteFile(lowered, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	args := append(programs(t), "-repeat", "1", "-tasks", "16", "-executions", "120", "-backlog", "1200", "-guard", lowered)
	err := run(t.Context(), args, &out, t.Output())
	if want := "a keyed task: worker's store operations: measured 2 (2–2 in 1 turns), recorded 1, at most 1.5 allowed"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("the guard says %v, want %s", err, want)
	}
	if want := "guard: 2 rows, 1 worse than recorded\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("the last line is not %s", want)
	}
	rows := map[string]string{}
	for line := range strings.Lines(out.String()) {
		if name, rest, ok := strings.Cut(line, "  "); ok {
			rows[name], _, _ = strings.Cut(strings.TrimSpace(rest), " ")
		}
	}
	for _, name := range []string{
		"bare: throughput", "ideal: client", "worker: throughput", "worker: allocations", "worker: allocated", "worker, log: client",
		"worker, telemetry: server", "worker, telemetry, share of worker, silent", "worker, share of ideal", "worker, share of ideal, one write",
		"worker, a task alone: half are settled within", "worker, share of bare by processor time",
		"a keyless task: worker's request units", "a task of 3 steps: calls", "a keyed task of 200 KB: orchestrator's request units",
		"worker, payload of 1 KB: throughput", "worker, payload of 200 KB: allocated", "worker, 1000 queued: emulator's memory", "worker, 1000 queued: throughput",
		"1 worker's program: throughput", "8 worker's programs: memory of the workers",
		"worker, 1 at once: throughput", "worker, 256 at once: client", "worker's program: memory, 500 tasks in flight",
		"orchestrator, 8 requests at once: half are created within", "orchestrator, 64 requests at once: creations",
		"orchestrator, newest 50 of 120: half of the answers within",
		"projector, 1,000 skus: throughput", "projector, one hot sku: applied", "projector, 1,000 skus by session: server",
	} {
		if _, measured := rows[name]; !measured {
			t.Errorf("no row %q", name)
		}
	}
	for _, name := range []string{"goroutines left by all of them", "goroutines left by those that are watched"} {
		if left, err := strconv.ParseFloat(rows[name], 64); err != nil || left > 0 {
			t.Errorf("%s: %v (%v)", name, left, err)
		}
	}
	for _, row := range recorded(t) {
		if _, measured := rows[row]; !measured {
			t.Errorf("recorded.json has a row %q, which nobody measures", row)
		}
	}
	// The three make the same calls but for the claim's: what is not bare costs more.
	bare, err1 := strconv.ParseFloat(rows["bare: allocations"], 64)
	ideal, err2 := strconv.ParseFloat(rows["ideal: allocations"], 64)
	if err1 != nil || err2 != nil || bare >= ideal {
		t.Errorf("bare allocates %s times for a task, ideal %s", rows["bare: allocations"], rows["ideal: allocations"])
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// recorded are the rows that make bench-guard holds to something.
func recorded(t *testing.T) (rows []string) {
	t.Helper()
	text, err := os.ReadFile("recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct{ Row, Than string }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		rows = append(rows, r.Row)
		if r.Than != "" {
			rows = append(rows, r.Than)
		}
	}
	return rows
}

func TestMoreTasksThanTheLedgerHoldsAreRefusedBeforeAnythingRuns(t *testing.T) {
	one, two := &site{}, &site{}
	b := &bench{}
	b.Repeat = 9
	made := errors.New("made")
	variants := func(sites ...*site) (all []*variant) {
		for _, s := range sites {
			all = append(all, &variant{site: s, make: func() (loop, error) { return nil, made }})
		}
		return all
	}
	if err := b.compare(t.Context(), 7500, variants(one, one)...); err == nil || errors.Is(err, made) {
		t.Errorf("%v, want them refused", err)
	}
	if err := b.compare(t.Context(), 7500, variants(one, two)...); !errors.Is(err, made) {
		t.Errorf("%v, want each site to hold its own", err)
	}
}

func TestAPayloadHasItsSize(t *testing.T) {
	for _, size := range kilobytes {
		text := payloadOf(size)
		if n := len(text); n > size<<10 || n < size<<10-100 || !json.Valid([]byte(text)) {
			t.Errorf("the payload of %d KB has %d bytes, and that it is JSON is %v", size, n, json.Valid([]byte(text)))
		}
	}
}

func TestATallyCountsWhatIsSettledBeyondWhatWasExpected(t *testing.T) {
	var counted tally
	done := counted.expect(3)
	counted.settled(2)
	select {
	case <-done:
		t.Error("two of three are taken for all")
	default:
	}
	counted.settled(2)
	<-done
	counted.settled(1)
	if n, err := counted.more(), counted.failure(); n != 2 || err != nil {
		t.Errorf("%d more than three of five, %v", n, err)
	}
}

func TestMistakesInFlagsAreNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"want some of worker": {"-run", "nothing"},
		"-tasks":              {"-tasks", "0"},
		"-repeat":             {"-repeat", "0"},
		"unexpected":          {"worker"},
	} {
		if _, err := parse(args, t.Output()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s in it", args, err, want)
		}
	}
}

func TestWhatIsFreeIsTakenAtLeastOneAndNotMoreThanIsWanted(t *testing.T) {
	free := make(chan struct{}, 4)
	for range 3 {
		free <- struct{}{}
	}
	if n := takeFree(t.Context(), free, 2); n != 2 {
		t.Errorf("took %d of 3, want 2", n)
	}
	if n := takeFree(t.Context(), free, 5); n != 1 {
		t.Errorf("took %d of 1", n)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	takeFree(ended, free, 1) // returns
}

func TestARenewalIsRepeatedUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := 0
		stop := every(time.Minute, func() { times++ })
		time.Sleep(150 * time.Second)
		stop()
		time.Sleep(time.Hour)
		if times != 2 {
			t.Errorf("%d times in two minutes and a half, want 2", times)
		}
	})
}
