// Package cosmos is the adapter to Azure Cosmos DB. Nothing else in the product
// knows the SDK, and nothing of it leaves this package but credentials.
//
//	claim.Store     ──ClaimStore──▶     container "claims"
//	execution.Store ──ExecutionStore──▶ container "executions"
//	receipt.Store   ──ReceiptStore──▶   containers "inventory", "webhooks"
//
//	K1  An error says what is known. A write any attempt of which may have reached
//	    the service without a definite answer is message.ErrUnknown, whatever came
//	    after it; a write that was refused, or never left this host, is not.
//	K2  A write whose answer was lost is not sent again, neither here nor by the
//	    SDK. Whoever sent it reads back and decides.
//	K3  Every operation ends within Options.Timeout, its retries included, and so
//	    does the discovery of the account that the first one waits for.
//	K4  The age of a record is Date less _ts of one answer. An answer without a
//	    Date has no age, and is refused.
//	K5  A conversation about one key reads at least what it has seen: it passes on
//	    the session token of the last answer, refusals included. The SDK keeps none.
//	    About an execution, or an entity with receipts, a process has one
//	    conversation; it remembers the newest 1,024 of each kind.
//	K6  What the store adds to a document (_rid, _ts, …) is not handed on and not
//	    sent back. Members of later versions are.
//	K7  A process may start before its database. Until the account has answered
//	    once, every failed discovery is forgotten, and the next operation discovers
//	    anew.
//	K8  An operation is a span by the conventions of now, if the caller's provider makes
//	    one, and is measured with the request units of all its attempts, also where its
//	    trace is not sampled.
//
// About K7: the SDK asks for the account document (GET /) before its first
// request, for up to a minute and whatever the caller's context says, and answers
// every request of the next five minutes with the error of a discovery that
// failed. So the discovery is bounded here, and a client whose discovery failed is
// thrown away. What remains: the first operation of a process does not heed its
// caller's cancellation before Options.Timeout.
package cosmos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/tracing"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"go.opentelemetry.io/otel/metric"
)

// What Options default to.
const (
	DefaultDatabase = "oneeffect"
	DefaultTimeout  = 10 * time.Second
)

// maxApplicationID is what the SDK keeps of a name, silently.
const maxApplicationID = 24

// Options say where the account is and who is calling.
type Options struct {
	Endpoint string // https://account.documents.azure.com:443/

	// Either Key, which may create databases and containers too, or Credential,
	// whose rights on the data plane cannot.
	Key        string
	Credential azcore.TokenCredential

	ApplicationID string // first in the User-Agent, at most 24 characters
	Database      string // DefaultDatabase if empty
	Timeout       time.Duration

	// Throttled, if set, is called whenever the service has asked for less (429),
	// also where a retry of the SDK hides that. It must not wait.
	Throttled func()

	Transport policy.Transporter // the SDK's own if nil
	Tracing   tracing.Provider
	Meter     metric.Meter // nil: nothing is measured
	Log       *slog.Logger
}

// Database is one database of one account. Its stores may be used from any
// goroutine. Close it when no operation runs any more.
type Database struct {
	options  Options
	key      azcosmos.KeyCredential
	sessions sessions // of executions
	meters   *meters
	traces   bool // the provider makes spans

	mu      sync.Mutex // guards the rest; never held over I/O
	current connections
	account account // as the last discovery told it
	closed  bool

	life        context.Context // ends with Close: discoveries in the background end with it
	end         context.CancelFunc
	discoveries sync.WaitGroup
}

// Open checks the options, every mistake at once. It does no I/O.
func Open(o Options) (*Database, error) {
	o.Database = cmp.Or(o.Database, DefaultDatabase)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	d := &Database{options: o, traces: o.Tracing.NewTracer("oneeffect/cosmos", "").Enabled()}
	errs := o.check()
	if o.Key != "" {
		key, err := azcosmos.NewKeyCredential(o.Key)
		if err != nil {
			errs = append(errs, errors.New("the key is not base64: copy it from the account's keys"))
		}
		d.key = key
	}
	var err error
	if d.meters, err = newMeters(o); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	d.life, d.end = context.WithCancel(context.Background())
	return d, nil
}

func (o Options) check() (errs []error) {
	at, err := url.Parse(o.Endpoint)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("the endpoint is no URL: %w", err))
	case at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || strings.Trim(at.Path, "/") != "":
		errs = append(errs, fmt.Errorf("the endpoint is %q: give https://host:port/ and nothing after it", o.Endpoint))
	}
	if (o.Key == "") == (o.Credential == nil) {
		errs = append(errs, errors.New("give either a key or a credential"))
	}
	if len(o.ApplicationID) > maxApplicationID || strings.Contains(o.ApplicationID, " ") {
		errs = append(errs, fmt.Errorf("the application id %q is too long or contains a blank: at most %d characters", o.ApplicationID, maxApplicationID))
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("the timeout is %v: it must be positive", o.Timeout))
	}
	return errs
}

// Claims is the store of claims.
func (d *Database) Claims() *ClaimStore { return &ClaimStore{d} }

// Executions is the store of executions and their outbox.
func (d *Database) Executions() *ExecutionStore { return &ExecutionStore{d} }

// Close ends what the SDK does in the background and waits for it.
func (d *Database) Close() {
	d.mu.Lock()
	d.closed = true
	d.current.drop(d.current.traced)
	d.current.drop(d.current.untraced)
	d.mu.Unlock()
	d.end()
	d.discoveries.Wait()
}
