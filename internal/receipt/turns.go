package receipt

import (
	"context"
	"sync"
)

// turns lets the recordings of one entity go one after the other (R9). Whoever is
// done hands on what it knows of the item, so that the next need not read it: the
// ETag will tell if that was wrong.
type turns struct {
	mu     sync.Mutex
	queues map[string]*queue
}

// queue is one entity's. baton is with whoever's turn it is, or lies in the
// channel, which holds one.
type queue struct {
	baton   chan *Stored
	members int // guarded by turns.mu: who has the baton, or waits for it
}

// turn is somebody's turn. It must be passed on.
type turn struct {
	turns  *turns
	entity string
	queue  *queue
	known  *Stored // the item as the turn before left it; nil: not known
}

func (t *turns) take(ctx context.Context, entity string) (turn, error) {
	q := t.join(entity)
	select {
	case known := <-q.baton:
		return turn{turns: t, entity: entity, queue: q, known: known}, nil
	case <-ctx.Done():
		t.leave(entity, q)
		return turn{}, context.Cause(ctx)
	}
}

func (t *turns) join(entity string) *queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[entity]
	if q == nil {
		if t.queues == nil {
			t.queues = map[string]*queue{}
		}
		q = &queue{baton: make(chan *Stored, 1)}
		q.baton <- nil
		t.queues[entity] = q
	}
	q.members++
	return q
}

// pass ends the turn. known is what it knows of the item now.
func (t turn) pass(known *Stored) {
	t.queue.baton <- known
	t.turns.leave(t.entity, t.queue)
}

// leave forgets a queue that nobody is in: how many entities there are is not ours
// to remember.
func (t *turns) leave(entity string, q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.members--; q.members == 0 {
		delete(t.queues, entity)
	}
}
