package main

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/metric"
)

// tally hears of settlements by the product's own counter of them, so that nobody has to ask whether work is done.
type tally struct {
	mu     sync.Mutex
	left   int
	done   chan struct{} // closed when nothing is left
	failed error
}

// expect returns what is closed when so many messages are settled.
func (t *tally) expect(n int) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left, t.done, t.failed = n, make(chan struct{}), nil
	return t.done
}

// fail notes the first failure.
func (t *tally) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = err
	}
}

// failure is the first that was noted, or that something is left.
func (t *tally) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil && t.left > 0 {
		return errors.New("not all tasks were settled")
	}
	return t.failed
}

// more is how many were settled beyond those that were expected.
func (t *tally) more() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, -t.left)
}

func (t *tally) settled(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.left
	if t.left -= n; before > 0 && t.left <= 0 {
		close(t.done)
	}
}

// The counters of a tally: one counts for it, and all of them as they would without it.
type (
	provider struct {
		metric.MeterProvider
		tally *tally
	}
	meter struct {
		metric.Meter
		tally *tally
	}
	counter struct {
		metric.Int64Counter
		tally *tally
	}
)

func (p provider) Meter(name string, options ...metric.MeterOption) metric.Meter {
	return meter{p.MeterProvider.Meter(name, options...), p.tally}
}

// Enabled: it counts.
func (counter) Enabled(context.Context) bool { return true }

func (m meter) Int64Counter(name string, options ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	own, err := m.Meter.Int64Counter(name, options...)
	if name == "oneeffect.servicebus.settlements" {
		return counter{own, m.tally}, err
	}
	return own, err
}

func (c counter) Add(ctx context.Context, n int64, options ...metric.AddOption) {
	attributes := metric.NewAddConfig(options).Attributes()
	if failed, _ := attributes.Value("failed"); failed.AsBool() {
		c.tally.fail(errors.New("a task was not settled"))
	}
	c.Int64Counter.Add(ctx, n, options...)
	c.tally.settled(int(n))
}
