// Command otelcheck shows what Application Insights would be told: it runs the demo
// with telemetry on, through the real collector with the Azure Monitor exporter, into
// an ingestion endpoint of its own, and looks at the envelopes that arrive.
//
//	orchestrator, workers, projector ──OTLP──▶ collector ──/v2.1/track──▶ otelcheck
//
//	otelcheck                        run it, and check
//	otelcheck -read FILE             check envelopes that were kept
//	otelcheck -keep FILE             run it, check, and keep the envelopes, cleaned
//
// Its last line is computed: otel-check: N envelopes, 1 operation, 0 missing. Exit
// status 1 if anything is missing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "otelcheck:", err)
		os.Exit(1)
	}
}

// bound is for everything: the demo has one of its own, and the rest takes seconds.
const bound = 2 * time.Minute

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var p programs
	flags := flag.NewFlagSet("otelcheck", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&p.collector, "collector", "bin/collector", "the collector's `program`")
	flags.StringVar(&p.config, "config", "infra/collector/config.yaml", "its configuration")
	flags.StringVar(&p.local, "local", "bin/local", "the `program` that shows the demo")
	read := flags.String("read", "", "check the envelopes in this `file`, and run nothing")
	keep := flags.String("keep", "", "keep the envelopes in this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag; -h lists them", flags.Arg(0))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("otelcheck is bounded to %v", bound))
	defer cancel()
	var all []envelope
	var err error
	if *read != "" {
		all, err = readFile(*read)
	} else {
		all, err = p.capture(ctx, stdout, stderr)
	}
	if err != nil {
		return err
	}
	if *keep != "" {
		if err := keepFile(*keep, all); err != nil {
			return err
		}
	}
	found := examine(all)
	for _, line := range found.problems {
		fmt.Fprintln(stdout, line)
	}
	fmt.Fprintln(stdout, found.summary())
	if len(found.problems) > 0 {
		return errors.New("not all that docs/tracing.md says would reach Application Insights")
	}
	return nil
}
