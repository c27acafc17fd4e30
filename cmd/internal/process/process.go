// Package process is what every process of ours does alike: settings from flags
// and environment, a log, and connections.
//
// Every flag can also be given as a variable: ONEEFFECT_, the process and the
// flag's name in capitals, "-" as "_": ONEEFFECT_WORKER_LEASE=5m. A flag wins. A
// variable of that form that no flag has is a mistake and is said. Secrets are
// variables only, since arguments are seen by everyone on a machine.
package process

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"oneeffect/internal/cosmos"
	"oneeffect/internal/servicebus"
	"oneeffect/internal/telemetry"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// ErrUsage is returned for -h; the usage has been printed.
var ErrUsage = flag.ErrHelp

// Settings are what all processes are told.
type Settings struct {
	ID         string // ApplicationID at broker and store, service.instance.id in telemetry
	LogLevel   slog.Level
	Namespace  string // Service Bus, by identity
	Endpoint   string // Cosmos DB
	Database   string
	StoreLimit time.Duration // T_w

	format                               logFormat
	profile, connectionString, cosmosKey string
}

// maxID is the longest ApplicationID that azcore sends whole.
const maxID = 24

// Register defines the flags that all processes have.
func (s *Settings) Register(flags *flag.FlagSet) {
	host, err := os.Hostname()
	if err != nil {
		host = flags.Name()
	}
	flags.StringVar(&s.ID, "id", host[max(0, len(host)-maxID):], "name of this process at broker, store and in telemetry, at most 24 characters")
	flags.TextVar(&s.LogLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	s.format = formatJSON
	flags.Var(&s.format, "log-format", "json or text")
	flags.StringVar(&s.profile, "pprof", "", "loopback address of profiles, for example 127.0.0.1:6060; empty: none")
	flags.StringVar(&s.Namespace, "servicebus-namespace", "", "host name of the Service Bus namespace, reached with this process's identity; or set SERVICEBUS_CONNECTION_STRING")
	flags.StringVar(&s.Endpoint, "cosmos-endpoint", "", "URL of the Cosmos DB account, reached with this process's identity, or with COSMOS_KEY if that is set")
	flags.StringVar(&s.Database, "cosmos-database", "oneeffect", "name of the database")
	flags.DurationVar(&s.StoreLimit, "store-timeout", 10*time.Second, "bound of one operation of the store, its retries included")
}

// Environment is a process's environment, as os.Environ gives it.
type Environment []string

// Get is a variable's value, empty if it is not set. As in the exec family, the
// last of two wins.
func (e Environment) Get(name string) string {
	for i := len(e) - 1; i >= 0; i-- {
		if n, value, ok := strings.Cut(e[i], "="); ok && n == name {
			return value
		}
	}
	return ""
}

// variable is the name of a flag's variable.
func variable(process, name string) string {
	return strings.ToUpper("oneeffect_" + strings.ReplaceAll(process+"_"+name, "-", "_"))
}

// processes of ours: each is told only what begins with its own name.
var processes = []string{"worker", "orchestrator", "projector", "taskctl"}

// fromEnvironment sets flags from their variables.
func fromEnvironment(flags *flag.FlagSet, env Environment) []error {
	var errs []error
	known := map[string]bool{}
	flags.VisitAll(func(f *flag.Flag) {
		name := variable(flags.Name(), f.Name)
		known[name] = true
		if value := env.Get(name); value != "" {
			if err := flags.Set(f.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("%s=%q: %w", name, value, err))
			}
		}
	})
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "ONEEFFECT_") || known[name] {
			continue
		}
		others := slices.ContainsFunc(processes, func(p string) bool {
			return p != flags.Name() && strings.HasPrefix(name, variable(p, ""))
		})
		if !others {
			errs = append(errs, fmt.Errorf("%s is no setting: settings are flags (-h lists them), as a variable ONEEFFECT_, the process and the flag, for example %s", name, variable(flags.Name(), "log-level")))
		}
	}
	return errs
}

