package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"oneeffect/internal/execution"
	"oneeffect/internal/orchestrator"

	"github.com/spf13/cobra"
)

// batch is what dead-letters replay is told.
type batch struct {
	ids           []string
	all           bool
	from, through int64
	reason        string
	asserted      bool
	dry           bool
}

func (a *app) deadLettersReplay() *cobra.Command {
	var b batch
	c := &cobra.Command{
		Use: "replay [ID...]", Short: "Run again what failed", Args: cobra.MaximumNArgs(maxLetters), ValidArgsFunction: a.completeIDs("FAILED"),
		Long: `Run again what failed: the executions that are named, or with --all those of the dead
letters whose verdict is safe. Each becomes one more run.

After an unknown outcome somebody must look first whether the effect is there: if it is
not, name the execution and give --assert-not-applied; if it is, taskctl resolve closes
it. A batch asserts nothing.

A batch is those dead letters that stand in the queue when it begins: --through is the
last of them. If it is interrupted it says how to go on; the same command with that
--through goes on in any case, since what it has replayed is not in that batch any more,
not even if it has failed again.`,
		Example: `  taskctl dead-letters replay customer-9 --reason 'the customer system takes Eve now'
  taskctl dead-letters replay letter-9 --assert-not-applied --reason 'the tray is empty'
  taskctl dead-letters replay --all --reason 'the customer system is back'`,
		RunE: func(c *cobra.Command, args []string) error {
			b.ids = args
			if err := b.check(); err != nil {
				return err
			}
			return a.replay(c.Context(), b)
		},
	}
	c.Flags().BoolVar(&b.all, "all", false, "every dead letter whose verdict is safe")
	c.Flags().Int64Var(&b.from, "from", 0, "with --all: sequence number of the first dead letter")
	c.Flags().Int64Var(&b.through, "through", 0, "with --all: sequence number of the last; 0: what stands there now")
	c.Flags().StringVar(&b.reason, "reason", "", "why; it stays in the history")
	c.Flags().BoolVar(&b.asserted, "assert-not-applied", false, "somebody has looked, and nothing was applied")
	c.Flags().BoolVar(&b.dry, "dry-run", false, "say what would be replayed, and do nothing")
	required(c, "reason")
	return c
}

func (b batch) check() error {
	switch {
	case b.all == (len(b.ids) > 0):
		return usage(errors.New("name executions, or give --all: one of the two"), "taskctl dead-letters list shows what there is")
	case b.all && b.asserted:
		return usage(errors.New("--assert-not-applied is about executions that somebody has looked at, one by one"), "name them instead of --all")
	case !b.all && (b.from != 0 || b.through != 0):
		return usage(errors.New("--from and --through are about --all"), "leave them out")
	case b.reason == "":
		return usage(errors.New("--reason is empty"), "say why: it stays in the history")
	}
	return nil
}

// candidate is one execution of a batch.
type candidate struct {
	sequence int64 // of its dead letter, 0 if there is none
	id       string
	run      int // that failed, 0: whatever run it is
}

// What has become of a candidate.
const (
	replayed = "replayed"
	before   = "replayed before"
	would    = "would be replayed"
	refused  = "refused"
	left     = "left"
)

// deed is what was done about one.
type deed struct {
	Sequence    int64  `json:"sequence,omitzero"`
	ExecutionID string `json:"executionId"`
	Result      string `json:"result"`
	Run         int    `json:"run,omitzero"`
	Detail      string `json:"detail,omitzero"`
}

// report is what a replay prints as JSON.
type report struct {
	Deeds       []deed         `json:"deeds"`
	Left        map[string]int `json:"left"` // dead letters of a batch by their verdicts
	Through     int64          `json:"through,omitzero"`
	Interrupted bool           `json:"interrupted"`
	Resume      string         `json:"resume,omitzero"`
}

