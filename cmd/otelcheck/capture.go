package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// programs are what is run, and with what.
type programs struct {
	collector, config, local string
}

// capture runs the demo with telemetry on, and returns what has arrived when demo and
// collector have ended.
func (p programs) capture(ctx context.Context, stdout, stderr io.Writer) ([]envelope, error) {
	in := ingestion{arrived: make(chan struct{}, 1)}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for envelopes: %w", err)
	}
	server := &http.Server{Handler: &in, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends when it is closed; what it could not take is missing below
	}()
	defer func() { <-served }()
	defer server.Close()

	otlp, stop, err := p.startCollector(ctx, "http://"+listener.Addr().String()+"/", stderr)
	if err != nil {
		return nil, err
	}
	demo := exec.CommandContext(ctx, p.local, "demo", "-stock")
	demo.Env = append(os.Environ(), "KEEP=",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://"+otlp, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_TRACES_SAMPLER=parentbased_always_on", "OTEL_RESOURCE_ATTRIBUTES=service.namespace=oneeffect",
		// Short, so that a process that is killed has told most of what it did.
		"OTEL_BSP_SCHEDULE_DELAY=20", "OTEL_BLRP_SCHEDULE_DELAY=20", "OTEL_METRIC_EXPORT_INTERVAL=500")
	demo.Stdout, demo.Stderr = stdout, stderr
	demo.Cancel = func() error { return demo.Process.Signal(syscall.SIGTERM) } // so that it ends its own processes
	demo.WaitDelay = 30 * time.Second
	ran := demo.Run()
	if ran == nil {
		in.complete(ctx)
	}
	if err := errors.Join(ran, stop()); err != nil {
		return nil, fmt.Errorf("run the demo through the collector: %w", err)
	}
	in.mu.Lock() // the last post may still be on its way
	defer in.mu.Unlock()
	return in.all, in.err
}

// patience is how long envelopes may be on their way when the demo has ended. The
// exporter does not wait for its last ones when it stops, so this program does before.
const patience = 15 * time.Second

// complete returns when nothing is missing any more, or when its patience is over.
func (in *ingestion) complete(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		in.mu.Lock()
		missing := len(examine(in.all).problems)
		in.mu.Unlock()
		if missing == 0 {
			return
		}
		select {
		case <-in.arrived:
		case <-ctx.Done():
			return
		}
	}
}

// startCollector returns when the collector receives, at the address of its gRPC.
// stop has it send what it holds, and waits for its end.
func (p programs) startCollector(ctx context.Context, ingestion string, stderr io.Writer) (address string, stop func() error, err error) {
	free, err := freeAddresses(ctx, 2)
	if err != nil {
		return "", nil, err
	}
	c := exec.CommandContext(ctx, p.collector, "--config", p.config)
	c.Env = append(os.Environ(), "OTLP_GRPC_ADDRESS="+free[0], "OTLP_HTTP_ADDRESS="+free[1], "BATCH_TIMEOUT=200ms", "COLLECTOR_LOG_LEVEL=info",
		"APPLICATIONINSIGHTS_CONNECTION_STRING=InstrumentationKey=00000000-0000-0000-0000-000000000000;IngestionEndpoint="+ingestion)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 20 * time.Second
	log, err := c.StderrPipe()
	if err != nil {
		return "", nil, fmt.Errorf("start the collector: %w", err)
	}
	if err := c.Start(); err != nil {
		return "", nil, fmt.Errorf("start the collector: %w (make otel-check builds it)", err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- follow(c, log, ready, stderr) }()
	select {
	case <-ready:
	case err := <-ended:
		return "", nil, fmt.Errorf("the collector ended before it was ready: %w", err)
	}
	return free[0], func() error {
		err := c.Process.Signal(syscall.SIGTERM)
		if failed := <-ended; failed != nil {
			err = errors.Join(err, fmt.Errorf("the collector: %w", failed))
		}
		return err
	}, nil
}

// lastLines is how much of the collector's log is shown if it fails.
const lastLines = 30

// follow reads the collector's log until its end, and shows what is a problem.
func follow(c *exec.Cmd, log io.Reader, ready chan<- struct{}, stderr io.Writer) error {
	var once sync.Once
	var last []string
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		last = append(last[max(0, len(last)-lastLines+1):], lines.Text())
		switch {
		case strings.Contains(lines.Text(), "Everything is ready"):
			once.Do(func() { close(ready) })
		case strings.Contains(lines.Text(), "\terror\t"):
			fmt.Fprintln(stderr, "collector:", lines.Text())
		}
	}
	_, _ = io.Copy(io.Discard, log) // after a line too long
	if err := c.Wait(); err != nil {
		return fmt.Errorf("%w; its log ends with:\n%s", err, strings.Join(last, "\n"))
	}
	return nil
}

// freeAddresses are loopback addresses that nobody listens on: the collector cannot
// say which ones it took.
func freeAddresses(ctx context.Context, n int) ([]string, error) {
	var free []string
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free address: %w", err)
		}
		defer l.Close() // all of them at the end, or two might be the same
		free = append(free, l.Addr().String())
	}
	return free, nil
}

// maxBody bounds one post of envelopes.
const maxBody = 64 << 20

// ingestion is Application Insights' endpoint, as far as an exporter sees it.
type ingestion struct {
	arrived chan struct{} // holds a token when something has arrived

	mu  sync.Mutex
	all []envelope
	err error // the first
}

func (in *ingestion) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(http.MaxBytesReader(w, r.Body, maxBody))
	var err error
	if r.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	text, err := io.ReadAll(io.LimitReader(body, maxBody))
	if err == nil && r.URL.Path != "/v2.1/track" {
		err = fmt.Errorf("%s %s: envelopes are posted to /v2.1/track", r.Method, r.URL.Path)
	}
	var arrived []envelope
	if err == nil {
		arrived, err = decode(bytes.NewReader(text))
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if err != nil {
		if in.err == nil {
			in.err = err
		}
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	in.all = append(in.all, arrived...)
	select {
	case in.arrived <- struct{}{}:
	default: // the token is there already
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"itemsReceived": len(arrived), "itemsAccepted": len(arrived), "errors": []any{}})
}
