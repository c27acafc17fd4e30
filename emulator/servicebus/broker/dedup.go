package broker

import "time"

// history remembers the MessageIDs that became visible within a window. What is older is forgotten as new ones come,
// so it holds no more than one window's ids.
type history struct {
	window time.Duration
	seen   map[string]time.Time
	order  []sighting
	first  int // of order; those before it are forgotten
}

type sighting struct {
	id string
	at time.Time
}

func newHistory(window time.Duration) history {
	return history{window: window, seen: make(map[string]time.Time)}
}

func (h *history) has(id string, now time.Time) bool {
	at, ok := h.seen[id]
	return ok && now.Sub(at) < h.window
}

func (h *history) add(id string, now time.Time) {
	h.forget(now)
	h.seen[id] = now
	h.order = append(h.order, sighting{id, now})
}

func (h *history) forget(now time.Time) {
	for h.first < len(h.order) && now.Sub(h.order[h.first].at) >= h.window {
		// An id that was seen again has a later sighting of its own.
		if old := h.order[h.first]; h.seen[old.id].Equal(old.at) {
			delete(h.seen, old.id)
		}
		h.order[h.first] = sighting{}
		h.first++
	}
	if h.first > len(h.order)/2 {
		n := copy(h.order, h.order[h.first:])
		clear(h.order[n:])
		h.order, h.first = h.order[:n], 0
	}
}

// isDuplicate reports whether a message's id became visible within the window.
func (q *Queue) isDuplicate(m *Message, now time.Time) bool {
	return q.config.DetectDuplicates && m.ID != "" && q.history.has(m.ID, now) &&
		!q.hub.Off("servicebus.duplicate-detection") &&
		(m.ScheduledFor.IsZero() || !q.hub.Off("servicebus.scheduled-duplicates"))
}

// remember enters the id of a message that becomes visible now.
func (q *Queue) remember(m *Message, now time.Time) {
	if q.config.DetectDuplicates && m.ID != "" {
		q.history.add(m.ID, now)
		q.write(Record{Change: Sighted, ID: m.ID, At: now, Window: q.history.window})
	}
}
