package broker

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"oneeffect/emulator/control"
)

const noSessionID = "The SessionId was not set on a message, and it cannot be sent to the entity. " +
	"Entities that have session support enabled can only receive messages that have the SessionId set to a valid value."

// Queue is a queue, a subscription, the dead letter queue of either, or the inlet of a topic, which is a queue whose
// messages do not stay.
type Queue struct {
	namespace *Namespace
	hub       *control.Hub
	keeper    *timekeeper
	config    QueueConfig // Name is the path
	entity    string      // the path in lower case, for rules and events
	quota     *quota

	source       *Queue                                     // which moves messages here by itself: of a dead letter queue its queue, of a subscription the inlet
	deadLetters  *Queue                                     // nil for a dead letter queue and for an inlet
	transferred  *Queue                                     // see TransferSuffix; nil where deadLetters is
	isDeadLetter bool                                       // nothing counts and nothing expires in one
	spread       func(p passage, m *Message, now time.Time) // of an inlet: where its messages go instead of staying

	mu        sync.Mutex
	gone      bool          // the entity is deleted
	used      time.Time     // last, by a client
	consumers int           // that are not closed
	changed   chan struct{} // closed when links must end
	times     times
	copies    int // of an inlet: how many subscriptions a message may need space for
	sequence  int64
	shelf     shelf
	deadlines deadlines
	locks     map[Token]*entry
	history   history
	hungry    []*Consumer // with credit and room, in the order in which they got it
	announced time.Time   // the deadline the timekeeper knows
	outbox    []*entry    // to be forwarded by the timekeeper

	// Of a queue that requires sessions:
	sessions   map[string]*session
	dirty      []*session   // to be looked at by serve
	ready      []*session   // with messages and, at least when they were entered, without a holder
	applicants []*Applicant // who wait for a session, in their order

	wakeAt    time.Time // these two belong to the timekeeper
	wakeIndex int
}

var _ Entity = (*Queue)(nil)

func (n *Namespace) newQueue(c QueueConfig, shared *quota) *Queue {
	q := n.bareQueue(c, shared)
	q.deadLetters = n.bareQueue(QueueConfig{Name: c.Name + DeadLetterSuffix, LockDuration: c.LockDuration, ForwardTo: c.ForwardDeadLettersTo}, shared)
	q.transferred = n.bareQueue(QueueConfig{Name: c.Name + TransferSuffix, LockDuration: c.LockDuration}, shared)
	for _, dead := range []*Queue{q.deadLetters, q.transferred} {
		dead.isDeadLetter, dead.source = true, q
	}
	return q
}

func (n *Namespace) newInlet(c QueueConfig, shared *quota, spread func(passage, *Message, time.Time)) *Queue {
	q := n.bareQueue(c, shared)
	q.spread = spread
	return q
}

func (n *Namespace) bareQueue(c QueueConfig, shared *quota) *Queue {
	c = c.withDefaults()
	now := n.hub.Now()
	return &Queue{
		namespace: n,
		hub:       n.hub,
		keeper:    n.keeper,
		config:    c,
		entity:    strings.ToLower(c.Name),
		quota:     shared,
		changed:   make(chan struct{}),
		times:     times{created: now, updated: now},
		used:      now,
		locks:     make(map[Token]*entry),
		sessions:  make(map[string]*session),
		history:   newHistory(c.DuplicateWindow),
		wakeIndex: -1,
	}
}

// Path is the queue's path in the case it was configured in.
func (q *Queue) Path() string { return q.config.Name }

// LockDuration is how long a lock lasts.
func (q *Queue) LockDuration() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.config.LockDuration
}

// TakesSends reports whether clients may send to the queue: not to a subscription, nor to a dead letter queue.
func (q *Queue) TakesSends() bool { return q.source == nil }

// begin takes the mutex for a client's operation and brings the queue up to date; end tells the timekeeper what has
// become of its deadline.
//
//	now := q.begin()
//	defer q.end()
func (q *Queue) begin() time.Time {
	now := q.look()
	q.used = now
	return now
}

// look is begin for what is no use of the queue.
func (q *Queue) look() time.Time {
	q.namespace.enter()
	q.source.catchUp()
	return q.beginInner()
}

