package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	proof "oneeffect/internal/evidence"
)

// cellBound is how long one cell may take. Nothing in a cell waits for so long; only
// a machine with very much else to do comes near it.
const cellBound = 3 * time.Minute

// crash plays the crash matrix: every cell with processes of its own, several at a time.
func crash(ctx context.Context, bin string, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("local crash", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("cells", "", "regular expression: only the cells whose names match")
	parallel := flags.Int("parallel", 8, "cells at a time; most of their time they wait")
	keep := flags.Bool("keep", false, "keep logs and events of cells that passed, too")
	records := flags.String("evidence", "evidence", "folder for the evidence: each run makes one of its own in it; \"\" keeps none")
	list := flags.Bool("list", false, "print the names of the cells, and run none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-cells: %w", err)
	}
	if flags.NArg() > 0 || *parallel < 1 {
		return errors.New("local crash takes flags only, -parallel at least 1; -h lists them")
	}
	var chosen []cell
	for _, c := range cells(matrix) {
		if pattern.MatchString(c.name()) {
			chosen = append(chosen, c)
		}
	}
	if *list {
		for _, c := range chosen {
			fmt.Fprintln(stdout, c.name())
		}
		return nil
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no cell matches %q: -list prints their names", *only)
	}
	folder, err := logFolder("")
	if err != nil {
		return err
	}
	record, err := openRecord(*records)
	if err != nil {
		return err
	}
	r := &crashing{bin: bin, folder: folder, keep: *keep, out: stdout, record: record}
	r.run(ctx, chosen, *parallel)
	return errors.Join(r.closeRecord(), r.conclude(ctx, len(chosen)))
}

// crashing is one run of the matrix at work.
type crashing struct {
	bin    string
	folder string
	keep   bool
	record *proof.Run // nil: none is kept

	mu     sync.Mutex
	out    io.Writer
	passed int
}

// verdict is what became of one cell.
type verdict struct {
	cell cell
	saw  outcome
	err  error
	took time.Duration
	dir  string

	fields proof.Fields // of its record
}

func (v verdict) passed() bool { return v.err == nil && same(v.saw, v.cell.want) }

// run plays cells, so many at a time, until all are played or ctx ends.
func (r *crashing) run(ctx context.Context, chosen []cell, parallel int) {
	work := make(chan cell)
	var players sync.WaitGroup
	for range min(parallel, len(chosen)) {
		players.Go(func() {
			for c := range work {
				r.tell(r.play(ctx, c))
			}
		})
	}
	for _, c := range chosen {
		select {
		case work <- c:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(work)
	players.Wait()
}

// notInNames is what a folder's name does not need.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9]+`)

// play runs one cell and ends all of its processes, whatever becomes of it.
func (r *crashing) play(ctx context.Context, c cell) verdict {
	started := time.Now()
	name := strings.Trim(notInNames.ReplaceAllString(c.name(), "-"), "-")
	v := verdict{cell: c, dir: filepath.Join(r.folder, name)}
	if v.err = os.MkdirAll(v.dir, 0o755); v.err != nil {
		return v
	}
	bounded, cancel := context.WithTimeoutCause(ctx, cellBound, fmt.Errorf("a cell is bounded to %v", cellBound))
	defer cancel()
	s := r.stage(c, v.dir)
	defer s.leave()
	v.saw, v.err = s.play(bounded)
	v.took = time.Since(started)
	v.fields = s.fields(v.saw, v.err)
	if !v.passed() || r.keep {
		kept, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		v.err = errors.Join(v.err, s.keepEvents(kept))
	} else {
		v.err = os.RemoveAll(v.dir)
	}
	return v
}

// stage is where a cell is played. Its emulators are its own, and so its names can be
// those of every other cell.
func (r *crashing) stage(c cell, dir string) *stage {
	return &stage{system: &system{bin: r.bin, dir: dir}, cell: c, id: "cell-1", events: &controller{}}
}

// tell prints what became of a cell.
func (r *crashing) tell(v verdict) {
	if r.record != nil {
		v.err = errors.Join(v.err, r.record.Append(v.record())) // what is not recorded has not been shown
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.passed() {
		r.passed++
		fmt.Fprintf(r.out, "cell %s (%.1f s) passed\n", v.cell.name(), v.took.Seconds())
		return
	}
	fmt.Fprintf(r.out, "cell %s (%.1f s) FAILED\n  row   %s\n  want  %s\n", v.cell.name(), v.took.Seconds(), v.cell.row, v.cell.want)
	if v.err != nil {
		fmt.Fprintf(r.out, "  saw   %s\n", strings.ReplaceAll(v.err.Error(), "\n", "\n        "))
	} else {
		fmt.Fprintf(r.out, "  saw   %s\n", v.saw)
	}
	fmt.Fprintf(r.out, "  logs, events and rules are in %s\n", v.dir)
}

// closeRecord ends the evidence, writes its page, and tells the head of its chain, which
// proves nothing to anybody who was not told.
func (r *crashing) closeRecord() error {
	if r.record == nil {
		return nil
	}
	head, err := r.record.Close()
	if err != nil {
		return err
	}
	report, err := proof.Verify(r.record.Dir(), head)
	if err != nil {
		return err
	}
	if len(report.Problems) > 0 {
		return fmt.Errorf("the evidence does not pass: %v", report.Problems)
	}
	var page bytes.Buffer
	if err := proof.WritePage(&page, report, time.Now()); err != nil {
		return err
	}
	path := filepath.Join(r.record.Dir(), proof.PageFile)
	if err := os.WriteFile(path, page.Bytes(), 0o640); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	fmt.Fprintf(r.out, "page %s\nhead %s (keep it where nobody who can write the records can: taskctl evidence verify --head)\n", path, head)
	return nil
}

// conclude prints the sum. What has not been played has failed.
func (r *crashing) conclude(ctx context.Context, wanted int) error {
	failed := wanted - r.passed
	fmt.Fprintf(r.out, "crash: %d cells, %d passed, %d failed\n", wanted, r.passed, failed)
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped before all cells were played")
	case failed > 0:
		return fmt.Errorf("%d of %d cells failed; their logs are in %s", failed, wanted, r.folder)
	case !r.keep:
		return os.RemoveAll(r.folder)
	}
	fmt.Fprintf(r.out, "logs are in %s\n", r.folder)
	return nil
}

// String is the outcome in the words of the table.
func (o outcome) String() string {
	if o.Status == "" {
		return plural(o.Effects, "effect")
	}
	text := fmt.Sprintf("%s, %s in run %d, %s, %s", plural(o.Effects, "effect"), o.Status, o.Runs, plural(o.Completions, "completion"), plural(o.Failures, "failure"))
	if len(o.DeadLetters) > 0 {
		text += ", dead-lettered: " + strings.Join(o.DeadLetters, ", ")
	}
	return text
}
