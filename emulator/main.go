// Command emulator is everything that oneeffect runs on, on this machine: a
// Service Bus namespace, a Cosmos DB account, two downstream systems, and a
// control port that injects faults and tells what happened.
//
//	azservicebus ──AMQP──▶ servicebus ┐
//	azcosmos     ──HTTP──▶ cosmos     ├── control: rules, events, clock ◀──HTTP── tests, drivers, curl
//	workers      ──HTTP──▶ downstream ┘
//
// Every listener speaks TLS too, with a certificate of this run's own authority
// (-ca-file), and -amqp speaks HTTP: AMQP over WebSocket, management and health.
//
// It listens on loopback only, unless -expose is given: its keys are published in
// every emulator's documentation, and whoever reaches the control port rules it.
//
// Everything is in memory. With -data, Service Bus and Cosmos DB keep what they hold
// in a folder, and what they have acknowledged outlives the process however it ends.
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
	"net/http"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"oneeffect/emulator/authority"
	"oneeffect/emulator/control"
	"oneeffect/emulator/cosmos"
	"oneeffect/emulator/door"
	"oneeffect/emulator/downstream"
	"oneeffect/emulator/identity"
	"oneeffect/emulator/servicebus"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	boundGarbage()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "emulator:", strings.ReplaceAll(err.Error(), "\n", "\nemulator: "))
		os.Exit(1)
	}
}

// serviceBusResource is what tokens for Service Bus are for.
const serviceBusResource = "https://servicebus.azure.net/"

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
	finish, err := profile(s.cpuProfile)
	if err != nil {
		return err
	}
	defer finish()
	log := slog.New(slog.NewTextHandler(stderr, nil))
	e, err := assemble(s, log)
	if err != nil {
		return err
	}
	defer e.close()
	listeners := e.listeners(s, log)
	if err := open(ctx, listeners, s.expose, log); err != nil {
		return err
	}
	if err := certify(listeners, s); err != nil {
		shut(listeners)
		return err
	}
	return e.serve(ctx, listeners, stdout)
}

// profile writes a CPU profile to a file until it is finished; without a path there is none.
func profile(path string) (finish func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("-cpuprofile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(fmt.Errorf("-cpuprofile: %w", err), file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close() // a profile cut short says so when it is read
	}, nil
}

// emulators is the wiring: three services and the hub that they share.
type emulators struct {
	hub      *control.Hub
	broker   *servicebus.Server
	store    *cosmos.Server
	world    *downstream.Server
	identity *identity.Issuer
}

func assemble(s settings, log *slog.Logger) (*emulators, error) {
	config, err := readConfig(s.config)
	if err != nil {
		return nil, err
	}
	for _, beyond := range config.Beyond {
		log.Warn("beyond the limits of the official emulator", slog.String("config", beyond))
	}
	config.MessagingSKU = s.tier
	config.Keys = keys(s.sasKey)
	config.Pace = s.pace
	config.Data = s.data
	config.Log = log
	hub := control.New()
	issuer := identity.New(hub.Now)
	config.TokenCheck = func(token, _ string) (time.Time, error) { // which is for the whole service, not for one entity
		return issuer.Check(token, serviceBusResource)
	}
	account := s.account
	account.TokenCheck = issuer.Check
	broker, err := servicebus.New(hub, config)
	if err != nil && s.data != "" {
		return nil, fmt.Errorf("-data %s: %w", s.data, err)
	}
	if err != nil {
		return nil, err
	}
	store, err := openAccount(hub, account, s.data)
	if err != nil {
		return nil, errors.Join(err, broker.Close())
	}
	return &emulators{
		hub:      hub,
		broker:   broker,
		store:    store,
		world:    downstream.New(hub),
		identity: issuer,
	}, nil
}

// openAccount makes the account, in memory or in the data folder.
func openAccount(hub *control.Hub, o cosmos.Options, data string) (*cosmos.Server, error) {
	if data == "" {
		return cosmos.New(hub, o), nil
	}
	store, err := cosmos.Open(hub, o, data)
	if err != nil {
		return nil, fmt.Errorf("-data %s: %w", data, err)
	}
	return store, nil
}

// listeners says what answers at which address.
func (e *emulators) listeners(s settings, log *slog.Logger) []*listener {
	web := func(name, address string, h http.Handler) *listener {
		return &listener{name: name, address: address, answers: door.Door{HTTP: h, Log: log}}
	}
	var all []*listener
	for _, address := range s.amqp.values {
		all = append(all, &listener{name: "amqp", address: address, answers: serviceBus(e.broker, log)})
	}
	all = append(all,
		web("cosmos", s.cosmos, e.store),
		web("downstream", s.downstream, e.world),
		web("control", s.control, e.hub.Handler()),
	)
	if s.compute != "" {
		all = append(all, web("cosmos-compute", s.compute, e.store.ComputeGateway()))
	}
	if s.msi != "" {
		all = append(all, web("msi", s.msi, e.identity))
	}
	return all
}

// certify makes every listener speak TLS too, with one certificate for all of them.
func certify(listeners []*listener, s settings) error {
	hosts := slices.Clone(s.tlsHosts.values)
	for _, l := range listeners {
		hosts = append(hosts, l.Addr().String())
	}
	issuer, err := authority.New(hosts, time.Now())
	if err != nil {
		return fmt.Errorf("-tls-host: %w", err)
	}
	for _, l := range listeners {
		l.answers.TLS = issuer.Server()
	}
	if s.caFile == "" {
		return nil
	}
	if err := issuer.WriteFile(s.caFile); err != nil {
		return fmt.Errorf("-ca-file: %w", err)
	}
	return nil
}

// keys are what clients may sign with: the one that may do everything, and some that may do less, so that a program can
// be seen to need no more.
func keys(value string) map[string]servicebus.Key {
	return map[string]servicebus.Key{
		servicebus.DefaultKeyName: {Value: value, Rights: servicebus.AllRights},
		"NoManage":                {Value: value, Rights: servicebus.Send | servicebus.Listen},
		"SendOnly":                {Value: value, Rights: servicebus.Send},
		"ListenOnly":              {Value: value, Rights: servicebus.Listen},
	}
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

// serve answers on every listener until the context ends, one of them breaks or what
// has to be kept cannot be written, and returns when nothing is left running.
func (e *emulators) serve(life context.Context, listeners []*listener, stdout io.Writer) error {
	ctx, end := context.WithCancelCause(life)
	defer end(nil)
	var serving sync.WaitGroup
	for _, l := range listeners {
		serving.Go(func() {
			l.answers.Serve(ctx, l.Listener, func(err error) { end(fmt.Errorf("serve %s: %w", l.name, err)) })
		})
	}
	for _, l := range listeners {
		fmt.Fprintln(stdout, l.name, l.Addr())
	}
	fmt.Fprintln(stdout, "ready")
	select {
	case <-e.broker.Failed():
		end(e.broker.Err())
	case <-e.store.Failed():
		end(e.store.Err())
	case <-ctx.Done():
	}
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
