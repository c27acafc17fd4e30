// Command bench measures the worker and the orchestrator: the worker's packages in this process, the orchestrator's
// program and the emulators as processes of their own, and all share this machine's processors. Linux only, for what /proc tells.
//
//	worker       the same tasks by the worker, by a loop that a careful hand would write, and by one that guards nothing
//	telemetry    the worker, the worker with its log, and with traces and metrics
//	alone        a task that comes alone, and how long it takes
//	cost         operations and request units of one task, by the kind of its handler
//	concurrency  the worker with 1 to 256 slots
//	payload      the worker with payloads of 1 to 200 KB
//	backlog      the worker with 1,000 to 1,000,000 messages in the queue
//	replicas     1 to 8 of the worker's program on one queue
//	memory       the worker's program with 500 tasks in flight
//	requests     executions created over HTTP by the orchestrator's program
//	list         the newest of a million executions, by the orchestrator's program
//	events       events about stock by the projector: many skus, one, and by session
//
//	bin/bench                             all of it: make bench
//	bin/bench -run worker -profile DIR    one part, and where the time goes, for go tool pprof
//	bin/bench -samples FILE               and every sample, for benchstat
//	bin/bench -run worker,telemetry,cost -guard cmd/bench/recorded.json   fails if a ratio is worse than recorded: make bench-guard
//
// docs/benchmarks.md says what the rows mean.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"oneeffect/cmd/internal/process"
	"oneeffect/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	process.TuneGC(os.Environ()) // as the programs whose parts are measured in this process
	do := run
	if slices.Equal(os.Args[1:], []string{collectCommand}) {
		do = func(ctx context.Context, _ []string, stdout, _ io.Writer) error { return collect(ctx, stdout) }
	}
	if err := do(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of this program.
type bench struct {
	measure.Settings
	emulator, worker, orchestrator string // programs
	tasks                          int    // of one repetition
	executions                     int    // that there are where they are listed
	backlog                        int    // messages of the longest queue

	table measure.Table
	work  string // a temporary folder
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	b, err := parse(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if b.work, err = os.MkdirTemp("", "bench-"); err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer os.RemoveAll(b.work)
	return b.Run(ctx, &b.table, b.parts(), stdout, stderr)
}

// parts are in the order of the table.
func (b *bench) parts() []measure.Part {
	return []measure.Part{
		{Name: "worker", Measure: b.measureWorker},
		{Name: "telemetry", Measure: b.measureTelemetry},
		{Name: "alone", Measure: b.measureAlone},
		{Name: "cost", Measure: b.measureCost},
		{Name: "concurrency", Measure: b.measureConcurrency},
		{Name: "payload", Measure: b.measurePayload},
		{Name: "backlog", Measure: b.measureBacklog},
		{Name: "replicas", Measure: b.measureReplicas},
		{Name: "memory", Measure: b.measureMemory},
		{Name: "requests", Measure: b.measureRequests},
		{Name: "list", Measure: b.measureList},
		{Name: "events", Measure: b.measureEvents},
	}
}

func parse(args []string, stdout io.Writer) (b *bench, err error) {
	b = &bench{}
	var names []string
	for _, p := range b.parts() {
		names = append(names, p.Name)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&b.emulator, "emulator", "bin/emulator", "the emulator's `program`")
	flags.StringVar(&b.worker, "worker", "bin/worker", "the worker's `program`")
	flags.StringVar(&b.orchestrator, "orchestrator", "bin/orchestrator", "the orchestrator's `program`")
	flags.IntVar(&b.executions, "executions", 1_000_000, "executions in the store where they are listed")
	flags.IntVar(&b.backlog, "backlog", depths[len(depths)-1], "messages of the longest queue")
	flags.IntVar(&b.tasks, "tasks", 4000, "tasks of one repetition")
	b.Settings, err = measure.Parse(flags, args, names, stdout)
	if err == nil && (b.tasks < leastTasks || b.executions < 1 || b.backlog < 1) {
		err = fmt.Errorf("-tasks must be at least %d, -executions and -backlog positive", leastTasks)
	}
	return b, err
}

// start returns when the emulator is ready. The name is that of its profile.
func (b *bench) start(ctx context.Context, name string, more ...string) (*measure.Server, error) {
	flags := []string{"-amqp", "127.0.0.1:0", "-cosmos", "127.0.0.1:0", "-downstream", "127.0.0.1:0", "-control", "127.0.0.1:0"}
	if b.Profile != "" {
		flags = append(flags, "-cpuprofile", filepath.Join(b.Profile, name+"-server.pprof"))
	}
	return measure.Launch(ctx, nil, b.emulator, append(flags, more...)...)
}
