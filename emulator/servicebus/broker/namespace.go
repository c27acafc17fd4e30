package broker

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"oneeffect/emulator/control"
)

// DeadLetterSuffix follows a queue's or subscription's path in the path of its dead letter queue.
const DeadLetterSuffix = "/$DeadLetterQueue"

// Namespace holds queues and topics under one clock.
type Namespace struct {
	hub     *control.Hub
	keeper  *timekeeper
	journal Journal // nil: everything ends with the process

	changes  sync.Mutex // one change of the set of entities at a time; above every other mutex
	mu       sync.RWMutex
	entities map[string]Entity // by lower-case path
}

// Entity is a *Queue (a queue, a subscription or the dead letter queue of either) or a *Topic.
type Entity interface {
	// Path is the entity's path in the case it was configured in.
	Path() string
	// Enqueue takes messages from a sender, all or none, and returns their sequence numbers, 0 for a dropped duplicate.
	Enqueue(client string, messages ...*Message) ([]int64, error)
	// CancelScheduled forgets scheduled messages by sequence number, all or none.
	CancelScheduled(numbers ...int64) error
	// Peek returns up to n messages from a sequence number on, in every state, without locking them.
	Peek(from int64, n int) []*Delivery
	// MaxMessage is the largest message or batch the entity takes, in bytes.
	MaxMessage() int
	// Changed is closed when the entity's configuration has changed or the entity is deleted: links to it end then. Ask
	// again afterwards.
	Changed() <-chan struct{}
}

// New makes a namespace with what its journal has kept, has the entities of the configuration be as they are described,
// and starts its timekeeper.
func New(hub *control.Hub, c Config) (*Namespace, error) {
	n := &Namespace{hub: hub, keeper: newTimekeeper(hub), entities: make(map[string]Entity), journal: c.Journal}
	if n.journal != nil {
		past, err := n.journal.Load()
		if err != nil {
			return nil, fmt.Errorf("make namespace: %w", err)
		}
		if err := n.restore(past); err != nil {
			return nil, fmt.Errorf("make namespace: %w", err)
		}
	}
	known := n.keptPaths()
	if err := errors.Join(n.declare(c)...); err != nil {
		return nil, fmt.Errorf("make namespace: %w", err)
	}
	if err := n.checkForwarding(known); err != nil {
		return nil, fmt.Errorf("make namespace: %w", err)
	}
	n.keeper.start()
	return n, nil
}

// Close ends the timekeeper and waits for it. Nothing expires or activates by itself any more.
func (n *Namespace) Close() { n.keeper.stop() }

// key is a path as entities are found by.
func key(path string) string { return strings.ToLower(strings.Trim(path, "/")) }

// Find returns the entity at a path, compared without case.
func (n *Namespace) Find(path string) (Entity, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	e, ok := n.entities[key(path)]
	if !ok {
		return nil, fmt.Errorf("entity %q: %w", path, ErrNotFound)
	}
	return e, nil
}

// check refuses what the service could not mean.
func (c QueueConfig) check(what string) error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, fmt.Errorf("%s: the name is missing", what))
	}
	if c.LockDuration < 0 || c.TimeToLive < 0 || c.DuplicateWindow < 0 || c.MaxDelivery < 0 {
		errs = append(errs, fmt.Errorf("%s: durations and MaxDelivery must not be negative", what))
	}
	if c.RequiresSession && c.ForwardTo != "" {
		errs = append(errs, fmt.Errorf("%s: %w: messages of sessions are not forwarded", what, ErrInvalid))
	}
	return errors.Join(errs...)
}

// quota is the space that a queue and its dead letters, or a topic and all its subscriptions, share.
type quota struct {
	mu    sync.Mutex
	limit int64
	used  int64
}

// take reserves space for what comes in, if there is enough for that many copies of it, or says that there is not.
func (q *quota) take(size int64, copies int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used+size*int64(max(1, copies)) > q.limit {
		return ErrFull
	}
	q.used += size
	return nil
}

// add counts a copy of what has been let in already.
func (q *quota) add(size int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used += size
}

func (q *quota) give(size int64) { q.add(-size) }

func (q *quota) resize(limit int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = limit
}

func (q *quota) total() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}
