package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"oneeffect/emulator/control"
)

// known is what the client knows of something: that it has happened, that it has not, or neither.
type known int

const (
	no known = iota
	unknown
	yes
)

// fate is what became of a message in work, as far as its client has been told.
type fate struct {
	id        string
	sent      known
	scheduled bool
	gone      known // completed or cancelled
	dead      known
	deferred  known
	count     uint32 // answered failures
	failing   bool   // there is one without an answer
	number    int64  // its sequence number, once it was seen
	held      *azservicebus.ReceivedMessage
}

// ledger is what the clients of all rounds have been told.
type ledger struct {
	t     *testing.T
	begun time.Time

	mu      sync.Mutex
	work    map[string]*fate
	batches [][]*fate        // those without an answer
	news    map[string]known // sent to the topic
	once    map[string]known // sent twice
	older   []string         // of once, before the last kill
	state   int              // of the session
	asked   int              // last asked for
	settled int              // answers to settlements
	markers int
	there   int // messages of work, at the last audit

	renewed, resolved int // locks that were found again, and messages of which an answer was missing
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, begun: time.Now(), work: make(map[string]*fate), news: make(map[string]known), once: make(map[string]known)}
}

// counts says how much was done, of each kind.
func (l *ledger) counts() map[string]int {
	counts := map[string]int{
		"messages": len(l.work), "published": len(l.news), "sent twice": len(l.once), "states": l.state,
		"settled": l.settled, "locks found again": l.renewed, "answers missing": l.resolved,
	}
	for _, m := range l.work {
		for what, is := range map[string]bool{
			"completed or cancelled": m.gone == yes, "dead": m.dead == yes, "deferred": m.deferred == yes,
			"failed": m.count > 0, "scheduled": m.scheduled && m.gone == no,
		} {
			if counts[what] += 0; is {
				counts[what]++
			}
		}
	}
	return counts
}

func (l *ledger) begin(id string) *fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &fate{id: id, sent: unknown}
	l.work[id] = m
	return m
}

// answered enters something under the mutex.
func (l *ledger) answered(enter func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	enter()
}

func (l *ledger) together(all []*fate) { l.answered(func() { l.batches = append(l.batches, all) }) }

func (l *ledger) publishing(id string) { l.answered(func() { l.news[id] = unknown }) }

func (l *ledger) sendingOnce(id string) { l.answered(func() { l.once[id] = unknown }) }

// lastOnce returns what was sent before the last kill.
func (l *ledger) lastOnce() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.older
}

func (l *ledger) nextState() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	return l.asked
}

// received notes a delivery. It was sent, then, whatever its sender knows.
func (l *ledger) received(r *azservicebus.ReceivedMessage) *fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.work[r.MessageID]
	switch {
	case m == nil:
		l.t.Errorf("received %s, which nobody has sent", r.MessageID)
		return nil
	case m.gone == yes, m.dead == yes, m.deferred == yes, m.scheduled:
		l.t.Errorf("received %s, which is settled: %+v", m.id, *m)
	case m.held != nil:
		l.t.Errorf("received %s, which is locked until %v", m.id, m.held.LockedUntil)
	case m.failing && r.DeliveryCount == m.count+2: // it has come back before whoever abandoned it heard of that
	case r.DeliveryCount <= m.count || r.DeliveryCount > m.count+1 && !l.late():
		l.t.Errorf("received %s as delivery %d, want %d", m.id, r.DeliveryCount, m.count+1)
	}
	m.sent, m.number, m.count = yes, *r.SequenceNumber, r.DeliveryCount-1
	return m
}

// late reports whether locks may have run out of which nobody knows: those of messages that were on their way to a client
// when the emulator was killed. Counts may have gone up by then.
func (l *ledger) late() bool { return time.Since(l.begun) > 4*time.Minute }

// crowded reports whether there is enough to do for those who receive: looking at all of it takes longer every time.
func (l *ledger) crowded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.there > 3_000
}

// someHeld returns some of what is held under a lock.
func (l *ledger) someHeld() (taken []*fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.work {
		if m.held != nil && len(taken) < 20 {
			taken = append(taken, m)
		}
	}
	return taken
}

// place is where a message was found.
type place struct {
	dead bool
	m    *azservicebus.ReceivedMessage
}

// audit compares what is there with what was told, and takes over what it finds where nobody was told.
func (l *ledger) audit(v *victim) {
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	c := v.client("auditor")
	defer func() { _ = c.Close(ctx) }()
	l.awaitRelay(ctx, v, c)
	found := make(map[string][]place)
	live, dead := l.receiver(c.NewReceiverForQueue("work", nil)), l.receiver(c.NewReceiverForQueue("work", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))
	for _, m := range l.all(ctx, live) {
		found[m.MessageID] = append(found[m.MessageID], place{false, m})
	}
	for _, m := range l.all(ctx, dead) {
		found[m.MessageID] = append(found[m.MessageID], place{true, m})
	}
	l.there = len(found)
	for id := range found {
		if l.work[id] == nil {
			l.t.Errorf("%s is there and was never sent", id)
		}
	}
	l.auditBatches(found)
	for _, m := range l.work {
		l.auditOne(m, found[m.id])
		if m.held == nil {
			continue
		}
		if err := live.RenewMessageLock(ctx, m.held, nil); err != nil {
			l.t.Errorf("%s was locked until %v, and the lock is not there: %v", m.id, m.held.LockedUntil, err)
		}
		l.renewed++
	}
	l.auditRest(ctx, c)
}

