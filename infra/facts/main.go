// Command facts tells infra/check what the code relies on, since that is a module of
// its own and cannot ask.
//
//	facts                  entities and containers, as JSON
//	facts -horizon FILE    the relations of internal/horizon over settings in JSON
//	                       from standard input, with the handlers of FILE: what is
//	                       violated, and what could not be checked
package main

import (
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/downstream"
	"oneeffect/internal/evidence/probe"
	"oneeffect/internal/execution"
	"oneeffect/internal/horizon"
	"oneeffect/internal/message"
	"oneeffect/internal/orchestrator"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "facts:", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("facts", flag.ContinueOnError)
	handlers := flags.String("horizon", "", "check settings from standard input, with the handlers of this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var answer any = relied{
		Queue:         message.Tasks,
		Subscriptions: map[string]string{message.TaskEvents: message.Orchestrator, message.Reservations: message.Inventory},
		Containers:    cosmos.Table(),
		Probes:        probes{Topic: probe.Topic, Subscription: probe.Subscription, Database: probe.Database, Lock: probe.Lock.String()},
	}
	if *handlers != "" {
		settings, err := complete(stdin, *handlers)
		if err != nil {
			return err
		}
		answer = checked(settings)
	}
	return json.NewEncoder(stdout).Encode(answer)
}

// relied is what the code takes for granted of broker and store.
type relied struct {
	Queue         string
	Subscriptions map[string]string // by topic
	Containers    []cosmos.Container
	Probes        probes
}

// probes is what taskctl evidence run has for itself.
type probes struct{ Topic, Subscription, Database, Lock string }

// complete adds to the settings of a deployment what the code fixes and what the
// handlers declare.
func complete(from io.Reader, handlers string) (horizon.Settings, error) {
	s := horizon.Settings{
		TaskLife:        horizon.Constant("the life of a task", execution.NotAfterAfter),
		ExecutionID:     horizon.Constant("an execution's id", message.MaxExecutionID),
		MessageIDSuffix: horizon.Constant("what a copy's MessageID has behind it", len(message.CopyMessageID("", rand.Text()))),
	}
	s.Orchestrator.Reconciler = horizon.Constant("the reconciler", true)
	s.Orchestrator.ReconcileBudget = horizon.Constant("a round of the reconciler", orchestrator.ReconcileBudget)
	s.Orchestrator.ReplayAge = horizon.Constant("the oldest replay", execution.NotAfterAfter) // past notAfter it refuses
	decoder := json.NewDecoder(from)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return s, fmt.Errorf("settings: %w", err)
	}
	file, err := os.Open(handlers)
	if err != nil {
		return s, err
	}
	defer file.Close()
	declared, err := downstream.ReadHandlers(file, anywhere)
	if err != nil {
		return s, fmt.Errorf("%s: %w", handlers, err)
	}
	for _, d := range declared {
		if d.Go {
			continue // what it declares is in its own code: the worker holds it when it starts
		}
		h, err := d.Handler(downstream.Options{Transport: downstream.NewTransport(), Getenv: anywhere})
		if err != nil {
			return s, fmt.Errorf("%s: %w", handlers, err)
		}
		s.Handlers = append(s.Handlers, declaredHandler(h.Declaration()))
	}
	return s, nil
}

// anywhere answers for every variable: where downstreams are is no relation's matter.
func anywhere(string) string { return "https://downstream.example" }

func declaredHandler(d message.Declaration) horizon.Handler {
	return horizon.Handler{
		Type: d.Type, Keyed: d.Keyed,
		Call: horizon.Is(d.Type+" request.timeout", d.Timeout), Calls: horizon.Constant(d.Type+" steps", len(d.Calls())),
		KeyWindow:  horizon.Is(d.Type+" idempotency.window", d.KeyWindow),
		Attempts:   horizon.Is(d.Type+" retry.attempts", d.Attempts),
		BackoffMax: horizon.Is(d.Type+" retry.backoff", d.BackoffMax),
		Result:     horizon.Constant("what a claim keeps of a reply", claim.MaxValue),
	}
}

// verdict is what the relations say.
type verdict struct {
	Violations []string
	Unchecked  []string
}

func checked(s horizon.Settings) verdict {
	v := verdict{Violations: []string{}, Unchecked: []string{}}
	violations, unchecked := horizon.Check(s)
	for _, found := range violations {
		v.Violations = append(v.Violations, found.Error())
	}
	for _, u := range unchecked {
		v.Unchecked = append(v.Unchecked, u.String())
	}
	return v
}
