package disk

import (
	"errors"
	"fmt"
	"os"
)

const (
	// segmentSize is when a segment is full.
	segmentSize = 64 << 20
	// ahead has most groups overwrite what is there. A file system has far less to do for that than for a file that grows:
	// half the time, and half the work.
	ahead = 1 << 20
	// fewSegments may be full of what is no longer kept, however little is.
	fewSegments = 4
	// lockName is the file whose lock is the folder's.
	lockName = "lock"
)

// medium is what a log is written to.
type medium struct {
	open       opener
	syncFolder func(path string) error // has the names in a folder outlive the machine
	segment    int64                   // the size at which one is full
	ahead      int                     // how many zeros are written after the end, when it has come to the last that were
}

// files is the medium of all but tests.
func files() medium { return medium{openFile, syncFolder, segmentSize, ahead} }

// log is the segments and what is known of them. One goroutine uses it at a time.
type log struct {
	folder string
	schema string
	medium medium
	lock   *os.File

	segments []*segment // the oldest first; the last is written to
	total    int64      // bytes of all
	next     uint64     // number of the next group
	index    index
	cleaner  cleaner
	zeros    []byte
	front    []byte // the head of the group that is written, and what is put anew with it
}

// write writes records as a group, and returns when they are on disk.
func (l *log) write(records []byte) error {
	if err := l.turn(); err != nil {
		return err
	}
	l.front = append(l.front[:0], make([]byte, groupSize)...)
	released, err := l.clean(int64(groupSize + len(records)))
	if err != nil {
		return err
	}
	anew := l.front[groupSize:]
	if len(anew)+len(records) > maxRecords {
		return fmt.Errorf("%d bytes are too many for one group", len(anew)+len(records))
	}
	g := l.active()
	g.groupHead(l.front, l.next, anew, records)
	at := g.size
	grows := at+int64(len(l.front)+len(records)) > g.taken
	for _, part := range [][]byte{l.front, records} {
		if err := g.append(part); err != nil {
			return err
		}
	}
	if grows {
		n, _ := g.file.WriteAt(l.zeros, g.size) // if there is no room, the group that needs it will find out
		g.taken += int64(n)
	}
	if err := g.file.Sync(); err != nil {
		return err
	}
	l.total += g.size - at
	l.next++
	if err := errors.Join(l.apply(g, at+groupSize, anew), l.apply(g, at+int64(len(l.front)), records)); err != nil {
		return err
	}
	if cap(l.front) > maxSpare {
		l.front = nil
	}
	if released {
		return l.release()
	}
	return nil
}

func (l *log) active() *segment { return l.segments[len(l.segments)-1] }

// turn goes on to a new segment, if the last is full.
func (l *log) turn() error {
	g := l.active()
	if g.size < l.medium.segment {
		return nil
	}
	if err := g.cut(g.size); err != nil {
		return err
	}
	return l.begin(g.number+1, l.segments[0].number)
}

// begin begins a segment.
func (l *log) begin(number, oldest uint32) error {
	g := &segment{number: number, oldest: oldest, first: l.next, schema: l.schema, path: l.path(number)}
	if err := g.make(l.medium.open); err != nil {
		return err
	}
	l.segments = append(l.segments, g)
	l.total += g.size
	return l.medium.syncFolder(l.folder)
}

// apply notes in the index what records say that stand at an offset of a segment.
func (l *log) apply(g *segment, offset int64, records []byte) error {
	for rest := records; len(rest) > 0; {
		r, after, err := nextRecord(rest)
		if err != nil {
			return err
		}
		switch r.kind {
		case recordPut:
			l.index.put(r.bucket, r.key, r.place(g, offset+int64(len(records)-len(after))))
		case recordDelete:
			l.index.delete(r.bucket, r.key)
		case recordDrop:
			l.index.drop(r.bucket)
		}
		rest = after
	}
	return nil
}

// place is where the value of a record is that ends at an offset: a value comes last.
func (r *record) place(g *segment, end int64) place {
	return place{segment: g.number, offset: uint32(end - int64(len(r.value))), size: uint32(len(r.value))}
}

// load visits everything that is kept, in order.
func (l *log) load(visit func(bucket string, key, value []byte) error) error {
	w := window{segments: l.segments}
	return l.index.each(func(bucket, key string, p place) error {
		value, err := w.read(p)
		if err != nil {
			return fmt.Errorf("read %s: %w", l.folder, err)
		}
		return visit(bucket, []byte(key), value)
	})
}

// close closes all files, after a group that says that there is no more to come.
func (l *log) close(whole bool) error {
	var errs []error
	if whole {
		errs = append(errs, l.write(nil), l.active().cut(l.active().size))
	}
	for _, g := range l.segments {
		errs = append(errs, g.file.Close())
	}
	return errors.Join(append(errs, l.lock.Close())...)
}

// window reads values, and with each those that follow: keys that were put one after the other often stand so.
type window struct {
	segments []*segment
	of       *segment
	offset   int64
	content  []byte
}

const windowSize = 256 << 10

func (w *window) read(p place) ([]byte, error) {
	g := w.segments[p.segment-w.segments[0].number]
	from, size := int64(p.offset), int64(p.size)
	if w.of != g || from < w.offset || from+size > w.offset+int64(len(w.content)) {
		want := max(size, min(windowSize, g.size-from))
		if int64(cap(w.content)) < want {
			w.content = make([]byte, want)
		}
		w.of, w.offset, w.content = g, from, w.content[:want]
		if _, err := g.file.ReadAt(w.content, from); err != nil {
			w.of = nil
			return nil, err
		}
	}
	return w.content[from-w.offset:][:size:size], nil
}
