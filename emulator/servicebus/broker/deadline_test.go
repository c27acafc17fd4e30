package broker

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestTheEarliestDeadlineStandsFirst(t *testing.T) {
	for seed := range uint64(20) {
		chance := rand.New(rand.NewPCG(seed, 0))
		entries := make([]*entry, 200)
		for i := range entries {
			entries[i] = &entry{deadline: deadline{index: -1}}
		}
		var h deadlines
		want := make(map[*entry]time.Time)
		for range 2000 {
			e := entries[chance.IntN(len(entries))]
			if chance.IntN(3) == 0 {
				h.set(e, time.Time{})
				delete(want, e)
			} else {
				want[e] = time.Unix(int64(chance.IntN(50)), 0) // many are equal
				h.set(e, want[e])
			}
			if len(h) != len(want) {
				t.Fatalf("seed %d: %d deadlines, want %d", seed, len(h), len(want))
			}
			for i, node := range h {
				if node.due().index != i || !node.at.Equal(want[node.timed.(*entry)]) {
					t.Fatalf("seed %d: node %d has index %d and %v", seed, i, node.due().index, node.at)
				}
			}
			earliest := slices.MinFunc(append(h, dated{at: time.Unix(100, 0)}), func(a, b dated) int { return cmp.Compare(a.at.Unix(), b.at.Unix()) })
			if len(h) > 0 && !h[0].at.Equal(earliest.at) {
				t.Fatalf("seed %d: %v stands before %v", seed, h[0].at, earliest.at)
			}
		}
		for _, e := range entries {
			if _, ok := want[e]; !ok && e.deadline.index != -1 {
				t.Errorf("seed %d: an entry without a deadline believes to be at %d", seed, e.deadline.index)
			}
		}
	}
}
