package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/servicebus"
	"oneeffect/internal/telemetry"

	"github.com/spf13/cobra"
)

// app is what all commands share.
type app struct {
	process.Settings
	env            process.Environment
	stdout, stderr io.Writer
	output         format

	orchestrator, projector string       // URLs
	audience                string       // of tokens for the orchestrator's API; empty: it is open
	client                  *http.Client // of that API
	mistakes                error        // of the environment, told when a command runs
}

// root is the command line. A new command is a file, and a line here.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "taskctl",
		Short: "Operate oneeffect, on Azure or on the emulators",
		Long: `Operate oneeffect, on Azure or on the emulators.

Without configuration it reaches the emulators that "make run" starts. Every flag
below is a variable too: ONEEFFECT_TASKCTL_ and its name in capitals, "-" as "_".
Secrets are variables only: SERVICEBUS_CONNECTION_STRING, COSMOS_KEY and
ORCHESTRATOR_TOKEN. Without them it signs in with the identity that
AZURE_TOKEN_CREDENTIALS names.

` + exitHelp,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.check() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(err, c.CommandPath()+" --help lists the flags")
	})
	// The flags of a process of ours, by their names, with what suits a person.
	flags := flag.NewFlagSet("taskctl", flag.ContinueOnError)
	a.Register(flags)
	flags.StringVar(&a.orchestrator, "orchestrator-url", "http://127.0.0.1:8080", "address of the orchestrator's API")
	flags.StringVar(&a.audience, "orchestrator-audience", "", "audience of the token for the orchestrator's API, as the orchestrator has it in -oidc-audience; empty: the API is open, or "+tokenVariable+" is set")
	flags.StringVar(&a.projector, "projector-url", "http://127.0.0.1:8083", "address of the projector's webhooks")
	for name, value := range map[string]string{"id": "taskctl", "log-level": "WARN"} {
		a.mistakes = errors.Join(a.mistakes, flags.Set(name, value))
		flags.Lookup(name).DefValue = value
	}
	a.mistakes = errors.Join(a.mistakes, a.FromEnvironment(flags, a.env))
	root.PersistentFlags().AddGoFlagSet(flags)
	root.PersistentFlags().VarP(&a.output, "output", "o", "how results are printed: table or json")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there

	root.AddCommand(
		a.cancel(),
		a.claims(),
		a.deadLetters(),
		a.doctor(),
		a.drill(),
		a.evidence(),
		a.get(),
		a.list(),
		a.preflight(),
		a.resolve(),
		a.setup(),
		a.submit(),
		a.timeline(),
		a.version(),
		a.watch(),
	)
	return root
}

// check holds what no command can do without. It runs before each of them.
func (a *app) check() error {
	errs := []error{a.mistakes}
	for _, at := range []struct{ flag, url string }{{"orchestrator-url", a.orchestrator}, {"projector-url", a.projector}} {
		if u, err := url.Parse(at.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			errs = append(errs, fmt.Errorf("--%s %q: give http://host:port", at.flag, at.url))
		}
	}
	a.OrEmulators()
	if err := errors.Join(errs...); err != nil {
		return usage(err, "correct the flag or the variable; taskctl --help lists them")
	}
	return nil
}

// store opens the database. Close it.
func (a *app) store() (*cosmos.Database, error) {
	if err := a.CheckStore(); err != nil {
		return nil, usage(err, "give both endpoints, or neither for the emulators of this machine")
	}
	db, err := a.Store(nil)
	if err != nil {
		return nil, usage(err, "correct --cosmos-endpoint, --cosmos-database or COSMOS_KEY")
	}
	return db, nil
}

// bus prepares the connection to the broker. Close it.
func (a *app) bus(t telemetry.Providers) (*servicebus.Client, error) {
	if err := a.CheckBroker(); err != nil {
		return nil, usage(err, "give both endpoints, or neither for the emulators of this machine")
	}
	client, err := a.Broker(t, a.log())
	if err != nil {
		return nil, usage(err, "correct --servicebus-namespace or SERVICEBUS_CONNECTION_STRING")
	}
	return client, nil
}

func (a *app) log() *slog.Logger { return a.Logger(a.stderr) }

// group is a command that only has commands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage(fmt.Errorf("%q is no command of %s", args[0], c.CommandPath()), c.CommandPath()+" --help lists them")
		}
		return usage(fmt.Errorf("%s needs a command", c.CommandPath()), c.CommandPath()+" --help lists them")
	}}
	c.AddCommand(commands...)
	return c
}
