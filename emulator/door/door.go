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
	"sync"
	"syscall"
	"time"
)

// Connections bounds the connections that one door has open at the same time.
const Connections = 1024

// defaultPatience is how long a peer may take to say what it speaks.
const defaultPatience = 10 * time.Second

// Door is what answers behind one listener. The fields are read only.
type Door struct {
	// HTTP answers requests, over TLS or not.
	HTTP http.Handler
	// AMQP speaks AMQP on a connection until that ends or the context does, and
	// closes it. Without it the door does not speak AMQP.
	AMQP func(context.Context, net.Conn)
	// TLS has the certificate. Without it the door does not speak TLS.
	TLS *tls.Config
	// Patience is how long a peer may take until it is known what it speaks, 0 for the default.
	Patience time.Duration
	Log      *slog.Logger
}

// Serve answers on a listener until the context ends, closes it, and returns when
// nothing that it has started is left. If the listener breaks, it says so at once
// through broke, which must end the context: what Serve then waits for ends with that.
func (d *Door) Serve(ctx context.Context, l net.Listener, broke func(error)) {
	var work sync.WaitGroup
	defer work.Wait()
	defer l.Close()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })() // ends Accept
	requests := newHandover(l.Addr())
	work.Go(func() { d.serveHTTP(ctx, requests, &work) })
	slots := make(chan struct{}, Connections)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		socket, err := accept(ctx, l)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = socket.Close() // came too late
			}
			return
		case err != nil:
			broke(err)
			return
		}
		c := &conn{Conn: socket, socket: socket, closed: sync.OnceFunc(func() { <-slots })}
		work.Go(func() { d.meet(ctx, c, requests) })
	}
}

// accept waits for a connection. What passes by itself, like a process that has
// no file descriptors left, it waits for.
func accept(ctx context.Context, l net.Listener) (net.Conn, error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		c, err := l.Accept()
		if !passes(err) {
			return c, err
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

func passes(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// meet learns what a peer speaks and hands the connection to who answers that.
func (d *Door) meet(ctx context.Context, c *conn, requests *handover) {
	patience := d.Patience
	if patience == 0 {
		patience = defaultPatience
	}
	_ = c.SetDeadline(time.Now().Add(patience)) // an error here and below: reads will say what is wrong
	stop := context.AfterFunc(ctx, func() { _ = c.socket.Close() })
	nc, spoken, err := d.greet(ctx, c)
	if !stop() || err != nil {
		_ = nc.Close()
		if err != nil && ctx.Err() == nil {
			level := slog.LevelInfo
			if errors.Is(err, io.ErrUnexpectedEOF) { // like those who only look whether the port is open
				level = slog.LevelDebug
			}
			d.Log.LogAttrs(ctx, level, "nothing came of a connection", slog.String("peer", peer(c)), slog.Any("err", err))
		}
		return
	}
	_ = nc.SetDeadline(time.Time{})
	switch {
	case spoken == speaksAMQP && d.AMQP != nil:
		d.AMQP(ctx, nc)
	case spoken == speaksHTTP:
		requests.give(nc)
	default:
		d.refuse(ctx, nc)
	}
}

// greet reads the first bytes, below TLS if it is that. The connection it
// returns is to be closed also if there is an error.
func (d *Door) greet(ctx context.Context, c *conn) (net.Conn, protocol, error) {
	spoken, err := c.sniff()
	if err != nil || spoken != speaksTLS || d.TLS == nil {
		return c, spoken, err
	}
	layer := tls.Server(c, d.TLS)
	if err := layer.HandshakeContext(ctx); err != nil {
		return c, unknown, fmt.Errorf("shake hands under TLS: %w", err)
	}
	inner := &secure{conn: &conn{Conn: layer, socket: c.socket, closed: c.closed}, layer: layer}
	spoken, err = inner.sniff()
	return inner, spoken, err
}

func peer(c net.Conn) string { return c.RemoteAddr().String() }
