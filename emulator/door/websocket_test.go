package door_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"oneeffect/emulator/door"
)

// connect opens a WebSocket by a road.
func (w *world) connect(road string, subprotocols ...string) *websocket.Conn {
	w.t.Helper()
	scheme := "ws"
	if road == "over TLS" {
		scheme = "wss"
	}
	c, answer, err := websocket.Dial(w.t.Context(), scheme+"://localhost/socket", &websocket.DialOptions{
		HTTPClient: w.client(road), Subprotocols: subprotocols,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if got := answer.Header.Get("Sec-WebSocket-Protocol"); len(subprotocols) > 0 && got != subprotocols[0] {
		w.t.Errorf("the subprotocol is %q, want %q", got, subprotocols[0])
	}
	w.t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// webSocket is a WebSocket as a connection, as clients make one.
func (w *world) webSocket(road string, subprotocols ...string) net.Conn {
	w.t.Helper()
	return websocket.NetConn(w.t.Context(), w.connect(road, subprotocols...), websocket.MessageBinary)
}

func TestAMQPOverWebSocketIsAStreamOfBytes(t *testing.T) {
	for _, road := range roads {
		for _, subprotocol := range []string{"amqp", "AMQPWSB10"} {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.webSocket(road, subprotocol)
				for _, text := range []string{"AMQP", "x", strings.Repeat("a long message ", 10_000), "and on"} {
					w.send(c, text)
					if got := w.read(c, len(text)); got != text {
						t.Errorf("%d bytes came back as %d others", len(text), len(got))
					}
				}
				time.Sleep(time.Hour)
				w.send(c, "later")
				if got := w.read(c, 5); got != "later" {
					t.Errorf("after an hour %q came back", got)
				}
			})
		}
	}
}

func TestEmptyMessagesAndPiecesOfMessagesMakeNoDifference(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.connect("plainly", "amqp")
		go func() {
			_ = c.Write(t.Context(), websocket.MessageBinary, nil)
			message, err := c.Writer(t.Context(), websocket.MessageBinary)
			for _, piece := range []string{"AM", "", "QP"} {
				if err == nil {
					_, err = io.WriteString(message, piece)
				}
			}
			if err == nil {
				err = message.Close()
			}
			if err != nil {
				t.Error(err)
			}
		}()
		if got := w.read(websocket.NetConn(t.Context(), c, websocket.MessageBinary), 4); got != "AMQP" {
			t.Errorf("%q came back", got)
		}
	})
}

func TestAWebSocketThatIsNotForAMQPIsToldSo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, offered := range [][]string{nil, {"mqtt"}} {
			c, _, err := websocket.Dial(t.Context(), "ws://localhost/socket", &websocket.DialOptions{
				HTTPClient: w.client("plainly"), Subprotocols: offered,
			})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = c.Read(t.Context())
			if e, ok := errors.AsType[websocket.CloseError](err); !ok || e.Code != websocket.StatusPolicyViolation || !strings.Contains(e.Reason, `"amqp"`) {
				t.Errorf("offering %q: %v", offered, err)
			}
			_ = c.CloseNow()
		}
		c := w.connect("plainly", "amqp")
		if err := c.Write(t.Context(), websocket.MessageText, []byte("AMQP")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusUnsupportedData {
			t.Errorf("text: %v", err)
		}
		answer, err := w.client("plainly").Get("http://localhost/socket")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusUpgradeRequired {
			t.Errorf("a plain request: %s", answer.Status)
		}
	})
}

// A test of the connection that the AMQP server gets: what it sees of the peer's
// end, and of its own deadlines and closing.
func TestAWebSocketEndsAsAConnectionDoes(t *testing.T) {
	type seen struct {
		err  error
		took time.Duration
	}
	for name, test := range map[string]struct {
		client func(c *websocket.Conn)
		server func(c net.Conn) error
		want   error
		took   time.Duration
	}{
		"the peer takes leave": {
			client: func(c *websocket.Conn) { _ = c.Close(websocket.StatusNormalClosure, "") },
			server: readOne, want: io.EOF,
		},
		"the peer goes away": {
			client: func(c *websocket.Conn) { _ = c.Close(websocket.StatusGoingAway, "") },
			server: readOne, want: io.EOF,
		},
		"the peer is gone": {
			client: func(c *websocket.Conn) { _ = c.CloseNow() },
			server: readOne, want: io.EOF,
		},
		"a deadline passes": {
			client: func(*websocket.Conn) {},
			server: func(c net.Conn) error {
				_ = c.SetReadDeadline(time.Now().Add(time.Minute))
				return readOne(c)
			},
			want: os.ErrDeadlineExceeded, took: time.Minute + time.Second, // and a second to take leave of one who does not answer
		},
		"the peer does not answer the goodbye": {
			client: func(*websocket.Conn) {},
			server: func(net.Conn) error { return nil },
			took:   time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				result := make(chan seen, 1)
				d, _ := served(t)
				d.HTTP = door.WebSocket(func(_ context.Context, c net.Conn) {
					begun := time.Now()
					err := test.server(c)
					if e := c.Close(); e != nil {
						t.Errorf("close: %v", e)
					}
					if _, e := c.Write([]byte("x")); e == nil {
						t.Error("written after it was closed")
					}
					result <- seen{err, time.Since(begun)}
				})
				w := start(t, d, newPipes())
				c := w.connect("plainly", "amqp")
				go test.client(c)
				got := <-result
				if !errors.Is(got.err, test.want) {
					t.Errorf("the server saw %v, want %v", got.err, test.want)
				}
				if got.took != test.took {
					t.Errorf("it took %v, want %v", got.took, test.took)
				}
			})
		})
	}
}

func readOne(c net.Conn) error {
	_, err := c.Read(make([]byte, 1))
	return err
}
