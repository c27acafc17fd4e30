package disk

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestWhatIsLoadedIsWhatWasPutLast does thousands of random operations, opens the store again and again, by its copy as
// a kill leaves it and by closing it, and compares. Segments are small: most of them have been cleaned.
func TestWhatIsLoadedIsWhatWasPutLast(t *testing.T) { // D3, D7
	folder := t.TempDir()
	random := rand.New(rand.NewPCG(3, 4))
	want := make(content)
	s := mustOpen(t, folder, small())
	for round := range 60 {
		for range 40 {
			s.Begin()
			for range 1 + random.IntN(8) {
				bucket := []string{"", "a", "b"}[random.IntN(3)]
				key := numbered(random.IntN(60))
				switch n := random.IntN(100); {
				case n == 0:
					s.Drop(bucket)
					delete(want, bucket)
				case n < 30:
					s.Delete(bucket, []byte(key))
					want.delete(bucket, key)
				default:
					value := strings.Repeat(numbered(random.IntN(1000)), random.IntN(20))
					s.Put(bucket, []byte(key), []byte(value))
					want.put(bucket, key, value)
				}
			}
			s.End()
			if random.IntN(4) == 0 {
				kept(s)
			}
		}
		kept(s)
		killed := mustOpen(t, copyFolder(t, folder), small())
		if got := held(t, killed); !got.equal(want) {
			t.Fatalf("round %d: killed, it holds\n%v\nwant\n%v", round, got, want)
		}
		mustClose(t, killed)
		if round%3 == 0 {
			mustClose(t, s)
			s = mustOpen(t, folder, small())
			if got := held(t, s); !got.equal(want) {
				t.Fatalf("round %d: closed and opened, it holds\n%v\nwant\n%v", round, got, want)
			}
		}
	}
	if first := segments(t, folder)[0]; strings.HasSuffix(first, "00000001.log") {
		t.Error("nothing was ever cleaned")
	}
	mustClose(t, s)
}
