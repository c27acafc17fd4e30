package disk

import (
	"errors"
	"fmt"
	"sync"
)

const (
	// maxPending bounds what waits to be written; the operation that passes it is the last to begin.
	maxPending = 16 << 20
	// maxSpare is the size of a buffer that is kept to be used again.
	maxSpare = 4 << 20
)

// Options say what a store is.
type Options struct {
	// Schema names what the keys and values are, and its version. A store of another schema is refused.
	Schema string
}

// Store is an open folder. Its methods may be called from any goroutine.
//
// Keys are in buckets, which come and go with their keys. Load shows buckets in the order of their names, and the keys of
// each in the order of their bytes.
type Store struct {
	folder string
	log    *log // the committing goroutine's, once there is one

	gate sync.RWMutex // held shared by operations, exclusively to take what they have written

	mu       sync.Mutex
	room     sync.Cond // there is room in pending, or the store has failed
	pending  group
	writing  *group   // nil: none
	spare    []byte   // of the group before, to be used again
	inFlight int      // groups that are taken and whose answers are not all called
	answers  []func() // of groups that are written
	written  int      // such groups
	err      error    // why nothing is written any more

	wake   chan struct{} // something is pending
	tell   chan struct{} // something is written
	quit   chan struct{}
	over   chan struct{} // nothing is written any more, and what is written is told
	failed chan struct{}
	ran    sync.WaitGroup
	end    sync.Once
}

// group is what is written at once.
type group struct {
	records []byte
	answers []func()
}

// Open opens the store in a folder, or makes both. Close must be called.
func Open(folder string, o Options) (*Store, error) {
	return open(folder, o, files())
}

func open(folder string, o Options, m medium) (*Store, error) {
	l, err := openLog(folder, o, m)
	if err != nil {
		return nil, err
	}
	s := &Store{
		folder: folder, log: l,
		wake: make(chan struct{}, 1), tell: make(chan struct{}, 1),
		quit: make(chan struct{}), over: make(chan struct{}), failed: make(chan struct{}),
	}
	s.room.L = &s.mu
	s.ran.Go(s.commit)
	s.ran.Go(s.answer)
	return s, nil
}

// Load shows everything that is kept. It may be called until the first operation begins. The slices are the visitor's
// during the call only; its error ends the visit and is returned.
func (s *Store) Load(visit func(bucket string, key, value []byte) error) error {
	return s.log.load(visit)
}

// Close writes what is pending, calls the answers to it and closes the folder. No operation may run any more.
func (s *Store) Close() error {
	first := false
	s.end.Do(func() {
		first = true
		close(s.quit)
	})
	s.ran.Wait()
	if !first {
		return nil
	}
	if err := s.log.close(s.Err() == nil); err != nil {
		return fmt.Errorf("close %s: %w", s.folder, err)
	}
	return nil
}

// Begin begins an operation, once there is room for what it will write. It does not nest.
func (s *Store) Begin() {
	s.mu.Lock()
	for s.err == nil && len(s.pending.records) >= maxPending {
		s.room.Wait()
	}
	s.mu.Unlock()
	s.gate.RLock()
}

// End ends an operation.
func (s *Store) End() { s.gate.RUnlock() }

// Put writes a value, within an operation. Key and value are copied.
func (s *Store) Put(bucket string, key, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.pending.records = appendPut(s.pending.records, bucket, key, value)
		signal(s.wake)
	}
}

// Delete deletes a key, which need not be there, within an operation.
func (s *Store) Delete(bucket string, key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.pending.records = appendDelete(s.pending.records, bucket, key)
		signal(s.wake)
	}
}

// Drop deletes a bucket with all its keys, within an operation. What is put into it later is there.
func (s *Store) Drop(bucket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.pending.records = appendDrop(s.pending.records, bucket)
		signal(s.wake)
	}
}

// Kept calls answer once everything that has ended by now is on disk. The order of the calls is kept; the last of them
// may be on this goroutine, if nothing has to be waited for.
func (s *Store) Kept(answer func()) {
	s.mu.Lock()
	idle := len(s.pending.records) == 0 && len(s.pending.answers) == 0
	if s.err == nil && idle && s.inFlight == 0 {
		s.mu.Unlock()
		answer()
		return
	}
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
	case idle && s.writing != nil:
		s.writing.answers = append(s.writing.answers, answer) // all that has ended is in it, or before it
	default:
		s.pending.answers = append(s.pending.answers, answer)
		signal(s.wake)
	}
}

// Failed is closed when nothing can be written any more; Err says why.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err is why nothing is written any more; nil while it is.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Fail ends writing for good, for an operation that cannot be written whole. Answers that wait are never called: nobody
// may hear of what is not kept.
func (s *Store) Fail(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = fmt.Errorf("keep the data in %s: %w; make room or repair the disk and start again: whatever was acknowledged is there", s.folder, cause)
	s.pending = group{}
	s.room.Broadcast()
	close(s.failed)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ErrData is wrapped by every refusal of a folder.
var ErrData = errors.New("the data cannot be used")
