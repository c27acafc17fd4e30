package model

import "oneeffect/internal/message"

// next is the first step that has no result yet; none if all have.
func (m *model) next(s *state, w int) (step message.Step, i uint8, ok bool) {
	made := m.records.list[s.slot[w].view].made
	for i, step := range m.declared[w].Calls() {
		if step.Name == "" || made&(1<<i) == 0 {
			return step, uint8(i), true
		}
	}
	return message.Step{}, 0, false
}

// keyed and keyedStep are job.keyed and job.keyedStep of package worker.
func (m *model) keyed(s *state, w int) bool {
	return m.declared[w].Keyed && m.records.list[s.slot[w].view].keyed
}

func (m *model) keyedStep(s *state, w int, step message.Step) bool {
	if m.keyed(s, w) {
		return true
	}
	d := m.declared[w]
	return step.Keyed && !d.Keyed && (!m.rules.sameStep || m.records.list[s.slot[w].view].keyless == d.KeylessStep())
}

// call is the one request of a step: it may leave long after the lease was looked
// at, be lost, be answered, or not be.
func (m *model) call(s state, w int) {
	step, i, _ := m.next(&s, w)
	keyed := step.Keyed // whatever the claim says: a request of such a step has its key
	t := s
	t.reach(i, keyed)
	answered := t
	m.applied(&answered, w, i)
	m.emit(answered, "calls, and is answered:", w)
	if keyed && s.keyKnown[i] { // the downstream has it: it cannot refuse it any more
		m.fault(s, "calls, and the answer is lost:", w, func(f *state) { m.ended(f, w, true) })
		return
	}
	m.fault(s, "calls, it is applied, and the answer is lost:", w, func(f *state) {
		f.reach(i, keyed)
		m.ended(f, w, true)
	})
	m.fault(s, "calls, and the request is lost:", w, func(f *state) { m.ended(f, w, true) })
	m.fault(s, "calls, and the request arrives late:", w, func(f *state) {
		if keyed {
			f.wireKey[i] = true
		} else {
			f.wireBare[i]++
		}
		m.ended(f, w, true)
	})
	m.fault(s, "calls, and is rejected:", w, func(f *state) { m.rejected(f, w) })
	if m.keyed(&s, w) {
		m.fault(s, "calls, and is refused for now:", w, func(f *state) { m.write(f, w, opRelease) })
	}
}

// reach is a request at the downstream.
func (s *state) reach(step uint8, keyed bool) {
	if keyed && s.keyKnown[step] {
		return
	}
	s.effects[step]++
	s.keyKnown[step] = s.keyKnown[step] || keyed
	if s.effects[step] > 1 {
		s.broken = secondEffect
	}
}

func (m *model) applied(t *state, w int, step uint8) {
	t.slot[w].step = step
	if int(step) == len(m.declared[w].Calls())-1 {
		m.write(t, w, opComplete)
		return
	}
	m.write(t, w, opKeep)
}

// ended is Worker.write for an unknown outcome: counted if a call was made, else
// because the window has passed.
func (m *model) ended(t *state, w int, counted bool) {
	slot, view := &t.slot[w], m.records.list[t.slot[w].view]
	switch {
	case !m.keyed(t, w):
		slot.outcome = unknownOutcome
	case view.passed:
		slot.outcome = windowOutcome
	case counted && view.answered+1 >= maxAnswered:
		slot.outcome = exhaustedOutcome
	case counted:
		m.write(t, w, opCounted)
		return
	}
	m.write(t, w, opFail)
}

// rejected is Worker.write for a call that had no effect and is not to be made
// again; what is known of all calls is effectOf.
func (m *model) rejected(t *state, w int) {
	slot, view := &t.slot[w], m.records.list[t.slot[w].view]
	first := view.answered == 0 && view.starts <= 1 && view.fence == 1
	alone := !view.keyed && view.keyless == ""
	slot.outcome = rejectedOutcome
	switch {
	case !first && !alone:
	case view.made != 0:
		slot.outcome++
	default:
		slot.outcome += 2
	}
	m.write(t, w, opFail)
}
