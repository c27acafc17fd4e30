package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"oneeffect/internal/cosmos"
	"oneeffect/internal/servicebus"
)

// cosmosKey is the key that every Cosmos DB emulator has had from the start; it
// is in the vendor's documentation and no secret.
const cosmosKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// system is all the processes on this machine, in the order they were started,
// the emulators first.
type system struct {
	bin      string // where the programs are
	dir      string // logs
	children []*child

	amqp, cosmos, downstream, control, api, webhooks string // addresses

	// With an identity, processes reach broker and store as they do in Azure: over TLS
	// and with tokens, and they are told no key.
	identity  string // address of the managed identity; empty: keys, without TLS
	authority string // file of the certificate authority
}

// emulator starts the emulators; args choose addresses and configuration.
func (s *system) emulator(ctx context.Context, args ...string) error {
	c, err := s.start(ctx, "emulator", "emulator", args...)
	if err != nil {
		return err
	}
	s.amqp, s.cosmos = c.addresses["amqp"], c.addresses["cosmos"]
	s.downstream, s.control = c.addresses["downstream"], c.addresses["control"]
	s.identity = c.addresses["msi"]
	return nil
}

// orchestrator starts the orchestrator.
func (s *system) orchestrator(ctx context.Context, listen string, args ...string) error {
	c, err := s.start(ctx, "orchestrator", "orchestrator", slices.Concat([]string{"-id", "orchestrator", "-listen", listen}, s.endpoints(), args)...)
	if err != nil {
		return err
	}
	s.api = c.addresses["http"]
	return nil
}

// worker starts one worker.
func (s *system) worker(ctx context.Context, id, handlers string, args ...string) (*child, error) {
	return s.start(ctx, id, "worker", slices.Concat([]string{"-id", id, "-handlers", handlers}, s.endpoints(), args)...)
}

// webhookSecret is what the source "local" signs with, unless the environment says
// otherwise. It is known to everybody who reads this, and good for loopback only.
const (
	webhookVariable = "WEBHOOK_SECRET_LOCAL"
	webhookSecret   = "known-to-everybody-loopback-only"
)

// projector starts the projector.
func (s *system) projector(ctx context.Context, listen string, args ...string) error {
	c, err := s.start(ctx, "projector", "projector", slices.Concat([]string{"-id", "projector", "-listen", listen}, s.endpoints(), args)...)
	if err != nil {
		return err
	}
	s.webhooks = c.addresses["http"]
	return nil
}

func (s *system) start(ctx context.Context, name, program string, args ...string) (*child, error) {
	c, err := start(ctx, name, filepath.Join(s.bin, program), s.dir, s.environment(), args...)
	if err != nil {
		return nil, err
	}
	s.children = append(s.children, c)
	return c, nil
}

// environment points a process at the emulators, once those are there.
func (s *system) environment() []string {
	if s.amqp == "" {
		return nil
	}
	world := []string{
		"CRM_URL=http://" + s.downstream, "PRINT_URL=http://" + s.downstream,
		webhookVariable + "=" + cmp.Or(os.Getenv(webhookVariable), webhookSecret),
	}
	if s.identity != "" {
		return append(world,
			"AZURE_TOKEN_CREDENTIALS=ManagedIdentityCredential",
			"IDENTITY_ENDPOINT=http://"+s.identity+"/msi", "IDENTITY_HEADER=local",
			"SSL_CERT_FILE="+s.authority)
	}
	return append(world, "SERVICEBUS_CONNECTION_STRING="+s.connectionString(), "COSMOS_KEY="+cosmosKey)
}

// endpoints are the flags that say where broker and store are.
func (s *system) endpoints() []string {
	if s.identity != "" {
		return []string{"-servicebus-namespace", s.amqp, "-cosmos-endpoint", "https://" + s.cosmos}
	}
	return []string{"-cosmos-endpoint", s.cosmosURL()}
}

func (s *system) connectionString() string {
	return "Endpoint=sb://" + s.amqp + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
}

func (s *system) cosmosURL() string { return "http://" + s.cosmos }

// database opens the store under a name of its own, so that the event log tells
// this program's reads from a worker's.
func (s *system) database(ctx context.Context) (*cosmos.Database, error) {
	db, err := cosmos.Open(cosmos.Options{
		Endpoint: s.cosmosURL(), Key: cosmosKey, ApplicationID: "local", Database: "oneeffect", Timeout: 5 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	if err := db.Setup(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("set up the database: %w", err)
	}
	return db, nil
}

// links are how this program itself reaches store and broker.
type links struct {
	store *cosmos.Database
	bus   *servicebus.Client
}

// connect makes all of them. What there is until an error is for disconnect, too.
func (l *links) connect(ctx context.Context, s *system) (err error) {
	if l.store, err = s.database(ctx); err != nil {
		return err
	}
	l.bus, err = servicebus.Dial(servicebus.Options{ConnectionString: s.connectionString(), ApplicationID: "local"})
	return err
}

// closeBound is how long a broker is told that a connection to it ends.
const closeBound = 5 * time.Second

// disconnect ends what links there are, also when ctx has ended.
func (l *links) disconnect(ctx context.Context) {
	if l.store != nil {
		l.store.Close()
	}
	if l.bus != nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeBound)
		defer cancel()
		_ = l.bus.Close(bounded) // the connection ends with the emulators at the latest
	}
}

// stop ends everything: all at the same time, but the emulators last, so that
// nobody loses what it needs to stop well. One after the other, a worker whose
// call takes long would keep the next waiting, which goes on taking tasks.
func (s *system) stop() {
	if len(s.children) == 0 {
		return
	}
	s.stopOthers()
	s.children[0].stop()
}

// stopOthers ends everything but the emulators, which can still be asked.
func (s *system) stopOthers() {
	var stopping sync.WaitGroup
	for _, c := range s.children[1:] {
		stopping.Go(c.stop)
	}
	stopping.Wait()
}

// failed waits for the first child that ends by itself.
func (s *system) failed(ctx context.Context) error {
	first := make(chan *child, len(s.children))
	for _, c := range s.children {
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-c.ended:
				first <- c
			case <-stop:
			}
		}()
	}
	select {
	case c := <-first:
		return fmt.Errorf("%s ended by itself (%w); its log is %s and ends with:\n%s", c.name, c.err, c.logPath, c.lastLines())
	case <-ctx.Done():
		return nil
	}
}

// logFolder makes the folder for this run's logs.
func logFolder(path string) (string, error) {
	if path == "" {
		return os.MkdirTemp("", "oneeffect-")
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for logs: %w", err)
	}
	return path, nil
}
