package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// outcome is one line of the reckoning.
type outcome struct {
	label   string // suite and package
	name    string
	passed  bool
	why     string // it did not pass
	took    time.Duration
	said    []string
	skipped []string // subtests
}

type count struct{ passed, failed int }

func (c *count) add(passed bool) {
	if passed {
		c.passed++
	} else {
		c.failed++
	}
}

func (c count) String() string { return fmt.Sprintf("%d passed, %d failed", c.passed, c.failed) }

// report counts outcomes, and prints what is worth printing as it comes.
type report struct {
	out     io.Writer
	verbose bool
	labels  map[string]*count // by suite and package
	suites  map[string]*count
	seconds map[string]*count // the second clients' checks, by their titles
}

func newReport(out io.Writer, verbose bool) *report {
	return &report{out: out, verbose: verbose, labels: make(map[string]*count), suites: make(map[string]*count), seconds: make(map[string]*count)}
}

func (r *report) add(o outcome) {
	suite, _, _ := strings.Cut(o.label, " ")
	r.countOf(r.labels, o.label).add(o.passed)
	r.countOf(r.suites, suite).add(o.passed)
	switch {
	case !o.passed:
		fmt.Fprintf(r.out, "FAIL %s %s (%.1f s): %s\n", o.label, o.name, o.took.Seconds(), o.why)
	case r.verbose:
		fmt.Fprintf(r.out, "ok   %s %s (%.1f s)\n", o.label, o.name, o.took.Seconds())
	}
	if !o.passed || r.verbose {
		for _, line := range o.said {
			fmt.Fprintln(r.out, "     |", line)
		}
	}
	for _, subtest := range o.skipped {
		fmt.Fprintf(r.out, "skip %s %s\n", o.label, subtest)
	}
}

func (r *report) countOf(counts map[string]*count, name string) *count {
	if counts[name] == nil {
		counts[name] = &count{}
	}
	return counts[name]
}

func (r *report) endPackage(suite, path string, took time.Duration) {
	fmt.Fprintf(r.out, "%s %s: %v (%.0f s)\n", suite, path, r.countOf(r.labels, suite+" "+path), took.Seconds())
}

// end prints the last line. Its words depend on what was to run, so that a part
// is never taken for the whole; its numbers on what did.
func (r *report) end(s settings) error {
	var failed int
	var counts []string
	for _, title := range slices.Sorted(maps.Keys(r.seconds)) {
		failed += r.seconds[title].failed
		if s.Suite == "second" {
			counts = append(counts, fmt.Sprintf("%s %v", title, r.seconds[title]))
		}
	}
	for _, name := range []string{"azservicebus", "azcosmos"} {
		if s.wants(name) {
			c := r.countOf(r.suites, name)
			failed += c.failed
			counts = append(counts, fmt.Sprintf("%s %v", name, c))
		}
	}
	var part string
	if !s.complete() {
		part = " (in part)"
	}
	fmt.Fprintf(r.out, "conformance%s: %s\n", part, strings.Join(counts, "; "))
	if failed > 0 {
		return errFailed
	}
	return nil
}
