package main

import (
	"context"
	"errors"
	"fmt"

	"oneeffect/internal/telemetry"
	"oneeffect/measure"
)

// How what a task costs grows: with the tasks at once, with the payload, and with what else is in the queue.

// The smallest of each is what the others are compared with.
var (
	levels    = [...]int{1, 4, 16, 64, 256}                // slots
	kilobytes = [...]int{1, 10, 50, 200}                   // of payload: a message of Service Bus Standard has 256 at most, its envelope included
	depths    = [...]int{1000, 10_000, 100_000, 1_000_000} // messages in the queue
)

// fewer is how many times fewer tasks a repetition has where there are more variants, or where they are done one by one.
// leastTasks leaves some to each.
const (
	fewer      = 4
	leastTasks = 2 * fewer
)

// measureConcurrency measures the worker with few and with many slots, in turns.
func (b *bench) measureConcurrency(ctx context.Context) error {
	return b.grow(ctx, "concurrency", b.tasks/fewer, func(s *site, silent telemetry.Providers) (variants []*variant) {
		for _, level := range levels {
			variants = append(variants, &variant{
				name: fmt.Sprintf("worker, %d at once", level), site: s,
				make: func() (loop, error) { return newProduct(s, level, silent, quiet()) },
			})
		}
		return variants
	})
}

// payloadSlots is how many tasks there are at once where the payload grows: what the worker's flag defaults to.
const payloadSlots = 8

// measurePayload measures the worker with small and with large tasks, in turns.
func (b *bench) measurePayload(ctx context.Context) error {
	return b.grow(ctx, "payload", b.tasks/(2*fewer), func(s *site, silent telemetry.Providers) (variants []*variant) {
		for _, size := range kilobytes {
			variants = append(variants, &variant{
				name: fmt.Sprintf("worker, payload of %d KB", size), site: s, payload: payloadOf(size),
				make: func() (loop, error) { return newProduct(s, payloadSlots, silent, quiet()) },
			})
		}
		return variants
	})
}

// grow measures variants of the worker at one site, each compared with the first.
func (b *bench) grow(ctx context.Context, name string, tasks int, of func(*site, telemetry.Providers) []*variant) (err error) {
	s, err := b.newSite(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	silent, err := noTelemetry(ctx)
	if err != nil {
		return err
	}
	variants := of(s, silent)
	for _, v := range variants[1:] {
		v.than = variants[0].name
	}
	return b.compare(ctx, tasks, variants...)
}

func noTelemetry(ctx context.Context) (telemetry.Providers, error) {
	return telemetry.Start(ctx, telemetry.Options{Service: "bench", Getenv: func(string) string { return "" }})
}

// measureBacklog measures the worker on queues that are short and long, in turns: in each repetition it does a number of
// tasks off the front, and as many more are queued behind. Every queue is an emulator's of its own.
func (b *bench) measureBacklog(ctx context.Context) (err error) {
	silent, err := noTelemetry(ctx)
	if err != nil {
		return err
	}
	var variants []*variant
	for _, depth := range depths {
		if depth > b.backlog && depth > depths[0] {
			break
		}
		s, err := b.newSite(ctx, fmt.Sprint("backlog-", depth))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.close(ctx)) }()
		v := &variant{
			name: fmt.Sprintf("worker, %d queued", depth), site: s,
			make: func() (loop, error) { return newProduct(s, slots, silent, quiet()) },
		}
		if len(variants) > 0 {
			v.than = variants[0].name
		}
		variants = append(variants, v)
		if err := v.fill(ctx, min(depth, b.backlog)); err != nil {
			return err
		}
		memory, err := s.server.Memory("VmRSS")
		if err != nil {
			return err
		}
		b.table.Row(v.name+": emulator's memory", "MB", measure.Goal{}, "").Add(memory)
	}
	return b.compare(ctx, b.tasks/fewer, variants...)
}
