package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Info is what management shows of an entity: how it is described, how old it is and what is in it.
type Info struct {
	Name                       string // of a subscription without its topic
	Description                any
	Created, Updated, Accessed time.Time // Accessed is zero until a client first sends or receives
	Counts
	Bytes         int64      // messages of a queue and its dead letters, or of a topic and its subscriptions
	Subscriptions []RuleList // of a topic
}

// Counts counts the messages of an entity by where they stand.
type Counts struct {
	Active      int // also those that are locked or deferred
	DeadLetters int
	Scheduled   int

	TransferDeadLetters int
}

// Total counts all messages.
func (c Counts) Total() int { return c.Active + c.DeadLetters + c.Scheduled + c.TransferDeadLetters }

// RuleList is a subscription's name and its rules, in the order of their creation.
type RuleList struct {
	Subscription string
	Rules        []Rule
}

// Queues returns up to top queues, by name, after the first skip.
func (n *Namespace) Queues(skip, top int) []Info {
	var found []*Queue
	for _, e := range n.all() {
		if q, ok := e.(*Queue); ok && q.source == nil {
			found = append(found, q)
		}
	}
	return page(found, skip, top, func(q *Queue) Info { return q.info(q.Path()) })
}

// Topics returns up to top topics, by name, after the first skip.
func (n *Namespace) Topics(skip, top int) []Info {
	var found []*Topic
	for _, e := range n.all() {
		if t, ok := e.(*Topic); ok {
			found = append(found, t)
		}
	}
	return page(found, skip, top, (*Topic).info)
}

// Subscriptions returns up to top subscriptions of a topic, by name, after the first skip.
func (n *Namespace) Subscriptions(topic string, skip, top int) ([]Info, error) {
	t, err := n.topic(topic)
	if err != nil {
		return nil, err
	}
	found := slices.SortedFunc(slices.Values(t.list()), func(a, b *subscription) int {
		return cmp.Compare(key(a.name), key(b.name))
	})
	return page(found, skip, top, func(s *subscription) Info { return s.queue.info(s.name) }), nil
}

// Info describes the queue or topic of a name.
func (n *Namespace) Info(name string) (Info, error) {
	e, err := n.Find(name)
	if err != nil {
		return Info{}, err
	}
	switch e := e.(type) {
	case *Topic:
		return e.info(), nil
	case *Queue:
		if e.source == nil {
			return e.info(e.Path()), nil
		}
	}
	return Info{}, fmt.Errorf("queue or topic %q: %w", name, ErrNotFound)
}

// IsTopic reports whether the name is a topic's.
func (n *Namespace) IsTopic(name string) bool {
	_, err := n.topic(name)
	return err == nil
}

// SubscriptionInfo describes a topic's subscription.
func (n *Namespace) SubscriptionInfo(topic, name string) (Info, error) {
	_, s, err := n.subscription(topic, name)
	if err != nil {
		return Info{}, err
	}
	return s.queue.info(s.name), nil
}

