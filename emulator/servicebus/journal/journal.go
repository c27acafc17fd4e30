package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"oneeffect/emulator/servicebus/broker"
)

// FileName is the file within the folder.
const FileName = "servicebus.db"

const (
	// maxRecords and maxBytes bound what waits to be written; the operation that passes them is the last to begin.
	maxRecords = 16 << 10
	maxBytes   = 32 << 20

	// tryLock has bbolt try the file's lock once.
	tryLock = time.Nanosecond
)

// Options are for tests.
type Options struct {
	MaxSize int // of the file in bytes, as a full disk would have it; 0: no limit
}

// Journal is an open file. Its methods may be called from any goroutine.
type Journal struct {
	path  string
	db    *bolt.DB
	codec Codec

	gate sync.RWMutex // held shared by operations, exclusively to take what they have written

	mu       sync.Mutex
	room     sync.Cond // there is room in pending, or the journal has failed
	pending  group
	writing  *group          // nil: none
	spare    []broker.Record // of the group before, to be used again
	inFlight int             // groups that are taken and whose answers are not all called
	answers  []func()        // of groups that are written
	written  int             // such groups
	err      error           // why nothing is written any more

	wake   chan struct{} // something is pending
	tell   chan struct{} // something is written
	quit   chan struct{}
	over   chan struct{} // nothing is written any more, and what is written is told
	failed chan struct{}
	ran    sync.WaitGroup
	end    sync.Once
}

// group is what one transaction writes.
type group struct {
	records []broker.Record
	bytes   int
	answers []func()
}

var _ broker.Journal = (*Journal)(nil)

// Open opens the journal in a folder, or makes both. Close must be called.
func Open(folder string, codec Codec, o Options) (*Journal, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	path := filepath.Join(folder, FileName)
	j := &Journal{
		path: path, codec: codec,
		wake: make(chan struct{}, 1), tell: make(chan struct{}, 1),
		quit: make(chan struct{}), over: make(chan struct{}), failed: make(chan struct{}),
	}
	j.room.L = &j.mu
	if err := j.open(o); err != nil {
		return nil, err
	}
	j.ran.Go(j.commit)
	j.ran.Go(j.answer)
	return j, nil
}

// Close writes what is pending, calls the answers to it and closes the file. No operation may run any more.
func (j *Journal) Close() error {
	j.end.Do(func() { close(j.quit) })
	j.ran.Wait()
	if err := j.db.Close(); err != nil {
		return fmt.Errorf("close %s: %w", j.path, err)
	}
	return nil
}

// Begin begins an operation, once there is room for what it will write.
func (j *Journal) Begin() {
	j.mu.Lock()
	for j.err == nil && (len(j.pending.records) >= maxRecords || j.pending.bytes >= maxBytes) {
		j.room.Wait()
	}
	j.mu.Unlock()
	j.gate.RLock()
}

// End ends an operation.
func (j *Journal) End() { j.gate.RUnlock() }

// Write takes a record of an operation that has begun.
func (j *Journal) Write(r broker.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return
	}
	j.pending.records = append(j.pending.records, r)
	if r.Change == broker.Added {
		j.pending.bytes += r.Stored.Message.Size
	}
	j.pending.bytes += len(r.State)
	signal(j.wake)
}

// Kept calls answer once everything that has ended by now is on disk. The order of the calls is kept; the last of them
// may be on this goroutine, if nothing has to be waited for.
func (j *Journal) Kept(answer func()) {
	j.mu.Lock()
	if j.err == nil && j.inFlight == 0 && len(j.pending.records) == 0 && len(j.pending.answers) == 0 {
		j.mu.Unlock()
		answer()
		return
	}
	defer j.mu.Unlock()
	switch {
	case j.err != nil:
	case len(j.pending.records) == 0 && len(j.pending.answers) == 0 && j.writing != nil:
		j.writing.answers = append(j.writing.answers, answer) // all that has ended is in it, or before it
	default:
		j.pending.answers = append(j.pending.answers, answer)
		signal(j.wake)
	}
}

// Failed is closed when the file cannot be written any more; Err says why.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Err is why nothing is written any more; nil while it is.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// commit is the one goroutine that writes.
func (j *Journal) commit() {
	defer close(j.over)
	for closing := false; !closing; {
		select {
		case <-j.wake:
		case <-j.quit:
			closing = true
		}
		g := j.take()
		if g == nil {
			continue
		}
		if len(g.records) > 0 {
			if err := j.write(g.records); err != nil {
				j.fail(err)
				return
			}
		}
		j.done(g)
	}
}

// take takes what has gathered, between two operations.
func (j *Journal) take() *group {
	j.gate.Lock()
	defer j.gate.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	g := j.pending
	if len(g.records) == 0 && len(g.answers) == 0 {
		return nil
	}
	j.pending = group{records: j.spare}
	j.spare = nil
	j.writing = &g
	j.inFlight++
	j.room.Broadcast()
	return &g
}

// done hands the answers on, in order.
func (j *Journal) done(g *group) {
	clear(g.records) // or their messages would stay in memory
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writing = nil
	if cap(g.records) <= maxRecords {
		j.spare = g.records[:0]
	}
	j.answers = append(j.answers, g.answers...)
	j.written++
	signal(j.tell)
}

// answer is the goroutine that calls answers, while the next transaction is written.
func (j *Journal) answer() {
	for {
		select {
		case <-j.tell:
			j.answerAll()
		case <-j.over:
			j.answerAll()
			return
		}
	}
}

func (j *Journal) answerAll() {
	j.mu.Lock()
	answers, groups := j.answers, j.written
	j.answers, j.written = nil, 0
	j.mu.Unlock()
	for _, answer := range answers {
		answer()
	}
	j.mu.Lock()
	j.inFlight -= groups
	j.mu.Unlock()
}

// fail ends writing for good. Answers that wait are never called: nobody may hear of what is not kept.
func (j *Journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = fmt.Errorf("keep the namespace in %s: %w; make room or repair the disk and start again: whatever was acknowledged is in the file", j.path, err)
	j.pending = group{}
	j.room.Broadcast()
	close(j.failed)
}

// ErrData is wrapped by every refusal of a file.
var ErrData = errors.New("the data cannot be used")
