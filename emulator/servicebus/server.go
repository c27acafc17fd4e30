package servicebus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
	"oneeffect/emulator/servicebus/journal"
)

// ErrServerClosed is returned by Dial and ServeConn after Close.
var ErrServerClosed = errors.New("the Service Bus emulator is closed")

// Server is one namespace and its doors.
type Server struct {
	name      string // the namespace's, in error texts
	tier      string
	started   time.Time
	hub       *control.Hub
	namespace *broker.Namespace
	journal   *journal.Journal // nil: nothing is kept
	keys      map[string]Key
	jwt       func(token, audience string) (time.Time, error)
	pace      time.Duration
	log       *slog.Logger
	audience  *audience

	life   context.Context // ends at Close, and every connection with it
	end    context.CancelCauseFunc
	work   sync.WaitGroup // connections and operations
	mu     sync.Mutex     // guards closed against work.Add
	closed bool
}

// New makes a server with the entities of the configuration and with what its data folder has kept.
func New(h *control.Hub, c Config) (*Server, error) {
	keys := c.Keys
	if len(keys) == 0 {
		keys = map[string]Key{DefaultKeyName: {Value: DefaultKey, Rights: AllRights}}
	}
	c.Name = cmp.Or(c.Name, officialName)
	c.MessagingSKU = cmp.Or(c.MessagingSKU, Standard)
	if !slices.Contains(Tiers(), c.MessagingSKU) {
		return nil, fmt.Errorf("start Service Bus emulator: MessagingSKU must be one of %v, is %q", Tiers(), c.MessagingSKU)
	}
	namespace, kept, err := openNamespace(h, c)
	if err != nil {
		return nil, fmt.Errorf("start Service Bus emulator: %w", err)
	}
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		name: c.Name + ".servicebus.onebox.windows-int.net", hub: h, namespace: namespace, journal: kept,
		tier: c.MessagingSKU, started: h.Now(),
		keys: maps.Clone(keys), jwt: c.TokenCheck, pace: c.Pace, log: log,
	}
	s.audience = newAudience(s)
	s.life, s.end = context.WithCancelCause(context.Background())
	s.watchJournal()
	return s, nil
}

// enter counts a goroutine in, unless the server is closed. The caller calls work.Done when it ends.
func (s *Server) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrServerClosed
	}
	s.work.Add(1)
	return nil
}

// ServeConn speaks AMQP on a connection until it ends, and closes it. It returns nil if the client closed it cleanly.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn) error {
	if err := s.enter(); err != nil {
		return errors.Join(err, nc.Close())
	}
	defer s.work.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })()
	return s.serve(ctx, nc)
}

// Dial returns the client's end of an in-memory connection. The server's end belongs to the server: it ends when the
// client closes its own, at the latest at Close. The context bounds nothing but the dialling itself.
func (s *Server) Dial(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("dial Service Bus emulator: %w", err)
	}
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("dial Service Bus emulator: %w", err)
	}
	client, server := net.Pipe()
	go func() {
		defer s.work.Done()
		if err := s.serve(s.life, server); err != nil {
			s.log.Debug("connection ended", slog.Any("err", err))
		}
	}()
	return client, nil
}

// Close ends every connection and waits for everything the server has started. Operations that a rule holds are
// dropped with their connections; one held by a late rule is waited for until the rule lets go or the hub is closed.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(ErrServerClosed)
	s.work.Wait()
	s.namespace.Close()
	if s.journal == nil {
		return nil
	}
	return s.journal.Close()
}