// all returns every entity, by path.
func (n *Namespace) all() []Entity {
	n.mu.RLock()
	defer n.mu.RUnlock()
	paths := make([]string, 0, len(n.entities))
	for path := range n.entities {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	entities := make([]Entity, len(paths))
	for i, path := range paths {
		entities[i] = n.entities[path]
	}
	return entities
}

// page describes the part of a list that was asked for, and no other: counting is not free.
func page[T any](all []T, skip, top int, describe func(T) Info) []Info {
	all = all[min(skip, len(all)):]
	all = all[:min(top, len(all))]
	infos := make([]Info, len(all))
	for i, e := range all {
		infos[i] = describe(e)
	}
	return infos
}

func (t *Topic) info() Info {
	i := t.inlet.info(t.Path())
	for _, s := range t.list() {
		i.Subscriptions = append(i.Subscriptions, RuleList{s.name, t.rulesOf(s)})
	}
	return i
}

// info counts one entity. What is due by now is done first, so that nothing is counted where it does not stand any more.
func (q *Queue) info(name string) Info {
	q.look()
	i := Info{
		Name: name, Description: q.config.Description,
		Created: q.times.created, Updated: q.times.updated, Accessed: q.times.accessed,
		Bytes: q.quota.total(),
	}
	for e := range q.shelf.from(0) {
		if e.state == Scheduled {
			i.Scheduled++
		} else {
			i.Active++
		}
	}
	q.end()
	if q.deadLetters != nil {
		i.DeadLetters = q.deadLetters.count()
	}
	return i
}

func (q *Queue) count() (n int) {
	q.look()
	defer q.end()
	for range q.shelf.from(0) {
		n++
	}
	return n
}

// rulesOf returns a subscription's rules. The slice is never changed in place.
func (t *Topic) rulesOf(s *subscription) []Rule {
	t.inlet.mu.Lock()
	defer t.inlet.mu.Unlock()
	return s.rules
}

// Rules returns the rules of a subscription, by name.
func (n *Namespace) Rules(topic, name string) ([]Rule, error) {
	t, s, err := n.subscription(topic, name)
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(slices.Values(t.rulesOf(s)), func(a, b Rule) int {
		return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	}), nil
}

// Rule returns one rule of a subscription.
func (n *Namespace) Rule(topic, name, rule string) (Rule, error) {
	t, s, err := n.subscription(topic, name)
	if err != nil {
		return Rule{}, err
	}
	rules := t.rulesOf(s)
	if i := ruleIndex(rules, rule); i >= 0 {
		return rules[i], nil
	}
	return Rule{}, fmt.Errorf("rule %q of %s: %w", rule, s.queue.Path(), ErrNotFound)
}

// changeRules replaces a subscription's rules, from the next message on.
func (n *Namespace) changeRules(topic, name string, change func(s *subscription, rules []Rule) ([]Rule, error)) error {
	n.changes.Lock()
	defer n.changes.Unlock()
	t, s, err := n.subscription(topic, name)
	if err != nil {
		return err
	}
	rules, err := change(s, slices.Clone(t.rulesOf(s)))
	if err != nil {
		return err
	}
	n.enter()
	defer n.leave()
	t.inlet.mu.Lock()
	s.rules = rules
	t.inlet.mu.Unlock()
	s.queue.use()
	n.describeSubscription(t, s)
	return nil
}

// CreateRule adds a rule to a subscription.
func (n *Namespace) CreateRule(topic, name string, r Rule) error {
	return n.changeRules(topic, name, func(s *subscription, rules []Rule) ([]Rule, error) {
		if ruleIndex(rules, r.Name) >= 0 {
			return nil, fmt.Errorf("rule %q of %s %w", r.Name, s.queue.Path(), ErrExists)
		}
		r.Created = n.hub.Now()
		return append(rules, r), nil
	})
}

// UpdateRule replaces a rule of a subscription by another of its name.
func (n *Namespace) UpdateRule(topic, name string, r Rule) error {
	return n.changeRules(topic, name, func(s *subscription, rules []Rule) ([]Rule, error) {
		i := ruleIndex(rules, r.Name)
		if i < 0 {
			return nil, fmt.Errorf("rule %q of %s: %w", r.Name, s.queue.Path(), ErrNotFound)
		}
		r.Name, r.Created = rules[i].Name, rules[i].Created
		rules[i] = r
		return rules, nil
	})
}

// DeleteRule takes a rule off a subscription. A subscription without rules gets no messages.
func (n *Namespace) DeleteRule(topic, name, rule string) error {
	return n.changeRules(topic, name, func(s *subscription, rules []Rule) ([]Rule, error) {
		i := ruleIndex(rules, rule)
		if i < 0 {
			return nil, fmt.Errorf("rule %q of %s: %w", rule, s.queue.Path(), ErrNotFound)
		}
		return slices.Delete(rules, i, i+1), nil
	})
}

func ruleIndex(rules []Rule, name string) int {
	return slices.IndexFunc(rules, func(r Rule) bool { return strings.EqualFold(r.Name, name) })
}
