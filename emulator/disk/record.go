package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A record is one change. Lengths are uvarints.
//
//	'p' bucket key value, each after its length
//	'd' bucket key
//	'b' bucket               the bucket is dropped
//	'o' number uint32        the oldest segment that is in use from now on
const (
	recordPut    = 'p'
	recordDelete = 'd'
	recordDrop   = 'b'
	recordOldest = 'o'
)

type record struct {
	kind               byte
	bucket, key, value []byte
	number             uint32
}

func appendPut(dst []byte, bucket string, key, value []byte) []byte {
	return appendField(appendField(appendField(append(dst, recordPut), bucket), key), value)
}

func appendDelete(dst []byte, bucket string, key []byte) []byte {
	return appendField(appendField(append(dst, recordDelete), bucket), key)
}

func appendDrop(dst []byte, bucket string) []byte {
	return appendField(append(dst, recordDrop), bucket)
}

func appendOldest(dst []byte, number uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, recordOldest), number)
}

func appendField[T string | []byte](dst []byte, field T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(field))), field...)
}

// nextRecord reads the first of some records and returns those after it. Its fields are views.
func nextRecord(b []byte) (r record, rest []byte, err error) {
	r.kind, b = b[0], b[1:]
	field := func() []byte {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			err = errRecord
			return nil
		}
		taken := b[size:][:n:n]
		b = b[size+int(n):]
		return taken
	}
	switch r.kind {
	case recordPut:
		r.bucket, r.key, r.value = field(), field(), field()
	case recordDelete:
		r.bucket, r.key = field(), field()
	case recordDrop:
		r.bucket = field()
	case recordOldest:
		if len(b) < 4 {
			return r, nil, errRecord
		}
		r.number, b = binary.LittleEndian.Uint32(b), b[4:]
	default:
		return r, nil, fmt.Errorf("a record is of kind %q", r.kind)
	}
	return r, b, err
}

var errRecord = errors.New("a record ends too early")
