package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ask sends a request to the server's control port and returns the answer's body.
func (s *server) ask(ctx context.Context, method, path, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.control+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return answer, err
}

// event is what is read here of a line of the event log.
type event struct {
	Seq  uint64 `json:"seq"`
	Kind string `json:"kind"`
}

// events waits for events after a number, and returns them.
func (s *server) events(ctx context.Context, after uint64) ([]event, error) {
	text, err := s.ask(ctx, http.MethodGet, fmt.Sprintf("/control/events?after=%d&wait=10s", after), "")
	if err != nil {
		return nil, err
	}
	var events []event
	for lines := json.NewDecoder(bytes.NewReader(text)); lines.More(); {
		var e event
		if err := lines.Decode(&e); err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		events = append(events, e)
	}
	return events, nil
}

// follow reads the event log until the context ends, as the drivers of a test do.
func (s *server) follow(ctx context.Context) error {
	after := uint64(0)
	for {
		events, err := s.events(ctx, after)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range events {
			after = e.Seq
		}
	}
}

// measureRules measures the raw client with nothing armed, with a rule that is about another message than all that come,
// and with a reader of the event log, in turns.
func measureRules(ctx context.Context, b *bench) (err error) {
	s, err := b.start(ctx, "rules")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	r, err := dialBlaster(ctx, s, queueWork)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := errors.Join(r.send(1000), r.receive(1000)); err != nil { // warms up
		return err
	}
	turn := func(name, than string) error {
		rate := func(what string) *row {
			base := ""
			if than != "" {
				base = "raw, " + than + ": " + what
			}
			return b.table.row("raw, "+name+": "+what, "messages/s", goal{}, base)
		}
		return errors.Join(
			b.timed(s, b.Messages, workload{rate: rate("send"), run: func() error { return r.send(b.Messages) }}),
			b.timed(s, b.Messages, workload{rate: rate("receive and complete"), run: func() error { return r.receive(b.Messages) }}))
	}
	const none = "nothing armed"
	for range b.Repeat {
		if err := turn(none, ""); err != nil {
			return err
		}
		const rule = `{"name":"idle","match":{"service":"servicebus","key":"a message that never comes"},"do":"hold"}`
		if _, err := s.ask(ctx, http.MethodPost, "/control/rules", rule); err != nil {
			return err
		}
		if err := turn("a rule armed", none); err != nil {
			return err
		}
		if _, err := s.ask(ctx, http.MethodDelete, "/control/rules/idle", ""); err != nil {
			return err
		}
		following, stop := context.WithCancel(ctx)
		followed := make(chan error, 1)
		go func() { followed <- s.follow(following) }() // received below
		err := turn("the event log read", none)
		stop()
		if err := errors.Join(err, <-followed); err != nil {
			return err
		}
	}
	return nil
}
