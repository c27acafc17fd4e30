package model

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// Bounds that are the same for all explorations; doc.go says why they suffice.
const (
	maxMessages = 3
	maxRuns     = 2
	maxStarts   = 3 // claim.Terms.MaxAttempts
	maxAnswered = 2 // message.Declaration.Attempts
	maxCount    = 2 // deliveries of one message
)

// model is one exploration: rules, two declarations, bounds.
type model struct {
	rules    rules
	declared [2]message.Declaration

	maxFaults     uint8
	maxDeliveries uint8 // of one worker
	maxRedispatch uint8
	oneDelivery   uint8 // what a delivery counts: nothing on the way to an end
	faultless     bool

	records *records
	decisions
	emitted func(t state, a action)
}

// action is one step of a trace.
type action struct {
	what string
	who  int // a worker, or noWorker
}

const noWorker = -1

func (a action) String() string {
	switch {
	case a.who == noWorker:
		return a.what
	case a.who == 2:
		return a.what + " the orchestrator"
	case strings.HasSuffix(a.what, ":"):
		return fmt.Sprintf("w%d %s", a.who+1, strings.TrimSuffix(a.what, ":"))
	case a.what == "crashes" || strings.HasPrefix(a.what, "is slow"):
		return fmt.Sprintf("w%d %s", a.who+1, a.what)
	}
	return fmt.Sprintf("%s w%d", a.what, a.who+1)
}

// fault is a promise that a step broke.
type fault uint8

const (
	noFault fault = iota
	secondEffect
	secondResult
	changedResult
	fenceFell
	failedOverCompleted
	taskLost
	noEnd
)

var faults = [...]string{
	"", "a second effect", "a second result", "a completed claim changed", "a grant without a larger fence",
	"an execution is FAILED while its claim is COMPLETED", "the task is in no message and no outbox", "no end is reached any more",
}

func newModel(r rules, first, second message.Declaration) *model {
	return &model{
		rules: r, declared: [2]message.Declaration{first, second}, oneDelivery: 1,
		records: newRecords(),
		decisions: decisions{
			changesOf: map[changeOf]execution.Change{},
			takes:     map[takeAsk]takeAnswer{}, looks: map[lookAsk]lookAnswer{}, withdraws: map[lookAsk]lookAnswer{}, changes: map[changeAsk]id{},
		},
	}
}

// within sets the bounds of one exploration.
func (m *model) within(faults, deliveries int) *model {
	m.maxFaults, m.maxDeliveries, m.maxRedispatch = uint8(faults), uint8(deliveries), 1
	return m
}

func (m *model) emit(t state, what string, who int) {
	t.sweep()
	t.sort()
	if t.broken == noFault {
		t.broken = m.check(&t)
	}
	m.emitted(t, action{what, who})
}

// fault emits a step that only a fault, an operator or a long wait brings; each
// counts against the bound.
func (m *model) fault(s state, what string, who int, change func(t *state)) {
	if m.faultless || s.faults >= m.maxFaults {
		return
	}
	s.faults++
	change(&s)
	m.emit(s, what, who)
}

// check looks at a state for what must never be.
func (m *model) check(s *state) fault {
	r := m.records.list[s.cur]
	if s.exec == failed && r.status == claim.Completed && !s.resolved {
		return failedOverCompleted
	}
	ended := r.status == claim.Completed || r.status == claim.Failed && r.run >= s.run
	if s.exec != running || ended || s.purged || s.tooOld || s.outbox == s.run {
		return noFault
	}
	for _, message := range s.msg {
		if message.place != gone && message.run >= s.run {
			return noFault
		}
	}
	return taskLost
}

// steps emits everything that can happen next.
func (m *model) steps(s state) {
	m.worker(s, 0)
	m.worker(s, 1)
	m.land(s)
	m.time(s)
	m.orchestrator(s)
	m.operator(s)
}

var seed = maphash.MakeSeed()

// table finds states by their value: open addressing over numbers into a list.
type table struct {
	states []state
	parent []uint32
	slots  []uint32 // number + 1
}

func (t *table) add(s state, parent uint32) bool {
	if 2*len(t.states) >= len(t.slots) {
		t.grow()
	}
	i := maphash.Comparable(seed, s) & uint64(len(t.slots)-1)
	for ; t.slots[i] != 0; i = (i + 1) & uint64(len(t.slots)-1) {
		if t.states[t.slots[i]-1] == s {
			return false
		}
	}
	t.states, t.parent = append(t.states, s), append(t.parent, parent)
	t.slots[i] = uint32(len(t.states))
	return true
}

func (t *table) grow() {
	t.slots = make([]uint32, max(1<<16, 4*len(t.slots)))
	for n, s := range t.states {
		i := maphash.Comparable(seed, s) & uint64(len(t.slots)-1)
		for t.slots[i] != 0 {
			i = (i + 1) & uint64(len(t.slots)-1)
		}
		t.slots[i] = uint32(n + 1)
	}
}

// found is what an exploration comes to.
type found struct {
	states, transitions, ends int
	depth                     int
	took                      time.Duration
	broken                    fault
	trace                     string
	cut                       bool // the bound of states was reached
}

