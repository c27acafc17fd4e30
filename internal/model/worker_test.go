package model

import (
	"oneeffect/internal/claim"
)

// worker emits every step that worker w can take next.
func (m *model) worker(s state, w int) {
	slot := &s.slot[w]
	if slot.ctl != idle {
		m.crash(s, w)
		if slot.trust && (slot.ctl != taking || m.records.list[s.cur].owner == name(1+w)) {
			m.fault(s, "is slow: its lease is not trusted any more", w, func(t *state) { t.slot[w].trust = false })
		}
	}
	switch slot.ctl {
	case idle:
		m.deliver(s, w)
	case taking:
		m.taking(s, w)
	case held:
		m.held(s, w)
	case writing:
		m.writing(s, w)
	case doubt:
		m.readBack(s, w, s.cur, s.stale)
		if s.prev != s.cur {
			m.fault(s, "reads back from a replica that lags", w, func(t *state) { m.proved(t, w, t.prev, true) })
		}
		m.fault(s, "gives up: no answer in time", w, func(t *state) { m.gaveUp(t, w) })
	case licensed:
		m.licensed(s, w)
	case calling:
		m.call(s, w)
	case telling:
		m.tell(s, w)
	case preparing:
		m.copy(s, w)
	case settling:
		m.settle(s, w)
	}
}

// deliver hands a message to an idle worker.
func (m *model) deliver(s state, w int) {
	if s.slot[w].deliveries >= m.maxDeliveries {
		return
	}
	for i, message := range s.msg {
		if message.place != queued || i > 0 && message == s.msg[i-1] {
			continue
		}
		t := s
		t.msg[i].place = lockedBy(w)
		t.msg[i].count++
		t.slot[w] = slot{ctl: taking, run: message.run, asserted: message.asserted, trust: true, deliveries: s.slot[w].deliveries + m.oneDelivery}
		if m.rules.ownerPerTake {
			m.forget(&t, w, false)
		}
		m.emit(t, "a message is delivered to", w)
	}
}

// crash ends the process. What it sent may still land; nobody answers to its names.
func (m *model) crash(s state, w int) {
	m.fault(s, "crashes", w, func(t *state) {
		m.idle(t, w)
		m.forget(t, w, false)
		m.forget(t, w, true)
	})
}

// idle is a worker that has nothing to do any more with what it may have locked.
func (m *model) idle(t *state, w int) {
	if i := t.at(lockedBy(w)); i >= 0 {
		t.msg[i].place = orphaned
	}
	t.slot[w] = slot{deliveries: t.slot[w].deliveries}
}

// forget renames what bears w's nonce: nobody can recognise it any more.
func (m *model) forget(t *state, w int, write bool) {
	for _, of := range []*id{&t.cur, &t.prev, &t.late[0], &t.late[1], &t.late[2], &t.slot[0].view, &t.slot[1].view} {
		*of = m.records.rename(*of, name(1+w), write)
	}
}

func (m *model) asks(s *state, w int, of id, stale bool) takeAnswer {
	slot := s.slot[w]
	return m.take(takeAsk{of, stale, s.tooOld, slot.run, slot.asserted, uint8(w)})
}

// taking is one round of a Take: a look, a decision, a conditional write. Between
// look and write nothing can happen that the write's condition would not find.
func (m *model) taking(s state, w int) {
	if m.recognised(s.cur, w) {
		t := s
		m.grant(&t, w, t.cur, true)
		m.emit(t, "reads its own grant:", w)
		return
	}
	answer := m.asks(&s, w, s.cur, s.stale)
	t := s
	if !answer.write {
		m.verdict(&t, w, answer, s.cur)
		m.emit(t, "takes, without a write:", w)
	} else {
		m.apply(&t, answer.next)
		if answer.kind == claim.Granted {
			m.grant(&t, w, answer.next, true)
		} else {
			m.verdict(&t, w, answer, answer.next)
		}
		m.emit(t, "takes:", w)
		m.fault(s, "takes, and the answer is lost:", w, func(t *state) { m.apply(t, answer.next) })
		if s.late[w] == 0 {
			m.fault(s, "takes, and the write lands late:", w, func(t *state) { t.late[w] = answer.next })
		}
	}
	if s.prev != s.cur {
		m.fault(s, "takes from a replica that lags:", w, func(t *state) { m.takesOld(t, w) })
	}
	m.fault(s, "gives up taking:", w, func(t *state) { t.slot[w].ctl, t.slot[w].trust = preparing, false })
}

