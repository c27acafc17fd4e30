package broker

import "time"

// deadline is where in the queue's heap the one deadline stands that an entry or a session has; -1 if it has none.
type deadline struct{ index int }

// timed is an *entry or a *session.
type timed interface{ due() *deadline }

// deadlines is a heap of what has a deadline, the earliest first. Every node has fan children: the times beside each
// other in memory are what looking for the earliest costs in a long queue.
type deadlines []dated

type dated struct {
	at time.Time
	timed
}

const fan = 4

// set gives something its deadline, instead of the one it has. The zero time takes it away.
func (h *deadlines) set(t timed, at time.Time) {
	i := t.due().index
	switch {
	case at.IsZero() && i < 0:
	case at.IsZero():
		h.remove(i)
	case i < 0:
		*h = append(*h, dated{})
		h.place(len(*h)-1, dated{at, t})
	default:
		h.place(i, dated{at, t})
	}
}

// remove takes a node out; the last one fills the gap.
func (h *deadlines) remove(i int) {
	old := *h
	old[i].due().index = -1
	last := len(old) - 1
	filler := old[last]
	old[last] = dated{}
	*h = old[:last]
	if i < last {
		h.place(i, filler)
	}
}

// place finds the place of a node for which there is a gap at i.
func (h deadlines) place(i int, node dated) {
	for i > 0 {
		parent := (i - 1) / fan
		if !node.at.Before(h[parent].at) {
			break
		}
		h.put(i, h[parent])
		i = parent
	}
	for {
		first := i*fan + 1
		if first >= len(h) {
			break
		}
		least := first
		for child := first + 1; child < min(first+fan, len(h)); child++ {
			if h[child].at.Before(h[least].at) {
				least = child
			}
		}
		if !h[least].at.Before(node.at) {
			break
		}
		h.put(i, h[least])
		i = least
	}
	h.put(i, node)
}

func (h deadlines) put(i int, node dated) {
	h[i] = node
	node.due().index = i
}

// setDeadline gives an entry or a session its one deadline; the zero time takes it away.
func (q *Queue) setDeadline(t timed, at time.Time) { q.deadlines.set(t, at) }

// advance does everything whose time has come, then serves consumers with what that set free.
func (q *Queue) advance(now time.Time) {
	if len(q.deadlines) == 0 || q.deadlines[0].at.After(now) {
		return
	}
	for len(q.deadlines) > 0 && !q.deadlines[0].at.After(now) {
		switch t := q.deadlines[0].timed.(type) {
		case *session:
			q.sessionExpired(t, now)
		case *entry:
			q.entryDue(t, now)
		}
	}
	q.serve()
}

func (q *Queue) entryDue(e *entry, now time.Time) {
	switch e.state {
	case Locked:
		q.lockExpired(e, now)
	case Scheduled:
		q.activate(e, now)
	default:
		q.expire(e)
	}
}
