package measure

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Settings are what every benchmark is told.
type Settings struct {
	Parts   []string
	Repeat  int
	Profile string // folder, "" for none
	Samples string // file, "" for none
	Guard   string // file, "" for none
	Limit   time.Duration
}

// Part is a set of rows that are measured together.
type Part struct {
	Name    string
	Measure func(context.Context) error
}

// Parse reads the flags that every benchmark has, and those that were defined before. names are the parts that there
// are. flag.ErrHelp says that the flags have been listed.
func Parse(flags *flag.FlagSet, args, names []string, stdout io.Writer) (Settings, error) {
	var s Settings
	flags.SetOutput(io.Discard) // errors are returned, not printed twice
	chosen := flags.String("run", strings.Join(names, ","), "the `parts` to measure")
	flags.IntVar(&s.Repeat, "repeat", 5, "repetitions of every row")
	flags.StringVar(&s.Profile, "profile", "", "write CPU profiles of client and server, and what the client allocates, to a `folder`")
	flags.StringVar(&s.Samples, "samples", "", "write every sample to a `file`, in the format that benchstat reads")
	flags.StringVar(&s.Guard, "guard", "", "fail if a row is worse than a `file` has it, by more than the file allows")
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
	case s.Repeat < 1:
		return s, errors.New("-repeat must be at least 1")
	}
	s.Parts = strings.Split(*chosen, ",")
	for _, name := range s.Parts {
		if !slices.Contains(names, name) {
			return s, fmt.Errorf("-run %s: want some of %s", name, strings.Join(names, ", "))
		}
	}
	return s, nil
}

// Run measures the chosen parts one after the other and prints the table that they fill.
func (s Settings) Run(ctx context.Context, table *Table, parts []Part, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Limit, fmt.Errorf("not done after %v (-limit)", s.Limit))
	defer cancel()
	held, err := readRecords(s.Guard) // what is no record is told before the minutes, not after them
	if err != nil {
		return err
	}
	before, err := loadAverage()
	if err != nil {
		return err
	}
	for _, p := range parts {
		if !slices.Contains(s.Parts, p.Name) {
			continue
		}
		fmt.Fprintf(stderr, "bench: %s\n", p.Name)
		err := profiled(s.Profile, p.Name+"-client", func() error { return p.Measure(ctx) })
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, errors.Join(err, context.Cause(ctx)))
		}
	}
	after, err := loadAverage()
	if err != nil {
		return err
	}
	if s.Samples != "" {
		if err := table.writeSamples(s.Samples); err != nil {
			return err
		}
	}
	if err := table.print(stdout, before, after); err != nil || s.Guard == "" {
		return err
	}
	return table.guard(stdout, s.Guard, held)
}
