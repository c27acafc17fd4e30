package model

import (
	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// orchestrator emits what it does by itself.
func (m *model) orchestrator(s state) {
	ended := s.outbox != s.run || s.exec != running // then the entry is forgotten
	if i := s.free(); s.outbox != 0 && (i >= 0 || ended) {
		t := s
		if !ended {
			t.msg[i] = msg{place: queued, run: s.run, asserted: s.asserted}
			m.fault(t, "a task is sent, and its outbox entry stays", noWorker, func(*state) {})
		}
		t.outbox = 0
		m.emit(t, "a task is sent from the outbox", noWorker)
	}
	m.events(s)
	m.reconcile(s)
	for i, d := range s.msg {
		if d.place != dead || i > 0 && d == s.msg[i-1] {
			continue
		}
		m.peek(s, i)
		m.fault(s, "a dead letter is removed by hand", noWorker, func(t *state) { t.msg[i], t.purged = msg{}, true })
	}
}

func (m *model) events(s state) {
	if s.doneEvent != 0 {
		t := s
		change, contradiction := m.transition(&s, changeOf{what: byCompleted, withDigest: s.doneEvent})
		if contradiction {
			t.broken = secondResult
		}
		t.change(change, s.doneEvent)
		m.fault(t, "TaskCompleted is handled, and comes again", noWorker, func(*state) {})
		t.doneEvent = 0
		m.emit(t, "TaskCompleted is handled", noWorker)
	}
	for run, ev := range s.failEvent {
		if ev == 0 {
			continue
		}
		t := s
		change, _ := m.transition(&s, changeOf{what: byFailed, ofRun: uint8(run), ofUncertain: ev == 2})
		t.change(change, 0)
		m.fault(t, "TaskFailed is handled, and comes again", noWorker, func(*state) {})
		t.failEvent[run] = 0
		m.emit(t, "TaskFailed is handled", noWorker)
	}
}

// peek looks at a dead letter (E4).
func (m *model) peek(s state, i int) {
	if d := s.msg[i]; d.run < s.run || s.exec != running {
		return
	}
	if !m.rules.deadReads {
		s.exec = failed
		m.emit(s, "a dead letter is taken for the failure", noWorker)
		return
	}
	m.examined(s, lookAsk{stands: s.cur, stale: s.stale, tooOld: s.tooOld, run: s.run, dead: true}, "a dead letter is seen, and the claim looked at")
}

// reconcile looks at the claim of an execution that runs for long (E5), and at that
// of one that failed (E4).
func (m *model) reconcile(s state) {
	switch r := m.records.list[s.cur]; {
	case s.exec == running:
		m.examined(s, lookAsk{stands: s.cur, stale: s.stale, tooOld: s.tooOld, run: s.run}, "the reconciler looks at the claim")
		if s.prev != s.cur {
			m.fault(s, "the reconciler looks at a replica that lags", noWorker, func(t *state) {
				m.found(t, m.examine(lookAsk{stands: t.prev, stale: true, tooOld: t.tooOld, run: t.run}), t.prev)
			})
		}
	case s.exec == failed && r.status == claim.Completed:
		s.event(r)
		m.emit(s, "the sweep finds a completed claim", noWorker)
	}
}

// examined carries out an examination. What follows from it in the execution comes
// later, like an event, or never, if the orchestrator crashes.
func (m *model) examined(s state, ask lookAsk, what string) {
	answer := m.examine(ask)
	t := s
	stands := s.cur
	if answer.write {
		stands = answer.next
		m.apply(&t, answer.next)
		m.fault(t, what+", and it crashes", noWorker, func(*state) {})
		if s.late[2] == 0 {
			m.fault(s, what+", and its write lands late", noWorker, func(t *state) { t.late[2] = answer.next })
		}
	}
	answer.write = false
	m.found(&t, answer, stands)
	m.emit(t, what, noWorker)
}

func (m *model) found(t *state, a lookAnswer, of id) {
	switch {
	case a.write: // decided from an old version: refused as changed
	case a.found == claim.FoundDone, a.found == claim.FoundOver:
		t.event(m.records.list[of])
	case a.found == claim.FoundNobody:
		if i := t.free(); i >= 0 && t.redispatch < m.maxRedispatch {
			t.redispatch += m.oneDelivery
			t.msg[i] = msg{place: queued, run: t.run, asserted: t.asserted}
		}
	}
}

// operator emits what people ask for. They assert nothing but the truth.
func (m *model) operator(s state) {
	switch s.exec {
	case running:
		m.fault(s, "an operator cancels, and the claim is not looked at", noWorker, func(t *state) { m.cancel(t) })
		m.fault(s, "an operator cancels", noWorker, func(t *state) {
			m.cancel(t)
			if a := m.withdraw(lookAsk{stands: t.cur, stale: t.stale, tooOld: t.tooOld, run: t.run}); a.write {
				m.apply(t, a.next)
			}
		})
		if r := m.records.list[s.cur]; s.run > 1 && r.status == claim.Failed && s.effects[0]+s.effects[1] > 0 {
			m.resolve(s, *r.claim(), s.run-1) // asked for before the replay
		}
	case failed:
		if s.run < maxRuns {
			m.replay(s, false, "an operator replays")
			if m.nothingUnknown(&s) {
				m.replay(s, true, "an operator replays, asserting that nothing was applied")
			}
		}
		r := m.records.list[s.cur]
		if r.status == claim.Failed && s.effects[0]+s.effects[1] > 0 && !s.underWay() {
			m.resolve(s, *r.claim(), s.run)
		}
	}
}

func (m *model) cancel(t *state) {
	change, _ := m.transition(t, changeOf{what: byCancel})
	t.change(change, 0)
}

func (m *model) replay(s state, asserted bool, what string) {
	if (asserted && m.rules.vouchWaits || s.uncertain) && s.underWay() { // not before lease, margin, call and a quarter of an hour have passed
		return
	}
	change, _ := m.transition(&s, changeOf{what: byReplay, vouched: asserted})
	if change.Status == "" {
		return
	}
	m.fault(s, what, noWorker, func(t *state) { t.change(change, 0) })
}

// nothingUnknown: every effect there is has its result in the claim.
func (m *model) nothingUnknown(s *state) bool {
	r := m.records.list[s.cur]
	for step, n := range s.effects {
		if n > 0 && r.made&(1<<step) == 0 {
			return false
		}
	}
	return true
}

func (m *model) resolve(s state, stands claim.Claim, run uint8) {
	next, write, err := m.rules.resolve(stands, int(run), claim.Result{}, names[overruled], terms)
	if err != nil || !write {
		return
	}
	next.W = names[overruled]
	to := m.records.id(abstract(next))
	m.fault(s, "an operator resolves the claim", noWorker, func(t *state) {
		m.apply(t, to)
		t.resolved = true
	})
	if s.exec != failed {
		return
	}
	m.fault(s, "an operator resolves claim and execution", noWorker, func(t *state) {
		m.apply(t, to)
		t.resolved = true
		digest := m.records.list[to].fence
		change, decision, err := m.rules.settle(t.execution(), message.Completed{ResultDigest: digestOf(digest)}, execution.Operator{}, now)
		if err == nil && decision == execution.Transition {
			t.change(change, digest)
		}
	})
}
