package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/internal/diagram"
	"oneeffect/internal/execution"
	"oneeffect/internal/page"

	"github.com/go-json-experiment/json"
)

// pipes is a network inside a bubble: what is dialled is accepted.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}

	mu   sync.Mutex
	ends []net.Conn
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.accepted <- server:
	case <-p.closed:
		return nil, net.ErrClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = append(p.ends, client)
	return client, nil
}

// cut ends every connection.
func (p *pipes) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.ends {
		_ = c.Close() // there is nothing in it any more
	}
	p.ends = nil
}

// stage is the page, with its stream, before an execution that changes as a test says,
// and a watch of it; all in one bubble.
type stage struct {
	t       *testing.T
	page    *page.Page
	network *pipes
	before  func(w http.ResponseWriter, r *http.Request) (done bool) // nil: nothing stands before the page

	mu      sync.Mutex
	stands  diagram.Timeline
	looks   []time.Time // at which the timeline was read
	streams []string    // the Last-Event-ID of each that was asked for

	interrupt context.CancelFunc
	ended     chan error
	out       bytes.Buffer
	close     func()
}

// watchOne sets the stage and begins a watch of 82f3, which runs.
func watchOne(t *testing.T, subscribers int, before func(w http.ResponseWriter, r *http.Request) bool) *stage {
	t.Helper()
	s := &stage{t: t, before: before, network: &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}, ended: make(chan error, 1)}
	s.becomes(execution.Running, "created")
	var err error
	if s.page, err = page.New(page.Options{API: http.HandlerFunc(s.timeline), MaxSubscribers: subscribers, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = s.page.Live.Run(ctx) }) // it has no error
	server := &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: time.Minute}
	running.Go(func() { _ = server.Serve(s.network) }) // it is closed below
	a := &app{stdout: &s.out, stderr: io.Discard, orchestrator: "http://127.0.0.1:8080", client: &http.Client{Transport: &http.Transport{DialContext: s.network.dial}}}
	var watching context.Context
	watching, s.interrupt = context.WithCancel(t.Context())
	running.Go(func() { s.ended <- a.follow(watching, []string{"82f3"}, time.Hour) })
	s.close = func() {
		s.interrupt()
		stop()
		a.client.CloseIdleConnections()
		_ = server.Close() // its listener is a pipe's
		running.Wait()
	}
	return s
}

func (s *stage) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/live" {
		s.mu.Lock()
		s.streams = append(s.streams, r.Header.Get("Last-Event-ID"))
		s.mu.Unlock()
	}
	if s.before == nil || !s.before(w, r) {
		s.page.Handler().ServeHTTP(w, r)
	}
}

func (s *stage) timeline(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks = append(s.looks, time.Now())
	w.Header().Set("Content-Type", "application/json")
	_ = json.MarshalWrite(w, s.stands) // to a test's own client
}

// becomes changes the execution; nobody is told.
func (s *stage) becomes(status execution.Status, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := diagram.Moment{At: time.Now(), Source: diagram.FromExecution, What: what, From: s.stands.Status, To: status, Run: 1}
	s.stands = diagram.Timeline{ExecutionID: "82f3", Status: status, Run: 1, Entries: append(slices.Clone(s.stands.Entries), entry)}
}

func (s *stage) tells(id string) {
	s.page.Live.Publish([]execution.Summary{{ExecutionID: id, Status: execution.Completed}})
}

func (s *stage) seen() (looks int, streams []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.looks), slices.Clone(s.streams)
}

// wantEnd waits for the end of the watch, and holds how long that takes to a bound.
func (s *stage) wantEnd(within time.Duration) error {
	s.t.Helper()
	began := time.Now()
	err := <-s.ended
	if took := time.Since(began); took > within {
		s.t.Errorf("it ended after %v, want at most %v", took, within)
	}
	return err
}

// What happens to an execution is told: a watch neither asks for it every second, nor
// learns of it a second late.
func TestAWatchIsToldOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watchOne(t, 1, nil)
		defer s.close()
		time.Sleep(7 * time.Second)
		if looks, streams := s.seen(); looks != 3 || len(streams) != 1 { // at the beginning, when the stream began, and for the claim
			t.Errorf("%d looks in 7 seconds, %q", looks, streams)
		}
		s.tells("another")
		time.Sleep(time.Second)
		if looks, _ := s.seen(); looks != 3 {
			t.Errorf("%d looks; of another execution it need not look", looks)
		}
		s.becomes(execution.Completed, "completed")
		s.tells("82f3")
		if err := s.wantEnd(300 * time.Millisecond); err != nil || strings.Count(s.out.String(), "completed") != 1 {
			t.Errorf("%v\n%s", err, s.out.String())
		}
	})
}

