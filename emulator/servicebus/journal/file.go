package journal

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"oneeffect/emulator/servicebus/broker"
)

// schema is the version of what this file's comment describes. Another version is refused, never converted: the data is
// that of a machine for development.
//
//	about     schema
//	declared  path of an entity → checksum of its declaration, see Declared
//	queues    path of a queue, topic or dead letter queue → bucket
//	            entity    JSON, of queues, topics and subscriptions
//	            number    the last sequence number
//	            messages  sequence number → what does not change
//	            states    sequence number → what does; absent while it is as in a message that has just come
//	            history   time, MessageID → nothing
//	            sessions  session id → time, state
const schema = 1

var (
	bucketAbout    = []byte("about")
	bucketDeclared = []byte("declared")
	bucketQueues   = []byte("queues")
	bucketMessages = []byte("messages")
	bucketStates   = []byte("states")
	bucketHistory  = []byte("history")
	bucketSessions = []byte("sessions")
	keySchema      = []byte("schema")
	keyEntity      = []byte("entity")
	keyNumber      = []byte("number")
)

// open opens the file and checks that it is one of ours, in good order.
func (j *Journal) open(o Options) (err error) {
	if err := j.inspect(); err != nil {
		return err
	}
	j.db, err = j.openAs(&bolt.Options{
		Timeout:        tryLock,
		NoFreelistSync: true, // it is made anew at the start, from what is read then anyway
		FreelistType:   bolt.FreelistMapType,
		MaxSize:        o.MaxSize,
		NoStatistics:   true,
	})
	if err != nil {
		return err
	}
	if err := j.db.Update(makeBuckets); err != nil {
		_ = j.db.Close() // the reason why is known
		return fmt.Errorf("write %s: %w", j.path, err)
	}
	return nil
}

func (j *Journal) openAs(o *bolt.Options) (*bolt.DB, error) {
	db, err := bolt.Open(j.path, 0o600, o)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%w: another emulator has %s open; end it, or give this one a folder of its own", ErrData, j.path)
	case isSystem(err):
		return nil, fmt.Errorf("open %s: %w", j.path, err)
	case err != nil:
		return nil, j.damaged(err)
	}
	return db, nil
}

// inspect looks at a file that is there, under its lock, and changes nothing.
func (j *Journal) inspect() error {
	file, err := os.Open(j.path)
	if err != nil {
		return nil // there is none yet, or opening it will say what is wrong
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return nil
	}
	db, err := j.openAs(&bolt.Options{Timeout: tryLock, ReadOnly: true, NoStatistics: true})
	if err != nil {
		return err
	}
	if err := inspectFile(file, info.Size()); err != nil {
		return errors.Join(j.damaged(err), db.Close())
	}
	if err := errors.Join(db.View(isOurs), db.Close()); err != nil {
		return fmt.Errorf("open %s: %w", j.path, err)
	}
	return nil
}

func isOurs(tx *bolt.Tx) error {
	about := tx.Bucket(bucketAbout)
	if about == nil {
		if k, _ := tx.Cursor().First(); k == nil {
			return nil // empty, as a process leaves it that is killed when it has just begun
		}
		return fmt.Errorf("%w: it is a database of another program; give this one a folder of its own", ErrData)
	}
	if found := string(about.Get(keySchema)); found != strconv.Itoa(schema) {
		return fmt.Errorf("%w: it has schema version %q and this emulator knows %d; use the emulator that wrote it, "+
			"or delete it to start afresh", ErrData, found, schema)
	}
	return nil
}

func makeBuckets(tx *bolt.Tx) error {
	for _, name := range [][]byte{bucketAbout, bucketDeclared, bucketQueues} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketAbout).Put(keySchema, strconv.AppendInt(nil, schema, 10))
}

func (j *Journal) damaged(cause error) error {
	return fmt.Errorf("%w: %s is damaged (%w); put back a copy of it, or delete it to start afresh", ErrData, j.path, cause)
}

// isSystem reports whether it was the system that refused, and not the file.
func isSystem(err error) bool {
	_, isErrno := errors.AsType[syscall.Errno](err)
	return isErrno
}

// write puts records into the file, in one transaction.
func (j *Journal) write(records []broker.Record) error {
	return j.db.Update(func(tx *bolt.Tx) error {
		w := writer{codec: j.codec, queues: tx.Bucket(bucketQueues), open: make(map[string]*queueWriter)}
		w.plan(records)
		for i := range records {
			if err := w.write(i, &records[i]); err != nil {
				return fmt.Errorf("%s: %w", records[i].Queue, err)
			}
		}
		return w.finish()
	})
}
