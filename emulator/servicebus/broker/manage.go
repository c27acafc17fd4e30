package broker

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// SubscriptionPath is where a topic's subscription is found.
func SubscriptionPath(topic, name string) string { return topic + "/Subscriptions/" + name }

// times are what management shows of an entity's life.
type times struct{ created, updated, accessed time.Time }

// CreateQueue adds a queue with its dead letter queue.
func (n *Namespace) CreateQueue(c QueueConfig) error {
	n.changes.Lock()
	defer n.changes.Unlock()
	if err := c.check("queue " + c.Name); err != nil {
		return err
	}
	n.enter()
	defer n.leave()
	q := n.newQueue(c, newQuota(c.MaxSize))
	if err := n.add(q, q.deadLetters, q.transferred); err != nil {
		return err
	}
	q.wind()
	n.describe(q)
	return nil
}

// CreateTopic adds a topic with the subscriptions it is configured with.
func (n *Namespace) CreateTopic(c TopicConfig) error {
	n.changes.Lock()
	defer n.changes.Unlock()
	if err := c.inlet().check("topic " + c.Name); err != nil {
		return err
	}
	n.enter()
	defer n.leave()
	t := &Topic{}
	t.inlet = n.newInlet(c.inlet(), newQuota(c.MaxSize), t.spread)
	if err := n.add(t); err != nil {
		return err
	}
	t.inlet.wind()
	n.describe(t)
	var errs []error
	for _, s := range c.Subscriptions {
		errs = append(errs, n.createSubscription(t, s))
	}
	return errors.Join(errs...)
}

// CreateSubscription adds a subscription to a topic.
func (n *Namespace) CreateSubscription(topic string, c SubscriptionConfig) error {
	n.changes.Lock()
	defer n.changes.Unlock()
	t, err := n.topic(topic)
	if err != nil {
		return err
	}
	n.enter()
	defer n.leave()
	return n.createSubscription(t, c)
}

func (n *Namespace) createSubscription(t *Topic, c SubscriptionConfig) error {
	path := SubscriptionPath(t.Path(), c.Name)
	config := c.queue(path)
	if err := config.check("subscription " + path); err != nil {
		return err
	}
	s := &subscription{name: c.Name, queue: n.newQueue(config, t.inlet.quota), deadLetterUnevaluated: c.DeadLetterUnevaluated}
	s.queue.source, s.queue.times.accessed = t.inlet, s.queue.times.created // the service shows it as accessed from the start
	rules := c.Rules
	if rules == nil {
		rules = []Rule{{Name: DefaultRule}}
	}
	for _, r := range rules {
		r.Created = s.queue.times.created
		s.rules = append(s.rules, r)
	}
	if err := n.add(s.queue, s.queue.deadLetters, s.queue.transferred); err != nil {
		return err
	}
	t.link(append(slices.Clip(t.list()), s))
	s.queue.wind()
	n.describeSubscription(t, s)
	return nil
}

// UpdateQueue changes a queue. What it does with sessions and duplicates stays as it is. Links to the queue end.
func (n *Namespace) UpdateQueue(c QueueConfig) error {
	n.changes.Lock()
	defer n.changes.Unlock()
	q, err := n.queue(c.Name)
	if err != nil {
		return err
	}
	if err := c.check("queue " + c.Name); err != nil {
		return err
	}
	q.quota.resize(c.withDefaults().MaxSize)
	q.reconfigure(c)
	n.enter()
	defer n.leave()
	n.describe(q)
	return nil
}

// UpdateTopic changes a topic; its subscriptions stay as they are. Links to the topic end.
func (n *Namespace) UpdateTopic(c TopicConfig) error {
	n.changes.Lock()
	defer n.changes.Unlock()
	t, err := n.topic(c.Name)
	if err != nil {
		return err
	}
	if err := c.inlet().check("topic " + c.Name); err != nil {
		return err
	}
	t.inlet.quota.resize(c.inlet().withDefaults().MaxSize)
	t.inlet.reconfigure(c.inlet())
	n.enter()
	defer n.leave()
	n.describe(t)
	return nil
}

// UpdateSubscription changes a subscription; its rules stay as they are. Links to the subscription end.
func (n *Namespace) UpdateSubscription(topic string, c SubscriptionConfig) error {
	n.changes.Lock()
	defer n.changes.Unlock()
	t, s, err := n.subscription(topic, c.Name)
	if err != nil {
		return err
	}
	config := c.queue(s.queue.Path())
	if err := config.check("subscription " + s.queue.Path()); err != nil {
		return err
	}
	t.inlet.mu.Lock()
	s.deadLetterUnevaluated = c.DeadLetterUnevaluated
	t.inlet.mu.Unlock()
	s.queue.reconfigure(config)
	n.enter()
	defer n.leave()
	n.describeSubscription(t, s)
	return nil
}

// Delete removes a queue, a topic with its subscriptions, or a subscription, and everything in it. Links to it end.
func (n *Namespace) Delete(path string) error {
	n.changes.Lock()
	defer n.changes.Unlock()
	e, err := n.Find(path)
	if err != nil {
		return err
	}
	if q, ok := e.(*Queue); ok && q.isDeadLetter {
		return fmt.Errorf("delete %s: %w: it goes with what it belongs to", path, ErrInvalid)
	}
	n.enter()
	defer n.leave()
	n.drop(e)
	return nil
}

