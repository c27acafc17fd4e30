package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"oneeffect/cmd/internal/process"
	"oneeffect/internal/telemetry"
	"oneeffect/measure"
)

// collectCommand is the argument that makes this program a collector of traces that forgets them.
const collectCommand = "collect"

// startCollector starts the collector as a process of its own, as a real one is.
func startCollector(ctx context.Context) (*measure.Server, error) {
	return measure.LaunchSelf(ctx, collectCommand)
}

// collect takes whatever is sent to it, until the context ends.
func collect(ctx context.Context, stdout io.Writer) error {
	return measure.Serve(ctx, "control", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what cannot be read ends the connection by itself
		w.Header().Set("Content-Type", "application/x-protobuf")
	}), stdout)
}

// sampled are providers that send one trace in ten and all metrics to the collector. The exporters read the process's own environment
// when they are made, so that is where they are told, and only for so long: a program that is started later has telemetry off.
func sampled(ctx context.Context, collector *measure.Server) (telemetry.Providers, error) {
	variables := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + collector.Control,
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
		"OTEL_LOGS_EXPORTER":          "none",
		"OTEL_METRIC_EXPORT_INTERVAL": "1000",
		"OTEL_TRACES_SAMPLER":         "parentbased_traceidratio",
		"OTEL_TRACES_SAMPLER_ARG":     "0.1",
	}
	for name, value := range variables {
		if err := os.Setenv(name, value); err != nil {
			return telemetry.Providers{}, fmt.Errorf("switch traces on: %w", err)
		}
	}
	providers, err := telemetry.Start(ctx, telemetry.Options{Service: "bench", Getenv: process.Environment(os.Environ()).Get})
	for name := range variables {
		err = errors.Join(err, os.Unsetenv(name))
	}
	return providers, err
}