func (m *model) recognised(of id, w int) bool {
	c := m.records.list[of].claim()
	return c != nil && m.rules.takenBy(*c, names[1+w])
}

// takesOld decides from an old version. What it would write is refused as changed,
// and the same version once more is taken for busy.
func (m *model) takesOld(t *state, w int) {
	if m.recognised(t.prev, w) {
		m.grant(t, w, t.prev, false)
		return
	}
	answer := m.asks(t, w, t.prev, true)
	if answer.write {
		answer = takeAnswer{kind: claim.Busy}
	}
	m.verdict(t, w, answer, t.prev)
}

func (m *model) grant(t *state, w int, of id, fresh bool) {
	slot := &t.slot[w]
	slot.ctl, slot.op, slot.view, slot.fresh, slot.fence = held, noOp, of, fresh, m.records.list[of].fence
	if slot.again { // it does not call a second time: what it has to say comes with a copy
		m.write(t, w, opRelease)
	}
}

// verdict is what a Take without a grant comes to.
func (m *model) verdict(t *state, w int, a takeAnswer, of id) {
	slot := &t.slot[w]
	slot.view, slot.trust = of, false
	switch a.kind {
	case claim.Done:
		slot.ctl, slot.op = telling, settleDone
	case claim.Over:
		slot.ctl, slot.op = telling, settleDead
		if a.inert {
			slot.op = settleInert
		}
	case claim.Withdrawn:
		slot.ctl, slot.op = settling, settleDone
	case claim.Refused:
		slot.ctl, slot.op = settling, settleInert
	case claim.Busy:
		slot.ctl, slot.op = preparing, noOp
	}
	if slot.ctl == settling || slot.ctl == preparing {
		slot.view = 0
	}
}

// write begins a write under the lease, with nonces of its own.
func (m *model) write(t *state, w int, o op) {
	t.slot[w].ctl, t.slot[w].op = writing, o
	m.forget(t, w, true)
}

// windowOver is the rule that windowOfAll adds.
func (m *model) windowOver(s *state, w int) bool {
	step, _, _ := m.next(s, w)
	view := m.records.list[s.slot[w].view]
	return m.rules.windowOfAll && step.Keyed && view.passed && view.keyless != ""
}

// held makes the next call, or announces it, or does not.
func (m *model) held(s state, w int) {
	step, i, ok := m.next(&s, w)
	t := s
	if !ok { // the version that made the last one declares more steps after it
		m.write(&t, w, opComplete)
		m.emit(t, "has nothing left to call:", w)
		return
	}
	t.slot[w].step = i
	if !s.slot[w].trust {
		m.write(&t, w, opRelease)
		m.emit(t, "does not call, its lease is lost:", w)
		return
	}
	m.fault(t, "does not call, it is to stop:", w, func(t *state) { m.write(t, w, opRelease) })
	if s.slot[w].op != opRenew { // one renewal between two steps is as good as two
		m.fault(t, "renews:", w, func(t *state) { m.write(t, w, opRenew) })
	}
	t.slot[w].op = noOp
	switch {
	case m.windowOver(&s, w):
		m.ended(&t, w, false)
		m.emit(t, "does not call, the window has passed:", w)
	case !m.keyedStep(&s, w, step) && m.rules.announce:
		m.write(&t, w, opStart)
		m.emit(t, "is about to announce the call:", w)
	case !m.keyedStep(&s, w, step):
		t.slot[w].ctl = calling
		m.emit(t, "is about to call, unannounced:", w)
	case m.records.list[s.slot[w].view].passed:
		m.ended(&t, w, false)
		m.emit(t, "does not call, the window has passed:", w)
	default:
		t.slot[w].ctl = calling
		m.emit(t, "is about to call with its key:", w)
	}
}

