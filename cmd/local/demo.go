package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
)

// The demo's own settings: the diagram's five minutes as five seconds and less,
// every relation between them kept. A worker checks those relations itself.
var (
	//go:embed demo/handlers.yaml
	demoHandlers []byte
	//go:embed demo/servicebus.json
	demoEntities []byte
)

var demoWorker = []string{
	"-lock=5s", "-lease=3s", "-renewal=1s", "-owner-margin=400ms", "-challenger-margin=1s", "-store-timeout=400ms",
	"-busy-wait=1s", "-publish-timeout=1500ms", "-settle-timeout=500ms", "-max-delivery=10", "-max-attempts=8", "-grace=8s",
}

var demoOrchestrator = []string{
	"-lock=5s", "-settle-timeout=500ms", "-store-timeout=2s", "-grace=8s", "-lease=3s", "-challenger-margin=1s",
}

// Bounds of the demo: the whole, one arrow, and one arrow after another was
// missed, when little hope is left.
const (
	demoBound       = 28 * time.Second
	arrowBound      = 9 * time.Second // the lock's five and the busy wait are in it
	arrowBoundAfter = time.Second
)

// The lies: ways in which the demo must fail, for the test that shows it can.
const (
	lieForgetful    = "downstream-forgets-keys"
	lieNoKill       = "nobody-is-killed"
	lieLock         = "lock-never-expires"
	lieNoDuplicate  = "no-duplicate-sent"
	lieNoConditions = "store-ignores-conditions"
)

// The switches of the emulators that make three of them. Of the store's two conditions
// one is enough to keep the second completion away.
var lies = map[string][]string{
	lieForgetful: {"downstream.idempotency"}, lieNoKill: nil, lieLock: {"servicebus.lock-expiry"},
	lieNoDuplicate: nil, lieNoConditions: {"cosmos.if-match/executions", "cosmos.patch-condition"},
}

// demo shows the sequence diagram with its own ids, on real processes.
func demo(ctx context.Context, bin string, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("local demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	lie := flags.String("lie", "", "make it fail, to see that it can: "+lieForgetful+", "+lieNoKill+", "+lieLock+", "+lieNoDuplicate+" or "+lieNoConditions)
	stock := flags.Bool("stock", false, "a projector too, which applies what was reserved once, although it is told twice")
	entra := flags.Bool("entra", false, "broker and store over TLS, and everybody signs in with a managed identity, as in Azure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if _, known := lies[*lie]; flags.NArg() > 0 || *lie != "" && !known {
		return fmt.Errorf("%q is not a flag or not a lie; -h lists them", append(flags.Args(), *lie)[0])
	}
	logs, err := logFolder("")
	if err != nil {
		return err
	}
	d := &demonstration{system: &system{bin: bin, dir: logs}, out: stdout, lie: *lie, entra: *entra, stock: *stock, keep: os.Getenv("KEEP") == "1", started: time.Now()}
	defer d.stop()
	result := d.perform(ctx)
	if d.keep && ctx.Err() == nil {
		if result != nil {
			fmt.Fprintf(stdout, "the demo failed: %v\n", result) // who stays to look should know for what
		}
		fmt.Fprintf(stdout, "orchestrator http://%s, control http://%s/control/events, logs %s\nbin/taskctl timeline %s%s\nCtrl-C stops everything\n", d.api, d.control, d.dir, task, d.unusual())
		<-ctx.Done()
	} else if result == nil {
		_ = os.RemoveAll(logs) // nothing to look up
	}
	return result
}

// demonstration is the demo and what it has learned so far.
type demonstration struct {
	*system
	links
	out      io.Writer
	lie      string
	entra    bool
	stock    bool
	keep     bool
	started  time.Time
	events   *controller
	worker1  *child
	handlers string

	ticket    string       // the execution's ETag at its creation
	stands    claim.Stored // the claim after the kill
	resource  string       // what the first call made
	completed event        // the publication of TaskCompleted
	moved     event        // the transition
}

func (d *demonstration) perform(ctx context.Context) error {
	bounded, cancel := context.WithTimeoutCause(ctx, demoBound, fmt.Errorf("the demo is bounded to %v", demoBound))
	defer cancel()
	defer d.disconnect(ctx)
	if err := d.prepare(bounded); err != nil {
		return err
	}

	observed := 0
	for i, a := range arrows {
		bound := arrowBound
		if observed < i {
			bound = arrowBoundAfter
		}
		if d.observe(bounded, i+1, a, bound) {
			observed++
		}
	}
	noteErr := d.note(bounded, arrowBound)
	if noteErr == nil && d.stock {
		noteErr = d.reserve(bounded, arrowBound)
	}
	effects, transitions, err := d.totals(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "demo: %d/%d arrows observed, %s, %s\n", observed, len(arrows), plural(effects, "effect"), plural(transitions, "transition"))
	if observed < len(arrows) || effects != 1 || transitions != 1 {
		return fmt.Errorf("not what the diagram shows; logs are in %s", d.dir)
	}
	return noteErr
}

// prepare starts everything but worker 2, and arms the one fault: the write that
// would complete worker 1's claim is held before it is applied. It is matched on
// its body, since the next write of that claim might be a renewal.
func (d *demonstration) prepare(ctx context.Context) error {
	entities := filepath.Join(d.dir, "servicebus.json")
	d.handlers = filepath.Join(d.dir, "handlers.yaml")
	if err := errors.Join(os.WriteFile(entities, demoEntities, 0o600), os.WriteFile(d.handlers, demoHandlers, 0o600)); err != nil {
		return fmt.Errorf("write the demo's settings: %w", err)
	}
	args := []string{"-amqp=" + d.at(ctx, usualAMQP), "-cosmos=" + d.at(ctx, usualCosmos), "-downstream=" + d.at(ctx, usualDownstream), "-control=" + d.at(ctx, usualControl), "-config=" + entities}
	if d.entra {
		d.authority = filepath.Join(d.dir, "ca.pem")
		args = append(args, "-msi=127.0.0.1:0", "-ca-file="+d.authority)
	}
	if err := d.emulator(ctx, args...); err != nil {
		return err
	}
	d.events = &controller{address: d.control}
	for _, name := range lies[d.lie] {
		if err := d.events.switchOff(ctx, name); err != nil {
			return err
		}
	}
	if err := d.connect(ctx, d.system); err != nil {
		return err
	}
	if err := d.orchestrator(ctx, d.at(ctx, usualAPI), demoOrchestrator...); err != nil {
		return err
	}
	var err error
	if d.worker1, err = d.worker(ctx, worker1, d.handlers, demoWorker...); err != nil {
		return err
	}
	var hold rule
	hold.Name, hold.When, hold.Do = holdRule, "before", "hold"
	hold.Match.Service, hold.Match.Operation, hold.Match.Entity, hold.Match.Client = "cosmos", "replace", "claims", worker1
	hold.Match.Body = map[string]any{"/status": string(claim.Completed)}
	if err := d.events.arm(ctx, hold); err != nil {
		return err
	}
	d.ticket, err = d.submit(ctx, fmt.Sprintf(`{"executionId":%q,"type":"customer.create","payload":{"name":"Ada Lovelace"}}`, task))
	return err
}

// at is where something of the demo listens: anywhere, but where taskctl looks for it if
// it is left up, and nobody else is there.
func (d *demonstration) at(ctx context.Context, usual string) string {
	if !d.keep {
		return anywhere
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", usual)
	if err != nil {
		return anywhere
	}
	_ = l.Close() // it held nothing yet
	return usual
}

// unusual is what taskctl must be told of where the orchestrator is.
func (d *demonstration) unusual() string {
	if d.api == usualAPI {
		return ""
	}
	return " --orchestrator-url http://" + d.api
}

// submit creates an execution and returns its ETag.
func (d *demonstration) submit(ctx context.Context, request string) (string, error) {
	_, header, err := ask(ctx, http.DefaultClient, http.MethodPost, "http://"+d.api+"/v1/executions", []byte(request))
	if err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	return header.Get("ETag"), nil
}

// observe prints an arrow as it was seen, or that it was not.
func (d *demonstration) observe(ctx context.Context, number int, a arrow, bound time.Duration) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("not seen within %v", bound))
	defer cancel()
	seen, err := a.observe(ctx, d)
	if err != nil {
		fmt.Fprintf(d.out, "arrow %2d  NOT OBSERVED  %-42s %v\n", number, a.text, err)
		return false
	}
	fmt.Fprintf(d.out, "arrow %2d  %s  %-42s %-42s [%s]\n", number, seen.at.Format("15:04:05.000"), a.between, a.text, seen.source)
	return true
}

