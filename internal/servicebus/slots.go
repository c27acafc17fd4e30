package servicebus

import (
	"context"
	"sync"
)

// slots bounds how many messages are held at once. A broker that says it is busy
// halves the bound; it grows back by one for every bound's worth of deliveries
// settled in peace.
type slots struct {
	most int // the configured bound

	mu    sync.Mutex
	bound int // 1 … most
	used  int
	peace int // deliveries settled since the bound last changed

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

// calm notes a delivery settled without the broker complaining.
func (s *slots) calm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bound == s.most {
		return
	}
	if s.peace++; s.peace >= s.bound {
		s.bound, s.peace = s.bound+1, 0
	}
}

// throttle halves the bound. What is held already stays held.
func (s *slots) throttle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound, s.peace = max(s.bound/2, 1), 0
}
