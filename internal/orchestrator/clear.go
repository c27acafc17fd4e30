package orchestrator

import (
	"context"
	"log/slog"
	"sync"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// What clearing dead letters is bounded by. What is beyond stays where it is, and does
// no harm: its run is over.
const (
	maxCleared = 500  // dead letters that are received to find those that are meant
	maxMeant   = 1000 // executions that wait for it
)

// clearing are executions whose dead letters an operator has dealt with. Its zero value
// is ready.
type clearing struct {
	mu    sync.Mutex // guards the rest
	meant map[string]dealtWith
	more  chan struct{} // has one while something is meant
}

// dealtWith says which dead letters of an execution are over.
type dealtWith struct {
	request string // its fingerprint: a message that asks for something else is evidence, and stays
	run     int    // and those before
}

func (c *clearing) add(e execution.Execution, run int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.init()
	if _, known := c.meant[e.ExecutionID]; !known && len(c.meant) >= maxMeant {
		return
	}
	c.meant[e.ExecutionID] = dealtWith{e.Request, run}
	select {
	case c.more <- struct{}{}:
	default:
	}
}

func (c *clearing) init() {
	if c.more == nil {
		c.meant, c.more = map[string]dealtWith{}, make(chan struct{}, 1)
	}
}

// waits has something once there is something to clear.
func (c *clearing) waits() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.init()
	return c.more
}

func (c *clearing) take() map[string]dealtWith {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.more: // what was added since more was seen is taken too
	default:
	}
	taken := c.meant
	c.meant = map[string]dealtWith{}
	return taken
}

// Clear removes the dead letters of executions that were replayed or resolved here
// (E7), until ctx ends. It is a courtesy to whoever looks into the queue next: best
// effort, beside the request and never in its way.
func (o *Orchestrator) Clear(ctx context.Context) error {
	for {
		select {
		case <-o.clearing.waits():
		case <-ctx.Done():
			return nil
		}
		meant := o.clearing.take()
		removed, err := o.DeadLetters.Discard(ctx, func(d DeadLetter) bool { return over(d, meant) }, maxCleared)
		level := slog.LevelInfo
		if err != nil && ctx.Err() == nil {
			level = slog.LevelWarn
		}
		o.Log.LogAttrs(ctx, level, "dead letters removed", slog.Int("executions", len(meant)), slog.Int("removed", removed), slog.Any("err", err))
	}
}

// over reports whether a dead letter is one that was dealt with.
func over(d DeadLetter, meant map[string]dealtWith) bool {
	task, err := message.ParseTask(d.Body)
	if err != nil {
		return false
	}
	dealt, ok := meant[task.ExecutionID]
	if !ok || task.Run > dealt.run {
		return false
	}
	asked, err := claim.Fingerprint(task.Type, task.Payload)
	return err == nil && asked == dealt.request
}
