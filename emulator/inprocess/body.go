package inprocess

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// errHungUp is what a handler sees of a caller that has gone.
var errHungUp = errors.New("the caller has hung up")

// requestBody is the caller's request body in the handler's hands, until cut.
type requestBody struct {
	from io.ReadCloser
	turn chan struct{} // held by the one who reads; a channel, since a read may block
	gone chan struct{}
	once sync.Once
}

func newRequestBody(from io.ReadCloser) *requestBody {
	if from == nil {
		from = http.NoBody
	}
	return &requestBody{from: from, turn: make(chan struct{}, 1), gone: make(chan struct{})}
}

func (b *requestBody) Read(p []byte) (int, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-b.gone:
		return 0, errHungUp
	}
	select {
	case <-b.gone:
		return 0, errHungUp
	default:
		return b.from.Read(p)
	}
}

func (b *requestBody) Close() error {
	b.cut()
	return nil
}

// cut closes the body and returns when nobody reads it any more: a client may
// rewind it for its next attempt. Close has to end a read that blocks, as it does
// for pipes and files.
func (b *requestBody) cut() {
	b.once.Do(func() {
		close(b.gone)
		_ = b.from.Close() // nothing more can be done about the caller's own body
	})
	b.turn <- struct{}{}
	<-b.turn
}

// streamSize is how much of an answer may wait for its reader.
const streamSize = 64 << 10

// stream is a bounded pipe from the handler to the reader of the answer.
type stream struct {
	mu      sync.Mutex
	buffer  []byte
	end     error         // why nothing more will be written: io.EOF or a broken connection
	broken  error         // why nobody reads any more
	changed chan struct{} // closed and replaced at every change
}

func newStream() *stream { return &stream{changed: make(chan struct{})} }

// wake lets the other side look again. The caller holds s.mu.
func (s *stream) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Write takes all of p, waiting for the reader when the buffer is full.
func (s *stream) Write(p []byte) (int, error) {
	written := 0
	for {
		s.mu.Lock()
		if s.broken != nil {
			s.mu.Unlock()
			return written, errHungUp
		}
		n := min(len(p)-written, streamSize-len(s.buffer))
		s.buffer = append(s.buffer, p[written:written+n]...)
		written += n
		s.wake()
		changed := s.changed
		s.mu.Unlock()
		if written == len(p) {
			return written, nil
		}
		<-changed
	}
}

// Read waits for something to read, or for the end.
func (s *stream) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		changed := s.changed
		switch {
		case s.broken != nil:
			defer s.mu.Unlock()
			return 0, s.broken
		case len(s.buffer) > 0:
			n := copy(p, s.buffer)
			s.buffer = append(s.buffer[:0], s.buffer[n:]...)
			s.wake()
			s.mu.Unlock()
			return n, nil
		case s.end != nil:
			defer s.mu.Unlock()
			return 0, s.end
		}
		s.mu.Unlock()
		<-changed
	}
}

// finish says that nothing more will be written; the first reason stands.
func (s *stream) finish(end error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == nil {
		s.end = end
		s.wake()
	}
}

// abandon says that nobody will read any more; the first reason stands.
func (s *stream) abandon(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = err
		s.wake()
	}
}
