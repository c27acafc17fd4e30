package downstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"oneeffect/internal/message"
)

// server is a listener whose connections are handled by hand, so that they can
// break where they should.
type server struct {
	url         string
	connections atomic.Int64
	requests    atomic.Int64
}

// serve calls handle for every request, with its number; handle answers on the
// connection, or breaks it by returning false.
func serve(t *testing.T, handle func(n int64, c net.Conn, r *http.Request) bool) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{url: "http://" + l.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.connections.Add(1)
			running.Go(func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					if !handle(s.requests.Add(1), c, r) {
						_ = c.(*net.TCPConn).SetLinger(0) // close sends a reset
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return s
}

func ok(c net.Conn) bool {
	_, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	return err == nil
}

// plain hides that it is an *http.Transport, so that a keyless handler keeps its connections alive.
type plain struct{ *http.Transport }

func pooled(t *testing.T) plain {
	p := plain{NewTransport()}
	t.Cleanup(p.CloseIdleConnections)
	return p
}

func TestARefusedConnectionIsNotApplied(t *testing.T) { // D3
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	url := "http://" + taken.LocalAddr().String() // nobody listens at a port that a connection goes out from, nor can begin to
	for name, given := range map[string]http.RoundTripper{"own": nil, "pooled": NewTransport(), "wrapped": pooled(t)} {
		t.Run(name, func(t *testing.T) {
			o := call(t, keyedAt(url), Options{Transport: given})
			want(t, o, message.EffectNotApplied, true, true)
			if !strings.HasPrefix(o.Description, "nothing sent: ") || !strings.Contains(o.Description, "refused") {
				t.Errorf("description is %q", o.Description)
			}
			want(t, call(t, keylessAt(url), Options{Transport: given}), message.EffectNotApplied, false, false)
		})
	}
}

func TestAnUnknownHostIsNotApplied(t *testing.T) { // D3
	errNoHost := &net.DNSError{Err: "no such host", Name: "crm.invalid", IsNotFound: true}
	p := pooled(t)
	p.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errNoHost}
	}
	want(t, call(t, keyedAt("http://crm.invalid/"), Options{Transport: p}), message.EffectNotApplied, true, true)
	want(t, call(t, keyedAt("http://crm.invalid/"), Options{Transport: transport(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errNoHost}
	})}), message.EffectNotApplied, true, true)
}

func TestATransportThatSaysNothingOfDiallingIsNotBelieved(t *testing.T) { // D3
	o := call(t, keyedAt("http://h/"), Options{Transport: transport(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("something broke")
	})})
	want(t, o, message.EffectUnknown, true, false)
}

func TestAResetAfterSendingIsUnknown(t *testing.T) { // D1, D3
	s := serve(t, func(int64, net.Conn, *http.Request) bool { return false })
	want(t, call(t, keyedAt(s.url), Options{}), message.EffectUnknown, true, false)
	want(t, call(t, keylessAt(s.url), Options{}), message.EffectUnknown, false, false)
	if n := s.requests.Load(); n != 2 {
		t.Errorf("%d requests for 2 calls", n)
	}
}

func TestAHalfReplyIsUnknown(t *testing.T) { // D3
	s := serve(t, func(_ int64, c net.Conn, _ *http.Request) bool {
		fmt.Fprint(c, "HTTP/1.1 20")
		return false
	})
	want(t, call(t, keyedAt(s.url), Options{}), message.EffectUnknown, true, false)
}

func TestACallGivenUpWhileItRunsIsUnknown(t *testing.T) { // D3
	arrived := make(chan struct{})
	s := serve(t, func(_ int64, c net.Conn, _ *http.Request) bool {
		close(arrived)
		_, _ = c.Read(make([]byte, 1)) // until the client hangs up
		return false
	})
	errStopping := errors.New("stopping")
	ctx, cancel := context.WithCancelCause(t.Context())
	var waiter sync.WaitGroup
	waiter.Go(func() { <-arrived; cancel(errStopping) })
	o := handlerOf(t, keyedAt(s.url), Options{}).Call(ctx, message.Call{Key: "k", Payload: []byte("{}")})
	waiter.Wait()
	want(t, o, message.EffectUnknown, true, false)
	if !strings.Contains(o.Description, "stopping") {
		t.Errorf("description is %q", o.Description)
	}
}

