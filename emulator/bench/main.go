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
	"strings"
	"syscall"
	"time"

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
	Emulator string
	Parts    []string
	Repeat   int
	Messages int
	Profile  string // folder, "" for none
	Samples  string // file, "" for none
	Limit    time.Duration
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

func parse(args []string, stdout io.Writer) (settings, error) {
	var s settings
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned, not printed twice
	chosen := flags.String("run", strings.Join(names, ","), "the `parts` to measure")
	flags.StringVar(&s.Emulator, "emulator", "bin/emulator", "the emulator's `program`")
	flags.IntVar(&s.Repeat, "repeat", 5, "repetitions of every row")
	flags.IntVar(&s.Messages, "messages", 20_000, "messages of one repetition")
	flags.StringVar(&s.Profile, "profile", "", "write CPU profiles of client and server to a `folder`")
	flags.StringVar(&s.Samples, "samples", "", "write every sample to a `file`, in the format that benchstat reads")
	flags.DurationVar(&s.Limit, "limit", 12*time.Minute, "`duration` after which the run has failed")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return s, err
	case err != nil:
		return s, fmt.Errorf("%w; -h lists the flags", err)
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %s; -h lists the flags", flags.Arg(0))
	case s.Repeat < 1 || s.Messages < 1:
		return s, errors.New("-repeat and -messages must be at least 1")
	}
	s.Parts = strings.Split(*chosen, ",")
	for _, name := range s.Parts {
		if !slices.Contains(names, name) {
			return s, fmt.Errorf("-run %s: want some of %s", name, strings.Join(names, ", "))
		}
	}
	return s, nil
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
	ctx, cancel := context.WithTimeoutCause(ctx, s.Limit, fmt.Errorf("not done after %v (-limit)", s.Limit))
	defer cancel()
	before, err := measure.LoadAverage()
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
	for _, p := range parts() {
		if !slices.Contains(s.Parts, p.name) {
			continue
		}
		fmt.Fprintf(stderr, "bench: %s\n", p.name)
		if err := measure.Profiled(b.Profile, p.name+"-client", func() error { return p.measure(ctx, b) }); err != nil {
			return fmt.Errorf("%s: %w", p.name, errors.Join(err, context.Cause(ctx)))
		}
	}
	after, err := measure.LoadAverage()
	if err != nil {
		return err
	}
	if b.Samples != "" {
		if err := b.table.WriteSamples(b.Samples); err != nil {
			return err
		}
	}
	return b.table.Print(stdout, before, after)
}
