package broker

import (
	"fmt"
	"time"
)

// Journal keeps a namespace beyond the life of its process. The engine tells it of every change, under the lock of what
// changes and therefore in the order in which it happens; how and when the journal writes is its own business.
//
// Begin and End enclose every operation, above all other locks. What is written between the two is kept as a whole or
// not at all, together with everything that was written before.
type Journal interface {
	// Load returns what was kept. It is called once, before anything else.
	Load() (*Snapshot, error)
	// Begin may wait until what was written before has become less. It does not nest.
	Begin()
	End()
	// Write takes a change. It does not wait.
	Write(Record)
	// Kept calls answer once all operations that have ended by now are kept, in the order of the calls; never, if they
	// cannot be kept.
	Kept(answer func())
}

// Change says what a record is about.
type Change int

const (
	// Added: Stored is new in the queue.
	Added Change = iota
	// Altered: Stored stands otherwise than before.
	Altered
	// Removed: the message of this sequence number has left the queue.
	Removed
	// Sighted: the message of this ID became visible at this time, which the history of duplicates remembers.
	Sighted
	// Forgotten: the history does not any more.
	Forgotten
	// StateSet: the session of this ID has this state; nil for none.
	StateSet
	// Described: this is what the entity is configured as from now on.
	Described
	// Dropped: the queue is gone with everything in it.
	Dropped
)

// Record is one change of one queue, of those members that its kind of change has.
type Record struct {
	Change Change
	Queue  string // its path in lower case
	Stored Stored
	ID     string
	At     time.Time
	State  []byte
	Entity *Description
}

// Stored is a message in a queue as it outlives the process. What is reserved for a consumer is available: nobody
// outside has seen it yet.
type Stored struct {
	Message        *Message
	SequenceNumber int64
	EnqueuedAt     time.Time
	TimeToLive     time.Duration
	Hops           int
	EnqueuedNumber int64
	Source         string

	// What follows changes in the course of time.
	State       State // any but Reserved and Gone
	Deferred    bool
	Failures    uint32
	Token       Token
	LockedUntil time.Time
	Client      string
	Changes     map[string]any // never changed in place
}

// Description is an entity's configuration and history: of a queue, a topic or a subscription, whichever is not nil.
// Subscriptions have descriptions of their own.
type Description struct {
	Queue        *QueueConfig
	Topic        *TopicConfig
	Subscription *SubscriptionConfig
	Of           string // a subscription's topic

	Created, Updated, Accessed time.Time
}

// Snapshot is everything that a journal has kept.
type Snapshot struct {
	Entities []Description
	Contents map[string]*Contents // by the queue's path in lower case
}

// Contents is what a queue holds.
type Contents struct {
	SequenceNumber int64      // the last that was given
	Messages       []Stored   // by sequence number
	History        []Sighting // in the order in which they became visible
	Sessions       []SessionState
}

// Sighting is a MessageID in the history of duplicates.
type Sighting struct {
	ID string
	At time.Time
}

// SessionState is what consumers keep with a session.
type SessionState struct {
	ID    string
	State []byte
	At    time.Time
}

// Kept calls answer once everything that has been done so far outlives the process: at once if there is no journal, and
// never if the journal has failed. Whoever tells the outside of anything does it in an answer, so that nothing is known
// outside which a crash can take back.
func (n *Namespace) Kept(answer func()) {
	if n.journal == nil {
		answer()
		return
	}
	n.journal.Kept(answer)
}

// Lasting reports whether there is a journal.
func (n *Namespace) Lasting() bool { return n.journal != nil }

// enter begins an operation, above every mutex of a queue.
func (n *Namespace) enter() {
	if n.journal != nil {
		n.journal.Begin()
	}
}

func (n *Namespace) leave() {
	if n.journal != nil {
		n.journal.End()
	}
}

// write tells the journal of a change in a queue, under the queue's mutex. A queue that is gone has no more changes: it
// may have a successor of its name by now.
func (q *Queue) write(r Record) {
	if q.namespace.journal == nil || q.gone {
		return
	}
	r.Queue = q.entity
	q.namespace.journal.Write(r)
}

// note tells the journal how an entry stands now.
func (q *Queue) note(change Change, e *entry) {
	switch {
	case q.namespace.journal == nil:
	case change == Removed:
		q.write(Record{Change: change, Stored: Stored{SequenceNumber: e.seq}})
	case e.state != Gone:
		q.write(Record{Change: change, Stored: e.stored()})
	}
}

func (e *entry) stored() Stored {
	s := Stored{
		Message:        e.message,
		SequenceNumber: e.seq,
		EnqueuedAt:     e.enqueued,
		TimeToLive:     e.ttl,
		Hops:           e.hops,
		EnqueuedNumber: e.number,
		Source:         e.source,
		State:          e.state,
		Deferred:       e.deferred,
		Failures:       e.failures,
		Changes:        e.changes,
	}
	switch e.state {
	case Reserved:
		s.State = Available
	case Locked:
		s.Token, s.LockedUntil, s.Client = e.token, e.lockedUntil, e.client
	}
	return s
}

