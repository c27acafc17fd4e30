package orchestrator

import (
	"slices"
	"sync"
	"time"

	"oneeffect/internal/diagram"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// What is remembered of events that changed nothing is bounded by.
const (
	maxSeen     = 1000 // executions
	maxSightsOf = 8    // of one execution: the newest
)

// seen remembers, for pictures, the events that came to this process and changed
// nothing, and what their senders had been refused: it is written down nowhere, and
// writing it would be a change. It is of this process alone, since it began, and decides
// nothing.
type seen struct {
	mu    sync.Mutex
	of    map[string][]diagram.Moment
	order []string // the executions, by when they were first seen
}

// add takes down a decision that no history shows.
func (s *seen) add(event message.Event, decision execution.Decision, state execution.Status, now time.Time) {
	m := diagram.Moment{At: now, Source: diagram.Seen, What: diagram.NoOp, Run: event.Run(), To: state}
	switch decision {
	case execution.NoOp:
	case execution.Contradiction:
		m.What = diagram.Contradiction
	default:
		return
	}
	s.keep(event.ExecutionID(), m)
}

// fenced takes down that the sender of an event had been refused a write, once for each
// grant.
func (s *seen) fenced(event message.Event, now time.Time) {
	if event.Fenced() > 0 {
		s.keep(event.ExecutionID(), diagram.Moment{At: now, Source: diagram.Seen, What: diagram.Refused, Run: event.Run(), Fence: event.Fenced(), Detail: event.Type()})
	}
}

func (s *seen) keep(id string, m diagram.Moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := func(other diagram.Moment) bool { return other.What == diagram.Refused && other.Fence == m.Fence }
	if m.What == diagram.Refused && slices.ContainsFunc(s.of[id], known) {
		return
	}
	if s.of == nil {
		s.of = make(map[string][]diagram.Moment)
	}
	if _, known := s.of[id]; !known {
		if len(s.order) == maxSeen {
			delete(s.of, s.order[0])
			s.order = slices.Delete(s.order, 0, 1)
		}
		s.order = append(s.order, id)
	}
	sights := append(s.of[id], m)
	s.of[id] = sights[max(len(sights)-maxSightsOf, 0):]
}

// among puts what was seen of an execution among its moments, by time.
func (s *seen) among(id string, moments []diagram.Moment) []diagram.Moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.of[id] {
		at := len(moments)
		for at > 0 && moments[at-1].At.After(m.At) {
			at--
		}
		moments = slices.Insert(moments, at, m)
	}
	return moments
}