// The danger is real: net/http sends a request twice by itself if it carries the
// key, can be read again, and its kept-alive connection is reset.
func TestNetHTTPSendsARequestWithAKeyAgain(t *testing.T) {
	s := serve(t, func(n int64, c net.Conn, _ *http.Request) bool { return n != 2 && ok(c) })
	p := pooled(t)
	for range 2 {
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k")
		response, err := p.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	if n := s.requests.Load(); n != 3 {
		t.Errorf("%d requests for 2 calls, expected net/http to make it 3", n)
	}
}

func TestNothingIsSentTwiceWhenAReusedConnectionIsReset(t *testing.T) { // D1, D2
	for name, declared := range map[string]func(string) Request{"keyed": keyedAt, "keyless": keylessAt} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(n int64, c net.Conn, _ *http.Request) bool { return n != 2 && ok(c) })
			h := handlerOf(t, declared(s.url), Options{Transport: pooled(t)})
			c := message.Call{Key: "k", Payload: []byte("{}")}
			want(t, h.Call(t.Context(), c), message.EffectApplied, false, false)
			want(t, h.Call(t.Context(), c), message.EffectUnknown, name == "keyed", false)
			if s.connections.Load() != 1 || s.requests.Load() != 2 {
				t.Errorf("%d connections and %d requests, want 1 reused for 2", s.connections.Load(), s.requests.Load())
			}
		})
	}
}

func TestAKeylessCallHasAConnectionOfItsOwn(t *testing.T) { // D2
	var closing atomic.Int64
	s := serve(t, func(_ int64, c net.Conn, r *http.Request) bool {
		if r.Close {
			closing.Add(1)
		}
		return ok(c)
	})
	shared := NewTransport()
	t.Cleanup(shared.CloseIdleConnections)
	h := handlerOf(t, keylessAt(s.url), Options{Transport: shared})
	for range 3 {
		want(t, h.Call(t.Context(), message.Call{Payload: []byte("{}")}), message.EffectApplied, false, false)
	}
	if s.connections.Load() != 3 || closing.Load() != 3 {
		t.Errorf("%d connections, %d of them announced as closing, want 3", s.connections.Load(), closing.Load())
	}
	if shared.DisableKeepAlives {
		t.Error("the shared transport was changed")
	}
}

// A connection of HTTP/2 is shared, and a request that it refused is sent again.
func TestAKeylessCallIsMadeByHTTP1(t *testing.T) { // D2
	var major atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { major.Store(int64(r.ProtoMajor)) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	shared := NewTransport()
	shared.TLSClientConfig = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	defer shared.CloseIdleConnections()
	for _, c := range []struct {
		declared Request
		major    int64
	}{{keyedAt(server.URL), 2}, {keylessAt(server.URL), 1}, {keyedAt(server.URL), 2}} {
		want(t, call(t, c.declared, Options{Transport: shared}), message.EffectApplied, false, false)
		if got := major.Load(); got != c.major {
			t.Errorf("keyed %t: by HTTP/%d, want HTTP/%d", c.declared.Keyed, got, c.major)
		}
	}
}

// A reply of 101 hands over the connection, which then neither ends nor is closed
// with the call's context.
func TestASwitchOfProtocolsDoesNotHoldTheCall(t *testing.T) { // D4
	over := make(chan struct{})
	s := serve(t, func(_ int64, c net.Conn, _ *http.Request) bool {
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		<-over
		return false
	})
	defer close(over)
	want(t, call(t, keylessAt(s.url), Options{UserAgent: "w"}), message.EffectUnknown, false, false)
}

// What net/http says of a broken header repeats it.
func TestAReplyThatIsNoTextIsDescribedAsText(t *testing.T) {
	s := serve(t, func(_ int64, c net.Conn, _ *http.Request) bool {
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\xff\xfe"+strings.Repeat("x", 10_000)+"\r\n\r\n")
		return false
	})
	o := call(t, keyedAt(s.url), Options{UserAgent: "w"})
	want(t, o, message.EffectUnknown, true, false)
	if !utf8.ValidString(o.Description) || len(o.Description) > message.MaxDescription {
		t.Errorf("%d bytes: %.100q, want one short line of text", len(o.Description), o.Description)
	}
}
