package servicebus

import (
	"context"
	"errors"
	"log/slog"
)

// Throttle is how others slow a receiver down: whoever hears that it is too much,
// of a system that the handlers use, pulls it. Receiving grows back by itself.
type Throttle struct{ pulled chan struct{} }

// NewThrottle makes a throttle for one receiver.
func NewThrottle() *Throttle { return &Throttle{make(chan struct{}, 1)} }

// Pull tells the receiver. It never waits, and may be called at any time.
func (t *Throttle) Pull() {
	select {
	case t.pulled <- struct{}{}:
	default: // one is on its way
	}
}

// errPulled: a system behind the handlers has complained.
var errPulled = errors.New("a system behind the handlers is asked for too much")

// obey slows down at every pull, until everything is drained.
func (p *pump) obey(ctx context.Context, t *Throttle, drained <-chan struct{}) {
	for {
		select {
		case <-t.pulled:
			p.slowDown(ctx, errPulled)
		case <-drained:
			return
		}
	}
}

// slowDown halves how much is worked on at once, and says why: as a warning when
// it was everything before.
func (p *pump) slowDown(ctx context.Context, why error) {
	before, after := p.slots.throttle()
	if after == before {
		return
	}
	level := slog.LevelDebug
	if before == p.slots.most {
		level = slog.LevelWarn
	}
	p.Log.LogAttrs(ctx, level, "throttled", slog.Int("slots", after), slog.Int("of", p.slots.most), slog.Any("err", why))
}

// calm counts a delivery that nobody complained about.
func (p *pump) calm(ctx context.Context) {
	if bound, grown := p.slots.calm(); grown && bound == p.slots.most {
		p.Log.LogAttrs(ctx, slog.LevelInfo, "no longer throttled", slog.Int("slots", bound))
	}
}
