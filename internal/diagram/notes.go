package diagram

import (
	"fmt"
	"slices"
	"strings"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// noted draws an entry of the execution's history.
func (s *story) noted(m Moment) {
	switch {
	case m.What == "created":
		s.remark(orchestrator, m.At, "created"+by(m)+" · RUNNING · "+s.id+" to be sent")
	case m.By != "":
		s.decided(m)
	case m.What == "completed" || m.What == "recovered":
		s.add(broker, orchestrator, Arrow{At: m.At, Reply: true, Label: "completion for " + s.id})
		label := fmt.Sprintf("transition %s → %s (ETag)", m.From, m.To)
		if m.What == "recovered" {
			label += ": the claim is right"
		}
		s.add(orchestrator, store, Arrow{At: m.At, Label: label, Mark: Success})
	case m.What == "failed" && m.To == execution.Failed:
		s.add(broker, orchestrator, Arrow{At: m.At, Reply: true, Label: "failure of " + s.id + detail("", m.Detail)})
		s.add(orchestrator, store, Arrow{At: m.At, Label: fmt.Sprintf("transition %s → %s (ETag)", m.From, m.To), Mark: Failure})
	case strings.HasPrefix(m.What, "part "):
		s.add(orchestrator, store, Arrow{At: m.At, Label: m.What + detail("", m.Detail)})
	case m.From != m.To:
		s.add(orchestrator, store, Arrow{At: m.At, Label: fmt.Sprintf("transition %s → %s", m.From, m.To), Mark: markOf(m.To)})
	default: // seen, and kept, and nothing else
		s.add(broker, orchestrator, Arrow{At: m.At, Reply: true, Label: m.What + detail("", m.Detail), Mark: Duplicate})
		s.add(store, orchestrator, Arrow{At: m.At, Reply: true, Label: fmt.Sprintf("%s: state unchanged, message settled", s.standing(m)), Mark: Duplicate})
	}
}

func markOf(s execution.Status) Mark {
	switch s {
	case execution.Completed:
		return Success
	case execution.Failed:
		return Failure
	case execution.Cancelled:
		return Decision
	}
	return Plain
}

// standing is the state that a note was made in.
func (s *story) standing(m Moment) execution.Status {
	state := execution.Running
	for _, earlier := range s.t.Entries {
		if earlier == m {
			break
		}
		if earlier.Source == FromExecution && earlier.To != "" {
			state = earlier.To
		}
	}
	return state
}

// decided draws what an operator has asked for.
func (s *story) decided(m Moment) {
	if !s.asked {
		s.add(operator, orchestrator, Arrow{At: m.At, Label: m.What + by(m) + detail("", m.Detail), Mark: Decision})
	}
	s.asked = false
	label := fmt.Sprintf("transition %s → %s (ETag)", m.From, m.To)
	if m.To == execution.Running {
		label += fmt.Sprintf(" · run %d, to be sent", m.Run)
	}
	s.add(orchestrator, store, Arrow{At: m.At, Label: label, Mark: markOf(m.To)})
}

// byOperator draws who asked for what the claim became, before it does.
func (s *story) byOperator(i int, what string) {
	rest := s.t.Entries[i+1:]
	if at := slices.IndexFunc(rest, func(m Moment) bool { return m.Source == FromExecution && m.What == what }); at >= 0 {
		m := rest[at]
		s.add(operator, orchestrator, Arrow{At: m.At, Label: m.What + by(m) + detail("", m.Detail), Mark: Decision})
		s.asked = true
	}
}

// seen draws an event that changed nothing, or what its sender says of itself.
func (s *story) seen(m Moment) {
	if m.What == Refused {
		w := s.worker(s.ownerOf(m.Fence))
		s.add(w, claims, Arrow{Label: fmt.Sprintf("write under fence %d → refused: it is another's by now", m.Fence), Mark: Fenced})
		settles := "complete message"
		if m.Detail == message.TypeFailed {
			settles = "dead-letter message"
		}
		s.add(w, broker, Arrow{Reply: true, Label: m.Detail + " again · " + settles, Mark: Duplicate})
		return
	}
	label := fmt.Sprintf("already %s → no-op, message settled", m.To)
	mark := Duplicate
	if m.What == Contradiction {
		label, mark = fmt.Sprintf("%s with another result: unchanged, event dead-lettered", m.To), Failure
	}
	s.add(store, orchestrator, Arrow{At: m.At, Reply: true, Label: label + detail("", m.Detail), Mark: mark})
}

func by(m Moment) string {
	if m.By == "" {
		return ""
	}
	return " by " + m.By
}
