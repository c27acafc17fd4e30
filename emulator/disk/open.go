package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const segmentExtension = ".log"

// errLocked is what lockFile returns when another process has the lock.
var errLocked = errors.New("locked")

func (l *log) path(number uint32) string {
	return filepath.Join(l.folder, fmt.Sprintf("%08x", number)+segmentExtension)
}

// openLog opens the log in a folder, or begins one.
func openLog(folder string, o Options, m medium) (*log, error) {
	if len(o.Schema) > maxSchema {
		return nil, fmt.Errorf("schema %q is longer than %d bytes", o.Schema, maxSchema)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	lock, err := lockFile(filepath.Join(folder, lockName))
	switch {
	case errors.Is(err, errLocked):
		return nil, fmt.Errorf("%w: another emulator has %s open; end it, or give this one a folder of its own", ErrData, folder)
	case err != nil:
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	l := &log{folder: folder, schema: o.Schema, medium: m, lock: lock, index: newIndex(), next: 1, cleaner: cleaner{offset: headSize}, zeros: make([]byte, m.ahead)}
	if err := l.open(); err != nil {
		for _, g := range l.segments {
			err = errors.Join(err, g.file.Close())
		}
		return nil, errors.Join(err, lock.Close())
	}
	return l, nil
}

// open reads what is there, and then only puts it in order.
func (l *log) open() error {
	numbers, err := l.list()
	if err != nil {
		return fmt.Errorf("list the data folder: %w", err)
	}
	var unborn []uint32 // a segment whose making was not finished
	if n := len(numbers); n > 0 {
		born, err := l.born(numbers[n-1])
		if err != nil {
			return fmt.Errorf("read the data: %w", err)
		}
		if !born {
			numbers, unborn = numbers[:n-1], numbers[n-1:]
		}
	}
	var stale []uint32
	if len(numbers) > 0 {
		if stale, err = l.replay(numbers); err != nil {
			return err
		}
	}
	for _, n := range slices.Concat(unborn, stale) {
		if err := os.Remove(l.path(n)); err != nil {
			return fmt.Errorf("remove what is no longer in use: %w", err)
		}
	}
	if len(numbers) == 0 {
		if err := l.begin(1, 1); err != nil {
			return fmt.Errorf("begin the log in %s: %w", l.folder, err)
		}
	}
	if err := l.tidy(); err != nil {
		return fmt.Errorf("tidy up the log in %s: %w", l.folder, err)
	}
	return nil
}

// born reports whether the making of a segment was finished: its head is whole, or something stands behind it.
func (l *log) born(number uint32) (bool, error) {
	f, err := l.medium.open(l.path(number), os.O_RDONLY)
	if err != nil {
		return false, err
	}
	content := make([]byte, headSize+1)
	n, err := f.ReadAt(content, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	var g segment
	err = g.readHead(content[:n])
	return err == nil || errors.Is(err, errVersion) || n > headSize, nil
}

// list returns the numbers of the segments that are there, in order.
func (l *log) list() (numbers []uint32, err error) {
	entries, err := os.ReadDir(l.folder)
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), segmentExtension)
		if n, err := strconv.ParseUint(name, 16, 32); ok && err == nil && l.path(uint32(n)) == filepath.Join(l.folder, e.Name()) {
			numbers = append(numbers, uint32(n))
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// replay reads the segments that are in use, and cuts off what a crash has left at the end of the last. It returns those
// that are not in use.
func (l *log) replay(numbers []uint32) (stale []uint32, err error) {
	last, tail, err := l.enter(numbers[len(numbers)-1], nil)
	if err != nil {
		return nil, err
	}
	oldest := last.oldest
	end, next, err := last.walk(tail, func(_ int64, records []byte) error {
		n, err := oldestIn(records)
		oldest = max(oldest, n)
		return err
	})
	switch {
	case err != nil:
		return nil, l.damaged(last, err)
	case last.later(tail[end:], next):
		return nil, l.damaged(last, fmt.Errorf("group %d is not whole and others follow", next))
	case oldest > last.number:
		return nil, l.damaged(last, fmt.Errorf("it says that segment %08x is the oldest", oldest))
	}
	l.next = 0
	var content []byte
	for n := oldest; n < last.number; n++ {
		var g *segment
		if g, content, err = l.enter(n, content); err != nil {
			return nil, err
		}
		if err := l.take(g, content); err != nil {
			return nil, err
		}
	}
	if err := l.take(last, tail[:end]); err != nil {
		return nil, err
	}
	l.segments = append(l.segments[1:], last)
	i, _ := slices.BinarySearch(numbers, oldest)
	return numbers[:i], last.cut(end)
}

// enter opens a segment and reads it. The buffer may be used for what it returns.
func (l *log) enter(number uint32, buffer []byte) (*segment, []byte, error) {
	g := &segment{path: l.path(number)}
	f, err := l.medium.open(g.path, os.O_RDWR)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, l.damaged(g, errors.New("it is not there"))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open the data: %w", err)
	}
	g.file = f
	l.segments = append(l.segments, g) // and so it is closed, whatever comes
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("open the data: %w", err)
	}
	g.size, g.taken = info.Size(), info.Size()
	content := slices.Grow(buffer[:0], int(g.size))[:g.size]
	if _, err := f.ReadAt(content, 0); err != nil {
		return nil, nil, fmt.Errorf("read the data: %w", err)
	}
	switch err := g.readHead(content); {
	case errors.Is(err, errVersion):
		return nil, nil, fmt.Errorf("%w: %s: %w; use the emulator that wrote it, or delete the folder to start afresh", ErrData, g.path, err)
	case err != nil:
		return nil, nil, l.damaged(g, err)
	case g.number != number:
		return nil, nil, l.damaged(g, fmt.Errorf("it says that it is segment %08x", g.number))
	case g.schema != l.schema:
		return nil, nil, fmt.Errorf("%w: %s keeps %q and this emulator knows %q; use the emulator that wrote it, "+
			"give this one a folder of its own, or delete the folder to start afresh", ErrData, l.folder, g.schema, l.schema)
	}
	return g, content, nil
}

// take notes in the index what a segment says, which follows those before.
func (l *log) take(g *segment, content []byte) error {
	if l.next != 0 && g.first != l.next {
		return l.damaged(g, fmt.Errorf("it begins with group %d and the one before ends before group %d", g.first, l.next))
	}
	end, next, err := g.walk(content, func(offset int64, records []byte) error { return l.apply(g, offset, records) })
	switch {
	case err != nil:
		return l.damaged(g, err)
	case end < int64(len(content)):
		return l.damaged(g, fmt.Errorf("group %d is not whole", next))
	}
	l.next = next
	l.total += end
	return nil
}

// oldestIn returns what some records say the oldest segment is, 0 if they say nothing.
func oldestIn(records []byte) (oldest uint32, err error) {
	for rest := records; len(rest) > 0; {
		var r record
		if r, rest, err = nextRecord(rest); err != nil {
			return 0, err
		}
		if r.kind == recordOldest {
			oldest = max(oldest, r.number)
		}
	}
	return oldest, nil
}

func (l *log) damaged(g *segment, cause error) error {
	return fmt.Errorf("%w: %s is damaged (%w); put back a copy of the folder, or delete it to start afresh", ErrData, g.path, cause)
}