// replay does one after the other. When it is interrupted, the one that has begun is
// finished, so that it is known what was done.
func (a *app) replay(ctx context.Context, b batch) error {
	all, r, err := a.candidates(ctx, &b)
	if err != nil {
		return err
	}
	line := a.progress()
	defer line.clear()
	var stop error
	for i, c := range all {
		line.say("%d of %d: %s", i+1, len(all), plain(c.id))
		var d deed
		if r.Interrupted = ctx.Err() != nil; r.Interrupted {
			stop = errors.New("interrupted")
		} else {
			d, stop = a.finishing(ctx, b, c, line)
		}
		if stop != nil { // without an answer it may have been replayed, and is found so next time
			rest := b
			rest.ids, rest.from = idsOf(all[i:]), c.sequence
			r.Resume = rest.command()
			break
		}
		r.Deeds = append(r.Deeds, d)
		line.clear()
		if err := a.tellDeed(d); err != nil {
			return err
		}
	}
	line.clear()
	return a.finish(r, len(all), stop)
}

// finishing replays one, to its end also when the batch is interrupted meanwhile.
func (a *app) finishing(ctx context.Context, b batch, c candidate, line *progress) (d deed, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		d, err = a.act(context.WithoutCancel(ctx), b, c)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		line.clear()
		fmt.Fprintf(a.stderr, "interrupted: %s is finished first\n", plain(c.id))
		<-done
	}
	return d, err
}

func idsOf(rest []candidate) []string {
	ids := make([]string, len(rest))
	for i, c := range rest {
		ids[i] = c.id
	}
	return ids
}

// candidates are those that are named, or those of the batch, which is fixed now.
func (a *app) candidates(ctx context.Context, b *batch) ([]candidate, *report, error) {
	r := &report{Deeds: []deed{}, Left: map[string]int{}}
	var all []candidate
	if !b.all {
		for _, id := range b.ids {
			if _, err := at(id, ""); err != nil {
				return nil, nil, err
			}
			all = append(all, candidate{id: id})
		}
		return all, r, nil
	}
	found, next, err := a.letters(ctx, b.from, b.through, maxLetters)
	if err != nil {
		return nil, nil, err
	}
	if len(found) > 0 && (b.through == 0 || next > 0) {
		b.through = found[len(found)-1].Sequence
	}
	r.Through = b.through
	for _, l := range found {
		switch {
		case l.Verdict == orchestrator.Safe:
			all = append(all, candidate{l.Sequence, l.ExecutionID, l.Run})
		case l.Run > 0 && l.CurrentRun > l.Run:
			r.Left[before]++
		default:
			r.Left[string(l.Verdict)]++
		}
	}
	if len(all) > 0 {
		fmt.Fprintf(a.stderr, "a batch of %d: --through %d, should it be cut off\n", len(all), b.through)
	}
	if next > 0 {
		fmt.Fprintf(a.stderr, "a batch has at most %d dead letters: the rest is another one, from %d\n", maxLetters, next)
	}
	return all, r, nil
}

// act replays one execution, as it is seen now: under its ETag, so that a run which
// somebody else has begun, and which has failed too, is not taken for this one.
func (a *app) act(ctx context.Context, b batch, c candidate) (deed, error) {
	d := deed{Sequence: c.sequence, ExecutionID: c.id}
	_, e, etag, err := a.read(ctx, c.id)
	if err != nil {
		return d.refusal(err)
	}
	d.Run = e.Run
	switch {
	case c.run > 0 && e.Run > c.run, c.run == 0 && e.Status == execution.Running && e.Run > 1:
		d.Result, d.Detail = before, "it is "+string(e.Status)+" now"
		return d, nil
	case c.run > 0 && e.Status != execution.Failed: // since the batch was read
		d.Result, d.Detail = left, "it is "+string(e.Status)+" now"
		return d, nil
	case b.dry && e.Status == execution.Failed && (!e.Uncertain() || b.asserted):
		d.Result, d.Detail = would, "it failed with "+reasonOf(e)
		return d, nil
	case b.dry:
		d.Result, d.Detail = left, "it is "+string(e.Status)+", "+reasonOf(e)
		return d, nil
	}
	got, err := a.change(ctx, c.id, "replay", etag, struct {
		Reason   string `json:"reason"`
		Asserted bool   `json:"assertNothingApplied,omitzero"`
	}{b.reason, b.asserted})
	if err != nil {
		return d.refusal(err)
	}
	_, now, _, err := documentOf(got)
	if err != nil {
		return d, err
	}
	d.Result, d.Run, d.Detail = replayed, now.Run, "it had failed with "+reasonOf(e)
	return d, nil
}