// Parse reads flags and their variables, and then check looks at the relations
// between them: all mistakes at once.
func (s *Settings) Parse(flags *flag.FlagSet, args []string, env Environment, check func() error) error {
	errs := []error{s.FromEnvironment(flags, env)}
	if err := flags.Parse(args); err != nil {
		return err // printed by flags, with the usage
	}
	if flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("%q is not a flag: %s takes flags only, -h lists them", flags.Arg(0), flags.Name()))
	}
	return errors.Join(append(errs, s.checkID(), s.checkBroker(), s.checkStore(), check())...)
}

// FromEnvironment takes the secrets, and flags from their variables. A flag that is
// given wins, so it is parsed after this.
func (s *Settings) FromEnvironment(flags *flag.FlagSet, env Environment) error {
	s.connectionString, s.cosmosKey = env.Get("SERVICEBUS_CONNECTION_STRING"), env.Get("COSMOS_KEY")
	return errors.Join(fromEnvironment(flags, env)...)
}

func (s *Settings) checkID() error {
	if s.ID == "" || len(s.ID) > maxID {
		return fmt.Errorf("-id %q has %d characters: give 1 to %d", s.ID, len(s.ID), maxID)
	}
	return nil
}

func (s *Settings) checkBroker() error {
	if s.connectionString == "" && s.Namespace == "" {
		return errors.New("no Service Bus: give -servicebus-namespace, or SERVICEBUS_CONNECTION_STRING for an emulator")
	}
	return nil
}

func (s *Settings) checkStore() error {
	if s.Endpoint == "" {
		return errors.New("no Cosmos DB: give -cosmos-endpoint")
	}
	return nil
}

// storeSkew is what the clocks of the store's gateway and its replicas may differ by.
const storeSkew = 4 * time.Second

// StoreSkew is how far apart two clocks of the store may be: none on this machine's
// loopback, where the store is one process with one clock.
func (s *Settings) StoreSkew() time.Duration {
	if _, loopback := OnLoopback(s.Endpoint); loopback {
		return 0
	}
	return storeSkew
}

// OnLoopback says whether a URL is about this machine, and its scheme.
func OnLoopback(address string) (scheme string, loopback bool) {
	at, err := url.Parse(address)
	if err != nil {
		return "", false
	}
	host := at.Hostname()
	ip := net.ParseIP(host)
	return at.Scheme, host == "localhost" || ip != nil && ip.IsLoopback()
}

// Logger writes lines, as JSON or as text.
func (s *Settings) Logger(to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.LogLevel}
	var handler slog.Handler = slog.NewJSONHandler(to, options)
	if s.format == formatText {
		handler = slog.NewTextHandler(to, options)
	}
	return slog.New(handler).With("process", s.ID)
}

// logFormat is how a line of the log is written.
type logFormat string

const (
	formatJSON logFormat = "json"
	formatText logFormat = "text"
)

// String is the format, for the usage.
func (f *logFormat) String() string { return string(*f) }

// Set takes a format that there is.
func (f *logFormat) Set(text string) error {
	switch given := logFormat(text); given {
	case formatJSON, formatText:
		*f = given
		return nil
	}
	return fmt.Errorf("%q is not %s or %s", text, formatJSON, formatText)
}

// Identity is who this process is to Entra ID. Which kind it is must be said by
// AZURE_TOKEN_CREDENTIALS: trying one after the other is for laptops.
func Identity() (azcore.TokenCredential, error) {
	identity, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{RequireAzureTokenCredentials: true})
	if err != nil {
		return nil, fmt.Errorf("no identity (set AZURE_TOKEN_CREDENTIALS, for example to ManagedIdentityCredential): %w", err)
	}
	return identity, nil
}

// Connections are the process's ways out.
type Connections struct {
	ServiceBus *servicebus.Client
	Cosmos     *cosmos.Database
}

