package amqp

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

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
	s := &served{conn: &pipeEnd{Conn: near}, cut: cancel}
	s.wg.Go(func() { s.err = Serve(ctx, far, h, o) })
	return s
}

// pipeEnd answers a read after its own close as a network connection does, which
// the client takes for a clean end. A pipe says that it is closed, or that the other end is, as it happens.
type pipeEnd struct {
	net.Conn
	closed atomic.Bool
}

func (p *pipeEnd) Close() error {
	p.closed.Store(true)
	return p.Conn.Close()
}

func (p *pipeEnd) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if err != nil && p.closed.Load() {
		err = net.ErrClosed
	}
	return n, err
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

func newSender(t *testing.T, s *client.Session, address string, o *client.SenderOptions) *client.Sender {
	t.Helper()
	sender, err := s.NewSender(t.Context(), address, o)
	if err != nil {
		t.Fatalf("attach a sender: %v", err)
	}
	return sender
}

func newReceiver(t *testing.T, s *client.Session, address string, o *client.ReceiverOptions) *client.Receiver {
	t.Helper()
	receiver, err := s.NewReceiver(t.Context(), address, o)
	if err != nil {
		t.Fatalf("attach a receiver: %v", err)
	}
	return receiver
}

// hangUp closes the client's connection and expects a clean end at both sides.
func hangUp(t *testing.T, s *served, conn *client.Conn) {
	t.Helper()
	if err := conn.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := s.wait(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// data encodes a message of one data section, behind a header as a broker would put one.
func data(body []byte) [][]byte {
	return [][]byte{AppendHeader(nil, Header{DeliveryCount: Some[uint32](0)}), AppendData(nil, body)}
}

// bodyOf is asked by handlers, whose goroutine is not the test's and must not end it.
func bodyOf(t *testing.T, d *Delivery) []byte {
	t.Helper()
	m, err := SplitMessage(d.Message)
	if err != nil {
		t.Errorf("split a message: %v", err)
		return nil
	}
	sections, err := m.DataSections()
	if err != nil || len(sections) != 1 {
		t.Errorf("%d data sections, %v", len(sections), err)
		return nil
	}
	return sections[0]
}
