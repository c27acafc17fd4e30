// Command projector applies messages about stock, and webhooks, to what they are
// about: each once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/horizon"
	"oneeffect/internal/message"
	"oneeffect/internal/projector"
	"oneeffect/internal/receipt"
	"oneeffect/internal/servicebus"
	"oneeffect/internal/telemetry"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	process.TuneGC(os.Environ())
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil && !errors.Is(err, process.ErrUsage) {
		fmt.Fprintln(os.Stderr, "projector:", err)
		os.Exit(1)
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
	log.LogAttrs(ctx, slog.LevelInfo, "sources of webhooks", slog.Any("sources", slices.Sorted(maps.Keys(s.secrets))))
	traces, err := telemetry.Start(ctx, telemetry.Options{Service: "projector", Instance: s.ID, Version: process.Version(), Getenv: env.Get})
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
	counters, err := projector.NewCounters(traces.Metrics.Meter("oneeffect/projector"))
	if err != nil {
		return err
	}
	inventory := out.Cosmos.Inventory()
	p := &projector.Projector{
		Inventory: &receipt.Book{Store: inventory, Timeout: s.StoreLimit, Keep: s.keep},
		Counters:  counters, Log: log,
	}
	webhooks := &projector.Webhooks{
		Book:    &receipt.Book{Store: out.Cosmos.Webhooks(), Timeout: s.StoreLimit, Keep: s.keep},
		Secrets: s.secrets, MaxBody: s.webhookBody, Budget: webhookBudget, Slots: make(chan struct{}, s.webhookSlots),
		Counters: counters, Log: log,
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listen: %w (choose another address with -listen)", err)
	}
	attachment := &servicebus.Attachment{}
	receiver := servicebus.Receiver{
		Client: out.ServiceBus, Topic: message.Reservations, Subscription: message.Inventory, Sessions: true, Slots: s.slots,
		LockDuration: s.lock, SettleTimeout: s.settle, Grace: s.grace - s.settle - horizon.Closing, Throttle: throttle, Log: log, Attachment: attachment,
	}
	fmt.Fprintf(stdout, "http %s\nready\n", listener.Addr())
	parts, ctx := errgroup.WithContext(ctx)
	p.Stopping = ctx.Done()
	mux := http.NewServeMux()
	mux.Handle("/webhooks/", process.Watched(traces, "projector", webhooks.Handler()))
	process.Probes(ctx, mux, log, attachment.Check, inventory.Check)
	parts.Go(func() error { return s.Profile(ctx, log) })
	parts.Go(func() error { return process.Serve(ctx, listener, mux, s.grace-s.settle-horizon.Closing) })
	parts.Go(func() error { return process.Receive(ctx, receiver, p.Handle) })
	return parts.Wait()
}

// webhookBudget is less than a connection may take to be answered.
const webhookBudget = 30 * time.Second
