package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"oneeffect/cmd/internal/access"
	"oneeffect/internal/telemetry"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
)

// offer listens, and has a guard for the address that this has led to.
func (s settings) offer(ctx context.Context, t telemetry.Providers, log *slog.Logger) (net.Listener, *access.Guard, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return nil, nil, fmt.Errorf("listen: %w (choose another address with -listen)", err)
	}
	guard, err := access.New(access.Options{
		Settings: s.access, Address: listener.Addr(), Log: log,
		Transport: otelhttp.NewTransport(http.DefaultTransport, otelhttp.WithTracerProvider(t.Traces), otelhttp.WithMeterProvider(t.Metrics)),
	})
	if err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	return listener, guard, nil
}
