// Package servicebus is the adapter to Azure Service Bus. Nothing else in the
// product knows the SDK, and nothing of it leaves this package.
//
//	message.Message ──Sender──▶ queue or topic
//	queue or subscription ──Receiver──▶ handler ──message.Settlement──▶ broker
//
//	S1  No message is held that no slot is free to work on. What arrives between
//	    two receives goes back uncounted.
//	S2  A lock is renewed from its receipt on, by the monotonic clock. Losing it
//	    does not disturb the handler: the redelivery will be told what happened.
//	S3  The renewer has ended before a message is settled. Settling outlives the
//	    cancellation of the work, is bounded, and may fail: that is counted and
//	    logged, and the redelivery repairs it.
//	S4  A delayed copy is in the queue before its original is completed, so a
//	    crash between the two leaves two messages and never none. It spends no
//	    delivery count. Of a message whose lock is over no copy is made. It says how many
//	    deliveries in a row came to nothing, so that waits can grow.
//	S5  Run returns when its context has ended and nothing that it started still
//	    runs. Handlers are asked to stop, with ErrStopping, only when the grace is over.
//	S6  Whatever the broker refuses, Run goes on: it backs off, says the remedy,
//	    and tries again.
//	S7  The trace context travels as traceparent, tracestate and Diagnostic-Id.
//	    It is read from traceparent, else from Diagnostic-Id.
//	S8  A receiver says once that it does not receive, as a warning with the remedy,
//	    and once that it does again: within a minute of the broker's answering
//	    again, without a restart. A link that has become deaf is replaced within
//	    Silence; what was sent into it comes back when its lock ends.
//	S9  Complaints, the broker's and those by Throttle, halve how much is worked on
//	    at once; peace brings it back.
//	S10 A delivery is a span, child of the one that sent its message and linked to it;
//	    sends, settlements and delayed copies are spans of their own. With telemetry
//	    off, nothing is made for it.
//	S11 A subscription that requires sessions is received by as many sessions at once
//	    as there are slots, each message by message: none is received before the one
//	    before it is settled. A session is given back when it is empty, when it has had
//	    its turn, and when it is not known what stands of a message of it, which then
//	    comes again before those behind it.
package servicebus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	nometric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"
)

// DefaultSendTimeout bounds a Send whose caller has no nearer deadline.
const DefaultSendTimeout = 20 * time.Second

// maxApplicationID is what the data-plane SDKs allow, so that one name fits all.
const maxApplicationID = 24

// Options say where the namespace is and who is calling.
type Options struct {
	// Either ConnectionString, or Namespace (its full host name) and Credential.
	ConnectionString string
	Namespace        string
	Credential       azcore.TokenCredential

	ApplicationID string        // how the broker tells clients apart; at most 24 characters
	SendTimeout   time.Duration // bound of one Send with all its retries; zero means DefaultSendTimeout

	// NewConn, if set, makes the connections: for websockets and for tests.
	NewConn func(ctx context.Context) (net.Conn, error)

	// Management, if set, carries the requests of a Manager.
	Management policy.Transporter

	// All optional: without them nothing is logged, traced or counted. The trace
	// context travels all the same.
	Log        *slog.Logger
	Tracer     trace.Tracer
	Meter      metric.Meter
	Propagator propagation.TextMapPropagator
}

// Client is one connection to a namespace, made when it is first needed and made
// again when it is lost. Its senders and receivers share it.
type Client struct {
	sdk         *azservicebus.Client
	identity    *credential
	sendTimeout time.Duration
	log         *slog.Logger
	tracer      trace.Tracer
	propagator  propagation.TextMapPropagator
	meter       metric.Meter
	instruments instruments
	peer        []attribute.KeyValue // the namespace, as spans name it

	mu      sync.Mutex // guards senders; never held over I/O
	senders map[string]*Sender
}

