package disk

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// A segment is a file of the log: a head, then groups. Numbers are little-endian, checksums CRC-32C.
//
//	head   magic [8]byte, format uint32, its number uint32, oldest segment in use uint32, number of its first group uint64,
//	       salt [8]byte, schema [64]byte after its length uint8, checksum uint32
//	group  magic [4]byte, number uint64, size of its records uint64, their checksum uint32, checksum of all this and of
//	       the salt uint32; then its records
//
// The salt is a segment's own, so that nothing that was put into a store passes for a group of it.
const (
	segmentMagic = "oneefLOG"
	groupMagic   = "GRP\n"
	format       = 1

	saltSize   = 8
	maxSchema  = 64
	headSize   = 8 + 4 + 4 + 4 + 8 + saltSize + 1 + maxSchema + 4
	groupSize  = 4 + 8 + 8 + 4 + 4
	maxRecords = 1 << 30 // of one group, in bytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// file is what the log needs of a file.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Stat() (os.FileInfo, error)
	Truncate(size int64) error
	Sync() error
}

// opener opens a file, as os.OpenFile does.
type opener func(path string, flag int) (file, error)

func openFile(path string, flag int) (file, error) { return os.OpenFile(path, flag, 0o600) }

// segment is a file of the log, and what its head says.
type segment struct {
	number, oldest uint32
	first          uint64 // group
	salt           [saltSize]byte
	schema         string

	path  string
	file  file
	size  int64 // up to the end of its last group
	taken int64 // with what is there beyond
}

// head encodes what a segment begins with.
func (g *segment) head() []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, headSize)
	b = append(b, segmentMagic...)
	b = le.AppendUint32(b, format)
	b = le.AppendUint32(b, g.number)
	b = le.AppendUint32(b, g.oldest)
	b = le.AppendUint64(b, g.first)
	b = append(b, g.salt[:]...)
	b = append(b, byte(len(g.schema)))
	b = append(b, g.schema...)
	b = append(b, make([]byte, maxSchema-len(g.schema))...)
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readHead decodes it.
func (g *segment) readHead(b []byte) error {
	le := binary.LittleEndian
	switch {
	case len(b) < headSize || string(b[:8]) != segmentMagic:
		return errors.New("it does not begin as a log does")
	case le.Uint32(b[8:]) != format:
		return fmt.Errorf("%w: it is in format %d and this emulator knows %d", errVersion, le.Uint32(b[8:]), format)
	case crc32.Checksum(b[:headSize-4], castagnoli) != le.Uint32(b[headSize-4:]) || b[36] > maxSchema:
		return errors.New("its beginning does not fit its checksum")
	}
	g.number, g.oldest, g.first = le.Uint32(b[12:]), le.Uint32(b[16:]), le.Uint64(b[20:])
	copy(g.salt[:], b[28:])
	g.schema = string(b[37:][:b[36]])
	return nil
}

var errVersion = errors.New("another version")

// make makes the file of a segment.
func (g *segment) make(open opener) (err error) {
	_, _ = rand.Read(g.salt[:]) // which never fails
	if g.file, err = open(g.path, os.O_RDWR|os.O_CREATE|os.O_EXCL); err != nil {
		return err
	}
	if err = g.append(g.head()); err == nil {
		err = g.file.Sync()
	}
	if err != nil {
		return errors.Join(err, g.file.Close())
	}
	return nil
}

// append writes at the end.
func (g *segment) append(b []byte) error {
	n, err := g.file.WriteAt(b, g.size)
	g.size += int64(n)
	g.taken = max(g.taken, g.size)
	return err
}

// cut cuts off what is there beyond an end.
func (g *segment) cut(end int64) error {
	if end == g.taken {
		return nil
	}
	if err := errors.Join(g.file.Truncate(end), g.file.Sync()); err != nil {
		return fmt.Errorf("cut %s off at its end: %w", g.path, err)
	}
	g.size, g.taken = end, end
	return nil
}

// groupHead encodes what a group begins with, whose records are in two parts.
func (g *segment) groupHead(dst []byte, number uint64, front, records []byte) {
	le := binary.LittleEndian
	copy(dst, groupMagic)
	le.PutUint64(dst[4:], number)
	le.PutUint64(dst[12:], uint64(len(front)+len(records)))
	le.PutUint32(dst[20:], crc32.Update(crc32.Checksum(front, castagnoli), castagnoli, records))
	le.PutUint32(dst[24:], g.salted(dst[:24]))
}

// salted is the checksum of a group's head.
func (g *segment) salted(head []byte) uint32 {
	return crc32.Update(crc32.Checksum(g.salt[:], castagnoli), castagnoli, head)
}

// readGroupHead decodes it: the group's number, and the size and checksum of its records.
func (g *segment) readGroupHead(b []byte) (number, size uint64, sum uint32, ok bool) {
	le := binary.LittleEndian
	if len(b) < groupSize || string(b[:4]) != groupMagic || g.salted(b[:24]) != le.Uint32(b[24:]) {
		return 0, 0, 0, false
	}
	return le.Uint64(b[4:]), le.Uint64(b[12:]), le.Uint32(b[20:]), true
}

// groupAt returns the records of the group of a number that some bytes of a segment begin with.
func (g *segment) groupAt(b []byte, number uint64) (records []byte, ok bool) {
	found, size, sum, ok := g.readGroupHead(b)
	if !ok || found != number || size > uint64(len(b)-groupSize) {
		return nil, false
	}
	records = b[groupSize:][:size]
	return records, crc32.Checksum(records, castagnoli) == sum
}

// walk visits the groups of a segment's content: the offset and the content of their records. It returns the end of
// those that are whole, and the number that the next would have.
func (g *segment) walk(content []byte, visit func(offset int64, records []byte) error) (end int64, next uint64, err error) {
	end, next = headSize, g.first
	for end < int64(len(content)) {
		records, ok := g.groupAt(content[end:], next)
		if !ok {
			break
		}
		if err := visit(end+groupSize, records); err != nil {
			return end, next, err
		}
		end += groupSize + int64(len(records))
		next++
	}
	return end, next, nil
}

// later reports whether a group with a larger number begins somewhere in a segment's content.
func (g *segment) later(content []byte, number uint64) bool {
	for {
		i := bytes.Index(content, []byte(groupMagic))
		if i < 0 {
			return false
		}
		if found, _, _, ok := g.readGroupHead(content[i:]); ok && found > number {
			return true
		}
		content = content[i+1:]
	}
}