// A stream that breaks is opened again where it has ended, and what happened meanwhile
// is looked for.
func TestAWatchWhoseStreamBreaksMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watchOne(t, 1, nil)
		defer s.close()
		time.Sleep(2100 * time.Millisecond)
		s.tells("another")
		time.Sleep(time.Second)
		s.network.cut()
		time.Sleep(100 * time.Millisecond)
		s.becomes(execution.Running, "part a")
		s.tells("82f3")
		time.Sleep(2 * time.Second)
		_, streams := s.seen()
		if len(streams) != 2 || streams[0] != "" || streams[1] == "" {
			t.Errorf("streams after %q", streams)
		}
		if !strings.Contains(s.out.String(), "part a") {
			t.Errorf("it has missed something:\n%s", s.out.String())
		}
		s.becomes(execution.Completed, "completed")
		s.tells("82f3")
		if err := s.wantEnd(300 * time.Millisecond); err != nil {
			t.Error(err)
		}
	})
}

// Each stream ends after ten minutes, which no watch notices; one that has gone silent
// is given up after three heartbeats.
func TestAWatchOutlivesItsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watchOne(t, 1, nil)
		defer s.close()
		time.Sleep(25 * time.Minute)
		if _, streams := s.seen(); len(streams) != 3 {
			t.Errorf("%d streams in 25 minutes", len(streams))
		}
		s.becomes(execution.Failed, "failed")
		s.tells("82f3")
		if err := s.wantEnd(300 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "82f3 is FAILED") {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := watchOne(t, 1, func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/live" {
				return false
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush() // a proxy that keeps back all but the header
			<-r.Context().Done()
			return true
		})
		defer s.close()
		time.Sleep(100 * time.Second)
		if _, streams := s.seen(); len(streams) != 3 {
			t.Errorf("%d streams in 100 seconds", len(streams))
		}
		s.becomes(execution.Completed, "completed")
		if err := s.wantEnd(watchClaims); err != nil {
			t.Error(err)
		}
	})
}

// Without a stream a watch looks every second, and an interrupted one says how to go on.
func TestAWatchThatIsToldNothingLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watchOne(t, 0, nil) // nobody is told of changes
		defer s.close()
		time.Sleep(10500 * time.Millisecond)
		if looks, streams := s.seen(); looks != 11 || len(streams) < 3 || len(streams) > 5 {
			t.Errorf("%d looks and %d streams in 10 seconds", looks, len(streams))
		}
		s.interrupt()
		err := s.wantEnd(0)
		p, ok := errors.AsType[*problem](err)
		if !ok || p.code != exitFailed || !strings.Contains(p.Error(), "interrupted; not ended yet: 82f3") || !strings.Contains(p.next, "taskctl watch 82f3 goes on") {
			t.Errorf("%+v", err)
		}
	})
}

// The orchestrator itself, behind a proxy that breaks the stream once.
func (p *programs) watchOverAProxy(t *testing.T) {
	target, err := url.Parse(p.env.Get("ONEEFFECT_TASKCTL_ORCHESTRATOR_URL"))
	if err != nil {
		t.Fatal(err)
	}
	first, second := make(chan struct{}), make(chan string, 1)
	var mu sync.Mutex
	asked := 0
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	proxy.ModifyResponse = func(w *http.Response) error {
		if w.Request.URL.Path != "/live" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		switch asked++; asked {
		case 1:
			w.Body = &untilEvent{ReadCloser: w.Body, come: first}
		case 2:
			second <- w.Request.Header.Get("Last-Event-ID")
		}
		return nil
	}
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // it is cut on purpose
	server := httptest.NewServer(proxy)
	defer server.Close()
	p.rule(t, "slow", `{"entity":"/customers"}`, `"do":"hold"`)
	if got := taskctl(t, p.env, "submit", "customer.create", "--execution-id=told"); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	p.control(t, "GET", "rules/slow?for=reached&wait=30s", "")
	watched := make(chan outcome, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { watched <- taskctl(t, p.env, "watch", "told", "--orchestrator-url="+server.URL) })
	select {
	case <-first:
	case got := <-watched:
		t.Fatalf("%+v", got)
	}
	server.CloseClientConnections()
	if last := <-second; last == "" {
		t.Error("the stream is opened again without the number of the last event")
	}
	p.control(t, "POST", "rules/slow/release", `{"action":"go"}`)
	p.control(t, "DELETE", "rules/slow", "")
	if got := <-watched; got.code != exitOK || strings.Count(got.out, "COMPLETED") != 1 || !strings.Contains(got.out, "fence 1: in progress") {
		t.Errorf("%+v", got)
	}
}

// untilEvent is a stream that says when its first event has been handed on: when more is
// asked for after it, since what was read before that has been written by then.
type untilEvent struct {
	io.ReadCloser
	come chan struct{}
	read []byte
	once sync.Once
}

func (u *untilEvent) Read(into []byte) (int, error) {
	if _, event, begun := bytes.Cut(u.read, []byte("event: ")); begun && bytes.Contains(event, []byte("\n\n")) {
		u.once.Do(func() { close(u.come) })
	}
	n, err := u.ReadCloser.Read(into)
	u.read = append(u.read, into[:n]...)
	return n, err
}
