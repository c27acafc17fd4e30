package journal

import (
	"encoding/binary"
	"fmt"
	"time"

	"oneeffect/emulator/servicebus/broker"
)

// schema is the version of what follows. Another version is refused, never converted: the data is that of a machine for
// development.
//
// Every queue, topic, subscription and dead letter queue has a bucket of the name of its path. A key's first byte says
// what it is of:
//
//	e             JSON, of queues, topics and subscriptions
//	h time, id    a MessageID in the history → nothing
//	m number      what does not change of the message of this sequence number
//	n             the last sequence number, if no message has it any more
//	s number      what does change of the message; absent while it is as in one that has just come
//	x id          time and state of a session
//
// The bucket without a name has the checksums of declarations, see Declared.
const schema = "servicebus 2"

const (
	ofEntity  = 'e'
	ofHistory = 'h'
	ofMessage = 'm'
	ofNumber  = 'n'
	ofState   = 's'
	ofSession = 'x'

	bucketDeclared = ""
)

// writer writes one record.
type writer struct {
	journal *Journal
	queue   string
	key     [32]byte
	value   []byte
}

func (w *writer) write(r *broker.Record) (err error) {
	store := w.journal.store
	switch r.Change {
	case broker.Added, broker.Altered:
		return w.message(&r.Stored, r.Change == broker.Added)
	case broker.Removed:
		w.removed(r.Stored.SequenceNumber)
	case broker.Sighted:
		store.Put(r.Queue, w.historyKey(r), nil)
	case broker.Forgotten:
		store.Delete(r.Queue, w.historyKey(r))
	case broker.StateSet:
		key := append(append(w.key[:0], ofSession), r.ID...)
		if r.State == nil {
			store.Delete(r.Queue, key)
			return nil
		}
		w.value = append(appendTime(w.value, r.At), r.State...)
		store.Put(r.Queue, key, w.value)
	case broker.Described:
		text, err := encodeEntity(w.journal.codec, r.Entity)
		if err != nil {
			return err
		}
		store.Put(r.Queue, append(w.key[:0], ofEntity), text)
	case broker.Dropped:
		w.journal.forget(r.Queue)
		store.Drop(r.Queue)
	default:
		return fmt.Errorf("change %d is not known", r.Change)
	}
	return nil
}

func (w *writer) message(s *broker.Stored, fresh bool) (err error) {
	j := w.journal
	j.give(w.queue, s.SequenceNumber)
	if fresh {
		if w.value, err = encodeMessage(j.codec, w.value, s); err != nil {
			return err
		}
		j.store.Put(w.queue, w.numberKey(ofMessage, s.SequenceNumber), w.value)
	}
	switch {
	case !isNew(s):
		if w.value, err = encodeState(j.codec, w.value[:0], s); err != nil {
			return err
		}
		j.store.Put(w.queue, w.numberKey(ofState, s.SequenceNumber), w.value)
	case !fresh:
		j.store.Delete(w.queue, w.numberKey(ofState, s.SequenceNumber))
	}
	return nil
}

// removed deletes a message. The last number that was given is that of a message that is there, or has its own key.
func (w *writer) removed(number int64) {
	store := w.journal.store
	store.Delete(w.queue, w.numberKey(ofState, number))
	store.Delete(w.queue, w.numberKey(ofMessage, number))
	if w.journal.give(w.queue, number) == number {
		w.value = binary.BigEndian.AppendUint64(w.value, uint64(number))
		store.Put(w.queue, append(w.key[:0], ofNumber), w.value)
	}
}

func (w *writer) numberKey(of byte, number int64) []byte {
	return binary.BigEndian.AppendUint64(append(w.key[:0], of), uint64(number))
}

// historyKey sorts by time, to the nanosecond, for all times that a server's clock can show.
func (w *writer) historyKey(r *broker.Record) []byte {
	key := append(w.key[:0], ofHistory)
	key = binary.BigEndian.AppendUint64(key, uint64(r.At.Unix())^1<<63)
	key = binary.BigEndian.AppendUint32(key, uint32(r.At.Nanosecond()))
	return append(key, r.ID...)
}

// sighting reads what historyKey has written, without its first byte.
func sighting(key []byte) (s broker.Sighting, ok bool) {
	const size = 12
	if len(key) < size {
		return s, false
	}
	at := time.Unix(int64(binary.BigEndian.Uint64(key)^1<<63), int64(binary.BigEndian.Uint32(key[8:]))).UTC()
	return broker.Sighting{ID: string(key[size:]), At: at}, true
}

// give notes that a queue has given a number, and returns the last one it has given.
func (j *Journal) give(queue string, number int64) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	last, ok := j.given[queue]
	if !ok || number > last {
		j.given[queue] = number
		return number
	}
	return last
}

func (j *Journal) forget(queue string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.given, queue)
}
