package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"

	"oneeffect/emulator/door"
)

// listener is one address and what answers there. Its name is also the name of
// the flag that sets the address.
type listener struct {
	name    string
	address string
	answers door.Door
	net.Listener
}

// open listens at every address, or at none. The error names every one that could
// not be opened.
func open(ctx context.Context, listeners []*listener, expose bool, log *slog.Logger) error {
	var mistakes []error
	for _, l := range listeners {
		if err := l.open(ctx, expose, log); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	if len(mistakes) > 0 {
		shut(listeners)
	}
	return errors.Join(mistakes...)
}

// shut closes listeners that nobody has connected to yet.
func shut(listeners []*listener) {
	for _, l := range listeners {
		if l.Listener != nil {
			_ = l.Close()
		}
	}
}

func (l *listener) open(ctx context.Context, expose bool, log *slog.Logger) error {
	host, _, err := net.SplitHostPort(l.address)
	if err != nil {
		return fmt.Errorf("-%s %s: want host:port, like 127.0.0.1:0 for any free port: %w", l.name, l.address, err)
	}
	if !isLoopback(host) {
		if !expose {
			return fmt.Errorf("-%s %s: other machines could reach this address, and the emulator's keys are public; "+
				"take 127.0.0.1, or add -expose if you mean it", l.name, l.address)
		}
		log.LogAttrs(ctx, slog.LevelWarn, "other machines can reach this listener with public keys",
			slog.String("listener", l.name), slog.String("address", l.address))
	}
	var config net.ListenConfig
	opened, err := config.Listen(ctx, "tcp", l.address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("-%s %s: the port is in use; end the program that listens there, "+
			"or take another port with -%s (0 is any free one)", l.name, l.address, l.name)
	case err != nil:
		return fmt.Errorf("-%s %s: %w", l.name, l.address, err)
	}
	l.Listener = opened
	return nil
}

// isLoopback takes no name but localhost for one, since any other may be
// resolved to anything.
func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
