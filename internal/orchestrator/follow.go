package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"oneeffect/internal/message"
)

// What following the change feed is bounded by.
const (
	followPage     = 500
	followBackoff  = 30 * time.Second // the longest wait after failures
	followClockOff = 5 * time.Minute  // by which the feed begins earlier than the index: clocks differ
)

// Follow keeps the index of the newest executions, until ctx ends. A store that is
// not there is waited for; what it has forgotten meanwhile is begun anew.
func (o *Orchestrator) Follow(ctx context.Context) error {
	var f following
	f.restart(o)
	wait := time.NewTimer(0)
	defer wait.Stop()
	for failures := 0; ; {
		select {
		case <-wait.C:
		case <-ctx.Done():
			return nil
		}
		end, err := f.step(ctx, o)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if failures++; failures == 1 {
				o.Log.LogAttrs(ctx, slog.LevelWarn, "the list of executions stands still", slog.Any("err", err))
			}
			if errors.Is(err, message.ErrRefused) {
				f.restart(o) // this place of the feed may be no place any more
			}
			wait.Reset(backoff(o.FollowPeriod, failures))
		case end:
			if failures > 0 {
				o.Log.LogAttrs(ctx, slog.LevelInfo, "the list of executions is followed again", slog.Int("failures", failures))
			}
			failures = 0
			wait.Reset(o.FollowPeriod)
		default:
			wait.Reset(0)
		}
	}
}

// backoff doubles a wait with every failure, and spreads it.
func backoff(first time.Duration, failures int) time.Duration {
	wait := min(first<<min(failures, 16), followBackoff)
	return wait - rand.N(wait/4+1)
}

// following is a place in the change feed.
type following struct {
	since time.Time
	after string
}

func (f *following) restart(o *Orchestrator) {
	floor := time.Now().Add(-o.FollowWindow)
	f.since, f.after = floor.Add(-followClockOff), ""
	o.index.begin(floor)
}

// step takes in one page; end is whether that was all. What changed before the index
// was as new as the store was told to nobody.
func (f *following) step(ctx context.Context, o *Orchestrator) (end bool, err error) {
	page, next, end, err := o.Views.Changed(ctx, f.since, f.after, followPage)
	if err != nil {
		return false, fmt.Errorf("read the change feed: %w", err)
	}
	f.after = next
	if o.index.apply(page) && len(page) > 0 && o.Changed != nil {
		o.Changed(page)
	}
	if end && o.index.caughtUp(time.Now().UTC()) && o.Changed != nil {
		o.Changed(nil)
	}
	return end, nil
}