// note is the line under the diagram: a handler whose downstream honours no key
// fails once and is dead-lettered, after one call.
func (d *demonstration) note(ctx context.Context, bound time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("not seen within %v", bound))
	defer cancel()
	if _, err := d.submit(ctx, fmt.Sprintf(`{"executionId":%q,"type":"letter.print","payload":{"to":"Ada Lovelace","fail":500}}`, letter)); err != nil {
		return err
	}
	dead, err := d.events.await(ctx, func(e event) bool { return e.Kind == "dead-lettered" && e.Entity == "tasks" && e.Key == letter })
	if err != nil {
		return fmt.Errorf("note: the keyless task is not dead-lettered: %w", err)
	}
	if _, err := d.events.await(ctx, func(e event) bool {
		return e.Entity == "executions" && e.Operation == "patch" && e.Key == letter && e.BodyStatus == string(execution.Failed)
	}); err != nil {
		return fmt.Errorf("note: the keyless execution does not fail: %w", err)
	}
	calls, err := d.calls(ctx, "/letters")
	if err != nil {
		return err
	}
	if calls.Calls != 1 || dead.Reason != claim.OutcomeUnknown {
		return fmt.Errorf("note: %d calls and reason %q, want 1 and %s", calls.Calls, dead.Reason, claim.OutcomeUnknown)
	}
	fmt.Fprintf(d.out, "note      %s  a handler without a key failed once: dead-lettered %s (%s) after %s [broker event %d, ledger, execution %s]\n",
		dead.At.Format("15:04:05.000"), letter, dead.Reason, plural(calls.Calls, "call"), dead.Seq, execution.Failed)
	return nil
}

// calls adds up the ledger's entries of one path.
func (d *demonstration) calls(ctx context.Context, path string) (entry, error) {
	l, err := d.ledger(ctx)
	if err != nil {
		return entry{}, err
	}
	sum := entry{Path: path}
	for _, e := range l.Entries {
		if e.Path == path {
			sum.Calls, sum.Effects = sum.Calls+e.Calls, sum.Effects+e.Effects
		}
	}
	return sum, nil
}

// totals counts what happened to the world and to the execution, where each is kept.
func (d *demonstration) totals(ctx context.Context) (effects, transitions int, err error) {
	ctx, cancel := context.WithTimeout(ctx, arrowBound) // also when the demo's own time is over
	defer cancel()
	customers, err := d.calls(ctx, "/customers")
	if err != nil {
		return 0, 0, err
	}
	stands, err := d.store.Executions().Load(ctx, task)
	if err != nil {
		return 0, 0, err
	}
	for _, n := range stands.Execution.History {
		if n.To == execution.Completed {
			transitions++
		}
	}
	return customers.Effects, transitions, nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
