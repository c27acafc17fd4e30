package main

import (
	"context"
	"errors"
	"net/http"

	"oneeffect/measure"
)

// follow reads the event log until the context ends, as the drivers of a test do.
func follow(ctx context.Context, s *measure.Server) error {
	after := uint64(0)
	for {
		events, err := s.Events(ctx, after)
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
	defer func() { err = errors.Join(err, s.Stop()) }()
	r, err := dialBlaster(ctx, s, queueWork)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := errors.Join(r.send(1000), r.receive(1000)); err != nil { // warms up
		return err
	}
	turn := func(name, than string) error {
		rate := func(what string) *measure.Row {
			base := ""
			if than != "" {
				base = "raw, " + than + ": " + what
			}
			return b.table.Row("raw, "+name+": "+what, "messages/s", measure.Goal{}, base)
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
		if _, err := s.Ask(ctx, http.MethodPost, "/control/rules", rule); err != nil {
			return err
		}
		if err := turn("a rule armed", none); err != nil {
			return err
		}
		if _, err := s.Ask(ctx, http.MethodDelete, "/control/rules/idle", ""); err != nil {
			return err
		}
		following, stop := context.WithCancel(ctx)
		followed := make(chan error, 1)
		go func() { followed <- follow(following, s) }() // received below
		err := turn("the event log read", none)
		stop()
		if err := errors.Join(err, <-followed); err != nil {
			return err
		}
	}
	return nil
}
