package broker

import (
	"container/heap"
	"time"
)

// deadline is when something happens to an entry or to a session: every state has at most one.
type deadline struct {
	at    time.Time
	index int // in the queue's heap, -1 if in none
}

// timed is an *entry or a *session.
type timed interface{ due() *deadline }

// deadlines is a heap of what has a deadline, the earliest first.
type deadlines []timed

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].due().at.Before(d[j].due().at) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].due().index, d[j].due().index = i, j
}
func (d *deadlines) Push(x any) {
	t := x.(timed)
	t.due().index = len(*d)
	*d = append(*d, t)
}
func (d *deadlines) Pop() any {
	old := *d
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	t.due().index = -1
	return t
}

// setDeadline gives an entry or a session its one deadline; the zero time takes it away.
func (q *Queue) setDeadline(t timed, at time.Time) {
	d := t.due()
	d.at = at
	switch {
	case at.IsZero() && d.index >= 0:
		heap.Remove(&q.deadlines, d.index)
	case at.IsZero():
	case d.index >= 0:
		heap.Fix(&q.deadlines, d.index)
	default:
		heap.Push(&q.deadlines, t)
	}
}

// advance does everything whose time has come, then serves consumers with what that set free.
func (q *Queue) advance(now time.Time) {
	if len(q.deadlines) == 0 || q.deadlines[0].due().at.After(now) {
		return
	}
	for len(q.deadlines) > 0 && !q.deadlines[0].due().at.After(now) {
		switch t := q.deadlines[0].(type) {
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
