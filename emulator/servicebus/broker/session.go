package broker

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// MaxSessionID is the longest SessionID, in characters.
	MaxSessionID = 128

	// endOfTime is the last second that the service's clock knows, 9999-12-31T23:59:59Z, in Unix time. Clients who want
	// to see all sessions ask for changes after it.
	endOfTime = 253402300799
)

// session is one session of a queue: what is available in it, who has its lock, and the state that consumers keep
// with it. It exists while any of these does. It belongs to the queue's mutex.
type session struct {
	id      string
	line    returned // what is available
	entries int      // messages that are not gone
	state   []byte   // nil: none
	stated  time.Time

	holder      *Consumer // who has the lock, nil if it is free
	lockedUntil time.Time
	held        map[*entry]struct{} // locked under the session's lock
	expiry      deadline

	dirty bool // in Queue.dirty
	ready bool // in Queue.ready
}

func (s *session) due() *deadline { return &s.expiry }

// session finds a session, or makes it.
func (q *Queue) session(id string) *session {
	s := q.sessions[id]
	if s == nil {
		s = &session{id: id, held: make(map[*entry]struct{}), expiry: deadline{index: -1}}
		q.sessions[id] = s
	}
	return s
}

// tidy forgets a session that nothing is left of.
func (q *Queue) tidy(s *session) {
	if s.entries == 0 && s.state == nil && s.holder == nil && q.sessions[s.id] == s {
		delete(q.sessions, s.id)
	}
}

// enter puts a new entry into its session.
func (q *Queue) enter(e *entry) {
	e.session = q.session(e.message.SessionID)
	if q.hub.Off("servicebus.session-messages") {
		e.session = q.anyHeld(e.session)
	}
	e.session.entries++
	q.offer(e)
}

// anyHeld finds a session that somebody has the lock of, if the given one has none.
func (q *Queue) anyHeld(given *session) *session {
	for _, s := range q.sessions {
		if s.holder != nil && given.holder == nil {
			return s
		}
	}
	return given
}

// offer makes an entry of a session available: to the session's holder, or to whoever asks for the next session.
func (q *Queue) offer(e *entry) {
	e.session.line.add(e)
	q.mark(e.session)
}

// mark has the next serve look at a session.
func (q *Queue) mark(s *session) {
	if !s.dirty {
		s.dirty = true
		q.dirty = append(q.dirty, s)
	}
}

// serveSessions feeds the holders of sessions, then gives sessions with messages to those who wait for one.
func (q *Queue) serveSessions() {
	for _, s := range q.dirty {
		s.dirty = false
		switch {
		case s.holder != nil:
			for s.holder.wants() {
				e := s.line.take()
				if e == nil {
					break
				}
				s.holder.reserve(e)
			}
		case !s.ready && s.line.peek() != nil:
			s.ready = true
			if q.hub.Off("servicebus.session-turns") {
				q.ready = slices.Insert(q.ready, 0, s)
				continue
			}
			q.ready = append(q.ready, s)
		}
	}
	clear(q.dirty)
	q.dirty = q.dirty[:0]
	for len(q.applicants) > 0 {
		s := q.nextReady()
		if s == nil {
			return
		}
		a := q.applicants[0]
		q.applicants = slices.Delete(q.applicants, 0, 1)
		a.consumer = q.grant(s, a.client, a.mode, a.wake, q.hub.Now())
		close(a.granted)
	}
}

// nextReady takes the session that has waited longest with messages and without a holder.
func (q *Queue) nextReady() *session {
	for len(q.ready) > 0 {
		s := q.ready[0]
		q.ready[0] = nil
		q.ready = q.ready[1:]
		s.ready = false
		if s.holder == nil && s.line.peek() != nil {
			return s
		}
	}
	q.ready = nil
	return nil
}

// grant gives a session's lock to a new consumer.
func (q *Queue) grant(s *session, client string, mode Mode, wake chan<- struct{}, now time.Time) *Consumer {
	c := &Consumer{queue: q, client: client, mode: mode, wake: wake, session: s, lost: make(chan struct{})}
	q.consumers++
	s.holder, s.lockedUntil = c, now.Add(q.config.LockDuration)
	q.setDeadline(s, s.lockedUntil)
	q.recordSession("session-locked", s, client)
	return c
}

