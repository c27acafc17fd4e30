package main

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"

	"github.com/spf13/cobra"
)

// zombieBound is how long the whole drill may take: a lease, and what goes before and
// after it on a machine with much else to do.
const zombieBound = 3 * time.Minute

// The terms of the worker that is to become a zombie: every relation kept, with a lease
// that can be waited for. shortestLock is the shortest lock of a queue they go with.
const (
	zombieLease  = 10 * time.Second
	shortestLock = 15 * time.Second
)

var zombieTerms = []string{
	"-slots=1", "-lease=" + zombieLease.String(), "-renewal=3s", "-owner-margin=1500ms", "-challenger-margin=1s", "-store-timeout=1500ms",
	"-busy-wait=1s", "-publish-timeout=4s", "-settle-timeout=2s", "-max-delivery=10", "-max-attempts=8", "-grace=20s",
}

//go:embed zombie.yaml
var zombieHandlers []byte

func (a *app) drill() *cobra.Command {
	return group("drill", "Try on a running system what must never go wrong", a.zombie())
}

// ground is where a drill takes place.
type ground struct{ control, downstream, worker string }

func (a *app) zombie() *cobra.Command {
	var g ground
	c := &cobra.Command{
		Use: "zombie", Short: "Stop a worker past its lease and wake it: its write is fenced, and the effect is one", Args: cobra.NoArgs,
		Long: `Start a worker of its own beside those of a system on the emulators ("make run"),
stop it with SIGSTOP when its call has had its effect, and wait until its lease is
over and another worker has taken the task over and ended it. Then it is woken by
SIGCONT. What it writes then is refused by the store, it says "fenced", and it settles
by what the other one wrote.

It is done with a task whose downstream honours a key, and with one that has no key:
that one is called once and never again, so it is dead-lettered as OutcomeUnknown.
Effects are counted by the downstream. Everything that is shown was seen by the
emulators or stands in the claim; only the word "fenced" is from the worker's log.

It takes about half a minute, and is for emulators only: faults are injected.`,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), zombieBound)
			defer cancel()
			return a.raise(ctx, g)
		},
	}
	program, err := os.Executable()
	a.mistakes = errors.Join(a.mistakes, err)
	c.Flags().StringVar(&g.control, "control-url", "http://127.0.0.1:8084", "address of the emulators' control interface")
	c.Flags().StringVar(&g.downstream, "downstream-url", "http://127.0.0.1:8082", "address of the emulators' downstream")
	c.Flags().StringVar(&g.worker, "worker", filepath.Join(filepath.Dir(program), "worker"), "the worker's program")
	return c
}

// raise plays the drill with either kind of task, and tells.
func (a *app) raise(ctx context.Context, g ground) error {
	for name, at := range map[string]string{"control-url": g.control, "downstream-url": g.downstream} {
		if u, err := url.Parse(at); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return usage(fmt.Errorf("--%s %q: give http://host:port", name, at), "give the addresses that make run prints")
		}
	}
	if _, err := os.Stat(g.worker); err != nil {
		return usage(err, "build it with make build, or give it with --worker")
	}
	lock, err := a.lockOfTasks(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "taskctl-zombie-")
	if err != nil {
		return file(err)
	}
	defer os.RemoveAll(dir)
	zombies := []*zombie{
		{taskType: "customer.create", end: claim.Completed},
		{taskType: "letter.print", end: claim.Failed},
	}
	for _, z := range zombies { // one after the other: neither may take the other's task
		z.app, z.ground, z.lock, z.dir = a, g, lock, filepath.Join(dir, z.taskType)
		z.id = "zombie-" + strings.ToLower(rand.Text()[:8])
		if err := z.play(ctx); err != nil {
			return failed(fmt.Errorf("%s: %w", z.taskType, err), "look at the emulators' events at "+g.control+"/control/events; if they are not there, start them with make run")
		}
	}
	return a.tellZombies(zombies)
}

// lockOfTasks is the lock of the queue, which a worker has to be told.
func (a *app) lockOfTasks(ctx context.Context) (time.Duration, error) {
	o, err := a.BrokerOptions()
	if err != nil {
		return 0, usage(err, "set SERVICEBUS_CONNECTION_STRING")
	}
	manager, err := servicebus.Manage(o)
	if err != nil {
		return 0, usage(err, "correct SERVICEBUS_CONNECTION_STRING")
	}
	queue, err := manager.Queue(ctx, message.Tasks)
	if err != nil {
		return 0, met(a.BrokerHost(), err)
	}
	if queue.Lock < shortestLock {
		return 0, usage(fmt.Errorf("the lock of the queue %s is %v", message.Tasks, queue.Lock), "give the queue a lock of "+shortestLock.String()+" at least")
	}
	return queue.Lock, nil
}

// tellZombies prints what was seen, and what it comes to.
func (a *app) tellZombies(zombies []*zombie) error {
	var rows [][]string
	var reports []zombieReport
	var wrong []error
	effects, fenced := 0, 0
	for _, z := range zombies {
		r := z.report
		reports = append(reports, r)
		for _, s := range r.Steps {
			rows = append(rows, []string{r.Task, s.What, s.Seen})
		}
		effects += r.Effects
		if r.Fenced {
			fenced++
		}
		if r.Effects != 1 || !r.Fenced || r.Claim != string(z.end) {
			wrong = append(wrong, fmt.Errorf("%s %s: %d effects, fenced %v, claim %s", r.Type, r.Task, r.Effects, r.Fenced, r.Claim))
		}
	}
	if err := a.print(reports, []string{"TASK", "WHAT", "SEEN"}, rows); err != nil {
		return err
	}
	line := fmt.Sprintf("zombie: %d tasks, %d effects, %d writes fenced", len(zombies), effects, fenced)
	if a.output != asJSON {
		fmt.Fprintln(a.stdout, line)
	}
	if len(wrong) > 0 {
		return failed(errors.Join(append([]error{errors.New(line)}, wrong...)...), "this must never be: keep the output, the claim (taskctl claims get) and the emulators' events")
	}
	return nil
}

// zombieReport is what came of one task.
type zombieReport struct {
	Type    string       `json:"type"`
	Task    string       `json:"task"`
	Steps   []zombieStep `json:"steps"`
	Claim   string       `json:"claim"`
	Reason  string       `json:"reason,omitzero"` // of a claim that is FAILED
	Effects int          `json:"effects"`
	Fenced  bool         `json:"fenced"` // by the store, and known to the worker
}

// zombieStep is something that was seen, and who saw it.
type zombieStep struct {
	What string `json:"what"`
	Seen string `json:"seen"`
}

func (r *zombieReport) saw(what, format string, args ...any) {
	r.Steps = append(r.Steps, zombieStep{what, fmt.Sprintf(format, args...)})
}

// newTrace is a traceparent of a trace of its own: the downstream knows a call without
// a key by nothing else.
func newTrace() (traceparent, trace string) {
	var random [24]byte
	_, _ = rand.Read(random[:]) // it never fails
	trace = hex.EncodeToString(random[:16])
	return "00-" + trace + "-" + hex.EncodeToString(random[16:]) + "-01", trace
}

// whyFailed is why a claim failed, if it did.
func whyFailed(c claim.Claim) string {
	return cmp.Or(c.Failure, &claim.Failure{}).Reason
}
