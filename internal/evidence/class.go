package evidence

import (
	"fmt"
	"slices"
	"strings"

	"oneeffect/internal/message"
)

// Class is what a record comes to by what it observed (V2).
func (r Record) Class() Class {
	switch {
	case r.Kind == KindCell && r.Cell != nil:
		return verdict(slices.Contains(r.Cell.Expected, r.Cell.Observed))
	case r.Kind == KindPreflight && r.Preflight != nil:
		return verdict(r.Preflight.Holds)
	case r.Kind == KindProbe && r.Probe != nil && len(r.Probe.Subject) > 0:
		return classOfSubject(r.Probe.Subject)
	case r.Kind == KindProbe:
		return classify(r.Fields)
	}
	return ""
}

func verdict(holds bool) Class {
	if holds {
		return Held
	}
	return Broken
}

// classOfSubject looks at a record as a reader would: which of the ten are there.
func classOfSubject(text []byte) Class {
	var subject Fields
	if err := message.Decode(text, &subject); err != nil {
		return Unclassified
	}
	if len(subject.Missing()) > 0 {
		return Incomplete
	}
	return Unclassified
}

// classify looks at an event and at what the store held before and after each of its
// attempts. It knows nothing of how the projector decides.
func classify(f Fields) Class {
	var sent *Sent
	var states []State
	for _, o := range f.Evidence.LocalObservations {
		if o.Sent != nil {
			sent = o.Sent
		}
		if o.State != nil {
			states = append(states, *o.State)
		}
	}
	if sent == nil || len(states) < 2 || len(f.DeliveryAttempt) == 0 ||
		sent.EventKey != f.EventKey || sent.Entity != f.BusinessEntity || sent.Version != f.Version {
		return Unclassified
	}
	last := f.DeliveryAttempt[len(f.DeliveryAttempt)-1]
	if torn(*sent, states) {
		if last.Reported != "" || f.DeliveryAttempt[0].Ended != Killed { // a projector that reports a class is not the broken variant
			return Unclassified
		}
		return NonAtomic
	}
	if effects := countEffects(*sent, states); effects < 0 || effects > 1 {
		return Unclassified
	}
	if !last.acknowledged() {
		return Unclassified // an event whose message will come again has no end yet
	}
	class := step(*sent, states[len(states)-2], states[len(states)-1], last)
	if class != last.Reported {
		return Unclassified
	}
	return class
}

// Killed is the end of a process by SIGKILL, in the words of the system.
const Killed = "signal: killed"

// acknowledged says whether the transport was told that there is nothing more to do.
func (a Attempt) acknowledged() bool {
	return a.Ended == "complete" || a.Ended == "dead-letter" || strings.HasPrefix(a.Ended, "200 ") || strings.HasPrefix(a.Ended, "409 ")
}

// step is what the last attempt did to what stood before it.
func step(sent Sent, before, after State, last Attempt) Class {
	stood, stands := before.receipt(sent.EventKey), after.receipt(sent.EventKey)
	same := before.sameEntity(after)
	switch {
	case stands == nil:
		return Unclassified
	case stood == nil && stands.Digest == sent.Digest && stands.Outcome == "applied":
		if sent.Version > before.Version && after.Version == sent.Version && after.has(sent, before) && stands.Found == before.Version {
			return Applied
		}
	case stood == nil && stands.Digest == sent.Digest && stands.Outcome == "stale":
		if same && sent.Version <= before.Version && stands.Found == before.Version {
			return Stale
		}
	case stood == nil || *stood != *stands || !same:
		return Unclassified
	case stands.Digest != sent.Digest:
		return Conflict
	case last.ID != stands.Delivery || last.Count > 1: // it was delivered again
		return Duplicate
	}
	return Unclassified
}

// torn says whether an effect was to be seen without its receipt, and was there more
// than once in the end.
func torn(sent Sent, states []State) bool {
	if sent.Delta == 0 {
		return false
	}
	bare := false
	for i := range states[1:] {
		before, after := states[i], states[i+1]
		bare = bare || after.Stock-before.Stock == sent.Delta && after.receipt(sent.EventKey) == nil
	}
	first, last := states[0], states[len(states)-1]
	change := last.Stock - first.Stock
	return bare && change%sent.Delta == 0 && change/sent.Delta > 1
}

// countEffects counts how often the event took effect over all attempts; -1: by
// something that is no multiple of it.
func countEffects(sent Sent, states []State) int {
	effects := 0
	for i := range states[1:] {
		before, after := states[i], states[i+1]
		switch {
		case before.sameEntity(after):
		case after.has(sent, before):
			effects++
		default:
			return -1
		}
	}
	return effects
}

// has says whether the event's effect is what makes the difference to before.
func (s State) has(sent Sent, before State) bool {
	if sent.Content != "" {
		return s.Content == sent.Content
	}
	return sent.Delta != 0 && s.Stock == before.Stock+sent.Delta
}

func (s State) sameEntity(other State) bool {
	return s.Version == other.Version && s.Stock == other.Stock && s.Content == other.Content
}

// receipt is the receipt of a key, if there is exactly one.
func (s State) receipt(key string) *ReceiptSeen {
	var found *ReceiptSeen
	for i := range s.Receipts {
		if s.Receipts[i].Key == key {
			if found != nil {
				return nil
			}
			found = &s.Receipts[i]
		}
	}
	return found
}

// String is a state in a line.
func (s State) String() string {
	what := "nothing"
	switch {
	case s.Content != "":
		what = fmt.Sprintf("%s at version %d", s.Content, s.Version)
	case s.Version > 0:
		what = fmt.Sprintf("stock %d at version %d", s.Stock, s.Version)
	}
	if len(s.Receipts) == 1 {
		return what + ", 1 receipt"
	}
	return fmt.Sprintf("%s, %d receipts", what, len(s.Receipts))
}
