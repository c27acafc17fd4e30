package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"oneeffect/internal/evidence"
	"oneeffect/internal/preflight"

	"github.com/spf13/cobra"
)

// preflightBound is how long all probes together may take.
const preflightBound = 10 * time.Minute

func (a *app) preflight() *cobra.Command {
	var queue, dir string
	c := &cobra.Command{
		Use: "preflight", Short: "Ask broker and store whether they keep the rules that are relied on", Args: cobra.NoArgs,
		Long: `Ask the broker and the store that are given whether they keep the rules that the
product relies on: conditions, batches that leave nothing when they are refused,
expiry, clocks, locks, delivery counts and so on. Each probe says what it sent, what
it expected and what it saw. All of it takes about half a minute.

The probes touch nothing of the system's: they make items of their own in the
container inventory, which expire, and a queue of their own, which is deleted. For
that queue they need the right to manage the namespace. Without it, make a queue for
them and name it with --queue: LockDuration PT5S, MaxDeliveryCount 3,
RequiresDuplicateDetection with a window of PT20S, and nothing in it.

With --dir the verdicts are kept as evidence, in a folder of the run's own.`,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), preflightBound)
			defer cancel()
			verdicts, err := a.fly(ctx, a.Database, queue)
			if err != nil {
				return err
			}
			kept, err := a.keep(dir, verdicts)
			if err != nil {
				return err
			}
			return a.land(verdicts, kept)
		},
	}
	c.Flags().StringVar(&queue, "queue", "", "an empty queue for the probes alone, where no right to manage the namespace is given")
	c.Flags().StringVar(&dir, "dir", "", "folder in which the run gets one of its own")
	return c
}

// fly asks the endpoints, in a database that is set up.
func (a *app) fly(ctx context.Context, database, queue string) ([]preflight.Verdict, error) {
	if err := errors.Join(a.CheckBroker(), a.CheckStore()); err != nil {
		return nil, usage(err, "give both endpoints, or neither for the emulators of this machine")
	}
	store, err := a.StoreOptions()
	if err != nil {
		return nil, usage(err, "set AZURE_TOKEN_CREDENTIALS, or COSMOS_KEY")
	}
	store.Database = database
	broker, err := a.BrokerOptions()
	if err != nil {
		return nil, usage(err, "set AZURE_TOKEN_CREDENTIALS, or SERVICEBUS_CONNECTION_STRING")
	}
	verdicts, err := preflight.Run(ctx, preflight.Options{Store: store, Broker: broker, Queue: queue})
	if err != nil {
		return nil, usage(err, "correct the addresses and keys of the endpoints")
	}
	return verdicts, nil
}

// flown are verdicts as they are kept with the evidence: a run that has one which
// does not hold is invalid.
func flown(verdicts []preflight.Verdict) []evidence.Record {
	records := make([]evidence.Record, len(verdicts))
	for i, v := range verdicts {
		records[i] = evidence.Record{Kind: evidence.KindPreflight, Expected: evidence.Held, Preflight: &evidence.Verdict{
			Reliance: v.Probe + ": " + v.Reliance, Expected: v.Expected, Seen: "sent " + v.Sent + "; seen: " + v.Seen, Holds: v.Holds,
		}}
	}
	return records
}

// keep writes a run of its own, if there is a folder for it, and says where.
func (a *app) keep(dir string, verdicts []preflight.Verdict) (kept string, err error) {
	if dir == "" {
		return "", nil
	}
	version, revision := built()
	run, err := evidence.NewRun(dir, evidence.About{
		Purpose: "preflight", Program: fmt.Sprintf("taskctl %s, revision %s, %s", version, revision, runtime.Version()),
		ServiceBus: a.BrokerHost(), CosmosDB: a.Endpoint + ", database " + a.Database, Machine: runtime.GOOS + "/" + runtime.GOARCH,
	})
	if err != nil {
		return "", file(err)
	}
	var errs []error
	for _, r := range flown(verdicts) {
		errs = append(errs, run.Append(r))
	}
	head, err := run.Close()
	if err := errors.Join(append(errs, err)...); err != nil {
		return "", file(err)
	}
	return run.Dir() + " (head " + head + ")", nil
}

// land prints the verdicts, and fails if one does not hold.
func (a *app) land(verdicts []preflight.Verdict, kept string) error {
	paint := painter(a.stdout, a.env)
	rows := make([][]string, len(verdicts))
	hold := 0
	var failures []error
	for i, v := range verdicts {
		state := paint(red, "BROKEN")
		if v.Holds {
			hold++
			state = paint(green, "holds")
		} else {
			failures = append(failures, fmt.Errorf("%s: %s\n  sent: %s\n  expected: %s\n  seen: %s", v.Probe, v.Reliance, v.Sent, v.Expected, v.Seen))
		}
		rows[i] = []string{v.Probe, state, v.Seen}
	}
	if err := a.print(verdicts, []string{"PROBE", "STATE", "SEEN"}, rows); err != nil {
		return err
	}
	line := fmt.Sprintf("preflight: %d probes, %d hold", len(verdicts), hold)
	if a.output != asJSON {
		if kept != "" {
			fmt.Fprintln(a.stdout, "kept in", kept)
		}
		fmt.Fprintln(a.stdout, line)
	}
	if len(failures) == 0 {
		return nil
	}
	return failed(errors.Join(append([]error{errors.New(line)}, failures...)...), "do not run the system on these endpoints, and take no evidence there, until each probe holds")
}
