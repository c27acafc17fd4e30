package journal

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"oneeffect/emulator/servicebus/broker"
)

// Load reads everything there is.
func (j *Journal) Load() (*broker.Snapshot, error) {
	past := &broker.Snapshot{Contents: make(map[string]*broker.Contents)}
	err := j.db.View(func(tx *bolt.Tx) error {
		queues := tx.Bucket(bucketQueues)
		return queues.ForEachBucket(func(path []byte) error {
			if err := j.loadQueue(past, string(path), queues.Bucket(path)); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			return nil
		})
	})
	if err != nil {
		return nil, j.damaged(err)
	}
	return past, nil
}

func (j *Journal) loadQueue(past *broker.Snapshot, path string, b *bolt.Bucket) error {
	if sealed := b.Get(keyEntity); sealed != nil {
		text, err := unseal(sealed)
		if err != nil {
			return err
		}
		d, err := decodeEntity(j.codec, text)
		if err != nil {
			return fmt.Errorf("read its description: %w", err)
		}
		past.Entities = append(past.Entities, d)
	}
	c := &broker.Contents{}
	past.Contents[path] = c
	var err error
	if c.SequenceNumber, err = readNumber(b); err != nil {
		return err
	}
	if err := j.loadMessages(c, b); err != nil {
		return err
	}
	return loadRest(c, b)
}

func readNumber(b *bolt.Bucket) (int64, error) {
	sealed := b.Get(keyNumber)
	if sealed == nil {
		return 0, nil
	}
	value, err := unseal(sealed)
	if err != nil || len(value) != 8 {
		return 0, fmt.Errorf("%w: the last sequence number cannot be read", errDamage)
	}
	return int64(binary.BigEndian.Uint64(value)), nil
}

// loadMessages walks over messages and their states side by side: both are in the order of the numbers.
func (j *Journal) loadMessages(c *broker.Contents, b *bolt.Bucket) error {
	messages, states := b.Bucket(bucketMessages), b.Bucket(bucketStates)
	if messages == nil || states == nil {
		return nil
	}
	walk := states.Cursor()
	stateKey, state := walk.First()
	err := messages.ForEach(func(key, value []byte) error {
		if len(key) != 8 {
			return fmt.Errorf("%w: a sequence number has %d bytes", errDamage, len(key))
		}
		number := binary.BigEndian.Uint64(key)
		s, err := decodeMessage(j.codec, value)
		if err != nil {
			return fmt.Errorf("message %d: %w", number, err)
		}
		s.SequenceNumber = int64(number)
		if stateKey != nil && string(stateKey) == string(key) {
			if err := decodeState(j.codec, state, &s); err != nil {
				return fmt.Errorf("state of message %d: %w", number, err)
			}
			stateKey, state = walk.Next()
		} else if stateKey != nil && string(stateKey) < string(key) {
			return fmt.Errorf("%w: the state of message %x is without its message", errDamage, stateKey)
		}
		c.Messages = append(c.Messages, s)
		return nil
	})
	if err == nil && stateKey != nil {
		return fmt.Errorf("%w: the state of message %x is without its message", errDamage, stateKey)
	}
	return err
}

// loadRest reads the history and the sessions.
func loadRest(c *broker.Contents, b *bolt.Bucket) error {
	if history := b.Bucket(bucketHistory); history != nil {
		err := history.ForEach(func(key, value []byte) error {
			if _, err := unseal(value); err != nil || len(key) < historyKeySize {
				return fmt.Errorf("%w: the history of duplicates cannot be read", errDamage)
			}
			c.History = append(c.History, broker.Sighting{ID: string(key[historyKeySize:]), At: historyTime(key)})
			return nil
		})
		if err != nil {
			return err
		}
	}
	sessions := b.Bucket(bucketSessions)
	if sessions == nil {
		return nil
	}
	return sessions.ForEach(func(key, value []byte) error {
		state, err := unseal(value)
		if err != nil {
			return fmt.Errorf("state of session %q: %w", key, err)
		}
		r := reader{b: state}
		s := broker.SessionState{ID: string(key[1:]), At: r.time()}
		s.State = append([]byte{}, r.b...)
		c.Sessions = append(c.Sessions, s)
		return r.err
	})
}
