package main

import (
	"context"
	"errors"
	"time"

	"oneeffect/measure"
)

// measureDepth fills three queues, looks at the memory, and receives from each in turns.
func measureDepth(ctx context.Context, b *bench) (err error) {
	s, err := b.start(ctx, "depth")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	depths := []struct {
		queue, text string
		length      int
	}{
		{queueVast, "10⁶", 1_000_000},
		{queueShort, "10³", 1_000},
		{queueLong, "10⁵", 100_000},
	}
	row := func(text string) string { return "raw, " + text + " queued: receive and complete" }
	shallow := row("10³")
	for _, text := range []string{"10³", "10⁵", "10⁶"} { // in the order of the table
		than := shallow
		if text == "10³" {
			than = ""
		}
		b.table.Row(row(text), "µs/message", measure.Goal{}, than)
	}
	clients := make([]*blaster, len(depths))
	const batch = 1000 // received in one repetition, from a queue that holds this many more
	for i, d := range depths {
		r, dialErr := dialBlaster(ctx, s, d.queue)
		if dialErr != nil {
			return dialErr
		}
		defer func() { err = errors.Join(err, r.close()) }()
		clients[i] = r
		began := time.Now()
		if err := r.send(d.length); err != nil {
			return err
		}
		if d.queue != queueVast {
			continue
		}
		b.table.Row("raw, 10⁶ messages: send", "messages/s", measure.Goal{}, "").Add(float64(d.length) / time.Since(began).Seconds())
		if err := b.weigh(s, r); err != nil {
			return err
		}
	}
	for range 4 * b.Repeat {
		for i, d := range depths {
			if err := clients[i].send(batch); err != nil {
				return err
			}
			began := time.Now()
			if err := clients[i].receive(batch); err != nil {
				return err
			}
			b.table.Row(row(d.text), "", measure.Goal{}, "").Add(float64(time.Since(began).Microseconds()) / batch)
		}
	}
	return nil
}

// weigh says what memory a full queue takes at rest, and what it takes at most while messages come and go, which is
// when garbage piles up.
func (b *bench) weigh(s *measure.Server, r *blaster) error {
	rest, err := s.Memory("VmRSS")
	if err != nil {
		return err
	}
	for range 10 {
		if err := errors.Join(r.send(b.Messages), r.receive(b.Messages)); err != nil {
			return err
		}
	}
	most, err := s.Memory("VmHWM")
	if err != nil {
		return err
	}
	b.table.Row("memory, 10⁶ queued", "MB", measure.AtMost(2048), "").Add(rest)
	b.table.Row("memory, 10⁶ queued and others come and go", "MB", measure.AtMost(2048), "").Add(most)
	return nil
}
