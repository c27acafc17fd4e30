package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"oneeffect/internal/cosmos"
	"oneeffect/internal/evidence"
	"oneeffect/internal/evidence/probe"
	"oneeffect/internal/projector"
	"oneeffect/internal/telemetry"

	"github.com/spf13/cobra"
)

func (a *app) evidence() *cobra.Command {
	return group("evidence", "Probe what is promised of receipts, and check what was recorded", a.evidenceRun(), a.evidenceVerify(), a.evidenceAttempt())
}

// place is where the probes act.
type place struct {
	topic, subscription, database string
	lock                          time.Duration
	preflight                     bool
	queue                         string // of the preflight's own
}

func (p *place) register(c *cobra.Command) {
	c.Flags().StringVar(&p.topic, "topic", probe.Topic, "topic of the probes' own")
	c.Flags().StringVar(&p.subscription, "subscription", probe.Subscription, "subscription of that topic, which nobody else receives from")
	c.Flags().DurationVar(&p.lock, "lock", probe.Lock, "lock duration of the subscription, as it is configured there")
	c.Flags().StringVar(&p.database, "evidence-database", probe.Database, "database of the probes' own")
}

// check keeps the probes out of the system's own data.
func (p *place) check(a *app) error {
	if p.database == a.Database {
		return usage(fmt.Errorf("--evidence-database %q is the system's own database, and the probes write wrong stock on purpose", p.database), "give the probes a database of their own")
	}
	if p.topic == "" || p.subscription == "" || p.database == "" || p.lock < time.Second {
		return usage(errors.New("the probes need a topic, a subscription, a database, and a lock of a second at least"), "leave the flags out, or give them values")
	}
	return nil
}

// evidenceBound is how long all probes together may take.
const evidenceBound = 10 * time.Minute

