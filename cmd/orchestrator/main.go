// Command orchestrator takes requests over HTTP, dispatches them as tasks, and
// moves executions to their end.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"oneeffect/cmd/internal/access"
	"oneeffect/cmd/internal/process"
	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/horizon"
	"oneeffect/internal/message"
	"oneeffect/internal/orchestrator"
	"oneeffect/internal/page"
	"oneeffect/internal/servicebus"
	"oneeffect/internal/telemetry"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	process.TuneGC(os.Environ())
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil && !errors.Is(err, process.ErrUsage) {
		fmt.Fprintln(os.Stderr, "orchestrator:", err)
		os.Exit(1)
	}
}

type settings struct {
	process.Settings
	access                       access.Settings
	listen                       string
	slots                        int
	lock, settle, send           time.Duration
	relayAge, relayPeriod, grace time.Duration
	maxMessage                   int

	evidence    string // folder; "": none is shown
	subscribers int

	lease, challengerMargin, keep            time.Duration // of the claims, as the workers have them
	reconcileAge, reconcilePeriod            time.Duration
	replaySettle, followPeriod, followWindow time.Duration
}

func parse(args []string, env process.Environment, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("orchestrator", flag.ContinueOnError)
	flags.SetOutput(stderr)
	s.Register(flags)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8080", "address of the HTTP API; any but a loopback address takes -oidc-issuer and -oidc-audience")
	s.access.Register(flags)
	flags.IntVar(&s.slots, "slots", 8, "events at a time")
	flags.DurationVar(&s.lock, "lock", 5*time.Minute, "lock duration of the subscription, as it is configured there")
	flags.DurationVar(&s.settle, "settle-timeout", 10*time.Second, "bound of settling one message")
	flags.DurationVar(&s.send, "send-timeout", 20*time.Second, "bound of sending one task, its retries included")
	flags.DurationVar(&s.relayAge, "relay-age", 30*time.Second, "the relay takes outbox entries older than this")
	flags.DurationVar(&s.relayPeriod, "relay-period", 30*time.Second, "how often the relay looks")
	flags.DurationVar(&s.grace, "grace", 90*time.Second, "from SIGTERM to the end, at most")
	flags.IntVar(&s.maxMessage, "max-message", 240<<10, "bytes of a task message; the service takes 256 KiB with its headers")
	flags.DurationVar(&s.lease, "lease", 5*time.Minute, "lease of the claims that are written here, whole seconds; as the workers have it")
	flags.DurationVar(&s.challengerMargin, "challenger-margin", 5*time.Second, "a claim is taken from its owner so long after its lease ended; as the workers have it")
	flags.DurationVar(&s.keep, "keep", 30*24*time.Hour, "how long after its last write a claim is kept; as the workers have it")
	flags.DurationVar(&s.reconcileAge, "reconcile-age", 15*time.Minute, "an execution that runs for longer has its claim read, and its task sent again if nobody works on it")
	flags.DurationVar(&s.reconcilePeriod, "reconcile-period", 5*time.Minute, "how often the reconciler looks")
	flags.DurationVar(&s.replaySettle, "replay-settle", 21*time.Minute, "how long after a failure of unknown outcome its last call may still be on its way: no replay before that")
	flags.DurationVar(&s.followPeriod, "follow-period", time.Second, "how often the change feed is read, for the list of executions, when nothing changes")
	flags.DurationVar(&s.followWindow, "follow-window", 24*time.Hour, "how far back the list of executions is in order from the start on")
	flags.StringVar(&s.evidence, "evidence", "", "folder of the runs of evidence, which the page then shows under /evidence/")
	flags.IntVar(&s.subscribers, "max-subscribers", 200, "browsers that are told of changes at a time")
	err := s.Parse(flags, args, env, func() error { return s.check() })
	s.access.Secret = env.Get(access.SecretVariable)
	return s, err
}

func (s settings) check() error {
	var errs []error
	if err := s.access.Check(s.listen); err != nil {
		errs = append(errs, err)
	}
	if s.slots < 1 || s.maxMessage < 1 || s.subscribers < 1 {
		errs = append(errs, errors.New("-slots, -max-message and -max-subscribers must be positive"))
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"lock", s.lock}, {"settle-timeout", s.settle}, {"send-timeout", s.send}, {"store-timeout", s.StoreLimit}, {"relay-period", s.relayPeriod},
		{"challenger-margin", s.challengerMargin}, {"keep", s.keep}, {"reconcile-age", s.reconcileAge}, {"reconcile-period", s.reconcilePeriod},
		{"replay-settle", s.replaySettle}, {"follow-period", s.followPeriod}, {"follow-window", s.followWindow},
	} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("-%s %v: it must be positive", d.flag, d.value))
		}
	}
	if s.lease < time.Second || s.lease%time.Second != 0 {
		errs = append(errs, fmt.Errorf("-lease %v: whole seconds, since the store's clock has no finer ones", s.lease))
	}
	violations, _ := horizon.Check(s.horizon())
	return errors.Join(append(errs, horizon.Errors(violations))...)
}

