package cosmos

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A sequence is compared with a sorted slice, which is what it stands for; a
// snapshot with a copy of that.
func TestASequenceIsASortedSetAndASnapshotOfItStays(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := newSequence(cmp.Compare[int])
	var model []int
	var snapshot *sequence[int]
	var copied []int
	for step := range 60_000 {
		n := random.IntN(10_000)
		if step < 5_000 {
			n = step // at its end, as items are made
		}
		place, found := slices.BinarySearch(model, n)
		switch drop := random.IntN(100) < 20+40*(step/30_000); { // it shrinks in the second half
		case drop && found:
			s.drop(n)
			model = slices.Delete(model, place, place+1)
		case drop:
			s.drop(n)
		case !found:
			s.put(n)
			model = slices.Insert(model, place, n)
		default:
			s.put(n)
		}
		if random.IntN(5_000) == 0 {
			snapshot, copied = s.snapshot(), slices.Clone(model)
		}
		if step%1_000 > 0 {
			continue
		}
		if got := slices.Collect(s.from(math.MinInt)); !slices.Equal(got, model) || s.length != len(model) {
			t.Fatalf("step %d: %d elements (%d), want %d", step, len(got), s.length, len(model))
		}
		place, _ = slices.BinarySearch(model, n)
		if got := slices.Collect(s.from(n)); !slices.Equal(got, model[place:]) || s.before(n) != place {
			t.Fatalf("step %d: %d elements from %d on and %d before, want %d and %d", step, len(got), n, s.before(n), len(model)-place, place)
		}
		if snapshot != nil {
			if got := slices.Collect(snapshot.from(math.MinInt)); !slices.Equal(got, copied) || snapshot.length != len(copied) {
				t.Fatalf("step %d: the snapshot has changed", step)
			}
		}
	}
}
