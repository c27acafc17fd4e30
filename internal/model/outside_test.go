package model

import (
	"oneeffect/internal/claim"
)

// tell publishes what a verdict stands for. What is told is in the claim that was
// written or read, so telling it twice is one event.
func (m *model) tell(s state, w int) {
	t := s
	t.event(m.records.list[s.slot[w].view])
	told := t
	told.slot[w].ctl, told.slot[w].view = settling, 0
	m.emit(told, "publishes:", w)
	m.fault(t, "publishes, and is never answered:", w, func(t *state) { t.slot[w].ctl, t.slot[w].op, t.slot[w].view = preparing, noOp, 0 })
	m.fault(s, "cannot publish:", w, func(t *state) { t.slot[w].ctl, t.slot[w].op, t.slot[w].view = preparing, noOp, 0 })
}

// event puts what a claim says on its way to the orchestrator.
func (s *state) event(r record) {
	switch {
	case r.status == claim.Completed && s.doneEvent != 0 && s.doneEvent != r.fence,
		r.status == claim.Completed && s.exec == completed && s.digest != r.fence:
		s.broken = secondResult
	case r.status == claim.Completed:
		s.doneEvent = r.fence
	case r.reason == claim.OutcomeUnknown || r.reason == claim.KeyWindowPassed:
		s.failEvent[r.run] = 2
	default:
		s.failEvent[r.run] = 1
	}
}

// copy sends a copy and completes the original. The copy comes first, so what is
// cut off between the two are two messages and one claim.
func (m *model) copy(s state, w int) {
	slot, own, t := s.slot[w], s.at(lockedBy(w)), s
	m.idle(&t, w)
	m.fault(t, "cannot send a copy, and leaves the message to its lock:", w, func(*state) {})
	if !m.rules.randomCopies {
		id := uint16(1) << m.records.list[t.cur].fence
		if t.copyIDs&id != 0 { // dropped as a duplicate
			if own >= 0 {
				t.msg[own] = msg{}
			}
			m.emit(t, "sends a copy, which is dropped, and completes the message:", w)
			return
		}
		t.copyIDs |= id
	}
	sent := msg{place: queued, run: slot.run, asserted: slot.asserted}
	if i := t.free(); i >= 0 {
		both := t
		both.msg[i] = sent
		if own < 0 { // the lock was lost: the original is somebody else's
			m.emit(both, "sends a copy:", w)
			return
		}
		m.fault(both, "sends a copy, and cannot complete the message:", w, func(*state) {})
	}
	if own < 0 {
		m.emit(t, "sends no copy, there is no place for one in this model:", w)
		return
	}
	t.msg[own] = sent
	m.emit(t, "sends a copy and completes the message:", w)
}

// settle tells the broker, if the lock still stands.
func (m *model) settle(s state, w int) {
	own, t := s.at(lockedBy(w)), s
	m.idle(&t, w)
	if own < 0 {
		m.emit(t, "settles, its lock was lost:", w)
		return
	}
	m.fault(t, "settles, and it is lost:", w, func(*state) {})
	switch s.slot[w].op {
	case settleDone:
		t.msg[own] = msg{}
		m.emit(t, "completes the message:", w)
	case settleInert:
		t.msg[own] = msg{}
		m.emit(t, "dead-letters the message, which says nothing:", w)
	default:
		t.msg[own] = msg{place: dead, run: t.msg[own].run, asserted: t.msg[own].asserted}
		m.emit(t, "dead-letters the message:", w)
	}
}

// time emits what passes by itself.
func (m *model) time(s state) {
	cur := m.records.list[s.cur]
	if cur.status == claim.InProgress && !cur.released && !s.stale && !m.trusted(&s, cur.owner) {
		t := s
		t.stale = true
		m.emit(t, "the lease ends", noWorker)
	}
	if cur.waiting {
		t := s
		m.all(&t, func(r record) record { r.waiting = false; return r })
		m.emit(t, "notBefore comes", noWorker)
	}
	if i := s.at(orphaned); i >= 0 {
		t := s
		m.unlock(&t, i)
		m.emit(t, "the lock of a message ends", noWorker)
	}
	for w := range s.slot {
		if i := s.at(lockedBy(w)); i >= 0 {
			m.fault(s, "the lock ends of a message of", w, func(t *state) { m.unlock(t, i) })
		}
	}
	if !s.windowEnd && cur.status != "" && !s.underWay() {
		m.fault(s, "the key window passes", noWorker, func(t *state) {
			t.windowEnd, t.keyKnown = true, [2]bool{}
			m.all(t, func(r record) record { r.passed = r.status != ""; return r })
		})
	}
	if !s.tooOld {
		m.fault(s, "notAfter passes", noWorker, func(t *state) { t.tooOld = true })
	}
}

// trusted: an owner stops trusting its lease before the lease ends (C5).
func (m *model) trusted(s *state, owner name) bool {
	return (owner == first || owner == second) && s.slot[owner-1].trust
}

// underWay: a request is about to leave, or has. A pause there is assumed to be
// shorter than the margins of the key window and of an operator's look.
func (s *state) underWay() bool {
	return s.slot[0].ctl == calling || s.slot[1].ctl == calling ||
		s.wireKey[0] || s.wireKey[1] || s.wireBare[0] > 0 || s.wireBare[1] > 0
}

func (m *model) unlock(t *state, i int) {
	t.msg[i].place = queued
	if t.msg[i].count >= maxCount {
		t.msg[i].place, t.msg[i].count = dead, 0
	}
}

// all changes every version of the record, wherever it is held.
func (m *model) all(t *state, change func(record) record) {
	for _, of := range []*id{&t.cur, &t.prev, &t.late[0], &t.late[1], &t.late[2], &t.slot[0].view, &t.slot[1].view} {
		if *of != 0 {
			*of = m.records.id(change(m.records.list[*of]))
		}
	}
}

// apply is a conditional write that fits: what else was on its way never will.
func (m *model) apply(t *state, next id) {
	old, to := m.records.list[t.cur], m.records.list[next]
	switch {
	case old.status == claim.Completed:
		t.broken = changedResult
	case to.owner != old.owner && to.fence <= old.fence || to.owner == old.owner && to.fence < old.fence:
		t.broken = fenceFell
	}
	t.prev, t.cur, t.stale, t.late = t.cur, next, false, [3]id{}
	t.slot[0].fresh, t.slot[1].fresh = false, false
}

// land emits what arrives late: writes at the store, requests at the downstream.
func (m *model) land(s state) {
	for i, l := range s.late {
		if l != 0 {
			t := s
			m.apply(&t, l)
			m.emit(t, "a late write lands, of", i)
			t = s
			t.late[i] = 0
			m.emit(t, "a late write is lost, of", i)
		}
	}
	for step := range s.wireKey {
		if s.wireKey[step] {
			t := s
			t.wireKey[step] = false
			m.emit(t, "a late request is lost", noWorker)
			t.reach(uint8(step), true)
			m.emit(t, "a late request arrives", noWorker)
		}
		if s.wireBare[step] > 0 {
			t := s
			t.wireBare[step]--
			m.emit(t, "a late request is lost", noWorker)
			t.reach(uint8(step), false)
			m.emit(t, "a late request arrives", noWorker)
		}
	}
}
