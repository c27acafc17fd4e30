package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// colourOf a state.
func colourOf(s execution.Status) string {
	switch s {
	case execution.Completed:
		return green
	case execution.Failed:
		return red
	}
	return yellow
}

// at is where the API has an execution. An id that it could not have is a mistake of
// who typed it.
func at(id, what string) (string, error) {
	if err := message.CheckExecutionID(id); err != nil {
		return "", usage(err, "taskctl list shows the ids of executions")
	}
	path := "/v1/executions/" + url.PathEscape(id)
	if what != "" {
		path += "/" + what
	}
	return path, nil
}

// read loads one execution: as a document for programs, with its ETag, and as what it says.
func (a *app) read(ctx context.Context, id string) (map[string]jsontext.Value, execution.Execution, string, error) {
	path, err := at(id, "")
	if err != nil {
		return nil, execution.Execution{}, "", err
	}
	got, err := a.ask(ctx, inquiry{method: http.MethodGet, path: path})
	if err != nil {
		return nil, execution.Execution{}, "", err
	}
	return documentOf(got)
}

func documentOf(got answer) (map[string]jsontext.Value, execution.Execution, string, error) {
	var document map[string]jsontext.Value
	var e execution.Execution
	if err := errors.Join(got.decode(&document), got.decode(&e)); err != nil {
		return nil, e, "", err
	}
	etag := got.header.Get("ETag")
	quoted, err := jsontext.AppendQuote(nil, etag)
	document["etag"] = quoted
	return document, e, etag, err
}

func (a *app) get() *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show one execution", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeIDs(),
		Long: `Show one execution: how it stands, and its history. As JSON it is the document of
the API, with its ETag as the member etag.`,
		Example: `  taskctl get 82f3`,
		RunE: func(c *cobra.Command, args []string) error {
			document, e, etag, err := a.read(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(document, e, etag)
		},
	}
}

// show prints one execution.
func (a *app) show(document map[string]jsontext.Value, e execution.Execution, etag string) error {
	paint := painter(a.stdout, a.env)
	rows := [][]string{
		{"execution", plain(e.ExecutionID)},
		{"type", plain(e.Type)},
		{"status", paint(colourOf(e.Status), plain(string(e.Status)))},
		{"run", strconv.Itoa(e.Run)},
		{"created", clock(e.CreatedAt)},
		{"ended", clock(e.EndedAt)},
		{"deadline", clock(e.Deadline)},
		{"payload", cut(plain(string(e.Payload)), 120)},
	}
	if e.Result != nil {
		rows = append(rows, []string{"result", plain(e.Result.Ref)})
	}
	if e.Failure != nil {
		rows = append(rows, []string{"failure", plain(fmt.Sprintf("%s, effect: %s: %s", e.Failure.Reason, e.Failure.Outcome, e.Failure.Description))})
	}
	if e.Orchestration != "" {
		rows = append(rows, []string{"part of", plain(e.Orchestration)})
	}
	for _, p := range e.Tasks {
		rows = append(rows, []string{"task", plain(fmt.Sprintf("%s  %s  ", p.ExecutionID, p.Type)) + paint(colourOf(p.Status), plain(string(p.Status)))})
	}
	rows = append(rows, []string{"etag", plain(etag)})
	for _, n := range e.History {
		rows = append(rows, []string{"history", clock(n.At) + "  " + plain(n.What) + by(n.By) + detail(n.Detail)})
	}
	return a.print(document, nil, rows)
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + plain(who)
}

func detail(text string) string {
	if text == "" {
		return ""
	}
	return ": " + plain(text)
}

// cut makes text at most so many characters long.
func cut(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// What a list is bounded by: the page of the API, and what one command asks for.
const (
	listPage = 200
	maxList  = 10_000
	maxPages = 200 // one of older executions may be empty, and the list go on
)

// listing is what taskctl list prints as JSON.
type listing struct {
	Executions []execution.Summary `json:"executions"`
	AsOf       time.Time           `json:"asOf,omitzero"`
	More       bool                `json:"more"`
}

func (a *app) list() *cobra.Command {
	var statuses, types []string
	limit := 50
	c := &cobra.Command{
		Use: "list", Short: "List executions, the newest first", Args: cobra.NoArgs,
		Long: `List executions, the newest first. What is older than the orchestrator's index is
found too, in no promised order.`,
		Example: `  taskctl list --status FAILED --limit 20`,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxList {
				return usage(fmt.Errorf("--limit %d: give 1 to %d", limit, maxList), "narrow the list with --status and --type")
			}
			l, err := a.page(c.Context(), statuses, types, limit)
			if err != nil {
				return err
			}
			return a.showList(l)
		},
	}
	c.Flags().StringSliceVar(&statuses, "status", nil, "only RUNNING, COMPLETED, FAILED or CANCELLED; several with commas between them")
	c.Flags().StringSliceVar(&types, "type", nil, "only these types of task")
	c.Flags().IntVar(&limit, "limit", limit, "how many at most")
	names := make([]string, 0, 4)
	for _, s := range execution.Statuses() {
		names = append(names, string(s))
	}
	_ = c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	_ = c.RegisterFlagCompletionFunc("type", a.completeTypes())
	return c
}

// page reads the newest executions that fit, page by page.
func (a *app) page(ctx context.Context, statuses, types []string, limit int) (listing, error) {
	l := listing{Executions: []execution.Summary{}}
	q := inquiry{method: http.MethodGet, path: "/v1/executions", query: url.Values{"status": statuses, "type": types}}
	for range maxPages {
		q.query.Set("limit", strconv.Itoa(min(limit-len(l.Executions), listPage)))
		got, err := a.ask(ctx, q)
		if err != nil {
			return l, err
		}
		var page struct {
			Executions []execution.Summary `json:"executions"`
			AsOf       time.Time           `json:"asOf"`
			Next       string              `json:"next"`
		}
		if err := got.decode(&page); err != nil {
			return l, err
		}
		l.Executions = append(l.Executions, page.Executions...)
		if l.AsOf.IsZero() {
			l.AsOf = page.AsOf
		}
		next, err := queryOf(page.Next)
		if err != nil {
			return l, err
		}
		if l.More = next != nil; !l.More || len(l.Executions) >= limit {
			break
		}
		q.query = next
	}
	return l, nil
}

// queryOf the link that goes on, nil at the end.
func queryOf(next string) (url.Values, error) {
	if next == "" {
		return nil, nil
	}
	link, err := url.Parse(next)
	if err != nil {
		return nil, failed(fmt.Errorf("the orchestrator's link %q: %w", next, err), "compare taskctl version with what is deployed")
	}
	return link.Query(), nil
}

func (a *app) showList(l listing) error {
	paint := painter(a.stdout, a.env)
	rows := make([][]string, len(l.Executions))
	for i, s := range l.Executions {
		rows[i] = []string{
			plain(s.ExecutionID), plain(s.Type), paint(colourOf(s.Status), plain(string(s.Status))), strconv.Itoa(s.Run),
			clock(s.CreatedAt), cmp.Or(clock(s.EndedAt), "-"), plain(s.Reason),
		}
	}
	if err := a.print(l, []string{"EXECUTION", "TYPE", "STATUS", "RUN", "CREATED", "ENDED", "REASON"}, rows); err != nil {
		return err
	}
	if l.More {
		fmt.Fprintln(a.stderr, "there are more: raise --limit, or narrow the list with --status and --type")
	}
	return nil
}
