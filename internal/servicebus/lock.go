package servicebus

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"oneeffect/internal/message"
)

// lockEnd is when a message's lock ends, as this process knows it by its own clock,
// and what keeps it from ending.
type lockEnd struct {
	mu       sync.Mutex
	ends     time.Time // zero: it was lost
	first    *time.Timer
	released bool
	stop     context.CancelFunc // of the renewing; nil: it has not begun
	stopped  chan struct{}      // closed when it has ended
}

func (l *lockEnd) extend(ends time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = ends
}

// over says that the message is no longer ours, as far as anybody can know here.
func (l *lockEnd) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !time.Now().Before(l.ends)
}

// keep renews a message's lock until it is released. Most messages are settled
// before their lock is to be renewed: what renews begins with that. It counts from
// the receipt, on this process's monotonic clock. LockedUntil is the broker's clock
// and would put the difference between the two clocks into the schedule.
// Where there is a session, that is what is locked.
func (p *pump) keep(ctx context.Context, d *delivery) {
	if d.session != nil {
		return
	}
	d.lock.first = time.AfterFunc(time.Until(d.Received.Add(p.LockRenewal)), func() {
		if ctx := d.lock.begin(ctx); ctx != nil {
			defer close(d.lock.stopped)
			p.renew(ctx, d)
		}
	})
}

// begin returns what the renewing lives in; nil: there is nothing to renew any more.
func (l *lockEnd) begin(ctx context.Context) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil
	}
	l.stopped = make(chan struct{})
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	return ctx
}

// release ends the renewing, and waits until nothing of it runs any more.
func (l *lockEnd) release() {
	if l.first == nil {
		return
	}
	l.first.Stop()
	l.mu.Lock()
	l.released = true
	l.mu.Unlock()
	if l.stop != nil {
		l.stop()
		<-l.stopped
	}
}

// renew renews again and again. A lost lock ends the renewing and nothing else.
func (p *pump) renew(ctx context.Context, d *delivery) {
	names := d.names()
	p.renewing(ctx, d.Received, func(ctx context.Context) error {
		asked := time.Now()
		err := translate("renew lock", d.link.sdk.RenewMessageLock(ctx, d.sdk, nil))
		if err == nil {
			d.lock.extend(asked.Add(p.LockDuration))
		}
		return err
	}, func(err error) {
		d.lock.extend(time.Time{})
		p.Client.instruments.locksLost.Add(ctx, 1, p.station.entity...)
		p.Log.LogAttrs(ctx, slog.LevelWarn, "lock lost, the handler goes on", append(names, slog.Any("err", err))...)
	}, names...)
}

// renewing renews a lock that was taken at a time, or a little sooner, now and
// until ctx ends or it is lost.
func (p *pump) renewing(ctx context.Context, taken time.Time, once func(context.Context) error, lost func(error), names ...slog.Attr) {
	ends := taken.Add(p.LockDuration)
	failures, wait := 0, time.Duration(0)
	for message.Pause(ctx, wait) == nil {
		asked := time.Now()
		err := p.renewOnce(ctx, once)
		switch {
		case err == nil:
			failures, ends = 0, asked.Add(p.LockDuration)
			wait = time.Until(asked.Add(p.LockRenewal))
			continue
		case ctx.Err() != nil:
			return
		case busy(err):
			p.slowDown(ctx, err)
		}
		failures++
		wait = min(backoff(failures), p.LockRenewal)
		if errors.Is(err, errLockLost) || !time.Now().Add(wait).Before(ends) {
			lost(err)
			return
		}
		p.Log.LogAttrs(ctx, slog.LevelWarn, "lock not renewed yet", append(slices.Clone(names), slog.Int("failures", failures), slog.Any("err", err))...)
	}
}

// renewOnce waits for an answer half a renewal long, so that one that never comes
// leaves time for another try.
func (p *pump) renewOnce(ctx context.Context, once func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.LockRenewal/2)
	defer cancel()
	return once(ctx)
}
