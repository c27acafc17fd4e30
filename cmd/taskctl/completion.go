package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionBound is how long somebody waits who has pressed the tab key.
const completionBound = 2 * time.Second

// completeIDs completes ids of the newest executions, of some states if any are named.
// An orchestrator that does not answer completes nothing.
func (a *app) completeIDs(statuses ...string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		return a.newest(c.Context(), statuses, func(l listing) (ids []string) {
			for _, s := range l.Executions {
				if id := plain(s.ExecutionID); strings.HasPrefix(id, begun) && !slices.Contains(args, id) {
					ids = append(ids, fmt.Sprintf("%s\t%s %s", id, plain(s.Type), plain(string(s.Status))))
				}
			}
			return ids
		})
	}
}

// completeTypes completes types of task that there have been lately.
func (a *app) completeTypes() cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return a.newest(c.Context(), nil, func(l listing) (types []string) {
			for _, s := range l.Executions {
				if strings.HasPrefix(s.Type, begun) {
					types = append(types, plain(s.Type))
				}
			}
			slices.Sort(types)
			return slices.Compact(types)
		})
	}
}

func (a *app) newest(ctx context.Context, statuses []string, pick func(listing) []string) ([]string, cobra.ShellCompDirective) {
	if u, err := url.Parse(a.orchestrator); err != nil || u.Host == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(ctx, completionBound)
	defer cancel()
	l, err := a.page(ctx, statuses, nil, listPage)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return pick(l), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// wordsOfLine stands behind the script for bash, in the place of what that takes from
// the package bash-completion, which is not on every machine: the words of the line,
// put together again where bash has parted them at "=" and ":", since an execution's id
// may hold the one and a flag the other.
const wordsOfLine = `
# For a shell without the package bash-completion: words end at blanks, and nowhere else.
__taskctl_init_completion()
{
    local i at=-1 rest="$COMP_LINE" blanks
    COMPREPLY=()
    words=()
    cword=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        blanks="${rest%%[^[:space:]]*}"
        rest="${rest#"$blanks"}"
        rest="${rest#"${COMP_WORDS[i]}"}"
        if [[ $at -lt 0 || -n "$blanks" ]]; then
            at=$((at + 1))
        fi
        words[at]="${words[at]}${COMP_WORDS[i]}"
        if [[ $i -eq $COMP_CWORD ]]; then
            cword=$at
        fi
    done
    cur="${words[cword]}"
    prev="${words[cword - 1]}"
}
`

// addCompletion adds the commands that print scripts for shells, once it is known where
// to. That for bash needs nothing but bash.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	c, _, err := root.Find([]string{"completion", "bash"})
	if err != nil || c.RunE == nil {
		return
	}
	c.Long = `Print the completion script for bash. It needs nothing but bash, and asks the
orchestrator for the ids of executions.

  eval "$(taskctl completion bash)"                                               in this shell
  taskctl completion bash >~/.local/share/bash-completion/completions/taskctl     in every new one`
	script := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := script(c, args); err != nil {
			return err
		}
		_, err := fmt.Fprint(c.OutOrStdout(), wordsOfLine)
		return err
	}
}