// Dial prepares a client. It does no I/O: an address that does not answer shows
// at the first operation.
func Dial(o Options) (*Client, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("prepare Service Bus client: %w", err)
	}
	identity := &credential{TokenCredential: o.Credential}
	if o.Credential != nil {
		o.Credential = identity
	}
	sdk, err := o.connect()
	if err != nil {
		return nil, fmt.Errorf("prepare Service Bus client: %w", err)
	}
	c := &Client{
		sdk:         sdk,
		identity:    identity,
		sendTimeout: cmp.Or(o.SendTimeout, DefaultSendTimeout),
		log:         o.Log,
		tracer:      o.Tracer,
		propagator:  o.Propagator,
		meter:       o.Meter,
		peer:        o.peer(),
		senders:     make(map[string]*Sender),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.tracer == nil {
		c.tracer = notrace.Tracer{}
	}
	if c.propagator == nil {
		c.propagator = propagation.TraceContext{}
	}
	if c.meter == nil {
		c.meter = nometric.Meter{}
	}
	if c.instruments, err = newInstruments(c.meter); err != nil {
		return nil, fmt.Errorf("prepare Service Bus client: %w", err)
	}
	return c, nil
}

func (o Options) check() error {
	var errs []error
	switch token := o.Namespace != "" && o.Credential != nil; {
	case o.ConnectionString == "" && !token:
		errs = append(errs, errors.New("give either a connection string, or a namespace (NAME.servicebus.windows.net) and a credential"))
	case o.ConnectionString != "" && (o.Namespace != "" || o.Credential != nil):
		errs = append(errs, errors.New("give either a connection string, or a namespace and a credential, not both"))
	}
	if len(o.ApplicationID) > maxApplicationID {
		errs = append(errs, fmt.Errorf("application id %q has %d characters, %d are allowed", o.ApplicationID, len(o.ApplicationID), maxApplicationID))
	}
	if o.SendTimeout < 0 {
		errs = append(errs, fmt.Errorf("send timeout is %v, it must not be negative", o.SendTimeout))
	}
	return errors.Join(errs...)
}

// connect makes the SDK's client. Its retries are there to repair links, not to
// decide how long anyone waits: the caller's deadline does that, in a loop of
// ours around them (Sender) or by trying again (Receiver).
//
//   - MaxRetries must not be off. The SDK repairs a dead link only on the way from
//     one attempt to the next: with a single attempt it would use the dead link for ever.
//   - The defaults wait 4, 12 and 28 seconds between attempts, which is longer than
//     every budget we have. These wait about 0.25, 0.75 and 1.75.
//   - Settling ignores all of this and uses the defaults; see settle.go.
func (o Options) connect() (*azservicebus.Client, error) {
	options := &azservicebus.ClientOptions{
		ApplicationID: o.ApplicationID,
		RetryOptions: azservicebus.RetryOptions{
			MaxRetries:    3,
			RetryDelay:    250 * time.Millisecond,
			MaxRetryDelay: 5 * time.Second,
		},
	}
	if o.NewConn != nil {
		options.NewWebSocketConn = func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return o.NewConn(ctx)
		}
	}
	if o.ConnectionString != "" {
		return azservicebus.NewClientFromConnectionString(o.ConnectionString, options)
	}
	return azservicebus.NewClient(o.Namespace, o.Credential, options)
}

// Close ends the connection and every sender and receiver with it. End the
// receivers' Run first: a message that is not settled by then stays locked.
func (c *Client) Close(ctx context.Context) error {
	return translate("close Service Bus client", c.sdk.Close(ctx))
}

// Sender returns the sender of a queue or topic, the same one every time.
func (c *Client) Sender(entity string) (*Sender, error) {
	if entity == "" {
		return nil, errors.New("open sender: the name of a queue or topic is missing")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.senders[entity]; s != nil {
		return s, nil
	}
	sdk, err := c.sdk.NewSender(entity, nil)
	if err != nil {
		return nil, translate("open sender of "+entity, err)
	}
	s := &Sender{client: c, entity: entity, station: c.newStation(entity), sdk: sdk}
	c.senders[entity] = s
	return s, nil
}