func (f found) String() string {
	says := "no violation"
	if f.broken != noFault {
		says = faults[f.broken]
	}
	if f.cut {
		says += ", cut off"
	}
	return fmt.Sprintf("%d states, %d transitions, depth %d, %d runs to the end, %v: %s", f.states, f.transitions, f.depth, f.ends, f.took.Round(time.Millisecond), says)
}

// explore visits every state, nearest first, until one breaks a promise or limit
// states are known.
func (m *model) explore(limit int) found {
	began := time.Now()
	var f found
	var known table
	begin := state{run: 1, outbox: 1}
	known.add(begin, 0)
	ends := map[state]struct{}{}
	var parent uint32
	m.emitted = func(t state, _ action) {
		f.transitions++
		if f.broken != noFault {
			return
		}
		if known.add(t, parent) && t.broken != noFault {
			f.broken = t.broken
		}
	}
	level := 1
	for n := 0; n < len(known.states) && f.broken == noFault; n++ {
		if n == level {
			f.depth, level = f.depth+1, len(known.states)
		}
		if len(known.states) >= limit {
			f.cut = true
			break
		}
		parent = uint32(n)
		s := known.states[n]
		m.steps(s)
		if f.broken == noFault && s.slot[0].ctl == idle && s.slot[1].ctl == idle {
			if path, broken := m.end(s, ends); path != nil {
				f.broken = broken
				f.trace = m.trace(&known, n) + strings.Join(path, "")
			}
		}
	}
	f.states, f.ends, f.took = len(known.states), len(ends), time.Since(began)
	if f.broken != noFault && f.trace == "" {
		f.trace = m.trace(&known, len(known.states)-1)
	}
	return f
}

// trace tells how a state is reached, step by step.
func (m *model) trace(known *table, n int) string {
	var path []int
	for ; n != 0; n = int(known.parent[n]) {
		path = append(path, n)
	}
	slices.Reverse(path)
	var b strings.Builder
	from, emitted := known.states[0], m.emitted
	defer func() { m.emitted = emitted }()
	fmt.Fprintf(&b, "     %s\n", m.describe(from))
	for i, n := range path {
		to, told := known.states[n], false
		m.emitted = func(t state, a action) {
			if t == to && !told {
				told = true
				fmt.Fprintf(&b, "%3d. %v\n     %s\n", i+1, a, m.describe(t))
			}
		}
		m.steps(from)
		from = to
	}
	return b.String()
}

// end follows the fair steps from a state in which nobody is at work, without any
// more faults, to where nothing is left to do. Both versions of the handler must
// be able to do the rest alone. It returns the path of what has no such end.
func (m *model) end(s state, ends map[state]struct{}) (path []string, broken fault) {
	for w := range s.slot {
		if path, broken := m.endBy(s, w, ends); path != nil {
			return path, broken
		}
	}
	return nil, noFault
}

// longest bounds the way to an end: it has no more than a few deliveries in it.
const longest = 200

func (m *model) endBy(s state, w int, ends map[state]struct{}) (path []string, broken fault) {
	bounds, emitted := *m, m.emitted
	defer func() {
		m.maxDeliveries, m.maxRedispatch, m.oneDelivery, m.faultless = bounds.maxDeliveries, bounds.maxRedispatch, bounds.oneDelivery, false
		m.emitted = emitted
	}()
	m.maxDeliveries, m.maxRedispatch, m.oneDelivery, m.faultless = 1, 1, 0, true
	s.faults, s.redispatch, s.slot[0].deliveries, s.slot[1].deliveries = 0, 0, 0, 0
	s.prev = 0 // replicas catch up
	// The mark of who goes on is which slot is never used; it is part of what is known.
	s.slot[1-w].deliveries = 1
	type step struct {
		did action
		to  state
	}
	var did []step
	var visited []state
	for range longest {
		if s.slot[w].ctl == idle {
			if _, ok := ends[s]; ok || m.over(&s) {
				for _, v := range visited {
					ends[v] = struct{}{}
				}
				return nil, noFault
			}
			visited = append(visited, s)
		}
		next, a, ok := m.fair(s, w)
		if !ok {
			break
		}
		did = append(did, step{a, next})
		if s = next; s.broken != noFault {
			break
		}
	}
	for _, d := range did {
		path = append(path, fmt.Sprintf("  => %v\n     %s\n", d.did, m.describe(d.to)))
	}
	return path, cmp.Or(s.broken, noEnd)
}

// fair is the step that is next if nothing goes wrong.
func (m *model) fair(s state, w int) (next state, did action, ok bool) {
	m.emitted = func(t state, a action) {
		if !ok && t != s {
			next, did, ok = t, a, true
		}
	}
	m.land(s)
	m.time(s)
	m.events(s)
	m.worker(s, w)
	if !ok {
		m.orchestrator(s)
	}
	next.prev = 0
	return next, did, ok
}

// over: nothing is left to do, and everybody knows the same.
func (m *model) over(s *state) bool {
	r := m.records.list[s.cur]
	for _, message := range s.msg {
		if message.place != gone && message.place != dead {
			return false
		}
	}
	if s.exec == running || s.outbox != 0 || s.doneEvent != 0 || s.failEvent != [maxRuns + 1]failEvent{} || s.late != [3]id{} {
		return false
	}
	switch s.exec {
	case completed:
		return r.status == claim.Completed && r.fence == s.digest
	case failed:
		return r.status == claim.Failed
	}
	return true
}
