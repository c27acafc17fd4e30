package downstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/http/httpguts"

	"oneeffect/internal/message"
)

// Options are what a handler needs of the process it runs in.
type Options struct {
	// Transport sends the requests. A keyless call takes a copy of an
	// *http.Transport, without kept-alive connections; any other kind is used as it is
	// and must not send anything twice. Nil means a transport without kept-alive
	// connections; whoever gives one closes its idle connections.
	Transport http.RoundTripper

	UserAgent  string                        // the process's ApplicationID
	Getenv     func(string) string           // for auth env:NAME
	Credential azcore.TokenCredential        // for auth entra:SCOPE
	Tracer     trace.Tracer                  // nil: no spans
	Meter      metric.Meter                  // nil: nothing is measured
	Propagator propagation.TextMapPropagator // nil: W3C trace context
}

// handler does one task type: a caller for each of its steps, or the one without
// a name.
type handler struct {
	declaration message.Declaration
	callers     map[string]*caller
}

var _ message.Handler = (*handler)(nil)

// Handler makes the handler that was declared, or says what is missing for it.
func (d Declared) Handler(o Options) (message.Handler, error) {
	if d.Go {
		return nil, fmt.Errorf("prepare handler of %s: it is written in Go", d.Type)
	}
	h := &handler{callers: make(map[string]*caller, len(d.Requests))}
	var errs []error
	if !httpguts.ValidHeaderFieldValue(o.UserAgent) {
		errs = append(errs, fmt.Errorf("user agent %q cannot be used in a header", o.UserAgent))
	}
	for _, r := range d.Requests {
		c, err := r.caller(o)
		errs = append(errs, err)
		h.callers[r.Step] = c
	}
	declaration, err := d.declaration()
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("prepare handler of %s: %w", d.Type, err)
	}
	h.declaration = declaration
	return h, nil
}

// declaration is what the worker computes its rules from.
func (d Declared) declaration() (message.Declaration, error) {
	var m message.Declaration
	if first := d.Requests[0]; first.Step == "" {
		m = message.Declaration{Type: d.Type, Keyed: first.Keyed, KeyWindow: first.Window, Timeout: first.Timeout}
	} else {
		steps := make([]message.Step, len(d.Requests))
		for i, r := range d.Requests {
			steps[i] = message.Step{Name: r.Step, Keyed: r.Keyed, KeyWindow: r.Window, Timeout: r.Timeout}
		}
		var err error
		if m, err = message.Stepwise(d.Type, steps...); err != nil {
			return m, err
		}
	}
	m.Attempts, m.BackoffMin, m.BackoffMax = d.Attempts, d.BackoffMin, d.BackoffMax
	m.Prompt = true // D3, D4: request and reply end with the call's context
	return m, nil
}

func (h *handler) Declaration() message.Declaration { return h.declaration }

// Call sends one request and says what is known of it.
func (h *handler) Call(ctx context.Context, c message.Call) message.Outcome {
	step, known := h.callers[c.Step]
	if !known {
		return message.Outcome{Effect: message.EffectNotApplied, Description: fmt.Sprintf("nothing sent: %s has no step %q", h.declaration.Type, c.Step)}
	}
	return step.call(ctx, c)
}
