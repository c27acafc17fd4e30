package main

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/measure"
)

const (
	listed = 50  // on a page
	looks  = 200 // looks at it in one repetition
)

// measureList looks at the newest executions of very many.
func (b *bench) measureList(ctx context.Context) (err error) {
	s, err := b.newSite(ctx, "list")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	began := time.Now()
	newest, err := s.store(ctx, b.executions)
	if err != nil {
		return err
	}
	b.table.Row("store, executions one by one: create", "executions/s", measure.Goal{}, "").Add(float64(b.executions) / time.Since(began).Seconds())
	began = time.Now()
	o, err := b.open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	page, err := o.first(ctx)
	if err != nil {
		return err
	}
	of := fmt.Sprintf("orchestrator, newest %d of %d: ", listed, b.executions)
	b.table.Row(of+"index read after start", "s", measure.Goal{}, "").Add(time.Since(began).Seconds())
	if n := strings.Count(page, `"executionId"`); n != min(listed, b.executions) || !strings.Contains(page, newest) {
		return fmt.Errorf("the list has %d executions, want %d and %s among them", n, listed, newest)
	}
	for range b.Repeat {
		took := make([]time.Duration, looks)
		for i := range took {
			began := time.Now()
			if _, err := o.ask(ctx, http.MethodGet, listPath, "", http.StatusOK); err != nil {
				return err
			}
			took[i] = time.Since(began)
		}
		b.table.Row(of+"half of the answers within", "ms", measure.AtMost(20), "").Add(milliseconds(quantile(took, 50)))
		b.table.Row(of+"99 of 100 within", "ms", measure.AtMost(20), "").Add(milliseconds(quantile(took, 99)))
	}
	memory, err := o.server.Memory("VmHWM")
	if err != nil {
		return err
	}
	b.table.Row(of+"orchestrator's memory", "MB", measure.Goal{}, "").Add(memory)
	return nil
}

var listPath = fmt.Sprintf("/v1/executions?limit=%d", listed)

// first asks for the list until there is one, as often as the answers say: it is there
// when the index has been read to its end.
func (o *office) first(ctx context.Context) (string, error) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		page, err := o.ask(ctx, http.MethodGet, listPath, "", http.StatusOK)
		if err == nil || !strings.Contains(err.Error(), "503") {
			return string(page), err
		}
		again.Reset(time.Second)
	}
}

// store puts executions into the store, the newest last, and returns its id. Each is in
// a partition of its own, so each is a request.
func (s *site) store(ctx context.Context, n int) (newest string, err error) {
	began := time.Now().UTC().Add(-time.Duration(n) * time.Millisecond)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var storing sync.WaitGroup
	for first := range min(n, connections) {
		storing.Go(func() {
			if err := s.stream(ctx, began, first, n); err != nil {
				fail(fmt.Errorf("store executions: %w", err))
			}
		})
	}
	storing.Wait()
	return idOf(n - 1), context.Cause(ctx)
}

// connections share the executions that are stored.
const connections = 4

func idOf(i int) string { return fmt.Sprintf("%08d-7d0e-4c49-9a3e-0f6b1c52%04d", i, i%10000) }

// ahead is how many requests a connection is ahead of its answers: few enough that
// nobody's buffer is ever full, where the two sides would wait for timers.
const ahead = 32

// stream writes every connections-th execution on a connection of its own, without
// waiting for each answer: they are read beside that.
func (s *site) stream(ctx context.Context, began time.Time, first, n int) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.server.Cosmos)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // which ends both directions
	defer stop()
	unanswered, written := make(chan struct{}, ahead), make(chan error, 1)
	go func() { written <- s.pour(ctx, conn, unanswered, began, first, n) }() // received below
	in := bufio.NewReaderSize(conn, 64<<10)
	for i := first; i < n && err == nil; i += connections {
		if err = created(in); err == nil {
			<-unanswered
		}
	}
	if err != nil {
		end()
	}
	return errors.Join(err, <-written)
}

// pour writes the requests of a connection, until its last or the context's end.
func (s *site) pour(ctx context.Context, conn io.Writer, unanswered chan<- struct{}, began time.Time, first, n int) error {
	out := bufio.NewWriterSize(conn, 64<<10)
	for i := first; i < n; i += connections {
		select {
		case unanswered <- struct{}{}:
		default:
			if err := out.Flush(); err != nil {
				return err
			}
			select {
			case unanswered <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := s.write(out, idOf(i), began.Add(time.Duration(i)*time.Millisecond)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// write is one request to create an execution.
func (s *site) write(out io.Writer, id string, at time.Time) error {
	fingerprint, err := claim.Fingerprint(taskType, []byte(payload))
	if err != nil {
		return err
	}
	document, err := json.Marshal(execution.New(id, taskType, []byte(payload), fingerprint, at))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "POST /dbs/oneeffect/colls/executions/docs HTTP/1.1\r\nHost: %s\r\n%sx-ms-documentdb-partitionkey: [\"%s\"]\r\nContent-Length: %d\r\n\r\n%s",
		s.server.Cosmos, signed(time.Now()), id, len(document), document)
	return err
}

// signed are the headers of a creation that are the same for a second.
func signed(now time.Time) string {
	date := now.UTC().Format(http.TimeFormat)
	key, _ := base64.StdEncoding.DecodeString(accountKey) // as every emulator is known by
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "post\ndocs\ndbs/oneeffect/colls/executions\n%s\n\n", strings.ToLower(date))
	token := url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return "x-ms-date: " + date + "\r\nx-ms-version: 2020-11-05\r\nPrefer: return=minimal\r\nContent-Type: application/json\r\nAuthorization: " + token + "\r\n"
}

// created reads an answer, which must say so.
func created(in *bufio.Reader) error {
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
