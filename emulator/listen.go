package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"

	"oneeffect/emulator/servicebus"
)

// amqpConnections bounds the AMQP connections open at the same time; further ones
// wait to be accepted.
const amqpConnections = 1024

// serveFunc answers on a listener until the context ends, closes it, and returns
// when nothing it has started is left. If the listener breaks, it says so at once
// through broke, which ends the context: what it then waits for ends with that.
type serveFunc func(ctx context.Context, l net.Listener, broke func(error))

// door is one listener and what answers behind it. Its name is also the name of
// the flag that sets its address.
type door struct {
	name     string
	address  string
	serve    serveFunc
	listener net.Listener
}

// open listens at every door, or at none. The error names every door that could
// not be opened.
func open(ctx context.Context, doors []*door, expose bool, log *slog.Logger) error {
	var mistakes []error
	for _, d := range doors {
		if err := d.open(ctx, expose, log); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	if len(mistakes) == 0 {
		return nil
	}
	for _, d := range doors {
		if d.listener != nil {
			_ = d.listener.Close() // nobody has connected yet
		}
	}
	return errors.Join(mistakes...)
}

func (d *door) open(ctx context.Context, expose bool, log *slog.Logger) error {
	host, _, err := net.SplitHostPort(d.address)
	if err != nil {
		return fmt.Errorf("-%s %s: want host:port, like 127.0.0.1:0 for any free port: %w", d.name, d.address, err)
	}
	if !isLoopback(host) {
		if !expose {
			return fmt.Errorf("-%s %s: other machines could reach this address, and the emulator's keys are public; "+
				"take 127.0.0.1, or add -expose if you mean it", d.name, d.address)
		}
		log.LogAttrs(ctx, slog.LevelWarn, "other machines can reach this listener with public keys",
			slog.String("listener", d.name), slog.String("address", d.address))
	}
	var config net.ListenConfig
	d.listener, err = config.Listen(ctx, "tcp", d.address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("-%s %s: the port is in use; end the program that listens there, "+
			"or take another port with -%s (0 is any free one)", d.name, d.address, d.name)
	case err != nil:
		return fmt.Errorf("-%s %s: %w", d.name, d.address, err)
	}
	return nil
}

// isLoopback takes no name but localhost for one, since any other may be
// resolved to anything.
func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// amqpServer speaks AMQP with whoever connects.
func amqpServer(s *servicebus.Server, log *slog.Logger) serveFunc {
	return func(ctx context.Context, l net.Listener, broke func(error)) {
		var connections sync.WaitGroup
		defer connections.Wait()
		closeListener := context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Accept
		defer closeListener()
		slots := make(chan struct{}, amqpConnections)
		for {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			c, err := l.Accept()
			if ctx.Err() != nil {
				if err == nil {
					_ = c.Close() // came too late
				}
				return
			}
			if err != nil {
				broke(err)
				return
			}
			connections.Go(func() {
				defer func() { <-slots }()
				if err := s.ServeConn(ctx, c); err != nil && ctx.Err() == nil {
					log.LogAttrs(ctx, slog.LevelInfo, "AMQP connection ended",
						slog.String("peer", c.RemoteAddr().String()), slog.Any("err", err))
				}
			})
		}
	}
}
