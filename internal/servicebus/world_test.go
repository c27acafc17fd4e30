package servicebus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
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
	server *emulator.Server
	client *Client
	log    *syncBuffer

	mu    sync.Mutex
	conns []net.Conn // the client's ends of all connections of client, in their order
}

// inBubble runs a test in virtual time. The bubble fails it if anything that it
// started still runs in the end.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		server, err := emulator.New(hub, emulator.Config{Namespace: broker.Config{
			Queues: []broker.QueueConfig{{
				Name: "tasks", LockDuration: lock, MaxDelivery: 10, TimeToLive: 24 * time.Hour, DeadLetterExpired: true,
				DetectDuplicates: true, DuplicateWindow: 5 * time.Minute,
			}},
			Topics: []broker.TopicConfig{{
				Name:          "task-events",
				Subscriptions: []broker.SubscriptionConfig{{Name: "orchestrator", LockDuration: lock, MaxDelivery: 10}},
			}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, hub: hub, server: server, log: &syncBuffer{}}
		w.client = w.dial("worker-1")
		defer func() {
			hub.Close() // before the clients close: an answer that a rule keeps would be waited for
			_ = w.client.Close(context.Background())
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Log(w.log.String())
			}
		}()
		test(t, w)
	})
}

func (w *world) dial(name string) *Client {
	w.t.Helper()
	c, err := Dial(Options{
		ConnectionString: connectionString,
		ApplicationID:    name,
		Log:              slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		NewConn: func(ctx context.Context) (net.Conn, error) {
			c, err := w.server.Dial(ctx)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.conns = append(w.conns, c)
			return c, err
		},
	})
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
	for line := range strings.Lines(w.log.String()) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return
		}
	}
	w.t.Errorf("no line of the log has all of %q", parts)
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
