package journal

import (
	"encoding/binary"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"oneeffect/emulator/servicebus/broker"
)

// writer is one transaction's.
type writer struct {
	codec  Codec
	queues *bolt.Bucket
	open   map[string]*queueWriter
}

// queueWriter writes to one queue's bucket.
type queueWriter struct {
	bucket                              *bolt.Bucket // nil until the first write
	messages, states, history, sessions *bolt.Bucket

	last   map[int64]int  // of each message: the last record about it
	fresh  map[int64]bool // messages that are not in the file yet
	number int64          // the largest that was given
}

// plan finds, for every message, the last record about it: only that one is written.
func (w *writer) plan(records []broker.Record) {
	for i := range records {
		r := &records[i]
		q := w.open[r.Queue]
		if q == nil {
			q = &queueWriter{last: make(map[int64]int), fresh: make(map[int64]bool)}
			w.open[r.Queue] = q
		}
		switch r.Change {
		case broker.Added:
			q.fresh[r.Stored.SequenceNumber] = true
			q.last[r.Stored.SequenceNumber] = i
		case broker.Altered, broker.Removed:
			q.last[r.Stored.SequenceNumber] = i
		case broker.Dropped: // what comes after it is another queue's
			clear(q.fresh)
		}
	}
}

func (w *writer) write(i int, r *broker.Record) error {
	q := w.open[r.Queue]
	if r.Change == broker.Dropped {
		return w.drop(r.Queue, q)
	}
	if err := w.enter(r.Queue, q); err != nil {
		return err
	}
	switch r.Change {
	case broker.Added, broker.Altered, broker.Removed:
		q.number = max(q.number, r.Stored.SequenceNumber)
		if q.last[r.Stored.SequenceNumber] != i {
			return nil
		}
		return w.message(q, r)
	case broker.Sighted:
		return q.sighted(r)
	case broker.StateSet:
		key := []byte("=" + r.ID) // an id may be empty, a key may not
		if r.State == nil {
			return q.sessions.Delete(key)
		}
		return q.sessions.Put(key, seal(append(appendTime(nil, r.At), r.State...)))
	case broker.Described:
		text, err := encodeEntity(w.codec, r.Entity)
		if err != nil {
			return err
		}
		return q.bucket.Put(keyEntity, seal(text))
	}
	return fmt.Errorf("change %d is not known", r.Change)
}

// drop takes a queue's bucket away. One of the same name may follow in the same transaction.
func (w *writer) drop(path string, q *queueWriter) error {
	q.bucket, q.number = nil, 0
	if w.queues.Bucket([]byte(path)) == nil {
		return nil
	}
	return w.queues.DeleteBucket([]byte(path))
}

// enter opens a queue's buckets.
func (w *writer) enter(path string, q *queueWriter) (err error) {
	if q.bucket != nil {
		return nil
	}
	if q.bucket, err = w.queues.CreateBucketIfNotExists([]byte(path)); err != nil {
		return err
	}
	for name, b := range map[string]**bolt.Bucket{
		string(bucketMessages): &q.messages, string(bucketStates): &q.states,
		string(bucketHistory): &q.history, string(bucketSessions): &q.sessions,
	} {
		if *b, err = q.bucket.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	// Numbers only grow: a page is full when the next begins.
	q.messages.FillPercent, q.states.FillPercent, q.history.FillPercent = 0.9, 0.9, 0.9
	return nil
}

func (w *writer) message(q *queueWriter, r *broker.Record) error {
	s := &r.Stored
	key := binary.BigEndian.AppendUint64(nil, uint64(s.SequenceNumber))
	fresh := q.fresh[s.SequenceNumber]
	if r.Change == broker.Removed {
		if fresh {
			return nil
		}
		if err := q.states.Delete(key); err != nil {
			return err
		}
		return q.messages.Delete(key)
	}
	if fresh {
		value, err := w.encodeMessage(s)
		if err != nil {
			return err
		}
		if err := q.messages.Put(key, value); err != nil {
			return err
		}
	}
	state, err := w.encodeState(s)
	if err != nil {
		return err
	}
	if state == nil {
		if fresh {
			return nil
		}
		return q.states.Delete(key)
	}
	return q.states.Put(key, state)
}

// sighted remembers a MessageID, and forgets two that are older than the window: so the history shrinks, however large
// it has become, and no write has much to forget.
func (q *queueWriter) sighted(r *broker.Record) error {
	const forget = 2
	c := q.history.Cursor()
	for range forget {
		k, _ := c.First()
		if k == nil || r.At.Sub(historyTime(k)) < r.Window {
			break
		}
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return q.history.Put(append(historyKey(r.At), r.ID...), seal(nil))
}

// historyKey sorts by time, to the nanosecond, for all times that a server's clock can show.
func historyKey(at time.Time) []byte {
	key := binary.BigEndian.AppendUint64(nil, uint64(at.Unix())^1<<63)
	return binary.BigEndian.AppendUint32(key, uint32(at.Nanosecond()))
}

const historyKeySize = 12

func historyTime(key []byte) time.Time {
	if len(key) < historyKeySize {
		return time.Time{}
	}
	return time.Unix(int64(binary.BigEndian.Uint64(key)^1<<63), int64(binary.BigEndian.Uint32(key[8:]))).UTC()
}

// finish writes the numbers that were given.
func (w *writer) finish() error {
	for _, q := range w.open {
		if q.bucket == nil || q.number == 0 {
			continue
		}
		old, err := readNumber(q.bucket)
		if err != nil {
			return err
		}
		if q.number <= old {
			continue
		}
		if err := q.bucket.Put(keyNumber, seal(binary.BigEndian.AppendUint64(nil, uint64(q.number)))); err != nil {
			return err
		}
	}
	return nil
}
