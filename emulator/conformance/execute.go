package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// rig is what a suite's tests run against.
type rig struct {
	flags []string // of the emulator
	env   []string // of the tests
	alone bool     // each test gets an emulator of its own
}

// execute runs everything that is prepared. It is the process in the namespace.
func (p plan) execute(ctx context.Context, out io.Writer) error {
	ctx, err := settle(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.Settings.Limit, fmt.Errorf("the whole run took longer than %v (-limit)", p.Settings.Limit))
	defer cancel()
	r := newReport(out, p.Settings.Verbose)
	if p.Scripts != "" {
		if err := p.runSecondClients(ctx, r); err != nil {
			return err
		}
	}
	for _, s := range p.Suites {
		if err := p.runSuite(ctx, s, r); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return r.end(p.Settings)
}

// runSuite runs the tests of one SDK. Its error is one of what should have run them.
func (p plan) runSuite(ctx context.Context, s suite, r *report) error {
	g, err := p.rigFor(s.Name)
	if err != nil {
		return err
	}
	events, err := os.Create(filepath.Join(p.Settings.Results, s.Name+".json"))
	if err != nil {
		return fmt.Errorf("keep what the tests say: %w", err)
	}
	defer events.Close()
	log, err := os.Create(filepath.Join(p.Settings.Results, s.Name+".log"))
	if err != nil {
		return fmt.Errorf("keep what the emulator says: %w", err)
	}
	defer log.Close()
	for _, pkg := range s.Packages {
		start := time.Now()
		parts := [][]string{pkg.Tests}
		if g.alone {
			parts = slices.Collect(slices.Chunk(pkg.Tests, 1))
		}
		run := runner{plan: p, rig: g, pkg: pkg, label: s.Name + " " + pkg.Path, events: events, log: log, report: r}
		run.once = run.process
		for _, names := range parts {
			run.part(ctx, names)
		}
		r.endPackage(s.Name, pkg.Path, time.Since(start))
	}
	return nil
}

// runner runs tests of one package.
type runner struct {
	plan        plan
	rig         rig
	pkg         *testPackage
	label       string
	events, log io.Writer
	report      *report
	once        func(ctx context.Context, names []string) (*transcript, error)
}

// part runs the named tests, if it can with one process of theirs and one of the
// emulator. If theirs ends early, as it does at a panic, the tests that had not
// begun get another.
func (r runner) part(ctx context.Context, names []string) {
	left := names
	for len(left) > 0 {
		t, err := r.once(ctx, left)
		if len(t.order) == 0 {
			r.missing(ctx, left, err, t.between.last())
			return
		}
		for _, name := range t.order {
			r.report.add(r.judge(t.verdicts[name], slices.Contains(left, name), err, t.between.last()))
		}
		left = slices.DeleteFunc(slices.Clone(left), func(name string) bool { return t.verdicts[name] != nil })
	}
}

// process is one process of the tests against one of the emulator. Its error is
// why that of the tests could not run to its end.
func (r runner) process(ctx context.Context, names []string) (*transcript, error) {
	e, err := startEmulator(ctx, r.plan.Emulator, r.rig.flags, r.log)
	if err != nil {
		return newTranscript(nil), err
	}
	t, err := runBinary(ctx, r.plan.Test2json, r.pkg, names, r.rig.env, r.events)
	if stopErr := e.stop(); stopErr != nil && ctx.Err() == nil {
		r.report.add(outcome{label: r.label, name: "(the emulator)", why: stopErr.Error()})
	}
	return t, err
}

// judge says what a test's verdict is worth. Only one that is on the list, ran
// and did not skip itself has passed.
func (r runner) judge(v *verdict, listed bool, err error, between []string) outcome {
	o := outcome{label: r.label, name: v.Name, took: v.Took, said: v.Said.last(), skipped: v.Skipped}
	switch {
	case !listed:
		o.why = "it ran and is not on the list"
	case v.Outcome == "pass":
		o.passed = true
	case v.Outcome == "skip":
		o.why = "it was skipped: " + reason(v.Said)
	case v.Outcome == "fail":
		o.why = "it failed"
	case err != nil:
		o.why = err.Error()
	default:
		o.why = "its process ended before it did"
		o.said = append(o.said, between...)
	}
	return o
}

// missing reports tests that should have run and never began. The cause is theirs
// together, and said once.
func (r runner) missing(ctx context.Context, names []string, err error, said []string) {
	why := "it did not begin"
	switch {
	case ctx.Err() != nil:
		said = append(said, context.Cause(ctx).Error())
	case err != nil:
		said = append(said, strings.Split(err.Error(), "\n")...)
	case len(said) == 0:
		why = "no such test in this package"
	}
	for _, name := range names {
		r.report.add(outcome{label: r.label, name: name, why: why, said: said})
		said = nil
	}
}