func reasonOf(e execution.Execution) string {
	if e.Failure == nil {
		return "no reason"
	}
	return e.Failure.Reason
}

// refusal is what the API said no to: the others go on. Any other error ends the batch.
func (d deed) refusal(err error) (deed, error) {
	if p, ok := errors.AsType[*problem](err); !ok || !refusalIn(err) || p.code != exitFailed || refusedAs(err, orchestrator.NotPermitted) {
		return d, err
	}
	d.Result, d.Detail = refused, err.Error()
	return d, nil
}

// tellDeed prints what was done as soon as it is: who is killed has said it.
func (a *app) tellDeed(d deed) error {
	if a.output == asJSON {
		return nil
	}
	paint, colour := painter(a.stdout, a.env), yellow
	switch d.Result {
	case replayed:
		colour = green
	case refused:
		colour = red
	}
	sequence := ""
	if d.Sequence > 0 {
		sequence = strconv.FormatInt(d.Sequence, 10)
	}
	_, err := fmt.Fprintf(a.stdout, "%-6s  %-24s  %s  run %d  %s\n", sequence, plain(d.ExecutionID), paint(colour, d.Result), d.Run, plain(d.Detail))
	return err
}

// finish says what was done, all in all.
func (a *app) finish(r *report, of int, stop error) error {
	counts := maps.Clone(r.Left)
	for _, d := range r.Deeds {
		if d.Result != replayed && d.Result != refused {
			counts[d.Result]++
		}
	}
	tally := func(result string) (n int) {
		for _, d := range r.Deeds {
			if d.Result == result {
				n++
			}
		}
		return n
	}
	line := fmt.Sprintf("dead-letters: %d of %d looked at, %d replayed, %d refused", len(r.Deeds), of, tally(replayed), tally(refused))
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		line += fmt.Sprintf(", %d %s", counts[what], what)
	}
	var err error
	if a.output == asJSON {
		err = a.print(r, nil, nil)
	} else {
		_, err = fmt.Fprintln(a.stdout, line)
	}
	switch {
	case err != nil:
		return err
	case stop != nil && r.Interrupted:
		return failed(fmt.Errorf("interrupted after %d of %d", len(r.Deeds), of), r.Resume)
	case stop != nil:
		code, next := exitFailed, ""
		if p, ok := errors.AsType[*problem](stop); ok {
			code, next = p.code, p.next+"; then go on: "
		}
		return &problem{code, fmt.Errorf("ended after %d of %d: %w", len(r.Deeds), of, stop), next + r.Resume}
	case tally(refused) > 0:
		return failed(fmt.Errorf("%d of %d were refused", tally(refused), of), "the reason stands beside each; after an unknown outcome look first: nothing was applied: taskctl dead-letters replay ID --assert-not-applied; it was: taskctl resolve ID")
	}
	return nil
}

// command is the command line that goes on with a batch.
func (b batch) command() string {
	words := []string{"taskctl", "dead-letters", "replay"}
	if b.all {
		words = append(words, "--all", "--from", strconv.FormatInt(b.from, 10), "--through", strconv.FormatInt(b.through, 10))
	} else {
		words = append(words, b.ids...)
	}
	if b.asserted {
		words = append(words, "--assert-not-applied")
	}
	if b.dry {
		words = append(words, "--dry-run")
	}
	return strings.Join(append(words, "--reason", quoted(b.reason)), " ")
}

// quoted is text as a shell takes it for one word.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
