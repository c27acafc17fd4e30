package downstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// maxReplyHeader bounds the head of a reply.
const maxReplyHeader = 64 << 10

// NewTransport returns a transport with the bounds that a downstream call wants.
// It keeps connections alive: close its idle ones in the end.
func NewTransport() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    256,              // one for each slot, or connections are made and closed all the time
		IdleConnTimeout:        30 * time.Second, // less than what servers and balancers grant
		MaxResponseHeaderBytes: maxReplyHeader,
		DisableCompression:     true, // a limit on the reply is a limit on what comes, not on what it unfolds to
		ForceAttemptHTTP2:      true,
	}
}

// transport is what this handler sends with.
func (d Request) transport(given http.RoundTripper) http.RoundTripper {
	if given == nil {
		return oneRequestPerConnection(NewTransport())
	}
	if pooled, ok := given.(*http.Transport); ok && !d.Keyed {
		return oneRequestPerConnection(pooled.Clone())
	}
	return given
}

// oneRequestPerConnection makes a transport that never finds out too late that a
// kept-alive connection is dead. Only HTTP/1, for the same reason: an HTTP/2
// connection is shared, and a request that it refused is sent again on the next.
func oneRequestPerConnection(t *http.Transport) *http.Transport {
	t.DisableKeepAlives = true
	t.ForceAttemptHTTP2 = false
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	if t.TLSClientConfig != nil {
		t.TLSClientConfig.NextProtos = nil
	}
	return t
}

// watch sees whether a request can have left this process.
type watch struct {
	asked atomic.Bool // net/http has looked for a connection: it is net/http that sends
	got   atomic.Bool // it had one: from here on bytes may be on their way
}

func (w *watch) observe(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { w.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { w.got.Store(true) },
	})
}

// unsent says whether the request is known not to have been sent: there was never
// a connection for it.
func (w *watch) unsent(err error) bool {
	if w.asked.Load() {
		return !w.got.Load()
	}
	dial, ok := errors.AsType[*net.OpError](err) // another transport, that says so itself
	return ok && dial.Op == "dial"
}
