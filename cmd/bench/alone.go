package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oneeffect/measure"
)

// measureAlone sends tasks one by one to a worker with many free slots, each when the one before is settled: what a task
// takes where nothing else is to be done.
func (b *bench) measureAlone(ctx context.Context) error {
	return b.withWorker(ctx, "alone", func(s *site, p *product) error { return b.timeAlone(ctx, s, p) })
}

func (b *bench) timeAlone(ctx context.Context, s *site, p *product) (err error) {
	running, stop := context.WithCancel(ctx)
	ctx, fail := context.WithCancelCause(ctx) // ends with the receiver too, which nobody could wait for then
	ended := make(chan error, 1)
	go func() { // waited for below
		err := p.receiver.Run(running, p.handle)
		fail(err)
		ended <- err
	}()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	if _, err := b.oneByOne(ctx, s, p, min(b.tasks, warmUp)/fewer); err != nil {
		return err
	}
	for range b.Repeat {
		took, err := b.oneByOne(ctx, s, p, b.tasks/fewer)
		if err != nil {
			return err
		}
		b.table.Row("worker, a task alone: half are settled within", "ms", measure.Goal{}, "").Add(milliseconds(quantile(took, 50)))
		b.table.Row("worker, a task alone: 99 of 100 within", "ms", measure.Goal{}, "").Add(milliseconds(quantile(took, 99)))
	}
	return nil
}

// oneByOne says how long each of n tasks took, from before it was sent until it was settled.
func (b *bench) oneByOne(ctx context.Context, s *site, p *product, n int) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range took {
		settled := p.settled.expect(1)
		began := time.Now()
		if err := s.fill(ctx, 1, payload, false); err != nil {
			return nil, err
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return nil, fmt.Errorf("a task alone: %w", context.Cause(ctx))
		}
		took[i] = time.Since(began)
		if err := p.settled.failure(); err != nil {
			return nil, fmt.Errorf("a task alone: %w", err)
		}
	}
	return took, nil
}
