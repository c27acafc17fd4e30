// Command conformance holds the emulators to test suites that others wrote:
//
//	azservicebus   the live tests of the Go SDK for Service Bus, against one namespace
//	azcosmos       the emulator tests of the Go SDK for Cosmos DB, each against an account of its own
//	second client  @azure/service-bus and @azure/cosmos for Node.js, which share no code with the Go SDKs
//
// The SDKs' tests are compiled as their modules ship them, and testdata/ lists
// those that must run: one that is missing, skipped or not on the list is a
// failure. Skipped subtests are printed with their reason.
//
// The SDKs insist on ports: 5671 and 443 of one address, 8081 and 8903 of
// localhost. Everything therefore runs in a network namespace of its own, where
// all ports are free and no other machine exists (Linux only). What needs the
// network, modules and packages, is fetched and compiled before entering it.
//
//	go run ./emulator/conformance                       all of it: make conformance
//	go run ./emulator/conformance -run 'TestSender.*'   the SDKs' tests whose whole name matches
//	go run ./emulator/conformance -suite azcosmos       one suite: azservicebus, azcosmos or second
//	go run ./emulator/conformance -run X -v             with all that the tests and the emulator say
//
// What the tests said is kept in -results: per suite a file of test2json events
// and one of the emulator's log.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, errFailed) {
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

// suites are the names that -suite takes.
var suites = []string{"azservicebus", "azcosmos", "second"}

// settings is what the flags say.
type settings struct {
	Run     string // regular expression for whole names of tests; "" is all of them
	Suite   string // "" is all of them
	Results string
	Verbose bool
	Limit   time.Duration

	inside string // path of the plan: this process is the one in the namespace
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned, not printed twice
	flags.StringVar(&s.Run, "run", "", "run only the SDKs' tests whose whole name matches this regular `expression`")
	flags.StringVar(&s.Suite, "suite", "", "run one `suite`: "+strings.Join(suites, ", "))
	flags.StringVar(&s.Results, "results", ".local/conformance", "`folder` for what the tests and the emulator say, and for what is compiled")
	flags.BoolVar(&s.Verbose, "v", false, "print what the tests say, the passing ones too")
	flags.DurationVar(&s.Limit, "limit", 9*time.Minute, "`duration` after which what still runs has failed")
	flags.StringVar(&s.inside, "inside", "", "of the program itself: `path` of what is prepared")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		return s, err
	case err != nil:
		return s, fmt.Errorf("%w; -h lists the flags", err)
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %s; -h lists the flags", flags.Arg(0))
	case s.Suite != "" && !slices.Contains(suites, s.Suite):
		return s, fmt.Errorf("-suite %s: want one of %s", s.Suite, strings.Join(suites, ", "))
	}
	if _, err := regexp.Compile(s.Run); err != nil {
		return s, fmt.Errorf("-run: %w", err)
	}
	return s, nil
}

// wants reports whether a suite is to run. A selection of the SDKs' tests is
// no selection of the second clients' checks.
func (s settings) wants(suite string) bool {
	if s.Suite != "" {
		return s.Suite == suite
	}
	return suite != "second" || s.Run == ""
}

// complete reports whether everything runs: only then may the last line say so.
func (s settings) complete() bool { return s.Run == "" && s.Suite == "" }

// errFailed ends a run whose failures have been printed.
var errFailed = errors.New("not everything passed")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.inside == "" {
		return prepareAndEnter(ctx, s, stdout, stderr)
	}
	p, err := readPlan(s.inside)
	if err != nil {
		return err
	}
	return p.execute(ctx, stdout)
}

// prepareAndEnter does what needs the network, then all the rest without one.
func prepareAndEnter(ctx context.Context, s settings, stdout, stderr io.Writer) error {
	private, err := findNamespace(ctx)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer os.RemoveAll(work)
	path, err := prepare(ctx, s, work, stderr)
	if err != nil {
		return err
	}
	return private.run(ctx, stdout, stderr, "-inside", path)
}
