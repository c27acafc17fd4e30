package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"oneeffect/measure"
)

// What the orchestrator's API is held to.
const (
	fewAtOnce  = 8
	manyAtOnce = 64
)

// office is the orchestrator's program at a site, and a client of it.
type office struct {
	server *measure.Server
	client *http.Client
}

func (b *bench) open(ctx context.Context, s *site) (*office, error) {
	server, err := measure.Launch(ctx, s.environment(), b.orchestrator,
		"-id=bench", "-listen=127.0.0.1:0", "-cosmos-endpoint="+s.cosmosURL(), "-log-level=warn")
	if err != nil {
		return nil, err
	}
	return &office{server, &http.Client{Transport: &http.Transport{MaxIdleConns: manyAtOnce, MaxIdleConnsPerHost: manyAtOnce}}}, nil
}

func (o *office) close() error {
	o.client.CloseIdleConnections()
	return o.server.Stop()
}

// ask sends a request and takes the whole answer, which must have this status.
func (o *office) ask(ctx context.Context, method, path, body string, want int) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+o.server.HTTP+path, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := o.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return text, err
}

// create makes n executions, so many at once, and says how long each took. asked is the request for each.
func (o *office) create(ctx context.Context, n, atOnce int, asked string) ([]time.Duration, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	took := make([]time.Duration, n)
	var next atomic.Int64
	var asking sync.WaitGroup
	for range atOnce {
		asking.Go(func() {
			line, err := o.call(ctx)
			if err != nil {
				fail(err)
				return
			}
			defer line.close()
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				began := time.Now()
				if err := line.create(asked); err != nil {
					fail(err)
				}
				took[i] = time.Since(began)
			}
		})
	}
	asking.Wait()
	return took, context.Cause(ctx)
}

// line is a connection to the orchestrator that one client keeps. It has no goroutines beside the client's own, as those of
// http.Client have: what the client takes of the processors the orchestrator has not.
type line struct {
	connection net.Conn
	in         *bufio.Reader
	hangUp     func() bool
}

func (o *office) call(ctx context.Context) (*line, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", o.server.HTTP)
	if err != nil {
		return nil, fmt.Errorf("call the orchestrator: %w", err)
	}
	return &line{connection, bufio.NewReader(connection), context.AfterFunc(ctx, func() { _ = connection.Close() })}, nil
}

func (l *line) close() {
	l.hangUp()
	_ = l.connection.Close()
}

// create has an execution created, and takes the whole answer.
func (l *line) create(asked string) error {
	const head = "POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	if _, err := fmt.Fprintf(l.connection, head, len(asked), asked); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	answer, err := http.ReadResponse(l.in, nil)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusCreated {
		err = fmt.Errorf("create: %s: %s", answer.Status, text)
	}
	return err
}

func requestFor(taskType, payload string) string {
	return `{"type":"` + taskType + `","payload":` + payload + `}`
}

// quantile sorts, and is the smallest that so many of a hundred do not exceed.
func quantile(all []time.Duration, percent int) time.Duration {
	slices.Sort(all)
	return all[(len(all)*percent+99)/100-1]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// measureRequests has executions created over HTTP: client, orchestrator and emulator
// are three processes and share this machine.
func (b *bench) measureRequests(ctx context.Context) (err error) {
	s, err := b.newSite(ctx, "requests")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	o, err := b.open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if _, err := o.create(ctx, min(b.tasks, warmUp), manyAtOnce, requestFor(taskType, payload)); err != nil {
		return err
	}
	for range b.Repeat {
		took, err := o.create(ctx, b.tasks/4, fewAtOnce, requestFor(taskType, payload))
		if err != nil {
			return err
		}
		name := fmt.Sprintf("orchestrator, %d requests at once: ", fewAtOnce)
		b.table.Row(name+"half are created within", "ms", measure.AtMost(5), "").Add(milliseconds(quantile(took, 50)))
		b.table.Row(name+"99 of 100 within", "ms", measure.Goal{}, "").Add(milliseconds(quantile(took, 99)))
		if err := b.sampleRequests(ctx, s, o); err != nil {
			return err
		}
	}
	return nil
}

// sampleRequests measures what can be created in a second, and what that costs whom.
func (b *bench) sampleRequests(ctx context.Context, s *site, o *office) error {
	spent := func() (all [3]float64, err error) {
		var errs [3]error
		all[0], errs[0] = measure.OwnCPU()
		all[1], errs[1] = o.server.CPU()
		all[2], errs[2] = s.server.CPU()
		return all, errors.Join(errs[:]...)
	}
	before, err := spent()
	if err != nil {
		return err
	}
	began := time.Now()
	took, err := o.create(ctx, b.tasks, manyAtOnce, requestFor(taskType, payload))
	if err != nil {
		return err
	}
	elapsed := time.Since(began)
	after, err := spent()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("orchestrator, %d requests at once: ", manyAtOnce)
	b.table.Row(name+"creations", "executions/s", measure.AtLeast(2500), "").Add(float64(b.tasks) / elapsed.Seconds())
	b.table.Row(name+"half within", "ms", measure.Goal{}, "").Add(milliseconds(quantile(took, 50)))
	for i, whose := range []string{"client", "orchestrator", "emulator"} {
		b.table.Row(name+whose, "CPU s per 1,000", measure.Goal{}, "").Add((after[i] - before[i]) * 1000 / float64(b.tasks))
	}
	return nil
}
