package door

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// subprotocols are the names that clients give to AMQP over WebSocket: that of the
// OASIS binding, and the one before it, which Azure's JavaScript library still uses.
var subprotocols = []string{"amqp", "AMQPWSB10"}

// WebSocket answers requests for AMQP over WebSocket. Each connection is given to
// amqp, which closes it, as the stream of bytes that its binary messages carry;
// where a message begins has no meaning.
func WebSocket(amqp func(context.Context, net.Conn)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		taken := &takeover{ResponseWriter: w}
		ws, err := websocket.Accept(taken, r, &websocket.AcceptOptions{Subprotocols: subprotocols})
		if err != nil {
			return // the client has been told why
		}
		if ws.Subprotocol() == "" {
			c := newStream(ws, taken.conn)
			c.leave(websocket.StatusPolicyViolation, `offer the subprotocol "amqp": nothing else is spoken here`)
			return
		}
		ws.SetReadLimit(-1) // messages are read as they come; AMQP bounds its frames
		amqp(r.Context(), newStream(ws, taken.conn))
	})
}

// takeover remembers the connection that is taken over.
type takeover struct {
	http.ResponseWriter
	conn net.Conn
}

func (t *takeover) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buffered, err := http.NewResponseController(t.ResponseWriter).Hijack()
	t.conn = c
	return c, buffered, err
}

// stream is a WebSocket as a connection. Deadlines are those of the connection
// below, so one that passes in the middle of a message breaks the stream for good.
type stream struct {
	net.Conn // what was taken over
	ws       *websocket.Conn
	message  io.Reader // the one that is being read
}

func newStream(ws *websocket.Conn, c net.Conn) *stream { return &stream{Conn: c, ws: ws} }

func (s *stream) Read(p []byte) (int, error) {
	for {
		if s.message == nil {
			kind, message, err := s.ws.Reader(context.Background())
			switch {
			case websocket.CloseStatus(err) == websocket.StatusNormalClosure, websocket.CloseStatus(err) == websocket.StatusGoingAway:
				return 0, io.EOF
			case err != nil:
				return 0, err
			case kind != websocket.MessageBinary:
				s.leave(websocket.StatusUnsupportedData, "AMQP travels in binary messages")
				return 0, errors.New("the peer sent text where binary messages belong")
			}
			s.message = message
		}
		n, err := s.message.Read(p)
		if errors.Is(err, io.EOF) {
			s.message, err = nil, nil
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

func (s *stream) Write(p []byte) (int, error) {
	if err := s.ws.Write(context.Background(), websocket.MessageBinary, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close takes leave as WebSockets do. That the peer may have gone before is no error.
func (s *stream) Close() error {
	s.leave(websocket.StatusNormalClosure, "")
	return nil
}

// leave says goodbye and waits a moment for the answer.
func (s *stream) leave(code websocket.StatusCode, reason string) {
	_ = s.SetDeadline(time.Now().Add(farewellTime)) // the peer may be gone, or not care
	_ = s.ws.Close(code, reason)                    // closes the connection in any case
}

// NetConn returns the socket, for those who want to cut the connection without a word.
func (s *stream) NetConn() net.Conn {
	if c, ok := s.Conn.(interface{ NetConn() net.Conn }); ok {
		return c.NetConn()
	}
	return s.Conn
}
