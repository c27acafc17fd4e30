package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"oneeffect/internal/diagram"
	"oneeffect/internal/execution"

	"github.com/spf13/cobra"
)

// What a watch is bounded by.
const (
	watchFor   = 30 * time.Minute
	watchGap   = time.Minute // without an answer
	maxWatched = 20

	// How often it is looked at what nobody has told of: claims, which change without
	// the orchestrator, and everything where it tells nothing.
	watchClaims = 5 * time.Second
	watchAll    = time.Second
)

func (a *app) watch() *cobra.Command {
	bound := watchFor
	c := &cobra.Command{
		Use: "watch ID...", Short: "Watch executions until they have ended", Args: cobra.RangeArgs(1, maxWatched), ValidArgsFunction: a.completeIDs("RUNNING"),
		Long: `Watch executions until they have ended, and print what happens to each and to its
claim. The orchestrator tells of each change of an execution, as it tells those who
look at its page; claims are looked at every five seconds. Where it tells nothing, all
is looked at every second. As JSON each thing that happened is one object a line.

It ends with 0 if all of them are COMPLETED, and with 1 if one is not, or still runs
when the time is over.`,
		Example: `  taskctl watch 82f3
  taskctl watch 82f3 welcome-7 --for 5m -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			if bound <= 0 {
				return usage(fmt.Errorf("--for %v: it must be positive", bound), "give for example --for 5m")
			}
			return a.follow(c.Context(), args, bound)
		},
	}
	c.Flags().DurationVar(&bound, "for", bound, "how long at most")
	return c
}

// watched is an execution that is being watched.
type watched struct {
	id      string
	stands  diagram.Timeline
	told    map[string]bool // moments that were printed; a timeline has a bounded number of them
	answers bool            // it was read once
}

func (w *watched) ended() bool { return w.answers && w.stands.Status != execution.Running }

// follow reads the timelines of executions until all have ended: when the orchestrator
// tells that one has changed, and by and by, since what a worker does changes the claim
// only, of which nobody is told.
func (a *app) follow(ctx context.Context, ids []string, bound time.Duration) error {
	all := make([]*watched, len(ids))
	for i, id := range ids {
		all[i] = &watched{id: id, told: map[string]bool{}}
	}
	f := following{app: a, all: all, began: time.Now(), answered: time.Now(), line: a.progress()}
	defer f.line.clear()
	ctx, cancel := context.WithTimeout(ctx, bound)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	var told chan notice
	for now := (notice{all: true}); ; {
		switch err := f.look(ctx, now); {
		case ctx.Err() != nil:
			f.line.clear()
			return a.unfinished(ctx, all, bound)
		case err != nil:
			return err
		case f.over():
			f.line.clear()
			return conclusion(all)
		}
		if told == nil { // what has ended before takes no stream
			told = make(chan notice)
			listening.Go(func() { a.listen(ctx, told) })
		}
		now = f.next(ctx, told)
	}
}

// following is a watch that goes on.
type following struct {
	*app
	all             []*watched
	began, answered time.Time
	due             time.Time // when all is looked at again
	live            bool      // the orchestrator tells of changes
	line            *progress
}

// look reads what may have changed. That nobody answers is borne for a while.
func (f *following) look(ctx context.Context, n notice) error {
	for _, w := range f.all {
		if w.ended() || !n.concerns(w.id) {
			continue
		}
		switch err := f.catchUp(ctx, w, f.line); {
		case err == nil:
			f.answered = time.Now()
		case ctx.Err() != nil:
			return ctx.Err()
		case !w.answers || !isUnreachable(err) || time.Since(f.answered) > watchGap:
			return err
		}
	}
	if n.all {
		f.due = time.Now().Add(watchClaims)
	}
	f.line.say("%s", waiting(f.all, time.Since(f.began)))
	return nil
}

func (f *following) over() bool {
	return !slices.ContainsFunc(f.all, func(w *watched) bool { return !w.ended() })
}

// next waits until there is a reason to look.
func (f *following) next(ctx context.Context, told <-chan notice) notice {
	wait := time.Until(f.due)
	if !f.live {
		wait = min(wait, watchAll)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case n := <-told:
		f.live = n.live
		return n
	case <-timer.C:
	case <-ctx.Done():
	}
	return notice{all: true}
}

func isUnreachable(err error) bool {
	p, ok := errors.AsType[*problem](err)
	return ok && p.code == exitUnreachable
}

// catchUp reads one timeline and prints what is new in it.
func (a *app) catchUp(ctx context.Context, w *watched, line *progress) error {
	t, _, err := a.readTimeline(ctx, w.id)
	if err != nil {
		return err
	}
	w.stands, w.answers = t, true
	for _, m := range t.Entries {
		if err := a.tell(w, m, line); err != nil {
			return err
		}
	}
	return nil
}

// tell prints a moment once, and again when the grant that it is has ended.
func (a *app) tell(w *watched, m diagram.Moment, line *progress) error {
	key := fmt.Sprintf("%s %s %d %d %s %s", m.Source, m.What, m.Run, m.Fence, m.At, m.End)
	if w.told[key] {
		return nil
	}
	w.told[key] = true
	line.clear()
	if a.output == asJSON {
		return a.printJSON(struct {
			ExecutionID string           `json:"executionId"`
			Status      execution.Status `json:"status"`
			Moment      diagram.Moment   `json:"moment"`
		}{w.id, w.stands.Status, m})
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %-9s  %s\n", plain(w.id), plain(m.Source), a.says(m))
	return err
}

// says is a moment in words.
func (a *app) says(m diagram.Moment) string {
	paint := painter(a.stdout, a.env)
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s  ", clock(m.At))
	if m.Source == diagram.FromClaim {
		end := m.End
		if end == "" {
			end = "in progress"
		}
		fmt.Fprintf(&b, "%s to %s, fence %d: %s", plain(m.What), plain(m.Owner), m.Fence, plain(end))
		return b.String()
	}
	b.WriteString(plain(m.What))
	if m.To != "" && m.From != m.To {
		b.WriteString(" → " + paint(colourOf(m.To), plain(string(m.To))))
	}
	b.WriteString(by(m.By) + detail(m.Detail))
	return b.String()
}

// waiting says what is waited for.
func waiting(all []*watched, since time.Duration) string {
	var running []string
	for _, w := range all {
		if w.ended() {
			continue
		}
		text := plain(w.id) + " " + string(w.stands.Status)
		if c := w.stands.Claim; c != nil {
			text += fmt.Sprintf(", claim %s, fence %d", plain(string(c.Status)), c.Fence)
		} else if w.answers {
			text += ", nobody has taken it"
		}
		running = append(running, text)
	}
	return cut(fmt.Sprintf("%v  %s", since.Round(time.Second), strings.Join(running, "; ")), 79)
}

// unfinished is a watch that was ended from outside.
func (a *app) unfinished(ctx context.Context, all []*watched, bound time.Duration) error {
	var running []string
	for _, w := range all {
		if !w.ended() {
			running = append(running, w.id)
		}
	}
	why := fmt.Errorf("after %v not ended: %s", bound, strings.Join(running, ", "))
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		why = fmt.Errorf("interrupted; not ended yet: %s", strings.Join(running, ", "))
	}
	return failed(why, "taskctl watch "+strings.Join(running, " ")+" goes on; taskctl timeline shows what has happened")
}

// conclusion is how the watched have ended.
func conclusion(all []*watched) error {
	var bad []error
	for _, w := range all {
		if w.stands.Status != execution.Completed {
			why := ""
			if f := w.stands.Failure; f != nil {
				why = fmt.Sprintf(": %s, effect: %s", plain(f.Reason), plain(f.Outcome))
			}
			bad = append(bad, fmt.Errorf("%s is %s%s", plain(w.id), w.stands.Status, why))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return failed(errors.Join(bad...), "taskctl timeline shows what has happened, and taskctl dead-letters list what a replay would come to")
}

func (a *app) timeline() *cobra.Command {
	columns := -1
	c := &cobra.Command{
		Use: "timeline ID", Short: "Draw what happened to an execution", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeIDs(),
		Long: `Draw what happened to an execution, as lifelines and numbered arrows, from its history
and from the grants of its claim. What is not on record says that it is inferred. Where
the lifelines do not fit side by side, each arrow is a line of its own.

As JSON it is the document of the API.`,
		Example: `  taskctl timeline 82f3
  taskctl timeline 82f3 --columns 0 >82f3.txt`,
		RunE: func(c *cobra.Command, args []string) error {
			t, document, err := a.readTimeline(c.Context(), args[0])
			if err != nil {
				return err
			}
			if a.output == asJSON {
				return a.print(document.body, nil, nil)
			}
			if columns < 0 {
				columns, _ = terminal(a.stdout)
			}
			_, err = fmt.Fprint(a.stdout, diagram.Text(diagram.Of(t), columns))
			return err
		},
	}
	c.Flags().IntVar(&columns, "columns", columns, "how wide it may be; 0: as wide as it is; -1: as wide as the terminal")
	return c
}

func (a *app) readTimeline(ctx context.Context, id string) (diagram.Timeline, answer, error) {
	var t diagram.Timeline
	path, err := at(id, "timeline")
	if err != nil {
		return t, answer{}, err
	}
	got, err := a.ask(ctx, inquiry{method: http.MethodGet, path: path})
	if err != nil {
		return t, got, err
	}
	return t, got, got.decode(&t)
}
