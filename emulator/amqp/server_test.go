package amqp

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	client "github.com/Azure/go-amqp"
)

// testHandler is a Handler of functions; those that are nil do the obvious.
type testHandler struct {
	open        func(*Conn) *Error
	attach      func(*Link)
	credit      func(*Link)
	transfer    func(*Delivery)
	disposition func(*Delivery, State, bool)
	detached    func(*Link, *Error)
	closed      func(*Conn, error)
}

func (h *testHandler) Open(c *Conn) *Error {
	if h.open != nil {
		return h.open(c)
	}
	return nil
}

func (h *testHandler) Attach(l *Link) {
	if h.attach != nil {
		h.attach(l)
		return
	}
	_ = l.Accept(Acceptance{MaxMessageSize: 2 << 20, Credit: 100})
}

func (h *testHandler) Credit(l *Link) {
	if h.credit != nil {
		h.credit(l)
	}
}

func (h *testHandler) Transfer(d *Delivery) {
	if h.transfer != nil {
		h.transfer(d)
		return
	}
	_ = d.Settle(Accepted{})
}

func (h *testHandler) Disposition(d *Delivery, state State, settled bool) {
	if h.disposition != nil {
		h.disposition(d, state, settled)
		return
	}
	if !settled {
		_ = d.Settle(state)
	}
}

func (h *testHandler) Detached(l *Link, err *Error) {
	if h.detached != nil {
		h.detached(l, err)
	}
}

func (h *testHandler) Closed(c *Conn, err error) {
	if h.closed != nil {
		h.closed(c, err)
	}
}

// served is a server at the other end of a pipe.
type served struct {
	conn net.Conn // the peer's end
	cut  context.CancelFunc
	err  error // of Serve, after wait
	wg   sync.WaitGroup
}

func serveOn(t *testing.T, h Handler, o Options) *served {
	t.Helper()
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	s := &served{conn: near, cut: cancel}
	s.wg.Go(func() { s.err = Serve(ctx, far, h, o) })
	return s
}

// wait waits for Serve to return.
func (s *served) wait() error {
	s.wg.Wait()
	s.cut()
	return s.err
}

// dial opens a connection of the real client.
func dial(t *testing.T, s *served, o *client.ConnOptions) *client.Conn {
	t.Helper()
	if o == nil {
		o = &client.ConnOptions{}
	}
	o.SASLType = client.SASLTypeAnonymous()
	conn, err := client.NewConn(t.Context(), s.conn, o)
	if err != nil {
		t.Fatalf("open a connection: %v", err)
	}
	return conn
}

func newSession(t *testing.T, c *client.Conn) *client.Session {
	t.Helper()
	s, err := c.NewSession(t.Context(), nil)
	if err != nil {
		t.Fatalf("begin a session: %v", err)
	}
	return s
}

func TestTheRealClientSendsAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got [][]byte
		h := &testHandler{transfer: func(d *Delivery) {
			got = append(got, d.Message)
			if err := d.Settle(Accepted{}); err != nil {
				t.Errorf("settle: %v", err)
			}
		}}
		s := serveOn(t, h, Options{})
		conn := dial(t, s, nil)
		sender, err := newSession(t, conn).NewSender(t.Context(), "tasks", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := sender.Send(t.Context(), client.NewMessage([]byte("hello")), nil); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.wait(); err != nil {
			t.Fatalf("Serve: %v", err)
		}
		if len(got) != 1 {
			t.Fatalf("%d messages, want 1", len(got))
		}
		m, err := SplitMessage(got[0])
		if err != nil {
			t.Fatal(err)
		}
		data, err := m.DataSections()
		if err != nil || len(data) != 1 || string(data[0]) != "hello" {
			t.Fatalf("data %q, %v", data, err)
		}
	})
}
