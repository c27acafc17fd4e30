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
	hub      *control.Hub
	keeper   *timekeeper
	entities map[string]Entity // by lower-case path; complete before New returns
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
}

// New makes a namespace with its entities and starts its timekeeper.
func New(hub *control.Hub, c Config) (*Namespace, error) {
	n := &Namespace{hub: hub, keeper: newTimekeeper(hub), entities: make(map[string]Entity)}
	var errs []error
	for _, q := range c.Queues {
		errs = append(errs, q.check("queue "+q.Name), n.addQueue(n.newQueue(q, new(quota))))
	}
	for _, t := range c.Topics {
		errs = append(errs, n.addTopic(t))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("make namespace: %w", err)
	}
	n.keeper.start()
	return n, nil
}

// Close ends the timekeeper and waits for it. Nothing expires or activates by itself any more.
func (n *Namespace) Close() { n.keeper.stop() }

// Find returns the entity at a path, compared without case.
func (n *Namespace) Find(path string) (Entity, error) {
	e, ok := n.entities[strings.ToLower(strings.Trim(path, "/"))]
	if !ok {
		return nil, fmt.Errorf("entity %q: %w", path, ErrNotFound)
	}
	return e, nil
}

func (n *Namespace) add(e Entity) error {
	key := strings.ToLower(e.Path())
	if _, ok := n.entities[key]; ok {
		return fmt.Errorf("entity %q exists twice", e.Path())
	}
	n.entities[key] = e
	return nil
}

func (n *Namespace) addQueue(q *Queue) error { return errors.Join(n.add(q), n.add(q.deadLetters)) }

func (n *Namespace) addTopic(c TopicConfig) error {
	errs := []error{c.inlet().check("topic " + c.Name)}
	t := &Topic{}
	shared := new(quota)
	for _, s := range c.Subscriptions {
		path := c.Name + "/Subscriptions/" + s.Name
		q := n.newQueue(s.queue(path), shared)
		t.subscriptions = append(t.subscriptions, q)
		errs = append(errs, s.queue(path).check("subscription "+path), n.addQueue(q))
	}
	t.inlet = n.newInlet(c.inlet(), shared, len(t.subscriptions), t.spread)
	for _, s := range t.subscriptions {
		s.source = t.inlet
	}
	return errors.Join(append(errs, n.add(t))...)
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
	return errors.Join(errs...)
}

// quota is the space that a queue and its dead letters, or a topic and all its subscriptions, share.
type quota struct {
	mu   sync.Mutex
	used int64
}

// take reserves space for messages that come in, or says that there is none.
func (q *quota) take(size int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used+size > MaxEntity {
		return ErrFull
	}
	q.used += size
	return nil
}

func (q *quota) give(size int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= size
}