// drop takes an entity out with what belongs to it. The caller has entered and holds the namespace's changes.
func (n *Namespace) drop(e Entity) {
	switch e := e.(type) {
	case *Topic:
		gone := e.list()
		e.link(nil)
		n.remove(e)
		for _, s := range gone {
			n.remove(s.queue, s.queue.deadLetters, s.queue.transferred)
		}
	case *Queue:
		if t := n.topicOf(e); t != nil {
			t.link(slices.DeleteFunc(slices.Clone(t.list()), func(s *subscription) bool { return s.queue == e }))
		}
		n.remove(e, e.deadLetters, e.transferred)
	}
}

// add enters entities, all or none.
func (n *Namespace) add(entities ...Entity) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range entities {
		if _, ok := n.entities[key(e.Path())]; ok {
			return fmt.Errorf("entity %q %w", e.Path(), ErrExists)
		}
	}
	for _, e := range entities {
		n.entities[key(e.Path())] = e
	}
	return nil
}

// remove takes entities out and ends what is attached to them.
func (n *Namespace) remove(entities ...Entity) {
	n.mu.Lock()
	for _, e := range entities {
		delete(n.entities, key(e.Path()))
	}
	n.mu.Unlock()
	for _, e := range entities {
		switch e := e.(type) {
		case *Queue:
			e.discard()
		case *Topic:
			e.inlet.discard()
		}
	}
}

// queue finds a queue that is neither a subscription nor a dead letter queue.
func (n *Namespace) queue(name string) (*Queue, error) {
	e, err := n.Find(name)
	if err != nil {
		return nil, err
	}
	q, ok := e.(*Queue)
	if !ok || q.source != nil {
		return nil, fmt.Errorf("queue %q: %w", name, ErrNotFound)
	}
	return q, nil
}

func (n *Namespace) topic(name string) (*Topic, error) {
	e, err := n.Find(name)
	if err != nil {
		return nil, err
	}
	t, ok := e.(*Topic)
	if !ok {
		return nil, fmt.Errorf("topic %q: %w", name, ErrNotFound)
	}
	return t, nil
}

func (n *Namespace) subscription(topic, name string) (*Topic, *subscription, error) {
	t, err := n.topic(topic)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range t.list() {
		if strings.EqualFold(s.name, name) {
			return t, s, nil
		}
	}
	return nil, nil, fmt.Errorf("subscription %q of topic %q: %w", name, topic, ErrNotFound)
}

// topicOf finds the topic that a subscription belongs to; nil for a queue.
func (n *Namespace) topicOf(q *Queue) *Topic {
	if q.source == nil {
		return nil
	}
	t, err := n.topic(q.source.Path())
	if err != nil {
		return nil
	}
	return t
}

func newQuota(limit int64) *quota { return &quota{limit: cmp.Or(limit, MaxEntity)} }

// reconfigure gives the queue another configuration. What is in the queue keeps the times it has; links to it end.
func (q *Queue) reconfigure(c QueueConfig) {
	now := q.begin()
	defer q.end()
	c = c.withDefaults()
	k := &q.config // its name, its sessions and its duplicate detection are for life
	k.LockDuration, k.MaxDelivery = c.LockDuration, c.MaxDelivery
	k.TimeToLive, k.DeadLetterExpired = c.TimeToLive, c.DeadLetterExpired
	k.DuplicateWindow, q.history.window = c.DuplicateWindow, c.DuplicateWindow
	k.ForwardTo, k.ForwardDeadLettersTo = c.ForwardTo, c.ForwardDeadLettersTo
	k.Status, k.MaxMessage, k.MaxSize = c.Status, c.MaxMessage, c.MaxSize
	k.AutoDelete = c.AutoDelete
	k.Description = c.Description
	q.times.updated = now
	q.tellChanged()
	if d := q.deadLetters; d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.config.LockDuration, d.config.ForwardTo = c.LockDuration, c.ForwardDeadLettersTo
		d.tellChanged()
		if d.config.ForwardTo != "" {
			d.divert()
		}
		d.announce()
	}
	if k.ForwardTo != "" {
		q.divert()
	}
}

// tellChanged ends the links to the queue. The caller holds the mutex.
func (q *Queue) tellChanged() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// discard ends the queue: its messages are gone, its locks are over, and nothing comes in any more. What is reserved
// goes when its consumer gives it back.
func (q *Queue) discard() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.gone {
		q.discardLocked()
	}
}

func (q *Queue) discardLocked() {
	q.write(Record{Change: Dropped})
	q.gone = true
	q.endSessions()
	for e := range q.shelf.from(0) {
		if e.state != Reserved {
			q.quota.give(int64(e.message.Size))
			q.setDeadline(e, time.Time{})
			q.unlock(e)
			e.state = Gone
		}
	}
	q.keeper.forget(q)
	q.tellChanged()
}

// Changed is closed when the queue's configuration has changed or it is deleted.
func (q *Queue) Changed() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// MaxMessage is the largest message or batch the queue takes, in bytes.
func (q *Queue) MaxMessage() int {
	if q.hub.Off("servicebus.size-limit") {
		return math.MaxInt32
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.config.MaxMessage
}

// TakesReceives says why nobody can receive from the queue: its status, or that its messages go on to another.
func (q *Queue) TakesReceives() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.config.Status.takesReceives() && !q.hub.Off("servicebus.entity-status") {
		return fmt.Errorf("receive from %s: %w", q.config.Name, ErrDisabled)
	}
	if q.config.ForwardTo != "" && !q.isDeadLetter {
		return fmt.Errorf("receive from %s: %w: Cannot create a message receiver on an entity with auto-forwarding enabled", q.config.Name, ErrInvalid)
	}
	return nil
}
