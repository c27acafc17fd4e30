package model

import (
	"fmt"
	"slices"
	"strings"

	"oneeffect/internal/execution"
)

// state is everything that the next step can depend on. It is comparable and holds
// no pointer, so that a million of them are a table.
type state struct {
	// The store. Every write is conditional, so a version is either the one that
	// stands or can never be written over again.
	cur, prev id    // prev: what a replica that lags still shows
	stale     bool  // the age of cur exceeds lease and margin
	late      [3]id // a write that may still land while cur stands; 2 is the orchestrator's

	slot [2]slot
	msg  [maxMessages]msg // in order; the zero is none

	// The downstream, for each step.
	effects   [2]uint8
	keyKnown  [2]bool
	wireKey   [2]bool  // a request with a key is on its way
	wireBare  [2]uint8 // requests without
	windowEnd bool     // a window has passed, once
	tooOld    bool     // notAfter has passed

	// The orchestrator.
	exec       status
	run        uint8
	asserted   bool
	uncertain  bool  // the failure asks for an assertion
	digest     uint8 // of the result: the fence that completed it
	outbox     uint8 // the run whose entry stands
	doneEvent  uint8 // TaskCompleted on its way: its digest
	failEvent  [maxRuns + 1]failEvent
	resolved   bool // an operator resolved the claim
	purged     bool // a dead letter was removed by hand
	redispatch uint8
	faults     uint8

	copyIDs uint16 // ids of copies that the broker has seen: of a broken variant only
	broken  fault  // a promise that the last step broke
}

type failEvent uint8 // 1: of a certain reason, 2: of an uncertain one

// status of the execution, as a number.
type status uint8

const (
	running status = iota
	completed
	failed
	cancelled
)

var statuses = [...]execution.Status{execution.Running, execution.Completed, execution.Failed, execution.Cancelled}

// slot is what one worker does: one delivery at a time, since a process refuses a
// second one of a task that it works on.
type slot struct {
	ctl        control
	op         op // the write or the settlement that is next, or in doubt
	step       uint8
	outcome    outcome // of a failure
	view       id      // the record as this owner last wrote or read it
	fence      uint8
	fresh      bool // its version is the one that stands
	trust      bool // the lease is trusted
	again      bool // took the claim again after losing it
	run        uint8
	asserted   bool
	deliveries uint8
}

type control uint8

const (
	idle      control = iota
	taking            // reads, decides, writes, until one verdict holds
	held              // granted: the next step, or its announcement
	writing           // op is to be written
	doubt             // op was written, or not
	licensed          // the announcement is proved
	calling           // the request leaves, or is about to
	telling           // the verdict is to be published
	settling          // op is what the broker is asked
	preparing         // a copy is to be sent, then the original completed
)

var controls = [...]string{"idle", "taking", "held", "writing", "in doubt", "licensed", "calling", "telling", "settling", "copying"}

type op uint8

const (
	noOp op = iota
	opStart
	opWithdraw
	opKeep
	opComplete
	opFail
	opRelease
	opCounted // a release after a call that ended unknown
	opRenew
	settleDone
	settleDead  // a hint for the orchestrator
	settleInert // a dead letter that says nothing about the execution: as good as gone
)

var ops = [...]string{"", "callStarted", "no call after all", "step's result", "COMPLETED", "FAILED", "release", "counted release", "renewal", "complete", "dead-letter", "dead-letter (says nothing)"}

// outcome is a reason and an effect in one number.
type outcome uint8

// msg is one message: of the queue, or its dead letter.
type msg struct {
	place    place
	run      uint8
	asserted bool
	count    uint8
}

type place uint8

const (
	gone place = iota
	queued
	lockedFirst
	lockedSecond
	orphaned // locked by nobody who is at work on it
	dead
)

var places = [...]string{"gone", "queued", "locked by w1", "locked by w2", "locked", "dead-lettered"}

func lockedBy(w int) place { return lockedFirst + place(w) }

// sweep takes away the dead letters that are no hint any more: the execution has
// ended, or is in a later run.
func (s *state) sweep() {
	for i, m := range s.msg {
		if m.place == dead && (s.exec != running || m.run < s.run) {
			s.msg[i] = msg{}
		}
	}
}

func (s *state) sort() {
	slices.SortFunc(s.msg[:], func(a, b msg) int { return b.weight() - a.weight() })
}

func (m msg) weight() int {
	n := int(m.place)<<8 | int(m.run)<<4 | int(m.count)<<2
	if m.asserted {
		n |= 2
	}
	return n
}

// free is a place for one more message, or -1.
func (s *state) free() int {
	return slices.IndexFunc(s.msg[:], func(m msg) bool { return m.place == gone })
}

// at is a message that is in a place, or -1.
func (s *state) at(p place) int {
	return slices.IndexFunc(s.msg[:], func(m msg) bool { return m.place == p })
}

func (m *model) describe(s state) string {
	var b strings.Builder
	fmt.Fprintf(&b, "claim {%v}", m.records.list[s.cur])
	if s.stale {
		b.WriteString(" stale")
	}
	for i, l := range s.late {
		if l != 0 {
			fmt.Fprintf(&b, " | late write of %s {%v}", names[i+1], m.records.list[l])
		}
	}
	for w, slot := range s.slot {
		if slot.ctl != idle {
			fmt.Fprintf(&b, " | w%d %s %s", w+1, controls[slot.ctl], ops[slot.op])
		}
	}
	for _, message := range s.msg {
		if message.place != gone {
			fmt.Fprintf(&b, " | message run %d %s", message.run, places[message.place])
		}
	}
	fmt.Fprintf(&b, " | effects %v | execution %s run %d", s.effects, statuses[s.exec], s.run)
	return b.String()
}
