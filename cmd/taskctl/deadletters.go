package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"oneeffect/internal/orchestrator"

	"github.com/spf13/cobra"
)

// verdicts are those of the API: docs/api.md says what each means.
var verdicts = []orchestrator.Verdict{
	orchestrator.Safe, orchestrator.AlreadyDone, orchestrator.OutcomeUnknown, orchestrator.HorizonExpired, orchestrator.PayloadConflict, orchestrator.Inert,
}

// What is read of the dead-letter queue: a page of the API, and one command.
const (
	lettersPage = 100
	maxLetters  = 10_000
)

// letter is a dead letter as the API shows it.
type letter struct {
	Sequence      int64                `json:"sequence"`
	MessageID     string               `json:"messageId"`
	Reason        string               `json:"reason"`
	Description   string               `json:"description"`
	EnqueuedAt    time.Time            `json:"enqueuedAt"`
	DeliveryCount int                  `json:"deliveryCount"`
	ExecutionID   string               `json:"executionId,omitzero"`
	Type          string               `json:"type,omitzero"`
	Run           int                  `json:"run,omitzero"`
	Status        string               `json:"status,omitzero"`
	CurrentRun    int                  `json:"currentRun,omitzero"`
	Claim         string               `json:"claim,omitzero"`
	Verdict       orchestrator.Verdict `json:"verdict"`
	Why           string               `json:"why"`
}

func (a *app) deadLetters() *cobra.Command {
	return group("dead-letters", "See what was dead-lettered, and replay it", a.deadLettersList(), a.deadLettersReplay())
}

func (a *app) deadLettersList() *cobra.Command {
	var from int64
	var verdict string
	limit := lettersPage
	c := &cobra.Command{
		Use: "list", Short: "List dead letters, each with what a replay would come to", Args: cobra.NoArgs,
		Long: `List dead letters by their sequence numbers, each with what a replay of its execution
would come to. Nothing is taken, and nothing changes.`,
		Example: `  taskctl dead-letters list --verdict safe`,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxLetters {
				return usage(fmt.Errorf("--limit %d: give 1 to %d", limit, maxLetters), "look at one part after the other, with --from")
			}
			if verdict != "" && !slices.Contains(verdicts, orchestrator.Verdict(verdict)) {
				return usage(fmt.Errorf("--verdict %q: there are %q", verdict, verdicts), "docs/api.md says what each means")
			}
			found, next, err := a.letters(c.Context(), from, 0, limit)
			if err != nil {
				return err
			}
			if verdict != "" {
				found = slices.DeleteFunc(found, func(l letter) bool { return string(l.Verdict) != verdict })
			}
			return a.showLetters(found, next)
		},
	}
	c.Flags().Int64Var(&from, "from", 0, "sequence number to begin at")
	c.Flags().IntVar(&limit, "limit", limit, "how many are looked at, at most")
	c.Flags().StringVar(&verdict, "verdict", "", "only those with this verdict")
	names := make([]string, len(verdicts))
	for i, v := range verdicts {
		names[i] = string(v)
	}
	_ = c.RegisterFlagCompletionFunc("verdict", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return c
}

// letters reads dead letters from one sequence number to another, 0: to the end. next
// is where there is more, else 0.
func (a *app) letters(ctx context.Context, from, through int64, limit int) (found []letter, next int64, err error) {
	found = []letter{}
	line := a.progress()
	defer line.clear()
	for {
		page := min(limit-len(found), lettersPage)
		got, err := a.ask(ctx, inquiry{method: http.MethodGet, path: "/v1/dead-letters", query: url.Values{
			"from": {strconv.FormatInt(from, 10)}, "limit": {strconv.Itoa(page)},
		}})
		if err != nil {
			return nil, 0, err
		}
		var answer struct {
			DeadLetters []letter `json:"deadLetters"`
			Next        string   `json:"next"`
		}
		if err := got.decode(&answer); err != nil {
			return nil, 0, err
		}
		for _, l := range answer.DeadLetters {
			if through > 0 && l.Sequence > through {
				return found, 0, nil
			}
			found = append(found, l)
			from = l.Sequence + 1
		}
		line.say("%d dead letters read", len(found))
		if answer.Next == "" || len(answer.DeadLetters) == 0 {
			return found, 0, nil
		}
		if len(found) >= limit {
			return found, from, nil
		}
	}
}

func (a *app) showLetters(found []letter, next int64) error {
	paint := painter(a.stdout, a.env)
	rows := make([][]string, len(found))
	for i, l := range found {
		colour := yellow
		switch l.Verdict {
		case orchestrator.Safe:
			colour = green
		case orchestrator.OutcomeUnknown:
			colour = red
		}
		rows[i] = []string{
			strconv.FormatInt(l.Sequence, 10), plain(l.ExecutionID), plain(l.Type), runOf(l), plain(l.Reason), paint(colour, plain(string(l.Verdict))), plain(l.Why),
		}
	}
	err := a.print(struct {
		DeadLetters []letter `json:"deadLetters"`
		Next        int64    `json:"next,omitzero"`
	}{found, next}, []string{"SEQUENCE", "EXECUTION", "TYPE", "RUN", "REASON", "VERDICT", "WHY"}, rows)
	if err == nil && next > 0 {
		fmt.Fprintf(a.stderr, "there are more: go on with --from %d\n", next)
	}
	return err
}

func runOf(l letter) string {
	if l.Run == 0 {
		return "-"
	}
	return strconv.Itoa(l.Run)
}
