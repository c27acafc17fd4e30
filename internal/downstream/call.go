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
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"

	"oneeffect/internal/message"
)

// errTimeout is the cause when a call has taken longer than its declaration allows.
var errTimeout = errors.New("the call took longer than its timeout")

// caller makes one kind of call.
type caller struct {
	declared  Request
	same      *http.Request // what all requests of it have in common
	target    string        // the URL as people may see it: a query may hold a secret
	transport http.RoundTripper
	bearer    bearer
	watched
	propagator propagation.TextMapPropagator
}

// caller prepares what a request asks for.
func (d Request) caller(o Options) (*caller, error) {
	to, wrongURL := url.Parse(d.URL)
	bearer, wrongAuth := d.Auth.bearer(o.Getenv, o.Credential)
	if err := errors.Join(wrongURL, wrongAuth); err != nil {
		return nil, err
	}
	h := &caller{
		declared: d, transport: d.transport(o.Transport), bearer: bearer, propagator: o.Propagator,
		target: to.Scheme + "://" + to.Host + to.EscapedPath(),
		same: &http.Request{Method: d.Method, URL: to, Header: http.Header{
			"Content-Type": {"application/json"},
			"Accept":       {"application/json, application/problem+json;q=0.9, */*;q=0.1"},
			"User-Agent":   {o.UserAgent},
		}},
	}
	if h.propagator == nil {
		h.propagator = propagation.TraceContext{}
	}
	return h, h.watch(o)
}

// call sends one request, within a span of its own.
func (h *caller) call(ctx context.Context, c message.Call) message.Outcome {
	ctx, cancel := message.WithinCause(ctx, h.declared.Timeout, errTimeout)
	defer cancel()
	began := time.Now()
	ctx, span := h.start(ctx, h.declared.Method)
	defer span.End()
	o, status := h.send(ctx, c)
	o.Description = message.Line(o.Description) // net/http repeats what it cannot read
	h.ended(ctx, span, began, status, o)
	return o
}

// send returns the status of the reply, too; 0 if there is none.
func (h *caller) send(ctx context.Context, c message.Call) (message.Outcome, int) {
	d := h.declared
	if d.Keyed && c.Key == "" {
		return d.outcome(permanent, "nothing sent: the handler needs a key and the task has none"), 0
	}
	body, err := h.body(c)
	if err != nil {
		return d.outcome(permanent, "nothing sent: "+err.Error()), 0
	}
	authorization, err := h.bearer(ctx)
	if err != nil {
		return d.outcome(notYet, "nothing sent: "+reason(ctx, err)), 0
	}
	var w watch
	response, err := h.transport.RoundTrip(h.request(w.observe(ctx), c.Key, body, authorization))
	if err != nil && w.unsent(err) {
		return d.outcome(notYet, "nothing sent: "+reason(ctx, err)), 0
	}
	if err != nil {
		return d.outcome(again, fmt.Sprintf("%s %s has no reply: %s", d.Method, h.target, reason(ctx, err))), 0
	}
	defer response.Body.Close()
	return h.judge(read(response)), response.StatusCode
}

// body is what is sent: the payload, and beside it what the steps before brought
// if that is declared.
func (h *caller) body(c message.Call) ([]byte, error) {
	if !h.declared.Results {
		return c.Payload, nil
	}
	body, err := json.Marshal(struct {
		Payload jsontext.Value                `json:"payload"`
		Results map[string]message.StepResult `json:"results"`
	}{c.Payload, c.Results}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode payload and results: %w", err)
	}
	return body, nil
}

// request is the one request of a call. GetBody stays nil: without it net/http
// cannot send a body a second time, whatever the headers say.
func (h *caller) request(ctx context.Context, key string, body []byte, authorization string) *http.Request {
	r := h.same.WithContext(ctx) // a copy
	r.Header = h.same.Header.Clone()
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	h.propagator.Inject(ctx, propagation.HeaderCarrier(r.Header))
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	if h.declared.Keyed {
		r.Header.Set(h.declared.Header, h.declared.Form.write(key))
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
