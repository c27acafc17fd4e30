package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// inspection follows every page of a database that is in use, as bbolt's file format lays them out, and trusts none.
// bbolt itself trusts them all: it would end the process at a damaged one, in a goroutine of its own.
//
//	page    id uint64, flags uint16, count uint16, overflow uint32, then count elements, then what they point to
//	branch  elements of 16 bytes: position uint32, key size uint32, child page uint64
//	leaf    elements of 16 bytes: flags uint32, position uint32, key size uint32, value size uint32
//	bucket  the value of a leaf element with flag 1: root page uint64, sequence uint64; without a root its page follows
//	meta    pages 0 and 1, of which the later one counts that is whole
type inspection struct {
	file     io.ReaderAt
	pageSize uint64
	end      uint64 // pages from here on do not belong to the database
	seen     []bool
}

const (
	pageHead    = 16
	elementSize = 16
	branchPage  = 0x01
	leafPage    = 0x02
	bucketFlag  = 0x01
	bucketHead  = 16

	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaSize    = 64 // of which the last eight bytes are the checksum of the others
	maxPages    = 1 << 31
)

// inspectFile returns what is wrong with a database, nil if nothing is.
func inspectFile(file io.ReaderAt, size int64) error {
	root, p, err := newestMeta(file)
	if err != nil {
		return err
	}
	if p.end > uint64(size)/p.pageSize {
		return fmt.Errorf("%w: it is cut off: it should have %d pages and has %d", errDamage, p.end, uint64(size)/p.pageSize)
	}
	p.file, p.seen = file, make([]bool, p.end)
	return p.tree(root, nil, nil)
}

// newestMeta finds the meta page of the last transaction, and what it says: the root page and the size of things.
func newestMeta(file io.ReaderAt) (root uint64, found inspection, err error) {
	var newest uint64
	// The second page is where the first says, if it can be read; page sizes are powers of two.
	for _, at := range []int64{0, 4 << 10, 8 << 10, 16 << 10, 64 << 10} {
		b := make([]byte, pageHead+metaSize)
		if _, err := file.ReadAt(b, at); err != nil {
			continue
		}
		meta := b[pageHead:]
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:metaSize-8]) // a hash takes everything
		le := binary.LittleEndian
		pageSize, end, transaction := le.Uint32(meta[8:]), le.Uint64(meta[40:]), le.Uint64(meta[48:])
		switch {
		case le.Uint32(meta) != metaMagic, le.Uint32(meta[4:]) != metaVersion, le.Uint64(meta[56:]) != sum.Sum64():
		case pageSize < 1<<10 || end > maxPages || at != 0 && at != int64(pageSize):
		case found.pageSize == 0 || transaction > newest:
			root, newest = le.Uint64(meta[16:]), transaction
			found = inspection{pageSize: uint64(pageSize), end: end}
		}
	}
	if found.pageSize == 0 {
		return 0, found, fmt.Errorf("%w: it has no beginning that can be read", errDamage)
	}
	return root, found, nil
}

// tree follows a page whose keys must be at least least and, unless below is nil, less than below.
func (p *inspection) tree(id uint64, least, below []byte) error {
	page, err := p.page(id)
	if err != nil {
		return err
	}
	if err := p.elements(page, least, below); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// page reads a page with its overflow, once.
func (p *inspection) page(id uint64) ([]byte, error) {
	var head [pageHead]byte
	if id < 2 || id >= p.end {
		return nil, fmt.Errorf("%w: there is no page %d", errDamage, id)
	}
	if _, err := p.file.ReadAt(head[:], int64(id*p.pageSize)); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	pages := 1 + uint64(binary.LittleEndian.Uint32(head[12:]))
	if binary.LittleEndian.Uint64(head[:]) != id || pages > p.end-id {
		return nil, fmt.Errorf("%w: page %d is not what it should be", errDamage, id)
	}
	for i := id; i < id+pages; i++ {
		if p.seen[i] {
			return nil, fmt.Errorf("%w: page %d is in two places", errDamage, i)
		}
		p.seen[i] = true
	}
	page := make([]byte, pages*p.pageSize)
	if _, err := p.file.ReadAt(page, int64(id*p.pageSize)); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	return page, nil
}

// elements checks a page's elements, which are in the order of their keys, and follows them.
func (p *inspection) elements(page, least, below []byte) error {
	le := binary.LittleEndian
	flags, count := le.Uint16(page[8:]), int(le.Uint16(page[10:]))
	if flags != branchPage && flags != leafPage || flags == branchPage && count == 0 || pageHead+count*elementSize > len(page) {
		return fmt.Errorf("%w: it is neither a branch nor a leaf", errDamage)
	}
	previous := least
	for i := range count {
		element := page[pageHead+i*elementSize:]
		position, keySize, valueSize := le.Uint32(element), le.Uint32(element[4:]), uint32(0)
		if flags == leafPage {
			position, keySize, valueSize = keySize, le.Uint32(element[8:]), le.Uint32(element[12:])
		}
		if uint64(position)+uint64(keySize)+uint64(valueSize) > uint64(len(element)) {
			return fmt.Errorf("%w: element %d goes beyond its end", errDamage, i)
		}
		key := element[position:][:keySize]
		order := bytes.Compare(previous, key)
		if order > 0 || order == 0 && i > 0 || below != nil && bytes.Compare(key, below) >= 0 {
			return fmt.Errorf("%w: key %d is not in order", errDamage, i)
		}
		previous = key
		var err error
		switch {
		case flags == branchPage:
			next := below
			if i+1 < count {
				if next, err = keyAt(page, i+1); err != nil {
					return err
				}
			}
			err = p.tree(le.Uint64(element[8:]), key, next)
		case le.Uint32(element)&bucketFlag != 0:
			err = p.bucket(element[position+keySize:][:valueSize])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keyAt is the key of a branch's element.
func keyAt(page []byte, i int) ([]byte, error) {
	element := page[pageHead+i*elementSize:]
	position, size := binary.LittleEndian.Uint32(element), binary.LittleEndian.Uint32(element[4:])
	if uint64(position)+uint64(size) > uint64(len(element)) {
		return nil, fmt.Errorf("%w: element %d goes beyond its end", errDamage, i)
	}
	return element[position:][:size], nil
}

// bucket follows a bucket within a leaf.
func (p *inspection) bucket(value []byte) error {
	if len(value) < bucketHead {
		return fmt.Errorf("%w: a bucket is cut off", errDamage)
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return p.tree(root, nil, nil)
	}
	inline := value[bucketHead:]
	if len(inline) < pageHead || binary.LittleEndian.Uint16(inline[8:]) != leafPage {
		return fmt.Errorf("%w: a bucket is cut off", errDamage)
	}
	return p.elements(inline, nil, nil)
}

// errDamage is wrapped by whatever is wrong with a file.
var errDamage = errors.New("damaged")
