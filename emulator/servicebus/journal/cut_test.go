package journal

import (
	"encoding/binary"
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
// after many a transaction: whoever loads it then, as after a kill, finds pairs only, without a gap.
func TestTheFileNeverHoldsHalfOfAnOperation(t *testing.T) { // J2
	j, err := Open(t.TempDir(), nothing{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const writers, enough = 4, 20
	stop := make(chan struct{})
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				j.Begin()
				for _, side := range []string{"left ", "right "} {
					j.Write(broker.Record{Change: broker.Added, Queue: side + strconv.Itoa(w), Stored: broker.Stored{
						SequenceNumber: int64(i + 1), EnqueuedAt: time.Now(), Message: &broker.Message{},
					}})
					j.Write(broker.Record{Change: broker.Removed, Queue: side + strconv.Itoa(w), Stored: broker.Stored{SequenceNumber: int64(i - few + 1)}})
				}
				j.End()
			}
		})
	}
	states := make(map[int]bool)
	for len(states) < enough {
		kept := make(chan struct{})
		j.Kept(func() { close(kept) })
		<-kept // there is another transaction
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
	close(stop)
	writing.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// few is how many messages each queue holds.
const few = 5

// numbers is the last number of a queue. It checks that the last few messages are there and no others.
func numbers(t *testing.T, tx *bolt.Tx, path string) int {
	b := tx.Bucket(bucketQueues).Bucket([]byte(path))
	if b == nil {
		return 0
	}
	last, err := readNumber(b)
	if err != nil {
		t.Error(err)
	}
	first, n := int64(0), 0
	_ = b.Bucket(bucketMessages).ForEach(func(k, _ []byte) error { // which returns what this returns
		if n++; n == 1 {
			first = int64(binary.BigEndian.Uint64(k))
		}
		return nil
	})
	if want := min(few, int(last)); n != want || first != last-int64(want)+1 {
		t.Errorf("%s: %d messages from number %d to %d", path, n, first, last)
	}
	return int(last)
}
