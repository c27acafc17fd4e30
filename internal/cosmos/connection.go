package cosmos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/tracing"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/internal/message"
)

// connection is one client of the SDK. It is of no use before it has discovered
// the account, and of none for five minutes if it tried in vain (K7).
type connection struct {
	client     *azcosmos.Client
	items      map[string]*azcosmos.ContainerClient // of every container
	traced     bool                                 // its operations can become spans
	discovered atomic.Bool
}

// connections are the clients of a database. The SDK takes as much trouble over a span
// that nobody records as over any other, so what belongs to a trace that is not sampled
// has a client of its own, which knows of no spans. Both have the same transport.
type connections struct{ traced, untraced *connection }

// drop takes a client out, if it is still one of them, and ends what it does.
func (cs *connections) drop(c *connection) bool {
	for _, at := range []**connection{&cs.traced, &cs.untraced} {
		if c != nil && *at == c {
			c.client.Close()
			*at = nil
			return true
		}
	}
	return false
}

// mayTrace says whether an operation can become a span. What begins a trace of its own
// is left to the sampler.
func (d *Database) mayTrace(ctx context.Context) bool {
	parent := trace.SpanContextFromContext(ctx)
	return d.traces && (!parent.IsValid() || parent.IsSampled())
}

// connect returns the client to use now, making one if need be. It does no I/O.
func (d *Database) connect(ctx context.Context) (*connection, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("%w: the database is closed", message.ErrRefused)
	}
	at, traced := &d.current.untraced, d.mayTrace(ctx)
	if traced {
		at = &d.current.traced
	}
	if *at == nil {
		c, err := d.dial(traced)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", message.ErrRefused, err)
		}
		*at = c
	}
	return *at, nil
}

// dial makes a client, which finds nothing out before it is used.
func (d *Database) dial(traced bool) (*connection, error) {
	c, traces := &connection{traced: traced}, tracing.Provider{}
	if traced {
		traces = d.options.Tracing
	}
	o := &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport:        d.options.Transport,
		Telemetry:        policy.TelemetryOptions{ApplicationID: d.options.ApplicationID},
		TracingProvider:  traces,
		PerCallPolicies:  []policy.Policy{discovery{d}},
		PerRetryPolicies: []policy.Policy{attempts{c, d.options.Throttled}},
	}}
	var err error
	if d.options.Credential != nil {
		c.client, err = azcosmos.NewClient(d.options.Endpoint, d.options.Credential, o)
	} else {
		c.client, err = azcosmos.NewClientWithKey(d.options.Endpoint, d.key, o)
	}
	if err != nil {
		return nil, err
	}
	c.items = make(map[string]*azcosmos.ContainerClient)
	for _, one := range Table() {
		if c.items[one.ID], err = c.client.NewContainer(d.options.Database, one.ID); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// forget throws away a client whose discovery failed. Whoever waits for the same
// discovery gets its error too.
func (d *Database) forget(ctx context.Context, c *connection) {
	d.mu.Lock()
	first := d.current.drop(c)
	d.mu.Unlock()
	if first {
		d.options.Log.LogAttrs(ctx, slog.LevelWarn, "account not discovered, the next operation tries again",
			slog.String("endpoint", d.options.Endpoint))
	}
}

// isDiscovery recognises GET /, the one request that is not an operation's. The
// SDK makes it in the course of the first operation, and later in goroutines of
// its own; either way with the values of an operation's context, which are then
// not to be touched.
func isDiscovery(req *policy.Request) bool {
	return strings.Trim(req.Raw().URL.Path, "/") == ""
}

// discovery bounds the account discovery and its retries (K3), and ends it with
// the database.
type discovery struct{ d *Database }

func (p discovery) Do(req *policy.Request) (*http.Response, error) {
	if !isDiscovery(req) {
		return req.Next()
	}
	if !p.d.discover() {
		return nil, context.Canceled
	}
	defer p.d.discoveries.Done()
	ctx, cancel := context.WithTimeout(req.Raw().Context(), p.d.options.Timeout)
	defer cancel()
	defer context.AfterFunc(p.d.life, cancel)()
	response, err := req.WithContext(ctx).Next()
	if err == nil {
		p.d.sawAccount(response)
	}
	return response, err
}

// discover registers a discovery, so that Close waits for it.
func (d *Database) discover() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.discoveries.Add(1)
	}
	return !d.closed
}

// attempts tells an operation what became of each of its attempts. It stands
// below every retry of the SDK.
type attempts struct {
	c         *connection
	throttled func() // may be nil
}

func (p attempts) Do(req *policy.Request) (*http.Response, error) {
	if isDiscovery(req) {
		return req.Next()
	}
	p.c.discovered.Store(true) // or the SDK would not have come so far
	op, ok := req.Raw().Context().Value(operationKey{}).(*operation)
	if !ok {
		return req.Next()
	}
	if err := req.Raw().Context().Err(); err != nil {
		return nil, err // not sent, and so known not to be applied
	}
	if op.measured {
		op.verb = verbOf(req.Raw())
	}
	if err := InOneWrite(req.Raw()); err != nil {
		return nil, err // not sent either
	}
	response, err := req.Next()
	if p.c.traced {
		annotate(req.Raw().Context(), response)
	}
	if p.throttled != nil && response != nil && response.StatusCode == http.StatusTooManyRequests {
		p.throttled()
	}
	return response, op.attempted(response, err)
}

// mostTogether is how long a body may be that is sent together with its head, in bytes.
const mostTogether = 64 << 10

// InOneWrite has the head and the body of a request sent together. The body that the
// SDK gives to net/http is of a type of its own, which might be slow to read for all
// that net/http knows: so it sends the head before it looks at the body, and that is a
// system call more, and a packet, at both ends. A longer body stays as it is, since
// that is nothing beside a copy of it.
func InOneWrite(r *http.Request) error {
	if r.Body == nil || r.ContentLength <= 0 || r.ContentLength > mostTogether {
		return nil
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return fmt.Errorf("read what is to be sent: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}
