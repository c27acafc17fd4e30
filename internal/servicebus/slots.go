package servicebus

import (
	"context"
	"sync"
	"time"
)

// slots bounds how many messages are held at once. A complaint, that it is too
// much, halves the bound; it grows back by one for every bound's worth of
// deliveries settled in peace.
type slots struct {
	most int // the configured bound

	mu     sync.Mutex
	bound  int // 1 … most
	used   int
	peace  int       // deliveries settled since the last complaint, or since the bound grew
	halved time.Time // when the bound was halved last

	freed chan struct{} // holds a token when used or bound changed
}

func newSlots(most int) *slots {
	return &slots{most: most, bound: most, freed: make(chan struct{}, 1)}
}

// take occupies every free slot, at least one, and says how many; 0 when the
// context has ended.
func (s *slots) take(ctx context.Context) int {
	for ctx.Err() == nil {
		if n := s.takeFree(); n > 0 {
			return n
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
		}
	}
	return 0
}

func (s *slots) takeFree() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := max(s.bound-s.used, 0)
	s.used += n
	return n
}

// within says whether no more is held than there may be.
func (s *slots) within() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used <= s.bound
}

// give frees slots.
func (s *slots) give(n int) {
	s.mu.Lock()
	s.used -= n
	s.mu.Unlock()
	select {
	case s.freed <- struct{}{}:
	default: // the token is there already
	}
}

// now is how many slots are in use, and how many may be.
func (s *slots) now() (used, bound int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.bound
}

// calm notes a delivery settled without a complaint. It returns the bound, and
// whether that has grown.
func (s *slots) calm() (bound int, grown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bound == s.most {
		return s.bound, false
	}
	if s.peace++; s.peace >= s.bound {
		s.bound, s.peace, grown = s.bound+1, 0, true
	}
	return s.bound, grown
}

// oneLoad is for how long complaints are about the same load: all that was under
// way when the first one came.
const oneLoad = time.Second

// throttle notes a complaint. It returns the bound before and after: what is
// held already stays held.
func (s *slots) throttle() (before, after int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peace = 0
	before = s.bound
	if s.bound > 1 && time.Since(s.halved) >= oneLoad {
		s.bound, s.halved = s.bound/2, time.Now()
	}
	return before, s.bound
}
