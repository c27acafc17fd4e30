package door_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/door"
)

// onSockets serves on a real socket until the test ends or shut is called.
func onSockets(t *testing.T, d door.Door) *world {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Serve(ctx, l, func(err error) { t.Errorf("the listener broke: %v", err) })
	}()
	shut := func() {
		cancel()
		<-ended
		if err := l.(*net.TCPListener).SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the listener is still open: %v", err)
		}
	}
	t.Cleanup(shut)
	return &world{t: t, shut: shut, dial: func() net.Conn {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}}
}

// The same once more over real sockets, where closing, deadlines and TLS are the
// operating system's.
func TestOverRealSockets(t *testing.T) {
	d, trust := served(t)
	d.Patience = time.Minute // however busy the machine is
	w := onSockets(t, d)
	w.trust = trust
	for _, road := range roads {
		c, _ := w.come(road)
		if _, err := io.WriteString(c, "AMQP"); err != nil || w.read(c, 4) != "AMQP" {
			t.Errorf("%s: AMQP: %v", road, err)
		}
		long := "garbage" + strings.Repeat("!", 32<<10) // more than is looked at: the refusal arrives nevertheless
		odd, _ := w.come(road)
		if _, err := io.WriteString(odd, long); err != nil {
			t.Errorf("%s: %v", road, err)
		}
		if closer, ok := odd.(interface{ CloseWrite() error }); !ok || closer.CloseWrite() != nil {
			t.Errorf("%s: cannot half-close", road)
		}
		if got := w.wantCut(odd); !strings.Contains(got, "67 61 72 62 61 67 65 21") {
			t.Errorf("%s: garbage was told %q", road, got)
		}
		socket := w.webSocket(road, "amqp")
		if _, err := io.WriteString(socket, "AMQP"); err != nil || w.read(socket, 4) != "AMQP" {
			t.Errorf("%s: WebSocket: %v", road, err)
		}
		w.come(road) // and says nothing until the door is shut
	}
	stranger := tls.Client(w.dial(), &tls.Config{ServerName: "localhost", RootCAs: x509.NewCertPool()})
	err := stranger.HandshakeContext(t.Context())
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
		t.Errorf("one who does not know the authority shakes hands with it: %v", err)
	}
	_ = stranger.Close()
	w.shut()
}

func TestAPlainSocketIsReadAndWrittenWithoutWaiting(t *testing.T) { // D2
	for _, road := range roads {
		t.Run(road, func(t *testing.T) {
			d, trust := served(t)
			d.AMQP = func(_ context.Context, c net.Conn) {
				defer c.Close()
				hasty := c.(interface {
					TryRead(p []byte) int
					TryWrite(p []byte) (int, error)
				})
				p := make([]byte, 16)
				if n := hasty.TryRead(p); string(p[:n]) != "AMQP" {
					t.Errorf("at first it read %q", p[:n])
				}
				if n := hasty.TryRead(p); n > 0 {
					t.Errorf("it read %q, where nothing had come", p[:n])
				}
				const said = "go on"
				n, err := hasty.TryWrite([]byte(said))
				if want := map[bool]int{true: len(said), false: 0}[road == "plainly"]; n != want || err != nil {
					t.Errorf("it wrote %d bytes (%v), want %d", n, err, want)
				}
				_, _ = io.WriteString(c, said[n:])
				if n, err := c.Read(p[:1]); string(p[:n]) != "o" || err != nil {
					t.Errorf("it waited for %q (%v)", p[:n], err)
				}
				if n := hasty.TryRead(p); road == "plainly" && string(p[:n]) != "n" || road != "plainly" && n > 0 {
					t.Errorf("then it read %q", p[:n])
				}
				_, _ = io.Copy(io.Discard, c)
				if n := hasty.TryRead(p); n > 0 {
					t.Errorf("after the end it read %q", p[:n])
				}
			}
			d.Patience = time.Minute // however busy the machine is
			w := onSockets(t, d)
			w.trust = trust
			c, _ := w.come(road)
			if _, err := io.WriteString(c, "AMQP"); err != nil || w.read(c, 5) != "go on" {
				t.Errorf("the peer was not told to go on: %v", err)
			}
			if _, err := io.WriteString(c, "on"); err != nil {
				t.Error(err)
			}
			if closer, ok := c.(interface{ CloseWrite() error }); !ok || closer.CloseWrite() != nil {
				t.Error("cannot half-close")
			}
			_, _ = io.Copy(io.Discard, c)
			w.shut()
		})
	}
}

func TestASilentPeerIsCutOnARealSocket(t *testing.T) { // D1
	d, _ := served(t)
	d.Patience = time.Millisecond
	w := onSockets(t, d)
	if got := w.wantCut(w.dial()); got != "" {
		t.Errorf("it was told %q", got)
	}
}