// RequiresSession reports whether messages of the queue are received by session only.
func (q *Queue) RequiresSession() bool { return q.config.RequiresSession }

// AcceptSession locks a session by name, whether it has messages or not.
func (q *Queue) AcceptSession(client string, mode Mode, id string, wake chan<- struct{}) (*Consumer, error) {
	if err := q.checkSession(id); err != nil {
		return nil, err
	}
	now := q.begin()
	defer q.end()
	if q.gone {
		return nil, fmt.Errorf("accept session of %s: %w", q.config.Name, ErrNotFound)
	}
	s := q.session(id)
	if s.holder != nil && !q.hub.Off("servicebus.session-lock") {
		return nil, fmt.Errorf("%w: '%s'", ErrSessionLocked, id)
	}
	return q.grant(s, client, mode, wake, now), nil
}

func (q *Queue) checkSession(id string) error {
	switch {
	case !q.config.RequiresSession:
		return fmt.Errorf("%s: %w: %s", q.config.Name, ErrInvalid, noSessions)
	case len([]rune(id)) > MaxSessionID:
		return fmt.Errorf("session id of %d characters: %w: at most %d are allowed", len([]rune(id)), ErrInvalid, MaxSessionID)
	}
	return nil
}

const noSessions = "It is not possible for an entity that does not require sessions to create a sessionful message receiver."

// Applicant waits for the next session that has messages and no holder. Applicants are served in their order.
type Applicant struct {
	queue    *Queue
	client   string
	mode     Mode
	wake     chan<- struct{}
	granted  chan struct{}
	consumer *Consumer // belongs to the queue's mutex until granted is closed
}

// AwaitSession asks for the lock of the next session. Withdraw must be called when nobody waits any more.
func (q *Queue) AwaitSession(client string, mode Mode, wake chan<- struct{}) (*Applicant, error) {
	if err := q.checkSession(""); err != nil {
		return nil, err
	}
	a := &Applicant{queue: q, client: client, mode: mode, wake: wake, granted: make(chan struct{})}
	q.begin()
	defer q.end()
	if q.gone {
		return nil, fmt.Errorf("await session of %s: %w", q.config.Name, ErrNotFound)
	}
	q.applicants = append(q.applicants, a)
	q.serve()
	return a, nil
}

// Granted is closed once there is a session.
func (a *Applicant) Granted() <-chan struct{} { return a.granted }

// Withdraw ends the wait, and returns the consumer if a session was granted before.
func (a *Applicant) Withdraw() *Consumer {
	q := a.queue
	q.begin()
	defer q.end()
	if !q.hub.Off("servicebus.session-withdrawal") {
		q.applicants = slices.DeleteFunc(q.applicants, func(other *Applicant) bool { return other == a })
	}
	return a.consumer
}

// release ends a session's lock because its consumer has gone. What the consumer had locked is available again and no
// delivery is counted: only a lock that runs out is a failure.
func (q *Queue) release(s *session, now time.Time) {
	q.recordSession("session-released", s, s.holder.client)
	for _, e := range q.freeSession(s) {
		if q.hub.Off("servicebus.session-close-uncounted") {
			q.fail(e, now)
			continue
		}
		q.giveBack(e, now)
	}
	q.mark(s)
	q.tidy(s)
}

// freeSession takes a session's lock away and returns what was locked under it, in order.
func (q *Queue) freeSession(s *session) []*entry {
	s.holder = nil
	q.setDeadline(s, time.Time{})
	held := make([]*entry, 0, len(s.held))
	for e := range s.held {
		held = append(held, e)
	}
	slices.SortFunc(held, func(a, b *entry) int { return cmp.Compare(a.seq, b.seq) })
	return held
}

// sessionExpired ends a session's lock whose time has come. Every message under it counts as a failed delivery.
func (q *Queue) sessionExpired(s *session, now time.Time) {
	if q.hub.Off("servicebus.lock-expiry") {
		s.lockedUntil = now.Add(q.config.LockDuration)
		q.setDeadline(s, s.lockedUntil)
		return
	}
	q.endSession(s, now)
}

// LoseSession ends the lock of a session as if its time had come.
func (q *Queue) LoseSession(id string) {
	now := q.begin()
	defer q.end()
	if s := q.sessions[id]; s != nil && s.holder != nil {
		q.endSession(s, now)
	}
	q.serve()
}