// Connect prepares the connections. Nothing is dialled yet: a broker or a store
// that is not there is met, and retried, where it is used. throttled is called
// when the store asks for less.
func (s *Settings) Connect(t telemetry.Providers, log *slog.Logger, throttled func()) (Connections, error) {
	client, err := s.Broker(t, log)
	if err != nil {
		return Connections{}, err
	}
	database, err := s.store(cosmos.Options{Throttled: throttled, Log: log, Tracing: t.Azure(), Meter: t.Metrics.Meter("oneeffect/cosmos")})
	if err != nil {
		return Connections{}, err
	}
	return Connections{client, database}, nil
}

// Broker prepares the connection to Service Bus alone.
func (s *Settings) Broker(t telemetry.Providers, log *slog.Logger) (*servicebus.Client, error) {
	o, err := s.BrokerOptions()
	if err != nil {
		return nil, err
	}
	o.Log, o.Tracer, o.Meter, o.Propagator = log, t.Traces.Tracer("oneeffect/servicebus"), t.Metrics.Meter("oneeffect/servicebus"), t.Propagator
	client, err := servicebus.Dial(o)
	if err != nil {
		return nil, fmt.Errorf("service bus: %w", err)
	}
	return client, nil
}

// BrokerOptions say where Service Bus is and who this process is there.
func (s *Settings) BrokerOptions() (servicebus.Options, error) {
	o := servicebus.Options{ApplicationID: s.ID, ConnectionString: s.connectionString}
	if s.connectionString == "" {
		identity, err := Identity()
		if err != nil {
			return servicebus.Options{}, fmt.Errorf("%w; an emulator wants SERVICEBUS_CONNECTION_STRING instead", err)
		}
		o.Namespace, o.Credential = s.Namespace, identity
	}
	return o, nil
}

// Reach is what another process of ours is told so that it reaches the same broker and
// store: flags, and the secrets, which are variables.
func (s *Settings) Reach() (flags, variables []string) {
	flags = []string{"-cosmos-endpoint=" + s.Endpoint, "-cosmos-database=" + s.Database}
	if s.Namespace != "" {
		flags = append(flags, "-servicebus-namespace="+s.Namespace)
	}
	return flags, []string{"SERVICEBUS_CONNECTION_STRING=" + s.connectionString, "COSMOS_KEY=" + s.cosmosKey}
}

// Store prepares the connection to Cosmos DB alone.
func (s *Settings) Store(throttled func()) (*cosmos.Database, error) {
	return s.store(cosmos.Options{Throttled: throttled})
}

// store opens the store; o says how it is watched.
func (s *Settings) store(o cosmos.Options) (*cosmos.Database, error) {
	where, err := s.StoreOptions()
	if err != nil {
		return nil, err
	}
	where.Throttled, where.Log, where.Tracing, where.Meter = o.Throttled, o.Log, o.Tracing, o.Meter
	database, err := cosmos.Open(where)
	if err != nil {
		return nil, fmt.Errorf("cosmos db: %w", err)
	}
	return database, nil
}

// StoreOptions say where Cosmos DB is and who this process is there.
func (s *Settings) StoreOptions() (cosmos.Options, error) {
	o := cosmos.Options{ApplicationID: s.ID, Endpoint: s.Endpoint, Database: s.Database, Timeout: s.StoreLimit, Key: s.cosmosKey}
	if s.cosmosKey == "" {
		identity, err := Identity()
		if err != nil {
			return cosmos.Options{}, fmt.Errorf("%w; an emulator wants COSMOS_KEY instead", err)
		}
		o.Credential = identity
	}
	return o, nil
}

// BrokerHost is where Service Bus is, without what a connection string has beside it.
func (s *Settings) BrokerHost() string {
	for part := range strings.SplitSeq(s.connectionString, ";") {
		if name, value, _ := strings.Cut(part, "="); strings.EqualFold(name, "Endpoint") {
			return value
		}
	}
	return s.Namespace
}

// Close ends the connections within a limit, and also when ctx has ended.
func (c Connections) Close(ctx context.Context, limit time.Duration) error {
	defer c.Cosmos.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return c.ServiceBus.Close(ctx)
}
