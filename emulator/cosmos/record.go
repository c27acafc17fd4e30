package cosmos

import (
	"encoding/binary"
	"errors"
)

// What is kept is one record for each thing that the store holds. Keys are in order, so that a thing is read after those
// that it belongs to; a serial is never given twice, so no record is taken for another's. Numbers are uvarints. Bodies and
// texts are as they are sent. What else there is to know of a resource is read out of its body; of an item it stands beside
// the text, since to parse a hundred thousand of them takes seconds.
//
//	bucket "account"
//	  'a'            the last serial, the last stamp
//	  'b' serial     a database: its body
//	  'c' serial     a container: its database's serial, its body
//	  'd' serial     an offer: its body
//	bucket "items " and a container's serial in hexadecimal
//	  ordinal        an item: its lsn, its place in that commit, its time, its time to live plus one, its indexed
//	                 paths, the lengths of what comes now: its partition, its id, its etag; and its text
//	  'n'            the container's lsn, its last ordinal, and the last stamp at that time
const (
	// schema is the version of what is described above. Another version is refused, never converted: the data is that of
	// a machine for development.
	schema = "cosmos 2"

	bucketAccount = "account"
	kindNumbers   = 'a'
	kindDatabase  = 'b'
	kindContainer = 'c'
	kindOffer     = 'd'
)

var countersKey = []byte{'n'}

func resourceKey(kind byte, serial uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kind}, serial)
}

func itemKey(ordinal uint64) []byte { return binary.BigEndian.AppendUint64(nil, ordinal) }

func appendNumbers(b []byte, all ...uint64) []byte {
	for _, n := range all {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

var errRecord = errors.New("a record of the account cannot be read")

// readNumbers reads numbers and returns what is behind them.
func readNumbers(value []byte, all ...*uint64) (rest []byte, err error) {
	for _, n := range all {
		var length int
		if *n, length = binary.Uvarint(value); length <= 0 {
			return nil, errRecord
		}
		value = value[length:]
	}
	return value, nil
}

// What follows writes what has changed. The caller holds the lock.

// write writes something of the account, and how far the numbers have come that it was given.
func (s *store) write(key, value []byte) {
	if s.kept != nil {
		s.kept.Put(bucketAccount, key, value)
		s.kept.Put(bucketAccount, []byte{kindNumbers}, appendNumbers(nil, uint64(s.serial), s.stamps))
	}
}

// erase erases something of the account. The numbers that it was given are not given again.
func (s *store) erase(key []byte) {
	if s.kept != nil {
		s.kept.Delete(bucketAccount, key)
		s.kept.Put(bucketAccount, []byte{kindNumbers}, appendNumbers(nil, uint64(s.serial), s.stamps))
	}
}

// writeCounters writes what a commit has counted.
func (c *container) writeCounters(stamps uint64) {
	if c.kept != nil {
		c.kept.Put(c.bucket, countersKey, appendNumbers(nil, c.lsn, c.ordinals, stamps))
	}
}

func (c *container) write(d *document) {
	if c.kept != nil {
		names := d.partition + d.id + d.etag
		value := make([]byte, 0, 8*binary.MaxVarintLen64+len(names)+len(d.text))
		value = appendNumbers(value, d.lsn, uint64(d.place), uint64(d.ts), uint64(d.ttl+1), uint64(d.indexed),
			uint64(len(d.partition)), uint64(len(d.id)), uint64(len(d.etag)))
		c.kept.Put(c.bucket, itemKey(d.ordinal), append(append(value, names...), d.text...))
	}
}

func (c *container) erase(d *document) {
	if c.kept != nil {
		c.kept.Delete(c.bucket, itemKey(d.ordinal))
	}
}

// eraseAll erases everything that belongs to the container and to nobody else.
func (c *container) eraseAll() {
	if c.kept != nil {
		c.kept.Drop(c.bucket)
	}
}