// catchUp brings a queue's source, if it has one, up to date before the queue itself.
func (q *Queue) catchUp() {
	if q == nil {
		return
	}
	q.source.catchUp()
	q.beginInner()
	q.endInner()
}

// beginInner and endInner are begin and end within an operation that has begun elsewhere.
func (q *Queue) beginInner() time.Time {
	q.mu.Lock()
	now := q.hub.Now()
	q.advance(now)
	return now
}

func (q *Queue) end() {
	q.endInner()
	q.namespace.leave()
}

func (q *Queue) endInner() {
	q.announce()
	q.mu.Unlock()
}

// elapse is the timekeeper's call when the announced deadline has come.
func (q *Queue) elapse() {
	q.namespace.enter()
	q.mu.Lock()
	q.announced = time.Time{}
	q.advance(q.hub.Now())
	q.end()
	q.forward()
	q.namespace.reap(q)
}

func (q *Queue) announce() {
	at := q.idleAt()
	switch {
	case len(q.outbox) > 0:
		at = time.Unix(0, 0) // at once
	case len(q.deadlines) > 0 && (at.IsZero() || q.deadlines[0].at.Before(at)):
		at = q.deadlines[0].at
	case at.IsZero():
		return
	}
	if q.announced.IsZero() || at.Before(q.announced) {
		q.announced = at
		q.keeper.set(q, at)
	}
}

// Enqueue takes messages from a sender, all or none. It returns their sequence numbers, 0 for a duplicate that was
// accepted and dropped.
func (q *Queue) Enqueue(client string, messages ...*Message) ([]int64, error) {
	if !q.TakesSends() {
		return nil, fmt.Errorf("send to %s: %w: messages come here only from the entity it belongs to", q.config.Name, ErrInvalid)
	}
	size := 0
	for i, m := range messages {
		if err := q.examine(m); err != nil {
			if i > 0 && q.hub.Off("servicebus.batch-atomic") {
				_, _ = q.Enqueue(client, messages[:i]...)
			}
			return nil, err
		}
		size += m.Size
	}
	now := q.begin()
	defer q.end()
	if err := q.admit(size, now); err != nil {
		return nil, fmt.Errorf("send to %s: %w", q.config.Name, err)
	}
	numbers := make([]int64, len(messages))
	for i, m := range messages {
		numbers[i] = q.accept(passage{client: client}, m, now)
	}
	q.serve()
	return numbers, nil
}

// examine refuses a message that the queue can never take.
func (q *Queue) examine(m *Message) error {
	switch {
	case len([]rune(m.ID)) > MaxMessageID:
		return fmt.Errorf("message id of %d characters: %w: at most %d are allowed", len([]rune(m.ID)), ErrInvalid, MaxMessageID)
	case q.config.RequiresSession && !m.InSession:
		return fmt.Errorf("send to %s: %w: %s", q.config.Name, ErrInvalid, noSessionID)
	case len([]rune(m.SessionID)) > MaxSessionID:
		return fmt.Errorf("session id of %d characters: %w: at most %d are allowed", len([]rune(m.SessionID)), ErrInvalid, MaxSessionID)
	case m.HeaderSize > MaxHeader && !q.hub.Off("servicebus.header-limit"):
		return fmt.Errorf("%w: properties of %d bytes, at most %d are allowed", ErrTooLarge, m.HeaderSize, MaxHeader)
	}
	return nil
}

// admit takes space for messages that come in, unless the entity does not want them.
func (q *Queue) admit(size int, now time.Time) error {
	switch {
	case q.gone:
		return ErrNotFound
	case !q.config.Status.takesSends() && !q.hub.Off("servicebus.entity-status"):
		return ErrDisabled
	case size > q.config.MaxMessage && !q.hub.Off("servicebus.size-limit"):
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, size, q.config.MaxMessage)
	}
	q.times.accessed = now
	if q.hub.Off("servicebus.entity-size") {
		q.quota.add(int64(size))
		return nil
	}
	return q.quota.take(int64(size), q.copies)
}

// accept places one message whose space has been taken.
func (q *Queue) accept(p passage, m *Message, now time.Time) int64 {
	if q.isDuplicate(m, now) {
		q.drop(p.client, m)
		return 0
	}
	if m.ScheduledFor.After(now) && !q.hub.Off("servicebus.schedule") {
		return q.schedule(p.client, m, now)
	}
	q.remember(m, now)
	return q.place(p, "enqueued", m, now).seq
}

