package broker

import "time"

// history remembers the MessageIDs that became visible within a window. What is older is forgotten as new ones come,
// so it holds no more than one window's ids.
type history struct {
	window time.Duration
	seen   map[string]time.Time
	order  []Sighting
	first  int // of order; those before it are forgotten
}

func newHistory(window time.Duration) history {
	return history{window: window, seen: make(map[string]time.Time)}
}

func (h *history) has(id string, now time.Time) bool {
	at, ok := h.seen[id]
	return ok && now.Sub(at) < h.window
}

func (h *history) add(s Sighting) {
	h.seen[s.ID] = s.At
	h.order = append(h.order, s)
}

// next forgets the oldest sighting, if it is older than the window, and returns it.
func (h *history) next(now time.Time) (old Sighting, ok bool) {
	if h.first == len(h.order) || now.Sub(h.order[h.first].At) < h.window {
		return old, false
	}
	old, h.order[h.first] = h.order[h.first], Sighting{}
	h.first++
	// An id that was seen again has a later sighting of its own.
	if h.seen[old.ID].Equal(old.At) {
		delete(h.seen, old.ID)
	}
	if h.first > len(h.order)/2 {
		n := copy(h.order, h.order[h.first:])
		clear(h.order[n:])
		h.order, h.first = h.order[:n], 0
	}
	return old, true
}

// isDuplicate reports whether a message's id became visible within the window.
func (q *Queue) isDuplicate(m *Message, now time.Time) bool {
	return q.config.DetectDuplicates && m.ID != "" && q.history.has(m.ID, now) &&
		!q.hub.Off("servicebus.duplicate-detection") &&
		(m.ScheduledFor.IsZero() || !q.hub.Off("servicebus.scheduled-duplicates"))
}

// remember enters the id of a message that becomes visible now.
func (q *Queue) remember(m *Message, now time.Time) {
	if !q.config.DetectDuplicates || m.ID == "" {
		return
	}
	for old, ok := q.history.next(now); ok; old, ok = q.history.next(now) {
		q.write(Record{Change: Forgotten, ID: old.ID, At: old.At})
	}
	q.history.add(Sighting{ID: m.ID, At: now})
	q.write(Record{Change: Sighted, ID: m.ID, At: now})
}
