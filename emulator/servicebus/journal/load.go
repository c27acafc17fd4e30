package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"oneeffect/emulator/disk"
	"oneeffect/emulator/servicebus/broker"
)

// Load reads everything there is. It is called before the first operation.
func (j *Journal) Load() (*broker.Snapshot, error) {
	past := &broker.Snapshot{Contents: make(map[string]*broker.Contents)}
	err := j.store.Load(func(path string, key, value []byte) error {
		if path == bucketDeclared {
			return nil
		}
		c := past.Contents[path]
		if c == nil {
			c = &broker.Contents{}
			past.Contents[path] = c
		}
		err := j.load(past, c, key, value)
		if err != nil {
			err = fmt.Errorf("%w: %s, %q: %w; use the emulator that wrote it, or delete the folder to start afresh", disk.ErrData, path, key, err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for path, c := range past.Contents {
		j.given[path] = c.SequenceNumber
	}
	return past, nil
}

// load reads one key of a queue. They come in order: messages before their states, both by number.
func (j *Journal) load(past *broker.Snapshot, c *broker.Contents, key, value []byte) error {
	if len(key) == 0 {
		return errKey
	}
	kind, key := key[0], key[1:]
	switch kind {
	case ofEntity:
		d, err := decodeEntity(j.codec, value)
		past.Entities = append(past.Entities, d)
		return err
	case ofHistory:
		s, ok := sighting(key)
		if !ok {
			return errKey
		}
		c.History = append(c.History, s)
		return nil
	case ofNumber:
		if len(value) != 8 {
			return errKey
		}
		c.SequenceNumber = max(c.SequenceNumber, int64(binary.BigEndian.Uint64(value)))
		return nil
	case ofSession:
		r := reader{b: value}
		s := broker.SessionState{ID: string(key), At: r.time()}
		s.State = append([]byte{}, r.b...)
		c.Sessions = append(c.Sessions, s)
		return r.err
	}
	if len(key) != 8 {
		return errKey
	}
	number := int64(binary.BigEndian.Uint64(key))
	switch kind {
	case ofMessage:
		s, err := decodeMessage(j.codec, value)
		s.SequenceNumber = number
		c.SequenceNumber = max(c.SequenceNumber, number)
		c.Messages = append(c.Messages, s)
		return err
	case ofState:
		i, ok := slices.BinarySearchFunc(c.Messages, number, func(s broker.Stored, n int64) int { return int(s.SequenceNumber - n) })
		if !ok {
			return errors.New("a state is without its message")
		}
		return decodeState(j.codec, value, &c.Messages[i])
	}
	return errKey
}

var errKey = errors.New("a key is not one of ours")

// loadDeclared reads what Declared has written.
func (j *Journal) loadDeclared() error {
	err := j.store.Load(func(bucket string, key, value []byte) error {
		if bucket != bucketDeclared {
			return errEnough // it is the first
		}
		j.declared[string(key)] = string(value)
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

var errEnough = errors.New("enough is read")
