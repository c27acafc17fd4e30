package main

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"
)

func (a *app) cancel() *cobra.Command {
	var etag, reason string
	c := &cobra.Command{
		Use: "cancel ID", Short: "Cancel a running execution", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeIDs("RUNNING"),
		Long: `Cancel a running execution. What is cancelled is what was seen: it is read first, or
--if-match names the version that somebody has looked at ("*": whatever stands), and
nothing is done if it has changed since. Whoever works on it is not interrupted.`,
		Example: `  taskctl cancel letter-10 --reason 'ordered twice'`,
		RunE: func(c *cobra.Command, args []string) error {
			if etag == "" {
				var err error
				if _, _, etag, err = a.read(c.Context(), args[0]); err != nil {
					return err
				}
			}
			return a.operate(c.Context(), args[0], "cancel", etag, struct {
				Reason string `json:"reason,omitzero"`
			}{reason})
		},
	}
	c.Flags().StringVar(&etag, "if-match", "", `ETag of the version that was seen, as taskctl get shows it; "*" for whatever stands`)
	c.Flags().StringVar(&reason, "reason", "", "why; it stays in the history")
	return c
}

func (a *app) resolve() *cobra.Command {
	var reason, ref string
	c := &cobra.Command{
		Use: "resolve ID", Short: "Close a failed execution as applied, without a call", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeIDs("FAILED"),
		Long: `Close a failed execution as applied: somebody has looked, and the effect is there.
Nothing is called. The execution is COMPLETED then, and its dead letter goes.`,
		Example: `  taskctl resolve letter-9 --result-ref tray/7 --reason 'it lies in the tray'`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.operate(c.Context(), args[0], "resolve", "", struct {
				Reason    string `json:"reason"`
				ResultRef string `json:"resultRef"`
			}{reason, ref})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why; it stays in the history")
	c.Flags().StringVar(&ref, "result-ref", "", "where the effect is")
	required(c, "reason", "result-ref")
	return c
}

// required makes flags needed, which cobra then says.
func required(c *cobra.Command, flags ...string) {
	for _, name := range flags {
		_ = c.MarkFlagRequired(name) // the flag is there
	}
}

// operate asks for a change of one execution and shows what stands then.
func (a *app) operate(ctx context.Context, id, what, etag string, body any) error {
	got, err := a.change(ctx, id, what, etag, body)
	if err != nil {
		return err
	}
	document, e, seen, err := documentOf(got)
	if err != nil {
		return err
	}
	return a.show(document, e, seen)
}

// change asks for a change of one execution, of the version with this ETag if there is one.
func (a *app) change(ctx context.Context, id, what, etag string, body any) (answer, error) {
	path, err := at(id, what)
	if err != nil {
		return answer{}, err
	}
	q := inquiry{method: http.MethodPost, path: path, body: body}
	if etag != "" {
		q.header = map[string]string{"If-Match": etag}
	}
	return a.ask(ctx, q)
}
