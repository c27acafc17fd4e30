package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"oneeffect/emulator/amqp"
	"oneeffect/measure"
)

const (
	// connections with a sender's and three receivers' links each, besides the two of $cbs that every client has.
	connections = 1000
	receivers   = 3
)

// measureLinks opens connections and closes them, and compares the goroutines that are left with those of a server
// that never had a connection.
func measureLinks(ctx context.Context, b *bench) error {
	idle, err := b.start(ctx, "idle")
	if err != nil {
		return err
	}
	before, err := idle.Memory("VmRSS")
	if err != nil {
		return err
	}
	// Both are asked something on the control port, whose connection stays.
	for range 5 {
		if _, err := idle.Ask(ctx, http.MethodGet, "/control/clock", ""); err != nil {
			return err
		}
	}
	none, err := idle.Goroutines()
	if err != nil {
		return err
	}
	s, err := b.start(ctx, "links")
	if err != nil {
		return err
	}
	memory, err := b.connect(ctx, s)
	if err != nil {
		return errors.Join(err, s.Stop())
	}
	left, err := s.Goroutines()
	if err != nil {
		return err
	}
	b.table.Row("memory, idle", "MB", measure.Goal{}, "").Add(before)
	b.table.Row(fmt.Sprintf("memory, %d connections with %d links each", connections, 1+receivers), "MB", measure.AtMost(200), "").Add(memory)
	b.table.Row("goroutines left of them", "goroutines", measure.AtMost(0), "").Add(float64(left - none))
	return nil
}

// connect has the connections open at once, and returns when the server has told that all of them are gone.
func (b *bench) connect(ctx context.Context, s *measure.Server) (memory float64, err error) {
	peers := make([]*peer, 0, connections)
	for range connections {
		p, err := dialPeer(ctx, s.AMQP)
		if err != nil {
			return 0, err
		}
		peers = append(peers, p)
		if err := p.attach(amqp.RoleSender, queueQuiet, ""); err != nil {
			return 0, err
		}
		for range receivers {
			if err := errors.Join(p.attach(amqp.RoleReceiver, queueQuiet, ""), p.give(window), p.flush()); err != nil {
				return 0, err
			}
		}
	}
	if memory, err = s.Memory("VmRSS"); err != nil {
		return 0, err
	}
	for _, p := range peers {
		if err := p.close(); err != nil {
			return 0, err
		}
	}
	after, gone := uint64(0), 0
	for gone < connections {
		events, err := s.Events(ctx, after)
		if err != nil {
			return 0, err
		}
		for _, e := range events {
			after = e.Seq
			if e.Kind == "disconnected" {
				gone++
			}
		}
	}
	return memory, nil
}