// writing sends op on the condition of the version that this owner knows.
func (m *model) writing(s state, w int) {
	slot := s.slot[w]
	if !slot.fresh { // refused as changed
		m.readBack(s, w, s.cur, s.stale)
		return
	}
	next := m.changed(changeAsk{s.cur, slot.op, slot.step, slot.outcome, uint8(w)})
	t := s
	m.apply(&t, next)
	t.slot[w].fresh = true
	m.written(&t, w)
	m.emit(t, "writes:", w)
	m.fault(s, "writes, and the answer is lost:", w, func(t *state) {
		m.apply(t, next)
		t.slot[w].ctl = doubt
	})
	if s.late[w] == 0 {
		m.fault(s, "writes, and the write lands late:", w, func(t *state) {
			t.late[w] = next
			t.slot[w].ctl = doubt
		})
	}
	m.fault(s, "writes, and it is lost:", w, func(t *state) { t.slot[w].ctl = doubt })
}

func (m *model) readBack(s state, w int, of id, stale bool) {
	t := s
	m.proved(&t, w, of, false)
	m.emit(t, "reads back:", w)
}

// proved is what the record that was read says of op.
func (m *model) proved(t *state, w int, of id, old bool) {
	slot := &t.slot[w]
	mine := func(nonce string) bool { return nonce == names[1+w] }
	switch m.rules.readBack(m.records.list[of].claim(), names[1+w], int64(slot.fence), mine) {
	case claim.Applied:
		slot.view, slot.fresh = of, !old
		m.written(t, w)
	case claim.NotYet:
		slot.ctl, slot.view, slot.fresh = writing, of, !old
	default:
		m.lost(t, w)
	}
}

// written goes on after a write that is proved.
func (m *model) written(t *state, w int) {
	slot := &t.slot[w]
	if slot.fresh {
		slot.view = t.cur
	}
	switch slot.op {
	case opStart:
		slot.ctl = licensed
	case opWithdraw:
		m.write(t, w, opRelease)
	case opKeep:
		slot.ctl, slot.op = held, noOp
	case opRenew:
		slot.ctl = held
	case opComplete:
		m.verdict(t, w, takeAnswer{kind: claim.Done}, slot.view)
	case opFail:
		m.verdict(t, w, takeAnswer{kind: claim.Over}, slot.view)
	case opRelease, opCounted:
		m.verdict(t, w, takeAnswer{kind: claim.Busy}, 0)
	}
}

// lost: a newer grant. What stands in the claim by now decides.
func (m *model) lost(t *state, w int) {
	slot := &t.slot[w]
	if slot.again { // conclude takes again once; after that it is an error
		slot.ctl, slot.op, slot.view, slot.trust = preparing, noOp, 0, false
		return
	}
	slot.ctl, slot.op, slot.view, slot.trust, slot.again = taking, noOp, 0, true, true
	if m.rules.ownerPerTake {
		m.forget(t, w, false)
	}
}

// gaveUp is a write that was neither proved nor refused while it was waited for.
func (m *model) gaveUp(t *state, w int) {
	slot := &t.slot[w]
	switch slot.op {
	case opStart, opWithdraw:
		m.write(t, w, opRelease)
	case opRenew:
		slot.ctl = held
	case opKeep:
		if m.keyed(t, w) {
			m.write(t, w, opRelease)
			return
		}
		slot.outcome = unknownOutcome
		m.write(t, w, opFail)
	default:
		slot.ctl, slot.op, slot.view, slot.trust = preparing, noOp, 0, false
	}
}

// licensed looks at the lease once more.
func (m *model) licensed(s state, w int) {
	if s.slot[w].trust && !m.windowOver(&s, w) {
		t := s
		t.slot[w].ctl, t.slot[w].op = calling, noOp
		m.emit(t, "is about to call:", w)
		m.fault(s, "withdraws the call, it is to stop:", w, func(t *state) { m.withdrawn(t, w) })
		return
	}
	m.withdrawn(&s, w)
	m.emit(s, "withdraws the call, its lease is lost or the window has passed:", w)
}

func (m *model) withdrawn(t *state, w int) {
	m.write(t, w, opWithdraw)
}
