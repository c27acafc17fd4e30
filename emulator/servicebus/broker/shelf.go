package broker

import (
	"container/heap"
	"iter"
	"slices"
	"time"
)

// shelf keeps a queue's entries in the order of their sequence numbers, whatever their state, and finds the first
// available one at a cost that does not grow with their number: a cursor walks over what was never taken, and what
// comes back waits in a heap.
type shelf struct {
	entries  []*entry // ascending; those that are Gone stay until the next compaction
	gone     int
	cursor   int // entries before it have been taken once, or were scheduled
	returned returned
}

// compactAt is the least number of gone entries that is worth a compaction.
const compactAt = 256

func (s *shelf) add(e *entry) { s.entries = append(s.entries, e) }

// giveBack puts a taken entry back at its old place.
func (s *shelf) giveBack(e *entry) { heap.Push(&s.returned, e) }

// first returns the available entry with the smallest sequence number, and nil if there is none. The caller changes
// its state before asking again.
func (s *shelf) first() *entry {
	for len(s.returned) > 0 && s.returned[0].state != Available {
		heap.Pop(&s.returned)
	}
	for s.cursor < len(s.entries) && s.entries[s.cursor].state != Available {
		s.cursor++
	}
	fresh := s.cursor < len(s.entries)
	if len(s.returned) > 0 && (!fresh || s.returned[0].seq < s.entries[s.cursor].seq) {
		return heap.Pop(&s.returned).(*entry)
	}
	if !fresh {
		return nil
	}
	s.cursor++
	return s.entries[s.cursor-1]
}

// remove marks an entry as gone and lets go of its message.
func (s *shelf) remove(e *entry) {
	e.state, e.message, e.changes = Gone, nil, nil
	s.gone++
	if s.gone < compactAt || s.gone < len(s.entries)/2 {
		return
	}
	kept, cursor := s.entries[:0], 0
	for i, e := range s.entries {
		if e.state == Gone {
			continue
		}
		if i < s.cursor {
			cursor++
		}
		kept = append(kept, e)
	}
	clear(s.entries[len(kept):])
	s.entries, s.gone, s.cursor = kept, 0, cursor
	if cap(s.entries) > 4*compactAt && len(s.entries) < cap(s.entries)/4 {
		s.entries = slices.Clone(s.entries)
	}
}

// from yields the entries that are not gone, from a sequence number on.
func (s *shelf) from(seq int64) iter.Seq[*entry] {
	start, _ := slices.BinarySearchFunc(s.entries, seq, bySequence)
	return func(yield func(*entry) bool) {
		for _, e := range s.entries[start:] {
			if e.state != Gone && !yield(e) {
				return
			}
		}
	}
}

// find returns the entry with a sequence number, and nil if it is not there any more.
func (s *shelf) find(seq int64) *entry {
	if i, ok := slices.BinarySearchFunc(s.entries, seq, bySequence); ok && s.entries[i].state != Gone {
		return s.entries[i]
	}
	return nil
}

// returned is a heap of entries by sequence number.
type returned []*entry

func (r returned) Len() int           { return len(r) }
func (r returned) Less(i, j int) bool { return r[i].seq < r[j].seq }
func (r returned) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *returned) Push(x any)        { *r = append(*r, x.(*entry)) }
func (r *returned) Pop() any {
	old := *r
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*r = old[:len(old)-1]
	return e
}

// deadlines is a heap of entries by the time at which something happens to them.
type deadlines []*entry

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}
func (d *deadlines) Push(x any) {
	e := x.(*entry)
	e.index = len(*d)
	*d = append(*d, e)
}
func (d *deadlines) Pop() any {
	old := *d
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	e.index = -1
	return e
}

// setDeadline gives an entry its one deadline; the zero time takes it away.
func (q *Queue) setDeadline(e *entry, at time.Time) {
	e.deadline = at
	switch {
	case at.IsZero() && e.index >= 0:
		heap.Remove(&q.deadlines, e.index)
	case at.IsZero():
	case e.index >= 0:
		heap.Fix(&q.deadlines, e.index)
	default:
		heap.Push(&q.deadlines, e)
	}
}
