package door

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// protocol is what a peer's first bytes say it speaks.
type protocol int

const (
	unknown protocol = iota
	speaksAMQP
	speaksTLS
	speaksHTTP
)

// openings are the first bytes of each protocol. None is the beginning of another.
var openings = []struct {
	bytes  string
	spoken protocol
}{
	{"AMQP", speaksAMQP},
	{"\x16\x03", speaksTLS}, // a handshake record of SSL 3.0 or any TLS
	{http.MethodGet + " ", speaksHTTP},
	{http.MethodHead + " ", speaksHTTP},
	{http.MethodPost + " ", speaksHTTP},
	{http.MethodPut + " ", speaksHTTP},
	{http.MethodPatch + " ", speaksHTTP},
	{http.MethodDelete + " ", speaksHTTP},
	{http.MethodConnect + " ", speaksHTTP},
	{http.MethodOptions + " ", speaksHTTP},
	{http.MethodTrace + " ", speaksHTTP},
	{"PRI ", speaksHTTP}, // HTTP/2 without being asked; the server says that it is 1.1
}

// longestOpening is the number of bytes that decide in any case.
const longestOpening = len("OPTIONS ")

// classify says what begins with these bytes, and whether more of them are needed to know.
func classify(first []byte) (spoken protocol, more bool) {
	for _, o := range openings {
		switch {
		case strings.HasPrefix(string(first), o.bytes):
			return o.spoken, false
		case strings.HasPrefix(o.bytes, string(first)):
			more = true
		}
	}
	return unknown, more
}

// conn is a connection whose first bytes have been looked at, and are still to be read.
type conn struct {
	net.Conn          // the socket, or TLS over it
	socket   net.Conn // at the bottom
	first    []byte   // what was looked at and not read yet
	closed   func()   // called by every Close, does something once
	trial    *trial   // made by the first use
}

// sniff reads as many bytes as it takes to know what the peer speaks.
func (c *conn) sniff() (protocol, error) {
	buffer := make([]byte, longestOpening)
	for {
		n, err := c.Conn.Read(buffer[len(c.first):])
		c.first = buffer[:len(c.first)+n]
		if spoken, more := classify(c.first); !more {
			return spoken, nil
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return unknown, fmt.Errorf("read the first bytes, %d so far: %w", len(c.first), err)
		}
	}
}

func (c *conn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

func (c *conn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// NetConn returns the socket, for those who want to cut the connection without a word.
func (c *conn) NetConn() net.Conn { return c.socket }

// CloseWrite says that nothing more is sent. What the peer still sends can be
// read until it has seen that; a plain Close could destroy what was sent last.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// secure is a conn over TLS. Its ConnectionState tells net/http so.
type secure struct {
	*conn
	layer *tls.Conn
}

func (s *secure) ConnectionState() tls.ConnectionState { return s.layer.ConnectionState() }

const (
	farewellTime  = time.Second
	farewellBytes = 64 << 10
)

// refuse tells a peer that its first bytes are nothing that is spoken here. The
// words are HTTP, which is readable to anybody who looks at what came back.
func (d *Door) refuse(ctx context.Context, nc net.Conn) {
	defer nc.Close()
	first := make([]byte, longestOpening)
	n, _ := nc.Read(first) // what was looked at, which is there
	spoken := "HTTP/1.1"
	if d.TLS != nil {
		spoken = "TLS and " + spoken
	}
	if d.AMQP != nil {
		spoken = "AMQP 1.0, " + spoken
	}
	text := fmt.Sprintf("This port speaks %s. The connection began with % x, which is none of these.\n", spoken, first[:n])
	d.Log.LogAttrs(ctx, slog.LevelInfo, "a connection was refused",
		slog.String("peer", peer(nc)), slog.String("speaks", spoken), slog.String("got", fmt.Sprintf("% x", first[:n])))
	_ = nc.SetDeadline(time.Now().Add(farewellTime)) // the peer may not care to listen, nor to end
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Now()) })()
	_, err := fmt.Fprintf(nc, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		len(text), text)
	if w, ok := nc.(interface{ CloseWrite() error }); ok && err == nil && w.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, nc, farewellBytes) // until the peer ends or the time is up
	}
}
