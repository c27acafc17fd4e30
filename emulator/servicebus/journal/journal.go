package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"oneeffect/emulator/disk"
	"oneeffect/emulator/servicebus/broker"
)

// FolderName is the store's folder within the data folder.
const FolderName = "servicebus"

// Journal is an open store. Its methods may be called from any goroutine.
type Journal struct {
	store    *disk.Store
	codec    Codec
	declared map[string]string // by the name of a declaration: its checksum, as of the last start

	buffers sync.Pool // of *[]byte, to encode values in

	mu    sync.Mutex
	given map[string]int64 // by queue: the last sequence number
}

var _ broker.Journal = (*Journal)(nil)

// Open opens the journal in a folder, or makes both. Close must be called.
func Open(folder string, codec Codec) (*Journal, error) {
	store, err := disk.Open(filepath.Join(folder, FolderName), disk.Options{Schema: schema})
	if err != nil {
		return nil, err
	}
	j := &Journal{
		store: store, codec: codec, declared: make(map[string]string), given: make(map[string]int64),
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}
	if err := j.loadDeclared(); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return j, nil
}

// Close writes what is pending, calls the answers to it and closes the store. No operation may run any more.
func (j *Journal) Close() error { return j.store.Close() }

// Begin begins an operation, once there is room for what it will write.
func (j *Journal) Begin() { j.store.Begin() }

// End ends an operation.
func (j *Journal) End() { j.store.End() }

// Kept calls answer once everything that has ended by now is on disk. The order of the calls is kept.
func (j *Journal) Kept(answer func()) { j.store.Kept(answer) }

// Failed is closed when nothing can be written any more; Err says why.
func (j *Journal) Failed() <-chan struct{} { return j.store.Failed() }

// Err is why nothing is written any more; nil while it is.
func (j *Journal) Err() error { return j.store.Err() }

// Write takes a record of an operation that has begun.
func (j *Journal) Write(r broker.Record) {
	buffer, _ := j.buffers.Get().(*[]byte)
	w := writer{journal: j, queue: r.Queue, value: (*buffer)[:0]}
	if err := w.write(&r); err != nil {
		j.store.Fail(fmt.Errorf("%s: %w", r.Queue, err))
	}
	if cap(w.value) <= maxBuffer {
		*buffer = w.value
		j.buffers.Put(buffer)
	}
}

// maxBuffer is the size of a buffer that is kept to be used again.
const maxBuffer = 64 << 10
