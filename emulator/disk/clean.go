package disk

import (
	"errors"
	"fmt"
	"os"
)

// cleaner goes through the oldest segment.
type cleaner struct {
	offset  int64  // of the next group
	content []byte // of the group that it is in
	rest    []byte // of that, what it has not come to
	debt    int64  // how much it has yet to do
}

// haste is how many bytes are cleaned for each that is written. With two, the log would grow while more than half of
// the oldest segment is in use.
const haste = 4

// clean appends to the front of the next group, which will have so many bytes of its own, what is still in use of the
// oldest segment, if there is too much in the log of what is not. It reports whether that segment can be released when
// the group is on disk. Since every put of a value that is in use is at least as new as the oldest segment, and what was
// deleted or put since has another place, nothing comes back.
func (l *log) clean(written int64) (released bool, err error) {
	c := &l.cleaner
	if !l.overgrown() {
		c.debt = 0
		return false, nil
	}
	g := l.segments[0]
	for c.debt += haste * written; c.debt > 0; {
		if len(c.rest) == 0 {
			if c.offset >= g.size {
				l.front = appendOldest(l.front, l.segments[1].number)
				return true, nil
			}
			if err := c.enter(g); err != nil {
				return false, fmt.Errorf("clean %s: %w", g.path, err)
			}
			continue
		}
		r, after, err := nextRecord(c.rest)
		if err != nil {
			return false, fmt.Errorf("clean %s: %w", g.path, err)
		}
		size := len(c.rest) - len(after)
		if r.kind == recordPut && l.index.has(r.bucket, r.key, r.place(g, c.offset-int64(len(after)))) {
			l.front = append(l.front, c.rest[:size]...)
		}
		c.rest = after
		c.debt -= int64(size)
	}
	return false, nil
}

// overgrown reports whether too much is in the log of what is no longer in use.
func (l *log) overgrown() bool {
	return len(l.segments) > 1 && l.total > max(fewSegments*l.medium.segment, 2*l.index.live)
}

// tidy cleans as many segments as it takes. Otherwise a log that is opened often and for short would grow: how far the
// cleaning of a segment has come is not on disk.
func (l *log) tidy() error {
	for l.overgrown() {
		l.cleaner.debt = l.segments[0].size
		if err := l.write(nil); err != nil {
			return err
		}
	}
	return nil
}

// enter reads the next group. What does not fit its checksum any more is not put anew, which would give it a fresh one.
func (c *cleaner) enter(g *segment) error {
	var head [groupSize]byte
	if _, err := g.file.ReadAt(head[:], c.offset); err != nil {
		return err
	}
	_, size, _, ok := g.readGroupHead(head[:])
	if !ok || int64(size) > g.size-c.offset-groupSize {
		return errRotten
	}
	if whole := groupSize + int(size); cap(c.content) < whole {
		c.content = make([]byte, whole)
	}
	c.content = c.content[:groupSize+size]
	if _, err := g.file.ReadAt(c.content, c.offset); err != nil {
		return err
	}
	number, _, _, _ := g.readGroupHead(c.content)
	if c.rest, ok = g.groupAt(c.content, number); !ok {
		return errRotten
	}
	c.offset += int64(len(c.content))
	c.debt -= groupSize
	return nil
}

var errRotten = errors.New("what was written there is not there any more")

// release gives the oldest segment up.
func (l *log) release() error {
	g := l.segments[0]
	l.segments = l.segments[1:]
	l.total -= g.size
	l.cleaner = cleaner{offset: headSize, debt: l.cleaner.debt}
	return errors.Join(g.file.Close(), os.Remove(g.path))
}
