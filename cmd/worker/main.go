// Command worker takes tasks from the queue and does them, once in effect.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/downstream"
	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"
	"oneeffect/internal/telemetry"
	"oneeffect/internal/worker"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	process.TuneGC(os.Environ())
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil && !errors.Is(err, process.ErrUsage) {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, env process.Environment, stdout, stderr io.Writer) (err error) {
	s, err := parse(args, env, stderr)
	if err != nil {
		return err
	}
	log := s.Logger(stderr)
	traces, err := telemetry.Start(ctx, telemetry.Options{Service: "worker", Instance: s.ID, Version: process.Version(), Getenv: env.Get})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, traces.Shutdown(context.WithoutCancel(ctx))) }()
	log = traces.Logger(log)
	transport := downstream.NewTransport()
	defer transport.CloseIdleConnections()
	handlers, err := readHandlers(s, env, downstream.Options{
		Transport: transport, UserAgent: s.ID, Getenv: env.Get,
		Propagator: traces.Propagator, Tracer: traces.Traces.Tracer("oneeffect/downstream"), Meter: traces.Metrics.Meter("oneeffect/downstream"),
	})
	if err != nil {
		return err
	}
	if err := s.fit(ctx, handlers, log); err != nil {
		return err
	}
	throttle := servicebus.NewThrottle()
	out, err := s.Connect(traces, log, throttle.Pull)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close(ctx, s.settle)) }()
	events, err := out.ServiceBus.Sender(message.TaskEvents)
	if err != nil {
		return err
	}
	if err := out.Cosmos.Claims().CheckClock(ctx); errors.Is(err, cosmos.ErrNoClock) {
		return err
	} else if err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "store not reached yet", slog.Any("err", err))
	}
	counters, err := worker.NewCounters(traces.Metrics.Meter("oneeffect/worker"))
	if err != nil {
		return err
	}
	w := wire(s, out, handlers, events, counters, log)
	attachment := &servicebus.Attachment{}
	receiver := servicebus.Receiver{
		Client: out.ServiceBus, Queue: message.Tasks, Slots: s.slots,
		LockDuration: s.lock, SettleTimeout: s.settle, Grace: s.drain(), Throttle: throttle, Log: log, Attachment: attachment,
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.probes)
	if err != nil {
		return fmt.Errorf("listen: %w (choose another address with -probes)", err)
	}
	fmt.Fprintf(stdout, "probes %s\nready\n", listener.Addr())
	parts, running := errgroup.WithContext(ctx)
	mux := http.NewServeMux()
	process.Probes(running, mux, log, attachment.Check, out.Cosmos.Claims().CheckClock)
	parts.Go(func() error { return process.Serve(running, listener, mux, s.drain()) })
	parts.Go(func() error { return s.Profile(running, log) })
	parts.Go(func() error { return process.Receive(running, receiver, w.Handle) })
	err = parts.Wait()
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.settle)
	defer cancel()
	return errors.Join(err, w.Wait(rest))
}

// wire is the wiring diagram of this process.
func wire(s settings, out process.Connections, handlers map[string]message.Handler, events *servicebus.Sender, counters worker.Counters, log *slog.Logger) *worker.Worker {
	return &worker.Worker{
		Claims: &claim.Desk{
			Store:   out.Cosmos.Claims(),
			Process: s.ID + "/" + claim.Nonce(),
			Timeout: s.StoreLimit,
			Renewal: s.renewal,
			Terms: claim.Terms{
				Lease: s.lease, OwnerMargin: s.ownerMargin, ChallengerMargin: s.challengerMargin,
				MaxAttempts: s.maxAttempts, Keep: s.keep,
			},
			Fenced: func(ctx context.Context, id string) {
				counters.Fenced(ctx)
				log.LogAttrs(ctx, slog.LevelWarn, "fenced", slog.String("task", id))
			},
			Renewed: counters.Renewed,
		},
		Handlers: handlers,
		Publish:  events.Send,
		BusyWait: s.busyWait, PublishTimeout: s.publish, SettleTimeout: s.settle, KeyMargin: s.keyMargin,
		Log: log, Counters: counters,
	}
}

// readHandlers makes the handlers that a file declares, and takes those that it says
// are written in Go from the code; options are those of all that are declared.
func readHandlers(s settings, env process.Environment, options downstream.Options) (map[string]message.Handler, error) {
	file, err := os.Open(s.handlers)
	if err != nil {
		return nil, fmt.Errorf("handlers: %w (give the file with -handlers)", err)
	}
	defer file.Close()
	declared, err := downstream.ReadHandlers(file, env.Get)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.handlers, err)
	}
	written := own(env)
	handlers := make(map[string]message.Handler, len(declared))
	for _, d := range declared {
		signsIn := slices.ContainsFunc(d.Requests, func(r downstream.Request) bool { return r.Auth.Scope != "" })
		if signsIn && options.Credential == nil {
			if options.Credential, err = process.Identity(); err != nil {
				return nil, fmt.Errorf("%s: %s signs in with Entra ID: %w", s.handlers, d.Type, err)
			}
		}
		h, err := handler(d, written, options)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.handlers, err)
		}
		handlers[d.Type] = h
	}
	return handlers, nil
}

// handler is what does one type of task. Of the handlers that are written in Go only
// those are used that the file names, so that another file is another worker.
func handler(d downstream.Declared, written []message.Handler, options downstream.Options) (message.Handler, error) {
	if !d.Go {
		return d.Handler(options)
	}
	var found []message.Handler
	for _, h := range written {
		if h.Declaration().Type == d.Type {
			found = append(found, h)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%s is to be written in Go, and cmd/worker/own.go has %d handlers of that type", d.Type, len(found))
	}
	return found[0], nil
}
