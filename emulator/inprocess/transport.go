// Package inprocess carries HTTP without a network: an http.RoundTripper that
// runs an http.Handler in the same process, so that real clients can be used
// against the emulators inside a testing/synctest bubble.
//
//	client ──▶ RoundTrip ──request──▶ handler, in a goroutine of the call
//	              ▲                      │
//	              └──response, streamed──┘
//
// It keeps to what a client sees of net/http over a socket, each point held by a
// test:
//
//	T1  A caller whose context ends returns at once, and the handler's request
//	    context ends too. The handler may go on; Wait and Close wait for it.
//	T2  panic(http.ErrAbortHandler) is a connection that broke after the request
//	    was sent: an error of RoundTrip before the answer has begun, an error of
//	    the body afterwards. It is never retried here.
//	T3  Bodies are streamed in both directions within bounds. A short answer comes
//	    with its Content-Length, and its handler does not wait for the reader.
//	T4  After RoundTrip has returned an error, or the answer's body is closed, the
//	    request's body is not touched any more.
//	T5  What a handler does with its request or its headers afterwards does not
//	    reach the caller, nor the other way round.
//
// It does not do trailers, hijacking, 1xx answers, or compression. A handler that
// panics with anything else than http.ErrAbortHandler ends the program, as a
// panic does anywhere else: net/http would hide it.
package inprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
)

// ErrClosed is returned by RoundTrip after Close.
var ErrClosed = errors.New("the in-process transport is closed")

// handlersAtOnce bounds the handlers that run at the same time; further calls
// wait for one to end, or for their context.
const handlersAtOnce = 1024

// remoteAddr is what handlers see; port 0 says that there is no socket.
const remoteAddr = "127.0.0.1:0"

// RoundTripper calls one http.Handler. It serves as an http.Client's Transport
// and, with Do, as azcore's Transporter.
type RoundTripper struct {
	handler http.Handler
	slots   chan struct{}
	life    context.Context // ends with Close; the parent of every handler's context
	stop    context.CancelCauseFunc

	mu       sync.Mutex // guards closed against handlers.Go
	closed   bool
	handlers sync.WaitGroup
}

var _ http.RoundTripper = (*RoundTripper)(nil)

// Transport returns a RoundTripper to a handler. Make it inside the bubble whose
// calls it carries.
func Transport(h http.Handler) *RoundTripper {
	life, stop := context.WithCancelCause(context.Background())
	return &RoundTripper{handler: h, slots: make(chan struct{}, handlersAtOnce), life: life, stop: stop}
}

// Do is RoundTrip under the name that azcore's policy.Transporter gives it.
func (t *RoundTripper) Do(req *http.Request) (*http.Response, error) { return t.RoundTrip(req) }

// RoundTrip runs the handler and returns its answer as soon as it has begun.
func (t *RoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	body := newRequestBody(req.Body)
	if req.URL == nil {
		body.cut()
		return nil, errors.New("in-process call: the request has no URL")
	}
	select {
	case t.slots <- struct{}{}:
	case <-req.Context().Done():
		body.cut()
		return nil, context.Cause(req.Context())
	case <-t.life.Done():
		body.cut()
		return nil, fmt.Errorf("in-process call: %w", ErrClosed)
	}
	x := newExchange(t.life, req, body)
	if !t.start(func() {
		defer func() { <-t.slots }()
		x.serve(t.handler)
	}) {
		<-t.slots
		x.forgetCaller()
		x.hangUp(ErrClosed)
		return nil, fmt.Errorf("in-process call: %w", ErrClosed)
	}
	select {
	case <-x.begun:
		if x.err != nil {
			x.forgetCaller()
		}
		return x.response, x.err
	case <-req.Context().Done():
		err := context.Cause(req.Context())
		x.hangUp(err)
		return nil, err
	}
}

// start runs f unless the transport is closed.
func (t *RoundTripper) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.handlers.Go(f)
	}
	return !t.closed
}

// Wait blocks until every handler started so far has ended.
func (t *RoundTripper) Wait() { t.handlers.Wait() }

// Close refuses further calls, ends the context of every running handler, breaks
// the calls that wait for one, and waits until all have ended.
func (t *RoundTripper) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop(ErrClosed)
	t.handlers.Wait()
}

// broken is what a client sees when its connection breaks after it has sent its
// request. It is both an unexpected end and a reset, since over a socket it is a
// matter of timing which of the two one sees.
func broken() error {
	return &net.OpError{Op: "read", Net: "inprocess", Err: fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, syscall.ECONNRESET)}
}

// exchange is one call: the request on its way in and the answer on its way out.
type exchange struct {
	caller  *http.Request
	request *http.Request // the handler's
	cancel  context.CancelFunc
	body    *requestBody
	answer  *stream

	forgetCaller func() bool // ends the watch on the caller's context
	forgetLife   func() bool // ends the watch on the transport's

	begun    chan struct{} // closed once response or err is set
	response *http.Response
	err      error
}

// newExchange prepares the request as a handler of net/http sees it.
func newExchange(life context.Context, req *http.Request, body *requestBody) *exchange {
	ctx, cancel := context.WithCancel(life)
	in := req.Clone(ctx)
	in.URL = &url.URL{Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	in.RequestURI = req.URL.RequestURI()
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/1.1", 1, 1
	in.RemoteAddr = remoteAddr
	in.Close, in.GetBody, in.Response = false, nil, nil
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	if in.Method == "" {
		in.Method = http.MethodGet
	}
	if in.Header == nil {
		in.Header = make(http.Header)
	}
	if _, given := in.Header["User-Agent"]; !given {
		in.Header.Set("User-Agent", "Go-http-client/1.1")
	}
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		in.Body, in.ContentLength = http.NoBody, 0
	case req.ContentLength == 0:
		in.Body, in.ContentLength = body, -1 // not known, by net/http's rule
		in.TransferEncoding = []string{"chunked"}
	default:
		in.Body = body
	}
	x := &exchange{
		caller: req, request: in, cancel: cancel, body: body, answer: newStream(),
		begun: make(chan struct{}),
	}
	x.forgetCaller = context.AfterFunc(req.Context(), func() { x.hangUp(context.Cause(req.Context())) })
	x.forgetLife = context.AfterFunc(life, func() { x.hangUp(broken()) })
	return x
}

// hangUp is the caller's end going away: the handler's context ends, it can read
// no more of the request, and what it writes goes nowhere.
func (x *exchange) hangUp(err error) {
	x.cancel()
	x.body.cut()
	x.answer.abandon(err)
}

// serve runs the handler and finishes the answer.
func (x *exchange) serve(h http.Handler) {
	defer x.cancel()
	defer x.forgetLife()
	w := &responseWriter{exchange: x, header: make(http.Header), declared: -1}
	returned := false
	defer func() {
		x.body.cut()
		if returned {
			w.finish()
			return
		}
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // identity, as in net/http
			panic(p)
		}
		w.fail(broken()) // aborted, or ended by runtime.Goexit
	}()
	h.ServeHTTP(w, x.request)
	returned = true
}

// begin hands the answer, or the lack of one, to the caller, once.
func (x *exchange) begin(response *http.Response, err error) {
	x.response, x.err = response, err
	close(x.begun)
}
