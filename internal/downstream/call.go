package downstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/net/http/httpguts"

	"oneeffect/internal/message"
)

// errTimeout is the cause when a call has taken longer than its declaration allows.
var errTimeout = errors.New("the call took longer than its timeout")

// Options are what a handler needs of the process it runs in.
type Options struct {
	// Transport sends the requests. A keyless handler takes a copy of an
	// *http.Transport, without kept-alive connections; any other kind is used as it is
	// and must not send anything twice. Nil means a transport without kept-alive
	// connections; whoever gives one closes its idle connections.
	Transport http.RoundTripper

	UserAgent  string                        // the process's ApplicationID
	Getenv     func(string) string           // for auth env:NAME
	Credential azcore.TokenCredential        // for auth entra:SCOPE
	Tracer     trace.Tracer                  // nil: no spans
	Propagator propagation.TextMapPropagator // nil: W3C trace context
}

// handler calls one downstream.
type handler struct {
	declared   Declared
	url        *url.URL
	target     string // the URL as people may see it: a query may hold a secret
	transport  http.RoundTripper
	userAgent  string
	bearer     bearer
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
}

var _ message.Handler = (*handler)(nil)

// Handler makes the handler that was declared, or says what is missing for it.
func (d Declared) Handler(o Options) (message.Handler, error) {
	h := &handler{declared: d, userAgent: o.UserAgent, tracer: o.Tracer, propagator: o.Propagator}
	var errs [3]error
	h.url, errs[0] = url.Parse(d.URL)
	h.bearer, errs[1] = d.Auth.bearer(o.Getenv, o.Credential)
	if !httpguts.ValidHeaderFieldValue(o.UserAgent) {
		errs[2] = fmt.Errorf("user agent %q cannot be used in a header", o.UserAgent)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("prepare handler of %s: %w", d.Type, err)
	}
	h.target = h.url.Scheme + "://" + h.url.Host + h.url.EscapedPath()
	h.transport = d.transport(o.Transport)
	if h.tracer == nil {
		h.tracer = notrace.Tracer{}
	}
	if h.propagator == nil {
		h.propagator = propagation.TraceContext{}
	}
	return h, nil
}

// Declaration is what the worker computes its rules from.
func (h *handler) Declaration() message.Declaration {
	d := h.declared
	return message.Declaration{
		Type: d.Type, Keyed: d.Keyed, KeyWindow: d.Window, Timeout: d.Timeout,
		Attempts: d.Attempts, BackoffMin: d.BackoffMin, BackoffMax: d.BackoffMax,
	}
}

// Call sends one request and says what is known of it.
func (h *handler) Call(ctx context.Context, c message.Call) message.Outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, h.declared.Timeout, errTimeout)
	defer cancel()
	ctx, span := h.tracer.Start(ctx, h.declared.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		semconv.HTTPRequestMethodKey.String(h.declared.Method),
		semconv.ServerAddress(h.url.Hostname()),
		semconv.URLFull(h.target),
	))
	defer span.End()
	o := h.call(ctx, span, c)
	if o.Effect != message.EffectApplied {
		span.SetStatus(codes.Error, o.Description)
	}
	return o
}

func (h *handler) call(ctx context.Context, span trace.Span, c message.Call) message.Outcome {
	d := h.declared
	if d.Keyed && c.Key == "" {
		return d.outcome(permanent, "nothing sent: the handler needs a key and the task has none")
	}
	authorization, err := h.bearer(ctx)
	if err != nil {
		return d.outcome(notYet, "nothing sent: "+reason(ctx, err))
	}
	var w watch
	response, err := h.transport.RoundTrip(h.request(w.observe(ctx), c, authorization))
	if err != nil && w.unsent(err) {
		return d.outcome(notYet, "nothing sent: "+reason(ctx, err))
	}
	if err != nil {
		return d.outcome(again, fmt.Sprintf("%s %s has no reply: %s", d.Method, h.target, reason(ctx, err)))
	}
	defer response.Body.Close()
	span.SetAttributes(semconv.HTTPResponseStatusCode(response.StatusCode))
	return h.judge(read(response))
}

// request is the one request of a call. GetBody stays nil: without it net/http
// cannot send a body a second time, whatever the headers say.
func (h *handler) request(ctx context.Context, c message.Call, authorization string) *http.Request {
	r := (&http.Request{
		Method:        h.declared.Method,
		URL:           h.url,
		Header:        make(http.Header),
		Body:          io.NopCloser(bytes.NewReader(c.Payload)),
		ContentLength: int64(len(c.Payload)),
	}).WithContext(ctx)
	h.propagator.Inject(ctx, propagation.HeaderCarrier(r.Header))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, application/problem+json;q=0.9, */*;q=0.1")
	r.Header.Set("User-Agent", h.userAgent)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	if h.declared.Keyed {
		r.Header.Set(h.declared.Header, h.declared.Form.write(c.Key))
	}
	return r
}

// write is the key as its header has it.
func (f Form) write(key string) string {
	if f == Quoted {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
	}
	return key
}

// reason says why a call failed: what ended it, if something did, before what
// net/http made of that.
func reason(ctx context.Context, err error) string {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Sprintf("%v (%v)", cause, err)
	}
	return err.Error()
}
