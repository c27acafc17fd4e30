package servicebus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/servicebus"
	"oneeffect/emulator/servicebus/broker"
	"oneeffect/internal/message"
)

const (
	lock             = 5 * time.Minute
	connectionString = "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"
)

// world is the emulator and clients of it, all in one bubble.
type world struct {
	t      *testing.T
	hub    *control.Hub
	folder string // of the server; empty: it keeps nothing
	plain  bool   // the subscription of reservations requires no sessions
	server *emulator.Server
	client *Client
	log    *syncBuffer

	mu    sync.Mutex
	away  bool       // nobody answers at the server's address
	conns []net.Conn // the client's ends of all connections of client, in their order
}

// inBubble runs a test in virtual time. The bubble fails it if anything that it
// started still runs in the end.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	inBubbleOn(t, "", test)
}

// inBubbleOn is inBubble on a server that keeps its messages in a folder.
func inBubbleOn(t *testing.T, folder string, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, hub: control.New(), folder: folder, log: &syncBuffer{}}
		w.serve()
		w.client = w.dial("worker-1")
		defer func() {
			w.hub.Close() // before the clients close: an answer that a rule keeps would be waited for
			_ = w.client.Close(context.Background())
			if err := w.server.Close(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Log(w.log.String())
			}
		}()
		test(t, w)
	})
}

// serve starts a server.
func (w *world) serve() {
	w.t.Helper()
	server, err := emulator.New(w.hub, emulator.Config{
		Data:       w.folder,
		TokenCheck: func(string, string) (time.Time, error) { return w.hub.Now().Add(time.Hour), nil },
		Namespace: broker.Config{
			Queues: []broker.QueueConfig{{
				Name: "tasks", LockDuration: lock, MaxDelivery: 10, TimeToLive: 24 * time.Hour, DeadLetterExpired: true,
				DetectDuplicates: true, DuplicateWindow: 5 * time.Minute,
			}},
			Topics: []broker.TopicConfig{{
				Name:          "task-events",
				Subscriptions: []broker.SubscriptionConfig{{Name: "orchestrator", LockDuration: lock, MaxDelivery: 10}},
			}, {
				Name:          "reservations",
				Subscriptions: []broker.SubscriptionConfig{{Name: "inventory", LockDuration: lock, MaxDelivery: 10, RequiresSession: !w.plain}},
			}},
		}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server, w.away = server, false
}

// unreachable has nobody answer any more, and cuts what stands.
func (w *world) unreachable() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = true
	w.cutAllLocked()
}

// reachable has the same server answer again.
func (w *world) reachable() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = false
}

func (w *world) connect(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	server, away := w.server, w.away
	w.mu.Unlock()
	if away {
		return nil, errors.New("connection refused")
	}
	c, err := server.Dial(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, c)
	return c, nil
}

func (w *world) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (w *world) dial(name string) *Client {
	w.t.Helper()
	return w.dialAs(Options{ConnectionString: connectionString, ApplicationID: name})
}

func (w *world) dialAs(o Options) *Client {
	w.t.Helper()
	o.Log, o.NewConn = w.logger(), w.connect
	c, err := Dial(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// cut breaks the newest connection as a cable does.
func (w *world) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[len(w.conns)-1].Close()
}

// cutAll breaks every connection.
func (w *world) cutAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutAllLocked()
}

func (w *world) cutAllLocked() {
	for _, c := range w.conns {
		c.Close()
	}
}

func (w *world) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns)
}

func (w *world) receiver() Receiver {
	return Receiver{Client: w.client, Queue: "tasks", Slots: 1, LockDuration: lock, Grace: 10 * time.Second}
}

func (w *world) subscriber() Receiver {
	return Receiver{Client: w.client, Topic: "task-events", Subscription: "orchestrator", Slots: 1, LockDuration: lock, Grace: 10 * time.Second}
}

// run runs a receiver; stop ends it and returns when Run has.
func (w *world) run(r Receiver, handle Handle) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx, handle); err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func (w *world) send(entity string, ids ...string) {
	w.t.Helper()
	s, err := w.client.Sender(entity)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, id := range ids {
		if err := s.Send(w.t.Context(), task(id)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func task(id string) message.Message {
	return message.Message{ID: id, CorrelationID: id, Subject: message.TypeTask, Body: []byte(`{"task":"` + id + `"}`)}
}

// await waits for an event of a kind about a message, after the sequence number.
func (w *world) await(kind, key string, after uint64) control.Event {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 24*time.Hour)
	defer cancel()
	e, err := w.hub.WaitEvent(ctx, after, func(e control.Event) bool {
		return e.Kind == kind && (key == "" || e.Key == key)
	})
	if err != nil {
		w.t.Fatalf("waiting for %s of %s: %v", kind, key, err)
	}
	return e
}

func (w *world) settled(key string) control.Event {
	w.t.Helper()
	return w.await("settled", key, 0)
}

func (w *world) count(kind string, match func(control.Event) bool) int {
	n := 0
	for _, e := range w.hub.Events(0) {
		if e.Kind == kind && (match == nil || match(e)) {
			n++
		}
	}
	return n
}

func (w *world) arm(r control.Rule) string {
	w.t.Helper()
	r.Match.Service = "servicebus"
	name, err := w.hub.Arm(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return name
}

func (w *world) reached(rule string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 24*time.Hour)
	defer cancel()
	if _, err := w.hub.WaitReached(ctx, rule); err != nil {
		w.t.Fatalf("waiting for rule %s: %v", rule, err)
	}
}

// logged checks that a line of the log has all of these.
func (w *world) logged(parts ...string) {
	w.t.Helper()
	if w.lines(parts...) == 0 {
		w.t.Errorf("no line of the log has all of %q", parts)
	}
}

// loggedTimes checks how many lines of the log have all of these.
func (w *world) loggedTimes(want int, parts ...string) {
	w.t.Helper()
	if got := w.lines(parts...); got != want {
		w.t.Errorf("%d lines of the log have all of %q, want %d", got, parts, want)
	}
}

func (w *world) lines(parts ...string) int {
	n := 0
	for line := range strings.Lines(w.log.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			n++
		}
	}
	return n
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
