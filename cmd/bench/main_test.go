package main

import (
	"context"
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

// Every row has a figure, every task ends well in every variant, and nothing is left of any of them.
func TestEveryRowIsMeasured(t *testing.T) {
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "oneeffect/emulator", "oneeffect/cmd/worker", "oneeffect/cmd/orchestrator")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var out strings.Builder
	args := []string{"-emulator", filepath.Join(bin, "emulator"), "-worker", filepath.Join(bin, "worker"),
		"-orchestrator", filepath.Join(bin, "orchestrator"), "-repeat", "1", "-tasks", "40", "-executions", "120"}
	if err := run(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(out.String()) {
		if name, rest, ok := strings.Cut(line, "  "); ok {
			rows[name], _, _ = strings.Cut(strings.TrimSpace(rest), " ")
		}
	}
	for _, name := range []string{
		"bare: throughput", "ideal: client", "worker: throughput", "worker: allocations", "worker: allocated", "worker, log: client",
		"worker, telemetry: server", "worker, telemetry, share of worker", "worker, share of ideal", "worker, share of bare by processor time",
		"worker, 1 at once: throughput", "worker, 256 at once: client", "worker's program: memory, 500 tasks in flight",
		"orchestrator, 8 requests at once: half are created within", "orchestrator, 64 requests at once: creations",
		"orchestrator, newest 50 of 120: half of the answers within",
		"projector, 1,000 skus: throughput", "projector, one hot sku: applied", "projector, 1,000 skus by session: server",
	} {
		if _, measured := rows[name]; !measured {
			t.Errorf("no row %q", name)
		}
	}
	if left, err := strconv.ParseFloat(rows["goroutines left by all of them"], 64); err != nil || left > 0 {
		t.Errorf("%v goroutines are left (%v)", left, err)
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
