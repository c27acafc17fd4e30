package broker

import (
	"errors"
	"fmt"
	"slices"
)

// restore makes the namespace as it was. Nothing of it is told to the journal, which knows.
func (n *Namespace) restore(past *Snapshot) error {
	// Topics before their subscriptions, and these in the order in which messages go to them.
	slices.SortStableFunc(past.Entities, func(a, b Description) int {
		if (a.Subscription == nil) != (b.Subscription == nil) {
			if a.Subscription == nil {
				return -1
			}
			return 1
		}
		return a.Created.Compare(b.Created)
	})
	var errs []error
	for _, d := range past.Entities {
		errs = append(errs, n.restoreEntity(d, past.Contents))
	}
	return errors.Join(errs...)
}

func (n *Namespace) restoreEntity(d Description, contents map[string]*Contents) error {
	was := times{created: d.Created, updated: d.Updated, accessed: d.Accessed}
	switch {
	case d.Queue != nil:
		q := n.newQueue(*d.Queue, newQuota(d.Queue.MaxSize))
		n.refillAll(was, contents, q, q.deadLetters, q.transferred)
		return n.add(q, q.deadLetters, q.transferred)
	case d.Topic != nil:
		t := &Topic{}
		t.inlet = n.newInlet(d.Topic.inlet(), newQuota(d.Topic.MaxSize), t.spread)
		n.refillAll(was, contents, t.inlet)
		return n.add(t)
	case d.Subscription != nil:
		t, err := n.topic(d.Of)
		if err != nil {
			return fmt.Errorf("restore subscription %s: %w", d.Subscription.Name, err)
		}
		s := &subscription{name: d.Subscription.Name, rules: d.Subscription.Rules, deadLetterUnevaluated: d.Subscription.DeadLetterUnevaluated}
		s.queue = n.newQueue(d.Subscription.queue(SubscriptionPath(t.Path(), s.name)), t.inlet.quota)
		s.queue.source = t.inlet
		n.refillAll(was, contents, s.queue, s.queue.deadLetters, s.queue.transferred)
		if err := n.add(s.queue, s.queue.deadLetters, s.queue.transferred); err != nil {
			return err
		}
		t.link(append(slices.Clip(t.list()), s))
	}
	return nil
}

func (n *Namespace) refillAll(was times, contents map[string]*Contents, queues ...*Queue) {
	for _, q := range queues {
		q.times = was // and used since now: the last use is not kept
		q.wind()
		if c := contents[q.entity]; c != nil {
			q.refill(c)
		}
	}
}

// refill puts back what a queue held. Deadlines that have passed meanwhile come due at once, as they would have.
func (q *Queue) refill(c *Contents) {
	q.mu.Lock()
	defer q.endInner()
	q.sequence = c.SequenceNumber
	if q.sequence > 0 {
		q.times.accessed = q.hub.Now() // the last use is not kept; it was not long before
	}
	for _, s := range c.History {
		q.history.add(s)
	}
	q.shelf.entries = make([]*entry, 0, len(c.Messages))
	taken := 0 // messages up to here are found by the heap of the returned, those after it by the cursor
	for i := range c.Messages {
		e := q.entryOf(&c.Messages[i])
		q.sequence = max(q.sequence, e.seq)
		q.shelf.add(e)
		q.quota.add(int64(e.message.Size))
		if e.state == Locked {
			taken = i + 1
		}
	}
	q.shelf.cursor = taken
	for i, e := range q.shelf.entries {
		q.resume(e, i < taken)
	}
	for _, s := range c.Sessions {
		q.session(s.ID).state, q.session(s.ID).stated = s.State, s.At
		q.quota.add(int64(len(s.State)))
	}
}

func (q *Queue) entryOf(s *Stored) *entry {
	e := &entry{
		message: s.Message, seq: s.SequenceNumber, enqueued: s.EnqueuedAt, ttl: s.TimeToLive,
		hops: s.Hops, number: s.EnqueuedNumber, source: s.Source,
		state: s.State, deferred: s.Deferred, failures: s.Failures, changes: s.Changes,
		deadline: deadline{index: -1},
	}
	if e.state == Locked {
		e.custody = &custody{token: s.Token, lockedUntil: s.LockedUntil, client: s.Client}
	}
	if q.config.RequiresSession && e.message.InSession && e.state == Locked {
		// The lock was that of its session, which ended with its consumer, and that counts nothing.
		e.state = Available
		if e.deferred {
			e.state = Deferred
		}
		e.custody = nil
	}
	return e
}

// resume has an entry go on from the state it is in.
func (q *Queue) resume(e *entry, wasTaken bool) {
	if q.config.RequiresSession && e.message.InSession {
		e.session = q.session(e.message.SessionID)
		e.session.entries++
	}
	switch e.state {
	case Locked:
		q.locks[e.token] = e
		q.setDeadline(e, e.lockedUntil)
	case Scheduled:
		q.setDeadline(e, e.message.ScheduledFor)
	case Forwarding:
		q.send(e)
	case Available:
		q.resumeAvailable(e, wasTaken)
	}
}

func (q *Queue) resumeAvailable(e *entry, wasTaken bool) {
	if !q.isDeadLetter {
		q.setDeadline(e, e.expires())
	}
	switch {
	case e.session != nil:
		q.offer(e)
	case wasTaken:
		q.shelf.giveBack(e)
	}
}

// keptPaths are the entities that were restored.
func (n *Namespace) keptPaths() map[string]bool {
	kept := make(map[string]bool)
	for _, e := range n.all() {
		kept[key(e.Path())] = true
	}
	return kept
}
