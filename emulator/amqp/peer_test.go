package amqp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// peer is a client that writes and reads frames one by one, for what the real client never does.
type peer struct {
	t    *testing.T
	conn net.Conn
	br   *bufio.Reader
}

// newPeer goes through SASL and open.
func newPeer(t *testing.T, s *served, open Open) *peer {
	t.Helper()
	p := rawPeer(t, s)
	p.write(headerSASLWire)
	p.bytes(headerSASLWire)
	if _, err := p.frame(); err != nil { // the mechanisms
		t.Fatal(err)
	}
	p.write(saslInit("ANONYMOUS"))
	p.bytes(unhex("00000011 02010000 00 53 44 c0 04 02 50 00 40"))
	p.write(headerAMQPWire)
	p.bytes(headerAMQPWire)
	if open.ContainerID == "" {
		open.ContainerID = "peer"
	}
	p.send(0, &open, nil)
	return p
}

// inSession begins a session on channel 0 as well.
func inSession(t *testing.T, s *served) *peer {
	t.Helper()
	p := newPeer(t, s, Open{})
	next[*Open](p)
	p.send(0, &Begin{IncomingWindow: 100, OutgoingWindow: 100}, nil)
	next[*Begin](p)
	return p
}

func saslInit(mechanism string) []byte {
	b, mark := beginFrame(nil, frameSASL, 0)
	w := compose(b, descInit)
	w.any(Symbol(mechanism))
	w.binary([]byte("anonymous"))
	w.null()
	b, _ = w.done()
	return endFrame(b, mark)
}

// unhex reads hexadecimal digits; spaces and line ends are for the eye.
func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		panic(err)
	}
	return b
}

var (
	headerSASLWire = []byte("AMQP\x03\x01\x00\x00")
	headerAMQPWire = []byte("AMQP\x00\x01\x00\x00")
)

func rawPeer(t *testing.T, s *served) *peer {
	return &peer{t: t, conn: s.conn, br: bufio.NewReader(s.conn)}
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

func (p *peer) send(channel uint16, body Performative, payload []byte) {
	p.t.Helper()
	b, err := AppendFrame(nil, Frame{Channel: channel, Body: body, Payload: payload})
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(b)
}

// bytes reads the next n bytes and compares them.
func (p *peer) bytes(want []byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(p.br, got); err != nil || !bytes.Equal(got, want) {
		p.t.Fatalf("read % x, %v; want % x", got, err, want)
	}
}

// frame reads the next frame as it is.
func (p *peer) frame() ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(p.br, head); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head))
	copy(b, head)
	_, err := io.ReadFull(p.br, b[4:])
	return b, err
}

// next reads the next frame with a performative of this type; others are an error.
func next[T Performative](p *peer) (Frame, T) {
	p.t.Helper()
	b, err := p.frame()
	if err != nil {
		p.t.Fatalf("read a frame: %v", err)
	}
	f, err := DecodeFrame(b)
	if err != nil {
		p.t.Fatalf("decode % x: %v", b, err)
	}
	body, ok := f.Body.(T)
	if !ok {
		p.t.Fatalf("read %T %+v, want %T", f.Body, f.Body, body)
	}
	return f, body
}

// ended reads what is left and expects the connection to be closed.
func (p *peer) ended() {
	p.t.Helper()
	if b, err := io.ReadAll(p.br); err != nil && !errors.Is(err, net.ErrClosed) || len(b) > 0 {
		p.t.Errorf("at the end: % x, %v", b, err)
	}
}
