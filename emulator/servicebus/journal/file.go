package journal

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"

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

// open opens the file and checks that it is one of ours.
func (j *Journal) open(o Options) error {
	err := guarded(func() (err error) {
		j.db, err = bolt.Open(j.path, 0o600, &bolt.Options{
			Timeout:        tryLock,
			NoFreelistSync: true, // it is made anew at the start, from what is read then anyway
			FreelistType:   bolt.FreelistMapType,
			MaxSize:        o.MaxSize,
			NoStatistics:   true,
		})
		return err
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%w: another emulator has %s open; end it, or give this one a folder of its own", ErrData, j.path)
	case isDamage(err):
		return j.damaged(err)
	case err != nil:
		return fmt.Errorf("open %s: %w", j.path, err)
	}
	if err := guarded(func() error { return j.db.Update(j.checkSchema) }); err != nil {
		_ = j.db.Close() // the reason why is known
		if isDamage(err) {
			return j.damaged(err)
		}
		return fmt.Errorf("open %s: %w", j.path, err)
	}
	return nil
}

func (j *Journal) checkSchema(tx *bolt.Tx) error {
	about := tx.Bucket(bucketAbout)
	if about == nil {
		if k, _ := tx.Cursor().First(); k != nil {
			return fmt.Errorf("%w: the file is a database of another program; give this one a folder of its own", ErrData)
		}
		for _, name := range [][]byte{bucketAbout, bucketDeclared, bucketQueues} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketAbout).Put(keySchema, strconv.AppendInt(nil, schema, 10))
	}
	if found := string(about.Get(keySchema)); found != strconv.Itoa(schema) {
		return fmt.Errorf("%w: the file has schema version %q and this emulator knows %d; use the emulator that wrote it, "+
			"or delete the file to start afresh", ErrData, found, schema)
	}
	return nil
}

func (j *Journal) damaged(cause error) error {
	return fmt.Errorf("%w: %s is damaged (%w); put back a copy of it, or delete it to start afresh", ErrData, j.path, cause)
}

// errDamage is what guarded makes of a panic, and what a wrong checksum is.
var errDamage = errors.New("damaged")

func isDamage(err error) bool {
	for _, known := range []error{errDamage, bolterrors.ErrInvalid, bolterrors.ErrChecksum, bolterrors.ErrVersionMismatch} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// guarded runs what reads the file. bbolt trusts the pages that it finds: in a damaged file it follows them out of the
// mapped memory, or panics.
func guarded(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamage, p)
		}
	}()
	return read()
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