// horizon is what this orchestrator knows of the settings that must fit together,
// by the names that an operator changes them by.
func (s settings) horizon() horizon.Settings {
	suffix := len(message.CopyMessageID("", rand.Text())) // the longest; a run or a fence has at most 19 digits
	return horizon.Settings{
		Events: horizon.Entity{Lock: horizon.Is("-lock", s.lock)},
		Orchestrator: horizon.Orchestrator{
			Process: horizon.Process{
				StoreTimeout:  horizon.Is("-store-timeout", s.StoreLimit),
				SettleTimeout: horizon.Is("-settle-timeout", s.settle),
				LockRenewal:   horizon.Constant("the renewal of locks", s.lock/3),
				Grace:         horizon.Is("-grace", s.grace),
			},
			SendTimeout: horizon.Is("-send-timeout", s.send),
			RelayAge:    horizon.Is("-relay-age", s.relayAge),
			RelayPeriod: horizon.Is("-relay-period", s.relayPeriod),
			MaxMessage:  horizon.Is("-max-message", s.maxMessage),

			Reconciler:      horizon.Constant("the reconciler", true),
			ReconcileAge:    horizon.Is("-reconcile-age", s.reconcileAge),
			ReconcilePeriod: horizon.Is("-reconcile-period", s.reconcilePeriod),
			ReconcileBudget: horizon.Constant("a round of the reconciler", orchestrator.ReconcileBudget),
			FirstRedispatch: horizon.Is("-reconcile-age", s.reconcileAge),

			UnknownReplayAge: horizon.Is("-replay-settle", s.replaySettle),
		},
		Worker: horizon.Worker{
			Lease:            horizon.Is("-lease", s.lease),
			ChallengerMargin: horizon.Is("-challenger-margin", s.challengerMargin),
			Keep:             horizon.Is("-keep", s.keep),
		},
		Store:           horizon.Store{Skew: horizon.Constant("the skew of the store's clocks", s.StoreSkew())},
		TaskLife:        horizon.Constant("the life of a task", execution.NotAfterAfter),
		ExecutionID:     horizon.Constant("an execution's id", message.MaxExecutionID),
		MessageIDSuffix: horizon.Constant("what a copy's MessageID has behind it", suffix),
	}
}

func run(ctx context.Context, args []string, env process.Environment, stdout, stderr io.Writer) (err error) {
	s, err := parse(args, env, stderr)
	if err != nil {
		return err
	}
	log := s.Logger(stderr)
	_, unchecked := horizon.Check(s.horizon())
	horizon.Log(ctx, log, unchecked)
	traces, err := telemetry.Start(ctx, telemetry.Options{Service: "orchestrator", Instance: s.ID, Version: process.Version(), Getenv: env.Get})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, traces.Shutdown(context.WithoutCancel(ctx))) }()
	log = traces.Logger(log)
	throttle := servicebus.NewThrottle()
	out, err := s.Connect(traces, log, throttle.Pull)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close(ctx, s.settle)) }()
	tasks, err := out.ServiceBus.Sender(message.Tasks)
	if err != nil {
		return err
	}
	counters, err := orchestrator.NewCounters(traces.Metrics.Meter("oneeffect/orchestrator"))
	if err != nil {
		return err
	}
	attachment := &servicebus.Attachment{}
	o := &orchestrator.Orchestrator{
		Attached: attachment.Check,
		Store:    out.Cosmos.Executions(), Views: out.Cosmos.Executions(), Send: tasks.Send,
		Claims: &claim.Desk{
			Store: out.Cosmos.Claims(), Process: s.ID + "/" + claim.Nonce(), Timeout: s.StoreLimit,
			Terms: claim.Terms{Lease: s.lease, ChallengerMargin: s.challengerMargin, Keep: s.keep},
		},
		DeadLetters: out.ServiceBus.DeadLetters(message.Tasks), ReconcileAge: s.reconcileAge, ReconcilePeriod: s.reconcilePeriod,
		SendTimeout: s.send, RelayAge: s.relayAge, RelayPeriod: s.relayPeriod, MaxMessage: s.maxMessage,
		ReplaySettle: s.replaySettle, FollowPeriod: s.followPeriod, FollowWindow: s.followWindow,
		Log: log, Counters: counters,
	}
	site, err := s.site(o, s.signOut(), log)
	if err != nil {
		return err
	}
	listener, guard, err := s.offer(ctx, traces, log)
	if err != nil {
		return err
	}
	drain := s.grace - s.settle - horizon.Closing
	receiver := servicebus.Receiver{
		Client: out.ServiceBus, Topic: message.TaskEvents, Subscription: message.Orchestrator, Slots: s.slots,
		LockDuration: s.lock, SettleTimeout: s.settle, Grace: drain, Throttle: throttle, Log: log, Attachment: attachment,
	}
	fmt.Fprintf(stdout, "http %s\nready\n", listener.Addr())
	parts, ctx := errgroup.WithContext(ctx)
	api := process.Watched(traces, "orchestrator", guard.Handler(site.Handler()), otelhttp.WithFilter(page.Ends))
	parts.Go(func() error { return process.Serve(ctx, listener, api, drain) })
	parts.Go(func() error { return site.Live.Run(ctx) })
	parts.Go(func() error { return guard.Run(ctx) })
	parts.Go(func() error { return s.Profile(ctx, log) })
	parts.Go(func() error { return o.Relay(ctx) })
	parts.Go(func() error { return o.Reconcile(ctx) })
	parts.Go(func() error { return o.Follow(ctx) })
	parts.Go(func() error { return o.Clear(ctx) })
	parts.Go(func() error { return process.Receive(ctx, receiver, o.Handle) })
	return parts.Wait()
}