// describe tells the journal what an entity is. The caller has entered and holds the namespace's changes.
func (n *Namespace) describe(e Entity) {
	if n.journal == nil {
		return
	}
	if t, ok := e.(*Topic); ok {
		q := t.inlet
		q.mu.Lock()
		defer q.mu.Unlock()
		c := q.config
		q.writeDescription(Description{Topic: &TopicConfig{
			Name: c.Name, TimeToLive: c.TimeToLive, DetectDuplicates: c.DetectDuplicates, DuplicateWindow: c.DuplicateWindow,
			AutoDelete: c.AutoDelete, Status: c.Status, MaxMessage: c.MaxMessage, MaxSize: c.MaxSize, Description: c.Description,
		}})
		return
	}
	q, _ := e.(*Queue)
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.config
	q.writeDescription(Description{Queue: &c})
}

func (q *Queue) writeDescription(d Description) {
	d.Created, d.Updated, d.Accessed = q.times.created, q.times.updated, q.times.accessed
	q.write(Record{Change: Described, Entity: &d})
}

// describeSubscription is describe for a subscription.
func (n *Namespace) describeSubscription(t *Topic, s *subscription) {
	if n.journal == nil {
		return
	}
	t.inlet.mu.Lock()
	rules, unevaluated := s.rules, s.deadLetterUnevaluated
	t.inlet.mu.Unlock()
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.config
	q.writeDescription(Description{Of: t.Path(), Subscription: &SubscriptionConfig{
		Name: s.name, LockDuration: c.LockDuration, MaxDelivery: c.MaxDelivery, TimeToLive: c.TimeToLive,
		DeadLetterExpired: c.DeadLetterExpired, RequiresSession: c.RequiresSession,
		ForwardTo: c.ForwardTo, ForwardDeadLettersTo: c.ForwardDeadLettersTo, AutoDelete: c.AutoDelete,
		Status: c.Status, Description: c.Description, Rules: rules, DeadLetterUnevaluated: unevaluated,
	}})
}

// declare makes the entities of a configuration, or changes those that were kept to be as it says.
func (n *Namespace) declare(c Config) (errs []error) {
	declared := make(map[string]bool)
	// kept finds an entity that was there before this declaration; nil if it is to be made, which is refused if it has
	// been declared already.
	kept := func(path string) Entity {
		e, err := n.Find(path)
		again := declared[key(path)]
		declared[key(path)] = true
		if err != nil || again {
			return nil
		}
		return e
	}
	for _, q := range c.Queues {
		old := kept(q.Name)
		if old == nil {
			errs = append(errs, n.CreateQueue(q))
			continue
		}
		errs = append(errs, forLife(old, "queue "+q.Name, q), n.UpdateQueue(q))
	}
	for _, t := range c.Topics {
		old := kept(t.Name)
		if old == nil {
			errs = append(errs, n.CreateTopic(t))
			continue
		}
		errs = append(errs, forLife(old, "topic "+t.Name, t.inlet()), n.UpdateTopic(t))
		for _, s := range t.Subscriptions {
			errs = append(errs, n.declareSubscription(t.Name, s, kept(SubscriptionPath(t.Name, s.Name))))
		}
	}
	return errs
}

// declareSubscription makes a subscription, or changes the one that was kept.
func (n *Namespace) declareSubscription(topic string, c SubscriptionConfig, old Entity) error {
	if old == nil {
		return n.CreateSubscription(topic, c)
	}
	path := SubscriptionPath(topic, c.Name)
	if err := forLife(old, "subscription "+path, c.queue(path)); err != nil {
		return err
	}
	if err := n.UpdateSubscription(topic, c); err != nil || c.Rules == nil {
		return err
	}
	return n.changeRules(topic, c.Name, func(_ *subscription, old []Rule) ([]Rule, error) {
		rules := make([]Rule, len(c.Rules))
		for i, r := range c.Rules {
			r.Created = n.hub.Now()
			if j := ruleIndex(old, r.Name); j >= 0 {
				r.Created = old[j].Created
			}
			rules[i] = r
		}
		return rules, nil
	})
}

// forLife refuses a configuration that differs from what is kept in what cannot be changed.
func forLife(old Entity, what string, c QueueConfig) error {
	t, isTopic := old.(*Topic)
	q, _ := old.(*Queue)
	if isTopic {
		q = t.inlet
	}
	switch {
	case q.config.RequiresSession != c.RequiresSession:
		return fmt.Errorf("%s: RequiresSession is %t and was %t when it was made, %w", what, c.RequiresSession, q.config.RequiresSession, errForLife)
	case q.config.DetectDuplicates != c.DetectDuplicates:
		return fmt.Errorf("%s: RequiresDuplicateDetection is %t and was %t when it was made, %w", what, c.DetectDuplicates, q.config.DetectDuplicates, errForLife)
	}
	return nil
}

var errForLife = fmt.Errorf("which is for life: %w: take another name, or start afresh", ErrInvalid)
