package broker

import (
	"container/heap"
	"iter"
	"slices"
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
func (s *shelf) giveBack(e *entry) { s.returned.add(e) }

// first returns the available entry with the smallest sequence number, and nil if there is none; or, with what came
// back behind everything else, the first that was never taken. The caller changes its state before asking again.
func (s *shelf) first(behind bool) *entry {
	back := s.returned.peek()
	for s.cursor < len(s.entries) && s.entries[s.cursor].state != Available {
		s.cursor++
	}
	fresh := s.cursor < len(s.entries)
	if back != nil && (!fresh || back.seq < s.entries[s.cursor].seq && !behind) {
		return s.returned.take()
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

// returned is a heap of entries by sequence number. Those that are not available any more stay until they come up.
type returned []*entry

func (r *returned) add(e *entry) { heap.Push(r, e) }

// peek returns the first available entry, nil if there is none.
func (r *returned) peek() *entry {
	for len(*r) > 0 && (*r)[0].state != Available {
		heap.Pop(r)
	}
	if len(*r) == 0 {
		return nil
	}
	return (*r)[0]
}

// take takes the first available entry out, nil if there is none.
func (r *returned) take() *entry {
	if r.peek() == nil {
		return nil
	}
	return heap.Pop(r).(*entry)
}

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