// awaitRelay waits until everything that was under way to work has come: what is sent last, comes last.
func (l *ledger) awaitRelay(ctx context.Context, v *victim, c *azservicebus.Client) {
	l.markers++
	m := l.begin(fmt.Sprintf("marker-%d", l.markers))
	s, err := c.NewSender("relay", nil)
	if err == nil {
		err = s.SendMessage(ctx, newMessage(m.id), nil)
	}
	if err == nil {
		err = v.await(ctx, func(e control.Event) bool { return e.Kind == "enqueued" && e.Entity == "work" && e.Key == m.id })
	}
	if err != nil {
		l.t.Fatalf("send through the relay: %v", err)
	}
	m.sent = yes
}

func (l *ledger) receiver(r *azservicebus.Receiver, err error) *azservicebus.Receiver {
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// all peeks everything.
func (l *ledger) all(ctx context.Context, r *azservicebus.Receiver) (all []*azservicebus.ReceivedMessage) {
	for from := int64(0); ; {
		got, err := r.PeekMessages(ctx, 250, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
		if err != nil {
			l.t.Fatalf("peek: %v", err)
		}
		if len(got) == 0 {
			return all
		}
		all = append(all, got...)
		from = *got[len(got)-1].SequenceNumber + 1
	}
}

// auditBatches: a batch without an answer is there whole or not at all.
func (l *ledger) auditBatches(found map[string][]place) {
	for _, batch := range l.batches {
		there := 0
		for _, m := range batch {
			if m.gone == no && len(found[m.id]) > 0 || m.gone != no {
				there++
			}
		}
		if there != 0 && there != len(batch) {
			l.t.Errorf("%d of the batch from %s are there", there, batch[0].id)
		}
	}
	l.batches = nil
}

func (l *ledger) auditOne(m *fate, found []place) {
	before := *m
	fail := func(format string, args ...any) {
		l.t.Helper()
		l.t.Errorf("%s %s; the client knows %+v", m.id, fmt.Sprintf(format, args...), before)
	}
	if len(found) > 1 {
		fail("is there %d times", len(found))
		return
	}
	if m.sent == unknown || m.gone == unknown || m.dead == unknown || m.deferred == unknown || m.failing {
		l.resolved++
	}
	if len(found) == 0 {
		if m.sent == yes && m.gone == no {
			fail("is lost")
		}
		m.sent, m.gone, m.held = yes, yes, nil // or never, which is the same from now on
		return
	}
	p := found[0]
	if m.gone == yes {
		fail("is back")
		return
	}
	m.sent, m.gone = yes, no
	if m.dead == yes && !p.dead || m.dead == no && p.dead && m.count+1 < 10 && !l.late() {
		fail("is in the dead letters: %t", p.dead)
	}
	if !p.dead && m.number != 0 && *p.m.SequenceNumber != m.number {
		fail("has number %d", *p.m.SequenceNumber)
	}
	count := p.m.DeliveryCount - 1
	if count < m.count || (count > m.count+1 || count > m.count && !m.failing) && !l.late() {
		fail("has failed %d times", count)
	}
	deferred := p.m.State == azservicebus.MessageStateDeferred
	if (m.deferred == yes) != deferred && m.deferred != unknown && !p.dead {
		fail("is in state %v", p.m.State)
	}
	if m.scheduled != (p.m.State == azservicebus.MessageStateScheduled) {
		fail("is in state %v", p.m.State)
	}
	m.dead, m.deferred, m.count, m.failing = no, no, count, false
	if p.dead {
		m.dead = yes
	}
	if deferred {
		m.deferred = yes
	}
}

// auditRest is for the topic, the queue without duplicates and the session.
func (l *ledger) auditRest(ctx context.Context, c *azservicebus.Client) {
	ids := func(r *azservicebus.Receiver) map[string]int {
		counts := make(map[string]int)
		for _, m := range l.all(ctx, r) {
			counts[m.MessageID]++
		}
		return counts
	}
	left := ids(l.receiver(c.NewReceiverForSubscription("news", "left", nil)))
	right := ids(l.receiver(c.NewReceiverForSubscription("news", "right", nil)))
	for id, sent := range l.news {
		if n := left[id]; n != right[id] || n > 1 || n == 0 && sent == yes {
			l.t.Errorf("%s is %d times on the left and %d times on the right, and was sent: %d", id, n, right[id], sent)
		} else if n == 0 {
			delete(l.news, id)
		} else {
			l.news[id] = yes
		}
	}
	once := ids(l.receiver(c.NewReceiverForQueue("once", nil)))
	l.older = nil
	for id, sent := range l.once {
		switch n := once[id]; {
		case n > 1 || n == 0 && sent == yes:
			l.t.Errorf("%s is %d times in a queue without duplicates, and was sent: %d", id, n, sent)
		case n == 0:
			delete(l.once, id)
		case len(l.older) < 10:
			l.older = append(l.older, id)
		}
	}
	r, err := c.AcceptSessionForQueue(ctx, "steps", "s", nil)
	if err != nil {
		l.t.Fatalf("accept the session: %v", err)
	}
	defer func() { _ = r.Close(ctx) }()
	text, err := r.GetSessionState(ctx, nil)
	state, _ := strconv.Atoi(string(text)) // 0 if there is none
	if err != nil || state < l.state || state > l.asked {
		l.t.Errorf("the session's state is %q, %v, and %d was answered and %d asked for", text, err, l.state, l.asked)
	}
	l.state = state
}
