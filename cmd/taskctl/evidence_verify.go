package main

import (
	"errors"
	"fmt"

	"oneeffect/internal/evidence"

	"github.com/spf13/cobra"
)

func (a *app) evidenceVerify() *cobra.Command {
	var head string
	c := &cobra.Command{
		Use: "verify FILE", Short: "Check recorded evidence, offline", Args: cobra.ExactArgs(1),
		Long: `Check a run's records.jsonl, or the folder that it is in, without any endpoint:
the schema, the chain and its end, the ten fields, the fixtures, and that each class
follows from what was observed. A run with a preflight verdict that does not hold is
invalid, whatever its probes came to.

The chain's end is compared with the manifest beside the file and with --head, the
head that the run printed. Whoever can write the file can write the manifest too, so
only the head that was kept elsewhere shows that nobody has computed all of it anew.`,
		RunE: func(_ *cobra.Command, args []string) error {
			report, err := evidence.Verify(args[0], head)
			if err != nil {
				return file(err)
			}
			return a.judge(report)
		},
	}
	c.Flags().StringVar(&head, "head", "", "head of the chain, as the run printed it: sha256:…")
	return c
}

// judge prints a report, and fails if it does not pass.
func (a *app) judge(report evidence.Report) error {
	if err := a.tellRecords(report, ""); err != nil {
		return err
	}
	chain := "chain intact"
	if !report.Intact() {
		chain = "chain broken"
	}
	probes := report.Probes()
	line := fmt.Sprintf("verify: %d records, %d of %d probes as expected, %s", len(report.Records), probes.AsExpected, probes.Of, chain)
	for _, kind := range []struct {
		kind evidence.Kind
		name string
	}{{evidence.KindCell, "cells"}, {evidence.KindPreflight, "preflight verdicts"}} {
		if t := report.Count(kind.kind); t.Of > 0 {
			line += fmt.Sprintf(", %d of %d %s as expected", t.AsExpected, t.Of, kind.name)
		}
	}
	if len(report.Invalid()) > 0 {
		line += ", invalid"
	}
	if a.output != asJSON {
		fmt.Fprintln(a.stdout, line)
	}
	if report.Passes() {
		return nil
	}
	errs := []error{errors.New(line)}
	for _, p := range report.Problems {
		errs = append(errs, errors.New(p.String()))
	}
	if len(report.Invalid()) > 0 {
		return failed(errors.Join(errs...), "do not rely on this file, and "+noEvidence)
	}
	return failed(errors.Join(errs...), "do not rely on this file: get it again from whoever made it, or run the probes anew")
}
