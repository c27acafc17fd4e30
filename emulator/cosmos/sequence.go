package cosmos

import (
	"iter"
	"slices"
	"sort"
)

// sequence is a set in an order. Putting in and taking out cost about the same
// however many there are, and so does a snapshot: what it shares with the
// sequence is copied, a chunk at a time, before it is changed.
type sequence[E any] struct {
	compare func(a, b E) int
	chunks  []*chunk[E] // none is empty
	length  int

	// What was made under an earlier epoch may be shared with a snapshot.
	epoch  uint64
	listed uint64 // the epoch under which chunks was made
}

type chunk[E any] struct {
	epoch uint64
	held  []E // ascending
}

const chunkSize = 512

func newSequence[E any](compare func(a, b E) int) *sequence[E] {
	return &sequence[E]{compare: compare}
}

// find gives the place of an element, or that where it would be: i is then the
// last chunk if it would come behind all others.
func (s *sequence[E]) find(e E) (i, j int, found bool) {
	i = sort.Search(len(s.chunks), func(i int) bool {
		held := s.chunks[i].held
		return s.compare(held[len(held)-1], e) >= 0
	})
	if i == len(s.chunks) {
		if i == 0 {
			return 0, 0, false
		}
		return i - 1, len(s.chunks[i-1].held), false
	}
	j, found = slices.BinarySearchFunc(s.chunks[i].held, e, s.compare)
	return i, j, found
}

// put puts an element in, in the place of one that is equal to it if there is one.
func (s *sequence[E]) put(e E) {
	i, j, found := s.find(e)
	switch {
	case found:
		s.own(i).held[j] = e
		return
	case len(s.chunks) == 0:
		s.insert(0, []E{e})
	case len(s.chunks[i].held) < chunkSize:
		c := s.own(i)
		c.held = slices.Insert(c.held, j, e)
	case j == chunkSize && i == len(s.chunks)-1:
		s.insert(i+1, []E{e}) // what only ever grows at its end has full chunks
	default:
		c := s.own(i)
		s.insert(i+1, slices.Clone(c.held[chunkSize/2:]))
		clear(c.held[chunkSize/2:])
		c.held = c.held[:chunkSize/2]
		s.put(e)
		return
	}
	s.length++
}

// drop takes an element out.
func (s *sequence[E]) drop(e E) {
	i, j, found := s.find(e)
	if !found {
		return
	}
	s.length--
	c := s.own(i)
	if c.held = slices.Delete(c.held, j, j+1); len(c.held) == 0 {
		s.chunks = slices.Delete(s.chunks, i, i+1)
	}
}

// own gives a chunk that may be changed.
func (s *sequence[E]) own(i int) *chunk[E] {
	s.ownList()
	if s.chunks[i].epoch != s.epoch {
		s.chunks[i] = &chunk[E]{s.epoch, slices.Clone(s.chunks[i].held)}
	}
	return s.chunks[i]
}

func (s *sequence[E]) ownList() {
	if s.listed != s.epoch {
		s.chunks, s.listed = slices.Clone(s.chunks), s.epoch
	}
}

func (s *sequence[E]) insert(i int, held []E) {
	s.ownList()
	s.chunks = slices.Insert(s.chunks, i, &chunk[E]{s.epoch, held})
}

// snapshot is the sequence as it is now, for ever: it may be read while the
// sequence is changed, and is not changed itself.
func (s *sequence[E]) snapshot() *sequence[E] {
	shared := *s
	s.epoch++
	return &shared
}

// from gives what is not before an element, in order.
func (s *sequence[E]) from(e E) iter.Seq[E] {
	return func(yield func(E) bool) {
		i, j, _ := s.find(e)
		for ; i < len(s.chunks); i, j = i+1, 0 {
			for _, e := range s.chunks[i].held[j:] {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// first gives the first element, if there is one.
func (s *sequence[E]) first() (e E, ok bool) {
	if len(s.chunks) == 0 {
		return e, false
	}
	return s.chunks[0].held[0], true
}

// before counts what comes before an element.
func (s *sequence[E]) before(e E) int {
	i, n, _ := s.find(e)
	for _, c := range s.chunks[:i] {
		n += len(c.held)
	}
	return n
}
