package receipt

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// turns lets the recordings of one entity go one after the other (R9). Whoever is
// done hands on what it knows of the item, so that the next need not read it: the
// ETag will tell if that was wrong. Next is the lowest version of those that wait:
// a broker that keeps no order hands out a burst about one entity at once, and what
// is overtaken here would be stale for nothing.
type turns struct {
	mu     sync.Mutex
	queues map[string]*queue // of the entities whose turn somebody has
}

// queue is who waits for a turn of one entity.
type queue []*waiter

type waiter struct {
	version int64
	given   chan *Stored // holds one
}

// turn is somebody's turn. It must be passed on.
type turn struct {
	turns  *turns
	entity string
	known  *Stored // the item as the turn before left it; nil: not known
}

func (t *turns) take(ctx context.Context, entity string, version int64) (turn, error) {
	w := t.join(entity, version)
	if w == nil {
		return turn{turns: t, entity: entity}, nil
	}
	select {
	case known := <-w.given:
		return turn{turns: t, entity: entity, known: known}, nil
	case <-ctx.Done():
		t.leave(entity, w)
		return turn{}, context.Cause(ctx)
	}
}

// join takes the turn, or waits for it.
func (t *turns) join(entity string, version int64) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[entity]
	if q == nil {
		if t.queues == nil {
			t.queues = map[string]*queue{}
		}
		t.queues[entity] = &queue{}
		return nil
	}
	w := &waiter{version: version, given: make(chan *Stored, 1)}
	*q = append(*q, w)
	return w
}

// pass ends the turn. known is what it knows of the item now. An entity that nobody
// waits for is forgotten: how many there are is not ours to remember.
func (t turn) pass(known *Stored) {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	q := t.turns.queues[t.entity]
	if len(*q) == 0 {
		delete(t.turns.queues, t.entity)
		return
	}
	next := slices.MinFunc(*q, func(a, b *waiter) int { return cmp.Compare(a.version, b.version) })
	q.remove(next)
	next.given <- known
}

// leave waits no longer. A turn that was given meanwhile is passed on.
func (t *turns) leave(entity string, w *waiter) {
	t.mu.Lock()
	waits := t.queues[entity].remove(w)
	t.mu.Unlock()
	if !waits {
		turn{turns: t, entity: entity}.pass(<-w.given)
	}
}

// remove says whether it was there.
func (q *queue) remove(w *waiter) bool {
	if q == nil {
		return false
	}
	i := slices.Index(*q, w)
	if i < 0 {
		return false
	}
	*q = slices.Delete(*q, i, i+1)
	return true
}
