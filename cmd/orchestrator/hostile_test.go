package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/cmd/internal/access"
	"oneeffect/cmd/internal/process"
	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
	"oneeffect/internal/orchestrator"
)

// pipes is a listener whose connections are pipes: they live in a bubble, so that a
// client can be slow without anybody waiting.
type pipes struct {
	dialled chan net.Conn
	closed  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialled:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.dialled <- server
	return client
}

// served is the API behind its guard and the server that the process has, timeouts and
// all, on a store that is real.
func served(t *testing.T, test func(t *testing.T, p *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		store := emulator.New(hub, emulator.Options{})
		db, err := cosmos.Open(cosmos.Options{Endpoint: "http://cosmos.example", Key: emulator.EmulatorKey, ApplicationID: "o", Transport: store.Transport()})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.DiscardHandler)
		o := &orchestrator.Orchestrator{
			Store: db.Executions(), Views: db.Executions(), Send: func(context.Context, message.Message) error { return nil },
			Claims:      &claim.Desk{Store: db.Claims(), Process: "o/1", Timeout: time.Second},
			SendTimeout: time.Second, MaxMessage: 240 << 10, Log: log,
		}
		p := &pipes{dialled: make(chan net.Conn), closed: make(chan struct{})}
		guard, err := access.New(access.Options{Address: p.Addr(), Log: log, Transport: http.DefaultTransport})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- process.Serve(ctx, p, guard.Handler(o.API()), 10*time.Second) }()
		test(t, p)
		stop()
		began := time.Now()
		err = <-ended
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it stopped %v after it was told, want the grace of 10s at most (%v)", took, err)
		}
		hub.Close()
		db.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// post is a request to create an execution, up to its body.
func post(length int, header ...string) string {
	return fmt.Sprintf("POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n", length, strings.Join(header, ""))
}

// A client that is slow has its connection for a bounded time, wherever it stops.
func TestASlowClientIsLetGo(t *testing.T) {
	const body = `{"type":"t"}`
	for name, test := range map[string]struct {
		says  string
		drips string // a byte a second after that
		after time.Duration
		gets  string // the beginning of the answer
	}{
		"nothing is sent":            {"", "", 5 * time.Second, ""},
		"the header stops":           {"GET /v1/executions HTTP/1.1\r\nHost: local", "", 5 * time.Second, ""},
		"the header drips":           {"GET /v1/executions HTTP/1.1\r\n", "X-Slow: " + strings.Repeat("z", 100), 5 * time.Second, "HTTP/1.1 400 "},
		"the body stops":             {post(len(body)) + body[:5], "", 30 * time.Second, "HTTP/1.1 408 "},
		"the body drips":             {post(100), strings.Repeat(" ", 100), 30 * time.Second, "HTTP/1.1 408 "},
		"it is idle after an answer": {"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", "", 2 * time.Minute, "HTTP/1.1 204 "},
	} {
		t.Run(name, func(t *testing.T) {
			served(t, func(t *testing.T, p *pipes) {
				began := time.Now()
				c := p.dial()
				var sending sync.WaitGroup
				defer sending.Wait()
				defer c.Close() // which ends what is sent
				sending.Go(func() {
					if _, err := io.WriteString(c, test.says); err != nil {
						return
					}
					for _, b := range []byte(test.drips) {
						time.Sleep(time.Second)
						if _, err := c.Write([]byte{b}); err != nil {
							return
						}
					}
				})
				answer, _ := io.ReadAll(c) // until it is closed from the other side
				if took := time.Since(began); took < test.after || took > test.after+time.Second {
					t.Errorf("let go after %v, want %v", took, test.after)
				}
				if !strings.HasPrefix(string(answer), test.gets) || test.gets == "" && len(answer) > 0 {
					t.Errorf("answered %q, want %q", answer, test.gets)
				}
			})
		})
	}
}

