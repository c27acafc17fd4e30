package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// maxPayload is what the API takes of a request at most.
const maxPayload = 1 << 20

// order is the body of POST /v1/executions.
type order struct {
	ExecutionID string         `json:"executionId,omitzero"`
	Type        string         `json:"type,omitzero"`
	Payload     jsontext.Value `json:"payload,omitzero"`
	Tasks       jsontext.Value `json:"tasks,omitzero"`
}

func (a *app) submit() *cobra.Command {
	var id, key, tasks string
	var wait bool
	c := &cobra.Command{
		Use: "submit [TYPE [PAYLOAD]]", Short: "Create an execution", Args: cobra.MaximumNArgs(2),
		Long: `Create an execution of one task, or with --tasks of several that end together.

PAYLOAD is JSON; @FILE reads it from a file, and - from standard input. --tasks takes
the same: a list of {"type":…, "payload":…}.

The same --idempotency-key, or the same --execution-id, is the same execution: it is
created once, however often it is submitted. Without either a key is made up, and said
if the answer is lost, so that it can be submitted again.`,
		Example: `  taskctl submit customer.create '{"name":"Ada"}' --execution-id 82f3
  taskctl submit --tasks @welcome.json --watch`,
		ValidArgsFunction: func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.completeTypes()(c, args, begun)
		},
		RunE: func(c *cobra.Command, args []string) error {
			o, err := orderOf(args, tasks, c.InOrStdin())
			if err != nil {
				return err
			}
			o.ExecutionID = id
			if id == "" && key == "" {
				key = rand.Text()
			}
			q := inquiry{method: http.MethodPost, path: "/v1/executions", body: o}
			if key != "" {
				q.header = map[string]string{"Idempotency-Key": key}
			}
			got, err := a.ask(c.Context(), q)
			if err != nil {
				return again(err, key)
			}
			document, e, etag, err := documentOf(got)
			if err != nil {
				return err
			}
			if !wait {
				return a.show(document, e, etag)
			}
			return a.follow(c.Context(), []string{e.ExecutionID}, watchFor)
		},
	}
	c.Flags().StringVar(&id, "execution-id", "", "id of the execution; made of the key, or at random, without it")
	c.Flags().StringVar(&key, "idempotency-key", "", "key of the request, which creates one execution however often it is sent")
	c.Flags().StringVar(&tasks, "tasks", "", "several tasks that end together, as a JSON list, @FILE or -")
	c.Flags().BoolVar(&wait, "watch", false, "watch it until it has ended, as taskctl watch does")
	return c
}

// again says under which key a request may be sent again whose answer is lost.
func again(err error, key string) error {
	p, ok := errors.AsType[*problem](err)
	if !ok || key == "" || refusalIn(err) && p.code != exitUnreachable {
		return err
	}
	return &problem{p.code, err, "submit it again with --idempotency-key " + key + ", which creates it once; " + p.next}
}

func refusalIn(err error) bool {
	_, ok := errors.AsType[*refusal](err)
	return ok
}

// orderOf what the command line says.
func orderOf(args []string, tasks string, stdin io.Reader) (order, error) {
	const form = `give TYPE and PAYLOAD, for example: taskctl submit customer.create '{"name":"Ada"}'; or --tasks`
	if (tasks == "") == (len(args) == 0) {
		return order{}, usage(errors.New("a task has a type, or there are several tasks: one of the two"), form)
	}
	var o order
	var err error
	if tasks != "" {
		o.Tasks, err = document(tasks, stdin)
		return o, err
	}
	o.Type = args[0]
	if len(args) == 2 {
		o.Payload, err = document(args[1], stdin)
	}
	return o, err
}

// document reads JSON from where an argument says.
func document(from string, stdin io.Reader) (jsontext.Value, error) {
	text := []byte(from)
	var err error
	path, named := strings.CutPrefix(from, "@")
	switch {
	case from == "-":
		text, err = io.ReadAll(io.LimitReader(stdin, maxPayload+1))
	case named:
		var f *os.File
		if f, err = os.Open(path); err == nil {
			defer f.Close()
			text, err = io.ReadAll(io.LimitReader(f, maxPayload+1))
		}
	}
	if err != nil {
		return nil, file(err)
	}
	if len(text) > maxPayload {
		return nil, usage(fmt.Errorf("it has more than %d bytes, which the API does not take", maxPayload), "put the data elsewhere and submit a reference to it")
	}
	var v jsontext.Value
	if err := json.Unmarshal(bytes.TrimSpace(text), &v); err != nil {
		return nil, usage(fmt.Errorf("it is no JSON: %w", err), `give JSON, within quotes for the shell: '{"name":"Ada"}'`)
	}
	return v, nil
}
