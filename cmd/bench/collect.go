package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/telemetry"
	"oneeffect/measure"
)

// collectCommand is the argument that makes this program a collector of traces that forgets them.
const collectCommand = "collect"

// startCollector starts the collector as a process of its own, as a real one is.
func startCollector(ctx context.Context) (*measure.Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return measure.Launch(ctx, nil, self, collectCommand)
}

// collect takes whatever is sent to it, until the context ends.
func collect(ctx context.Context, stdout io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("collect: %w", err)
	}
	fmt.Fprintf(stdout, "control %s\nready\n", listener.Addr())
	web := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what cannot be read ends the connection by itself
		w.Header().Set("Content-Type", "application/x-protobuf")
	})}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }() // received below
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = errors.Join(web.Close(), <-ended)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("collect: %w", err)
}

// sampled are providers that send one trace in ten to the collector. The exporters read the process's own environment,
// so that is where they are told.
func sampled(ctx context.Context, collector *measure.Server) (telemetry.Providers, error) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://" + collector.Control + "/v1/traces",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
		"OTEL_TRACES_SAMPLER":                "parentbased_traceidratio",
		"OTEL_TRACES_SAMPLER_ARG":            "0.1",
	} {
		if err := os.Setenv(name, value); err != nil {
			return telemetry.Providers{}, fmt.Errorf("switch traces on: %w", err)
		}
	}
	return telemetry.Start(ctx, telemetry.Options{Service: "bench", Getenv: process.Environment(os.Environ()).Get})
}