// A client that does not read its answer keeps nobody for longer than a minute.
func TestAClientThatDoesNotReadIsLetGo(t *testing.T) {
	served(t, func(t *testing.T, p *pipes) {
		c := p.dial()
		defer c.Close()
		began := time.Now()
		if _, err := io.WriteString(c, "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		text, err := io.ReadAll(c) // nothing more comes
		if err != nil || len(text) > 8<<10 {
			t.Errorf("%d bytes came after %v, %v: want the answer cut off", len(text), time.Since(began), err)
		}
	})
}

// A slow client is no reason not to stop.
func TestItStopsWhileAClientIsSlow(t *testing.T) {
	served(t, func(t *testing.T, p *pipes) {
		c := p.dial()
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, post(100)+"{"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	})
}

// Whatever is sent, it is answered by one that says what is wrong, and no execution is
// made of it.
func TestBadRequestsAreAnsweredByTheServer(t *testing.T) {
	const body = `{"executionId":"bad","type":"t"}`
	huge := strings.Repeat("x", 24<<10)
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }
	as := func(method string) string {
		return method + " /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
	}
	typed := func(header string) string {
		return fmt.Sprintf("POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n\r\n%s", len(body), header, body)
	}
	for _, test := range []struct {
		what    string
		request string
		status  int
		problem string // empty: the server itself answers
	}{
		{"a huge header", "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Huge: " + huge + "\r\n\r\n", 431, ""},
		{"a huge path", get("/v1/executions/" + huge), 431, ""},
		{"many headers", "GET /livez HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X-Many: y\r\n", 3000) + "\r\n", 431, ""},
		{"no protocol", "hello\r\n\r\n", 400, ""},
		{"no host", "GET /livez HTTP/1.1\r\n\r\n", 400, ""},
		{"a header that is none", "GET /livez HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n", 400, ""},
		{"two lengths", "POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400, ""},
		{"an unknown transfer coding", "POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501, ""},
		{"a chunk that is none", "POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "invalid-request"},
		{"another host", "GET /v1/executions/82f3 HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "misdirected"},

		{"a slash in an id", get("/v1/executions/a%2Fb"), 404, "no-such-resource"},
		{"a slash that climbs", get("/v1/executions/..%2F..%2Fopenapi.json"), 404, "no-such-resource"},
		{"dots", get("/v1/executions/../../openapi.json"), 404, "no-such-resource"},
		{"escaped dots", get("/v1/%2e%2e/openapi.json"), 404, "no-such-resource"},
		{"two slashes", get("//v1//executions"), 404, "no-such-resource"},
		{"a NUL", get("/v1/executions/82f3%00"), 404, "no-such-resource"},
		{"a line break", get("/v1/executions/82f3%0d%0aX-Injected:%20y"), 404, "no-such-resource"},
		{"no UTF-8", get("/v1/executions/%ff%fe"), 404, "no-such-resource"},
		{"an escape of an escape", get("/v1/executions/%252e"), 404, "no-such-resource"},
		{"half an escape", get("/v1/executions/%zz"), 400, ""},

		{"PUT", as("PUT"), 405, "no-such-method"},
		{"DELETE", as("DELETE"), 405, "no-such-method"},
		{"PATCH", as("PATCH"), 405, "no-such-method"},
		{"TRACE", as("TRACE"), 405, "no-such-method"},
		{"OPTIONS", as("OPTIONS"), 405, "no-such-method"},
		{"one of nobody's", as("BREW"), 405, "no-such-method"},
		{"a form", typed("Content-Type: application/x-www-form-urlencoded"), 415, "not-json"},
		{"a text", typed("Content-Type: text/plain"), 415, "not-json"},
		{"another charset", typed("Content-Type: application/json; charset=utf-16"), 415, "not-json"},
		{"a type that is none", typed("Content-Type: ///"), 415, "not-json"},
		{"compressed", typed("Content-Encoding: gzip"), 415, "not-json"},
		{"an answer in XML", typed("Accept: application/xml"), 406, "not-acceptable"},
		{"of another origin", typed("Origin: http://evil.example"), 403, "cross-origin"},
	} {
		t.Run(test.what, func(t *testing.T) {
			served(t, func(t *testing.T, p *pipes) {
				answer, text := exchange(t, p, test.request)
				if answer.StatusCode != test.status || test.problem != "" && !strings.Contains(text, `"urn:oneeffect:problem:`+test.problem+`"`) {
					t.Errorf("%d %s, want %d %s", answer.StatusCode, text, test.status, test.problem)
				}
				if test.status == http.StatusMethodNotAllowed && answer.Header.Get("Allow") != "GET, HEAD, POST" {
					t.Errorf("allowed is %q", answer.Header.Get("Allow"))
				}
				if answer.Header.Get("X-Injected") != "" || strings.Contains(text, "\r\nX-Injected") {
					t.Errorf("a header was injected: %v", answer.Header)
				}
				if made, _ := exchange(t, p, get("/v1/executions/bad")); made.StatusCode != http.StatusNotFound {
					t.Errorf("an execution was made: %d", made.StatusCode)
				}
			})
		})
	}
}

// What is written otherwise and means the same is taken: an escape of a letter, and a
// body in chunks.
func TestWhatIsOnlyWrittenOtherwiseIsTaken(t *testing.T) {
	served(t, func(t *testing.T, p *pipes) {
		const body = `{"executionId":"82f3","type":"t"}`
		chunked := fmt.Sprintf("POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		if answer, text := exchange(t, p, chunked); answer.StatusCode != http.StatusCreated {
			t.Errorf("%d %s", answer.StatusCode, text)
		}
		if answer, text := exchange(t, p, "GET /v1/executions/%38%32f3 HTTP/1.1\r\nHost: LOCALHOST:8080\r\n\r\n"); answer.StatusCode != http.StatusOK || !strings.Contains(text, `"82f3"`) {
			t.Errorf("%d %s", answer.StatusCode, text)
		}
	})
}

// exchange sends a request on a connection of its own and reads the answer to its end.
func exchange(t *testing.T, p *pipes, request string) (*http.Response, string) {
	t.Helper()
	c := p.dial()
	var sending sync.WaitGroup
	defer sending.Wait()
	defer c.Close()                                          // which ends what is sent
	sending.Go(func() { _, _ = io.WriteString(c, request) }) // the answer may come before its end
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}
