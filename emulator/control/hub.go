package control

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is returned to whoever waits on a hub that has been closed.
var ErrClosed = errors.New("the hub is closed")

// Hub is what the emulators share. Make one with New; all methods may be called
// from any goroutine.
type Hub struct {
	log      eventLog
	switches atomic.Pointer[map[string]bool] // replaced as a whole, so that Off costs one load
	lags     atomic.Pointer[map[string]*Lag] // replaced as a whole, so that LagOf costs one load
	offset   atomic.Int64                    // sum of all jumps, so that Now costs one load
	concerns atomic.Pointer[[]*armed]        // the rules once more, so that Concerns costs one load

	mu        sync.Mutex
	jumped    chan struct{}
	rules     []*armed // in the order in which they were armed
	named     int      // how many rules the hub has named itself
	isolation map[string]*isolation
	closed    chan struct{}
}

// New returns a hub whose clock is right, with no rule armed, every switch on
// and nobody isolated. Make it inside the bubble that uses it, if any.
func New() *Hub {
	h := &Hub{
		jumped:    make(chan struct{}),
		isolation: make(map[string]*isolation),
		closed:    make(chan struct{}),
	}
	h.switches.Store(&map[string]bool{})
	h.lags.Store(&map[string]*Lag{})
	h.log.grown = make(chan struct{})
	return h
}

// Now is the servers' clock, in UTC: this machine's, plus all jumps so far.
func (h *Hub) Now() time.Time {
	return time.Now().UTC().Add(time.Duration(h.offset.Load()))
}

// Jump moves the servers' clock, forward if d is positive, back if it is
// negative, and closes the channel that Jumped handed out. Timers do not follow
// by themselves: whoever waits for a time of this clock also waits for Jumped.
func (h *Hub) Jump(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offset.Add(int64(d))
	close(h.jumped)
	h.jumped = make(chan struct{})
}

// Jumped is closed at the next Jump. Ask for it before reading Now, so that no
// jump falls between the two, and ask again after each one.
func (h *Hub) Jumped() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.jumped
}

// Offset is the sum of all jumps so far.
func (h *Hub) Offset() time.Duration { return time.Duration(h.offset.Load()) }

// Close ends every hold with Drop and every wait with ErrClosed. A hub that is
// closed still answers: rules that would hold drop instead.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isClosed() {
		return
	}
	close(h.closed)
	for _, r := range h.rules {
		h.releaseHeld(r, Decision{Kind: Drop}, "closed")
	}
}

// isClosed may be asked with or without h.mu: closed is made once.
func (h *Hub) isClosed() bool {
	select {
	case <-h.closed:
		return true
	default:
		return false
	}
}