// endSession is the failure that the end of a session's lock is.
func (q *Queue) endSession(s *session, now time.Time) {
	c := s.holder
	q.recordSession("session-lock-expired", s, c.client)
	for _, e := range q.freeSession(s) {
		if q.hub.Off("servicebus.session-lock-expiry-counted") {
			q.giveBack(e, now)
			continue
		}
		q.lockEnded(e, now)
	}
	q.retire(c, now)
	close(c.lost)
	q.mark(s)
	q.tidy(s)
}

// endSessions ends every session of a queue that is deleted.
func (q *Queue) endSessions() {
	for _, s := range q.sessions {
		if s.holder != nil {
			q.freeSession(s)
		}
	}
	clear(q.sessions)
	q.dirty, q.ready = nil, nil
}

// RenewSession extends the lock of a session to a full duration from now and returns when it ends. A client whose lock
// has passed to another one has none to renew.
func (q *Queue) RenewSession(client, id string) (time.Time, error) {
	now := q.begin()
	defer q.end()
	s, err := q.lockedSession(id)
	if err == nil && s.holder.client != client {
		err = ErrSessionLockLost
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("renew session lock: %w", err)
	}
	if q.hub.Off("servicebus.lock-renewal") {
		return now.Add(q.config.LockDuration), nil
	}
	s.lockedUntil = now.Add(q.config.LockDuration)
	for e := range s.held {
		e.lockedUntil = s.lockedUntil
	}
	q.setDeadline(s, s.lockedUntil)
	q.recordSession("session-lock-renewed", s, client)
	return s.lockedUntil, nil
}

// lockedSession finds a session that somebody has the lock of: without it nobody may touch the session.
func (q *Queue) lockedSession(id string) (*session, error) {
	if !q.config.RequiresSession {
		return nil, fmt.Errorf("%s has no sessions: %w", q.config.Name, ErrInvalid)
	}
	s := q.sessions[id]
	if s == nil || s.holder == nil {
		return nil, ErrSessionLockLost
	}
	return s, nil
}

// SessionState returns what was last set, nil if nothing is.
func (q *Queue) SessionState(id string) ([]byte, error) {
	q.begin()
	defer q.end()
	s, err := q.lockedSession(id)
	if err != nil {
		return nil, fmt.Errorf("get session state: %w", err)
	}
	return s.state, nil
}

// SetSessionState keeps a state with a session; an empty one clears it. It takes up space like a message.
func (q *Queue) SetSessionState(id string, state []byte) error {
	now := q.begin()
	defer q.end()
	s, err := q.lockedSession(id)
	if err != nil {
		return fmt.Errorf("set session state: %w", err)
	}
	if len(state) > q.config.MaxMessage {
		return fmt.Errorf("set session state: %w: %d bytes, at most %d are allowed", ErrTooLarge, len(state), q.config.MaxMessage)
	}
	if err := q.quota.take(int64(len(state)), 1); err != nil {
		return fmt.Errorf("set session state: %w", err)
	}
	q.quota.give(int64(len(s.state)))
	s.state, s.stated = state, now
	if len(state) == 0 && !q.hub.Off("servicebus.empty-session-state") {
		s.state = nil
	}
	q.write(Record{Change: StateSet, ID: id, State: s.state, At: now})
	return nil
}

// Sessions lists sessions by id, at most top of them after the first skip: those whose state was set after a time, or,
// if that time is the end of all times, those that have messages or state.
func (q *Queue) Sessions(since time.Time, skip, top int) []string {
	q.begin()
	defer q.end()
	var ids []string
	for id, s := range q.sessions {
		if since.Unix() >= endOfTime && (s.entries > 0 || s.state != nil) || s.state != nil && s.stated.After(since) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = ids[min(max(0, skip), len(ids)):]
	return ids[:min(max(0, top), len(ids))]
}

// Session is the id of the session that the consumer has locked.
func (c *Consumer) Session() string { return c.session.id }

// SessionLockedUntil is when the lock of the consumer's session ends.
func (c *Consumer) SessionLockedUntil() time.Time {
	c.queue.begin()
	defer c.queue.end()
	return c.session.lockedUntil
}

// Lost is closed when the lock of the consumer's session has run out. The consumer is closed then. It is nil for a
// consumer without a session.
func (c *Consumer) Lost() <-chan struct{} { return c.lost }
