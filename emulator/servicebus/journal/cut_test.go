package journal

import (
	"strconv"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"oneeffect/emulator/servicebus/broker"
)

// nothing writes nothing: the engine's records are enough here.
type nothing struct{ Codec }

func (nothing) AppendContent(dst []byte, _ any) ([]byte, error) { return dst, nil }

// TestTheFileNeverHoldsHalfOfAnOperation writes pairs of records from several goroutines, and looks at the file as it is
// after every transaction it happens to meet: whoever loads it then, as after a kill, finds pairs only, without a gap.
func TestTheFileNeverHoldsHalfOfAnOperation(t *testing.T) { // J2
	j, err := Open(t.TempDir(), nothing{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 1000
	done := make(chan struct{})
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				j.Begin()
				for _, side := range []string{"left ", "right "} {
					j.Write(broker.Record{Change: broker.Added, Queue: side + strconv.Itoa(w), Stored: broker.Stored{
						SequenceNumber: int64(i + 1), EnqueuedAt: time.Now(), Message: &broker.Message{},
					}})
				}
				j.End()
			}
		})
	}
	go func() {
		writing.Wait()
		close(done)
	}()
	states := make(map[int]bool)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		total := 0
		err := j.db.View(func(tx *bolt.Tx) error {
			for w := range writers {
				left, right := numbers(t, tx, "left "+strconv.Itoa(w)), numbers(t, tx, "right "+strconv.Itoa(w))
				if left != right {
					t.Errorf("writer %d: %d on the left, %d on the right", w, left, right)
				}
				total += left
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		states[total] = true
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if len(states) < 3 {
		t.Errorf("the file was seen in %d states only", len(states))
	}
}

// numbers counts the messages of a queue, and checks that they are the first so many.
func numbers(t *testing.T, tx *bolt.Tx, path string) int {
	b := tx.Bucket(bucketQueues).Bucket([]byte(path))
	if b == nil {
		return 0
	}
	n := b.Bucket(bucketMessages).Stats().KeyN
	last, err := readNumber(b)
	if err != nil || int(last) != n {
		t.Errorf("%s: %d messages up to number %d, %v", path, n, last, err)
	}
	return n
}
