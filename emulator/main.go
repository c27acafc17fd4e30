// Command emulator is everything that oneeffect runs on, on this machine: a
// Service Bus namespace, a Cosmos DB account, two downstream systems, and a
// control port that injects faults and tells what happened.
//
//	azservicebus ──AMQP──▶ servicebus ┐
//	azcosmos     ──HTTP──▶ cosmos     ├── control: rules, events, clock ◀──HTTP── tests, drivers, curl
//	workers      ──HTTP──▶ downstream ┘
//
// It listens on loopback only, unless -expose is given: its keys are published in
// every emulator's documentation, and whoever reaches the control port rules it.
//
// It prints one line per listener, its name and its address, then "ready". It
// ends at SIGINT or SIGTERM, after everything it started has ended.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
	"oneeffect/emulator/downstream"
	"oneeffect/emulator/servicebus"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "emulator:", strings.ReplaceAll(err.Error(), "\n", "\nemulator: "))
		os.Exit(1)
	}
}

//go:embed config.json
var defaultConfig string

// run is the program. It returns nil when its context has ended it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	e, err := assemble(s, log)
	if err != nil {
		return err
	}
	defer e.close()
	doors := []*door{
		{name: "amqp", address: s.amqp, serve: amqpServer(e.broker, log)},
		{name: "cosmos", address: s.cosmos, serve: httpServer(e.store, log)},
		{name: "downstream", address: s.downstream, serve: httpServer(e.world, log)},
		{name: "control", address: s.control, serve: httpServer(e.hub.Handler(), log)},
	}
	if err := open(ctx, doors, s.expose, log); err != nil {
		return err
	}
	return e.serve(ctx, doors, stdout)
}

// emulators is the wiring: three services and the hub that they share.
type emulators struct {
	hub    *control.Hub
	broker *servicebus.Server
	store  *cosmos.Server
	world  *downstream.Server
}

func assemble(s settings, log *slog.Logger) (*emulators, error) {
	config, err := readConfig(s.config)
	if err != nil {
		return nil, err
	}
	config.Keys = map[string]servicebus.Key{servicebus.DefaultKeyName: {Value: s.sasKey, Rights: servicebus.AllRights}}
	config.Log = log
	hub := control.New()
	broker, err := servicebus.New(hub, config)
	if err != nil {
		return nil, err
	}
	return &emulators{
		hub:    hub,
		broker: broker,
		store:  cosmos.New(hub, cosmos.Options{Key: s.cosmosKey}),
		world:  downstream.New(hub),
	}, nil
}

// readConfig reads the entities from a file, or from the one built in.
func readConfig(path string) (servicebus.Config, error) {
	if path == "" {
		return servicebus.ReadConfig(strings.NewReader(defaultConfig))
	}
	file, err := os.Open(path)
	if err != nil {
		return servicebus.Config{}, fmt.Errorf("-config: %w", err)
	}
	defer file.Close()
	config, err := servicebus.ReadConfig(file)
	if err != nil {
		return servicebus.Config{}, fmt.Errorf("-config %s: %w", path, err)
	}
	return config, nil
}

// serve answers on every door until the context ends or one of them breaks, and
// returns when nothing is left running.
func (e *emulators) serve(life context.Context, doors []*door, stdout io.Writer) error {
	ctx, end := context.WithCancelCause(life)
	defer end(nil)
	var serving sync.WaitGroup
	for _, d := range doors {
		serving.Go(func() {
			d.serve(ctx, d.listener, func(err error) { end(fmt.Errorf("serve %s: %w", d.name, err)) })
		})
	}
	for _, d := range doors {
		fmt.Fprintln(stdout, d.name, d.listener.Addr())
	}
	fmt.Fprintln(stdout, "ready")
	<-ctx.Done()
	e.hub.Close() // first, since handlers may be held by a rule or wait for an event
	serving.Wait()
	if life.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// close ends what assemble has begun.
func (e *emulators) close() {
	e.hub.Close()
	_ = errors.Join(e.broker.Close(), e.store.Close(), e.world.Close()) // what was still open is cut, that is all
}

// shutdownGrace is how long requests under way may take to finish at the end.
const shutdownGrace = time.Second

// httpServer serves a handler until the context ends, then lets the requests
// under way finish for a moment. It has no limit on the time of a whole request:
// a long poll or a held call may take minutes.
func httpServer(h http.Handler, log *slog.Logger) serveFunc {
	return func(ctx context.Context, l net.Listener, broke func(error)) {
		var connections sync.WaitGroup
		defer connections.Wait()
		server := &http.Server{
			Handler:           h,
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    64 << 10,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
			BaseContext:       func(net.Listener) context.Context { return ctx },
			ConnState: func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					connections.Add(1)
				case http.StateClosed, http.StateHijacked:
					connections.Done()
				}
			},
		}
		connections.Go(func() {
			<-ctx.Done()
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
			defer cancel()
			if server.Shutdown(grace) != nil {
				_ = server.Close() // what is still open is cut
			}
		})
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			broke(err)
		}
	}
}
