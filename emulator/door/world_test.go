package door_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/authority"
	"oneeffect/emulator/door"
)

// pipes is a listener without a network, so that everything runs in a synctest
// bubble: time is virtual there, and no goroutine may be left.
type pipes struct {
	waiting chan net.Conn
	closed  chan struct{}
	close   func()
	fails   chan error // what Accept is to return first
}

func newPipes() *pipes {
	closed := make(chan struct{})
	return &pipes{
		waiting: make(chan net.Conn), closed: closed, close: sync.OnceFunc(func() { close(closed) }),
		fails: make(chan error, 8),
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case err := <-p.fails:
		return nil, err
	default:
	}
	select {
	case c := <-p.waiting:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5672} }

// dial waits for the door to accept.
func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	select {
	case p.waiting <- there:
	case <-p.closed:
		_ = there.Close()
	}
	return here
}

// world is a door at work and what is needed to come in by it.
type world struct {
	t     *testing.T
	dial  func() net.Conn
	trust *tls.Config // of clients
	shut  func()      // ends the door and waits for it
}

// served is the door of the tests: what arrives as AMQP is sent back, and HTTP
// tells what it was asked, over what.
func served(t *testing.T) (door.Door, *tls.Config) {
	t.Helper()
	certificates, err := authority.New(nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificates.PEM())
	mux := http.NewServeMux()
	mux.Handle("/socket", door.WebSocket(echo))
	mux.HandleFunc("/abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/held", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		over := "plainly"
		if r.TLS != nil {
			over = "over TLS"
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Proto+" "+r.Method+" "+r.URL.Path+" "+string(body)+" "+over)
	})
	return door.Door{AMQP: echo, HTTP: mux, TLS: certificates.Server(), Log: slog.New(slog.DiscardHandler)},
		&tls.Config{RootCAs: trusted, ServerName: "localhost", NextProtos: []string{"h2", "http/1.1"}}
}

// echo sends back what it reads, until the peer or the context ends.
func echo(ctx context.Context, c net.Conn) {
	defer c.Close()
	socket := c.(interface{ NetConn() net.Conn }).NetConn() // which every connection has
	defer context.AfterFunc(ctx, func() { _ = socket.Close() })()
	_, _ = io.Copy(c, c)
}

// inBubble runs a test with a door in a synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d, trust := served(t)
		w := start(t, d, newPipes())
		w.trust = trust
		test(t, w)
	})
}

// start serves until the test ends or shut is called.
func start(t *testing.T, d door.Door, l *pipes) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Serve(ctx, l, func(err error) { t.Errorf("the listener broke: %v", err) })
	}()
	shut := func() {
		cancel()
		<-ended
	}
	t.Cleanup(shut)
	return &world{t: t, dial: l.dial, shut: shut}
}

// roads are the ways to a protocol.
var roads = []string{"plainly", "over TLS"}

// come connects by a road. A pipe has no room for a TLS goodbye: those who leave cut it.
func (w *world) come(road string) (c net.Conn, cut func()) {
	w.t.Helper()
	c = w.dial()
	cut = func() { _ = c.Close() }
	if road == "over TLS" {
		socket, layer := c, tls.Client(c, w.trust)
		cut = func() { _ = socket.Close() }
		if err := layer.Handshake(); err != nil {
			w.t.Fatal(err)
		}
		c = layer
	}
	w.t.Cleanup(cut)
	return c, cut
}

// client speaks HTTP by a road, with a connection for each request.
func (w *world) client(road string) *http.Client {
	dial := func(context.Context, string, string) (net.Conn, error) {
		c, _ := w.come(road)
		return c, nil
	}
	transport := &http.Transport{DialContext: dial, DialTLSContext: dial}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// send writes in the background, since a pipe has no buffer and a peer that is cut never reads.
func (w *world) send(c net.Conn, bytes string) {
	w.t.Helper()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(c, bytes)
	}()
	w.t.Cleanup(func() { _ = c.SetDeadline(time.Now()); <-sent })
}

// read reads a number of bytes.
func (w *world) read(c net.Conn, n int) string {
	w.t.Helper()
	text := make([]byte, n)
	if _, err := io.ReadFull(c, text); err != nil {
		w.t.Fatalf("read %d bytes: %v", n, err)
	}
	return string(text)
}

// wantCut reads until the connection ends and says what came.
func (w *world) wantCut(c net.Conn) string {
	w.t.Helper()
	var got bytes.Buffer
	_, err := io.Copy(&got, c)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		w.t.Fatalf("the connection did not end but: %v", err)
	}
	return got.String()
}