func (a *app) evidenceRun() *cobra.Command {
	var at place
	var dir string
	c := &cobra.Command{
		Use: "run", Short: "Run the six probes and write their evidence", Args: cobra.NoArgs,
		Long: `Run the five probes of the lesson and the webhook transfer, and write what they
saw: records.jsonl (a chain of Idempotent Event Receipt Records), manifest.json (its
head), record.schema.json and index.html, in a folder of the run's own.

They act on the broker and the store that are given, with a topic and a database of
their own. On an emulator the database is created; in Azure, database, containers
(taskctl setup --cosmos-database says which) and topic must be there.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := at.check(a); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), evidenceBound)
			defer cancel()
			return a.gather(ctx, at, dir)
		},
	}
	at.register(c)
	c.Flags().BoolVar(&at.preflight, "preflight", true, "ask first whether broker and store keep the rules that are relied on: a run on one that does not is invalid (taskctl preflight --help)")
	c.Flags().StringVar(&at.queue, "preflight-queue", "", "an empty queue for the preflight alone, where no right to manage the namespace is given")
	c.Flags().StringVar(&dir, "dir", "evidence", "folder in which the run gets one of its own")
	return c
}

// gather runs the probes, and then reads what they have written as a stranger would.
func (a *app) gather(ctx context.Context, at place, dir string) (err error) {
	p, end, err := a.probes(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	version, revision := built()
	run, err := evidence.NewRun(dir, evidence.About{
		Purpose: evidence.PurposeProbes, Program: fmt.Sprintf("taskctl %s, revision %s, %s", version, revision, runtime.Version()),
		ServiceBus: fmt.Sprintf("%s, topic %s, subscription %s", a.BrokerHost(), at.topic, at.subscription),
		CosmosDB:   fmt.Sprintf("%s, database %s", a.Endpoint, at.database), Machine: runtime.GOOS + "/" + runtime.GOARCH,
	})
	if err != nil {
		return file(err)
	}
	if at.preflight {
		verdicts, err := a.fly(ctx, at.database, at.queue)
		if err != nil {
			return err
		}
		for _, r := range flown(verdicts) {
			if err := run.Append(r); err != nil {
				return file(err)
			}
		}
	}
	results := p.Run(ctx, run)
	head, err := run.Close()
	if err != nil {
		return file(err)
	}
	report, err := evidence.Verify(run.Dir(), head)
	if err != nil {
		return file(err)
	}
	page, err := writePage(report, filepath.Join(run.Dir(), evidence.PageFile))
	if err != nil {
		return file(err)
	}
	return a.conclude(results, report, page)
}

// noEvidence is what to do where a probe of the preflight does not hold.
const noEvidence = "take no evidence on these endpoints until each probe of taskctl preflight holds"

// conclude prints what has come of it, and fails if that is not what must.
func (a *app) conclude(results []probe.Result, report evidence.Report, page string) error {
	if err := a.tellRecords(report, page); err != nil {
		return err
	}
	var failures []error
	silent := false
	good := report.Probes().AsExpected
	for _, r := range results {
		if r.Err != nil {
			failures = append(failures, r.Err)
			silent = silent || unanswered(r.Err)
		}
	}
	for _, problem := range report.Problems {
		failures = append(failures, errors.New(problem.String()))
	}
	chain := "chain intact"
	if !report.Intact() {
		chain = "chain broken"
	}
	line := fmt.Sprintf("evidence: %d probes, %d as expected, %s", len(results), good, chain)
	if len(report.Invalid()) > 0 {
		line += ", invalid"
	}
	if a.output != asJSON {
		fmt.Fprintln(a.stdout, line)
	}
	if good == len(results) && report.Passes() && len(failures) == 0 {
		return nil
	}
	err := errors.Join(append([]error{errors.New(line)}, failures...)...)
	if silent {
		return unreachable(err, "look at the endpoint that did not answer, and at the topic and its subscription, then run it again; what was seen until then is in "+page)
	}
	if len(report.Invalid()) > 0 {
		return failed(err, noEvidence+"; what was seen is in "+page)
	}
	return failed(err, "look at "+page+", which shows what was seen instead")
}

// probes wires them as cmd/projector wires the projector.
func (a *app) probes(ctx context.Context, at place) (p *probe.Probes, end func() error, err error) {
	if err := errors.Join(a.CheckBroker(), a.CheckStore()); err != nil {
		return nil, nil, usage(err, "give both endpoints, or neither for the emulators of this machine")
	}
	t, err := telemetry.Start(ctx, telemetry.Options{Service: "taskctl", Instance: a.ID, Getenv: a.env.Get})
	if err != nil {
		return nil, nil, usage(err, "correct the OTEL_ variables")
	}
	ends := []func() error{func() error { return t.Shutdown(context.WithoutCancel(ctx)) }}
	end = func() error {
		var errs []error
		for i := len(ends) - 1; i >= 0; i-- {
			errs = append(errs, ends[i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	o, err := a.StoreOptions()
	if err != nil {
		return nil, nil, usage(err, "set AZURE_TOKEN_CREDENTIALS, or COSMOS_KEY")
	}
	o.Database = at.database
	db, err := cosmos.Open(o)
	if err != nil {
		return nil, nil, usage(err, "correct --cosmos-endpoint, --evidence-database or COSMOS_KEY")
	}
	ends = append(ends, func() error { db.Close(); return nil })
	unguarded, err := probe.OpenUnguarded(o)
	if err != nil {
		return nil, nil, usage(err, "correct --cosmos-endpoint, --evidence-database or COSMOS_KEY")
	}
	ends = append(ends, func() error { unguarded.Close(); return nil })
	if err := db.Setup(ctx); errors.Is(err, cosmos.ErrDiffers) {
		return nil, nil, failed(err, "create the database "+at.database+" as it must be: taskctl setup --cosmos-database "+at.database)
	} else if err != nil {
		return nil, nil, met(a.Endpoint, err)
	}
	bus, err := a.bus(t)
	if err != nil {
		return nil, nil, err
	}
	ends = append(ends, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.StoreLimit)
		defer cancel()
		return bus.Close(ctx)
	})
	counters, err := projector.NewCounters(t.Metrics.Meter("oneeffect/projector"))
	if err != nil {
		return nil, nil, err
	}
	return &probe.Probes{
		Bus: bus, Topic: at.topic, Subscription: at.subscription, Lock: at.lock,
		Inventory: db.Inventory(), Webhooks: db.Webhooks(), Unguarded: unguarded,
		Timeout: a.StoreLimit, Counters: counters, Log: a.log(), Attempt: a.attempt(at),
	}, end, nil
}

// tellRecords prints a report's records. page is that of the run, if there is one.
func (a *app) tellRecords(report evidence.Report, page string) error {
	type line struct {
		Sequence int            `json:"sequence"`
		What     string         `json:"what"`
		Case     string         `json:"case"`
		Expected evidence.Class `json:"expected"`
		Observed evidence.Class `json:"observed"`
	}
	v := struct {
		Run      string             `json:"run"`
		Dir      string             `json:"dir"`
		Page     string             `json:"page,omitzero"`
		Head     string             `json:"head"`
		Intact   bool               `json:"intact"`
		Passes   bool               `json:"passes"`
		Records  []line             `json:"records"`
		Problems []evidence.Problem `json:"problems"`
		Notices  []string           `json:"notices"`
	}{report.Run, filepath.Dir(report.Path), page, report.Head, report.Intact(), report.Passes(), nil, report.Problems, report.Notices(time.Now())}
	paint := painter(a.stdout, a.env)
	var rows [][]string
	for _, r := range report.Records {
		what, which := r.What()
		if what == "" {
			continue
		}
		v.Records = append(v.Records, line{r.Sequence, what, which, r.Expected, r.Observed})
		mark := paint(green, "as expected")
		if r.Expected != r.Observed {
			mark = paint(red, "expected "+string(r.Expected))
		}
		rows = append(rows, []string{fmt.Sprint(r.Sequence), what, which, string(r.Observed), mark})
	}
	if err := a.print(v, []string{"RECORD", "WHAT", "CASE", "OBSERVED", ""}, rows); err != nil {
		return err
	}
	if a.output == asJSON {
		return nil
	}
	fmt.Fprintf(a.stdout, "records  %s\n", report.Path)
	if page != "" {
		fmt.Fprintf(a.stdout, "page     %s\n", page)
	}
	fmt.Fprintf(a.stdout, "head     %s (keep it where nobody who can write the records can: taskctl evidence verify --head)\n", report.Head)
	for _, n := range v.Notices {
		fmt.Fprintf(a.stdout, "notice   %s\n", n)
	}
	return nil
}

func writePage(report evidence.Report, path string) (string, error) {
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	err = evidence.WritePage(f, report, time.Now())
	return path, errors.Join(err, f.Close())
}