// drop accepts a duplicate and forgets it.
func (q *Queue) drop(client string, m *Message) {
	q.quota.give(int64(m.Size))
	q.record("duplicate-dropped", client, &entry{message: m})
}

// place gives a message its number and time and makes it available, or sends it on: to the subscriptions if the queue is
// an inlet, or to where it forwards.
func (q *Queue) place(p passage, kind string, m *Message, now time.Time) *entry {
	e := q.newEntry(m, now)
	e.hops, e.number, e.source, e.changes = p.hops, p.number, p.source, p.changes
	q.record(kind, p.client, e)
	if q.spread != nil {
		q.spread(p, m, now)
		q.quota.give(int64(m.Size)) // every copy has space of its own now
		return e
	}
	q.shelf.add(e)
	q.setDeadline(e, e.expires())
	switch {
	case q.config.ForwardTo != "" && !q.hub.Off("servicebus.auto-forward"):
		q.send(e)
	case !q.config.RequiresSession:
	case m.InSession:
		q.enter(e)
	default: // only what comes from another entity gets so far
		q.deadLetter(e, "Session ID is null.", "Session enabled entity doesn't allow a message whose session identifier is null.")
	}
	q.note(Added, e)
	return e
}

func (q *Queue) newEntry(m *Message, now time.Time) *entry {
	q.sequence++
	return &entry{message: m, seq: q.sequence, enqueued: now, ttl: q.lifetime(m), deadline: deadline{index: -1}}
}

// lifetime is how long a message may stay: as long as it says itself, if the queue does not allow less.
func (q *Queue) lifetime(m *Message) time.Duration {
	switch {
	case q.hub.Off("servicebus.ttl"):
		return Forever
	case m.TimeToLive == 0:
		return q.config.TimeToLive
	case q.hub.Off("servicebus.ttl-ceiling"):
		return m.TimeToLive
	}
	return min(m.TimeToLive, q.config.TimeToLive)
}

// Peek returns up to n messages from a sequence number on, in every state, without locking them.
func (q *Queue) Peek(from int64, n int) []*Delivery {
	q.begin()
	defer q.end()
	var found []*Delivery
	for e := range q.shelf.from(from) {
		if len(found) == n {
			break
		}
		d := e.delivery()
		if !q.hub.Off("servicebus.peek-unlocked") {
			d.Token, d.LockedUntil = Token{}, time.Time{}
		}
		found = append(found, d)
	}
	return found
}

// forget takes an entry out of the queue for good.
func (q *Queue) forget(e *entry) {
	q.quota.give(int64(e.message.Size))
	q.remove(e)
}

// remove takes an entry out of the queue and leaves its space taken, for whoever takes the message over.
func (q *Queue) remove(e *entry) {
	q.note(Removed, e)
	q.setDeadline(e, time.Time{})
	q.unlock(e)
	q.shelf.remove(e)
	if s := e.session; s != nil {
		e.session = nil
		s.entries--
		q.tidy(s)
	}
}

// recordSession writes an event about a session's lock.
func (q *Queue) recordSession(kind string, s *session, client string) {
	until := s.lockedUntil
	q.hub.Record(control.Event{Service: "servicebus", Kind: kind, Entity: q.entity, Client: client, Session: s.id, LockedUntil: &until})
}

// record writes an event about an entry. The hub's log has its own mutex, below the queue's.
func (q *Queue) record(kind, client string, e *entry) { q.hub.Record(q.event(kind, client, e)) }

// event begins an event about an entry.
func (q *Queue) event(kind, client string, e *entry) control.Event {
	return control.Event{
		Service:        "servicebus",
		Kind:           kind,
		Entity:         q.entity,
		Client:         client,
		Key:            e.message.ID,
		CorrelationID:  e.message.CorrelationID,
		Subject:        e.message.Subject,
		SequenceNumber: e.seq,
		Session:        e.message.SessionID,
	}
}

// bySequence is the order of a queue.
func bySequence(e *entry, seq int64) int { return cmp.Compare(e.seq, seq) }
