// Command bench measures the emulator from outside: it runs as a process of its own on free loopback ports, the clients
// run here, and both share this machine's processors. Linux only, for what /proc tells.
//
//	sdk     the Go SDK: sends, receives and completes with 64 in flight, in memory and with -data
//	raw     a client without the SDK, which costs little: what the server itself can do
//	rules   the same with a rule armed, and with a reader of the event log
//	depth   what receiving costs in queues of 10³, 10⁵ and 10⁶ messages, and what memory those take
//	links   1,000 connections with 4 links each: their memory, and what they leave behind
//	cosmos  azcosmos with 32 callers: in memory, with -data, and against a server that has its answers ready
//	growth  what is asked of containers of 10³, 10⁵ and 10⁶ items, and what memory those take
//
//	go run ./emulator/bench -emulator bin/emulator               all of it: make bench
//	go run ./emulator/bench -emulator bin/emulator -run sdk,raw  two parts
//	go run ./emulator/bench -emulator bin/emulator -profile DIR  and where the time goes, for go tool pprof
//	go run ./emulator/bench -emulator bin/emulator -samples FILE and every sample, for benchstat
//
// Every row is the median of several repetitions with its smallest and its largest. Rows that are compared were
// measured in turns, and their ratio is the median of the ratios of the turns, so that it holds on a machine whose
// speed drifts; single figures of a busy machine mean little, and the last line says how busy it was.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"oneeffect/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if slices.Equal(os.Args[1:], []string{fixedCommand}) {
		if err := answerFixed(ctx, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings is what the flags say.
type settings struct {
	measure.Settings
	Emulator string
	Messages int
}

// part is a set of rows that are measured together.
type part struct {
	name    string
	measure func(ctx context.Context, b *bench) error
}

// parts are in the order of the table.
func parts() []part {
	return []part{
		{"sdk", measureSDK},
		{"raw", measureRaw},
		{"rules", measureRules},
		{"depth", measureDepth},
		{"links", measureLinks},
		{"cosmos", measureCosmos},
		{"growth", measureGrowth},
	}
}

func parse(args []string, stdout io.Writer) (s settings, err error) {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&s.Emulator, "emulator", "bin/emulator", "the emulator's `program`")
	flags.IntVar(&s.Messages, "messages", 20_000, "messages of one repetition")
	s.Settings, err = measure.Parse(flags, args, names, stdout)
	if err == nil && s.Messages < 1 {
		err = errors.New("-messages must be at least 1")
	}
	return s, err
}

// bench is one run of this program.
type bench struct {
	settings
	table  *measure.Table
	config string // path of the entities' configuration
	work   string // a temporary folder
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	b := &bench{settings: s, table: &measure.Table{}}
	if b.work, err = os.MkdirTemp("", "bench-"); err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer os.RemoveAll(b.work)
	if b.config, err = writeConfig(b.work); err != nil {
		return err
	}
	var measured []measure.Part
	for _, p := range parts() {
		measured = append(measured, measure.Part{Name: p.name, Measure: func(ctx context.Context) error { return p.measure(ctx, b) }})
	}
	return s.Run(ctx, b.table, measured, stdout, stderr)
}
