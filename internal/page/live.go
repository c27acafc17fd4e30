package page

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/orchestrator"

	"github.com/go-json-experiment/json"
)

// What telling browsers of changes is bounded by.
const (
	together   = 250 * time.Millisecond // changes are told together, at most so often
	maxChanges = 100                    // told at once; more: look anew
	maxBehind  = 16                     // events that a browser may not have taken yet; so many are remembered
	heartbeat  = 15 * time.Second
	sendLimit  = 5 * time.Second  // of one write to one browser
	streamLife = 10 * time.Minute // then a browser comes again, and is asked again who it is
)

// Live tells browsers what has changed. One goroutine writes down each change once,
// for all of them (P3).
type Live struct {
	most int

	mu      sync.Mutex
	now     uint64 // the number of the newest event; they begin anywhere, since other processes number theirs too
	changed map[string]execution.Summary
	anew    bool     // anything may have changed besides
	told    [][]byte // the newest events, the last of them number now
	browser map[chan []byte]struct{}
	ended   bool
	wake    chan struct{}
}

func newLive(most int) *Live {
	return &Live{most: most, now: rand.Uint64(), changed: map[string]execution.Summary{}, browser: map[chan []byte]struct{}{}, wake: make(chan struct{}, 1)}
}

// Publish takes in what has changed; an empty page: anything may have. It does not
// wait.
func (l *Live) Publish(page []execution.Summary) {
	l.mu.Lock()
	l.anew = l.anew || len(page) == 0
	for _, s := range page {
		if len(l.changed) <= maxChanges {
			l.changed[s.ExecutionID] = s
		}
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Now is the number of the newest event: what a page that is made now shows.
func (l *Live) Now() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Run tells, until ctx ends; then every stream ends too.
func (l *Live) Run(ctx context.Context) error {
	defer l.end()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		l.tell()
		pause.Reset(together)
	}
}

// tell writes one event and gives it to all. Who has not taken the ones before is
// dropped.
func (l *Live) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.changed) == 0 && !l.anew {
		return
	}
	l.now++
	event := l.event()
	clear(l.changed)
	l.anew = false
	if len(l.told) == maxBehind {
		l.told = slices.Delete(l.told, 0, 1)
	}
	l.told = append(l.told, event)
	for browser := range l.browser {
		select {
		case browser <- event:
		default:
			l.leave(browser)
		}
	}
}

// event is what has changed, or that it is not known or too much to tell. The caller
// holds the lock.
func (l *Live) event() []byte {
	if !l.anew && len(l.changed) <= maxChanges {
		all := make([]execution.Summary, 0, len(l.changed))
		for _, s := range l.changed {
			all = append(all, s)
		}
		if text, err := json.Marshal(all); err == nil {
			return fmt.Appendf(nil, "id: %d\nevent: changed\ndata: %s\n\n", l.now, text)
		}
	}
	return missed(l.now)
}

func missed(now uint64) []byte { return fmt.Appendf(nil, "id: %d\nevent: missed\ndata: -\n\n", now) }

// leave ends a stream. The caller holds the lock.
func (l *Live) leave(browser chan []byte) {
	if _, there := l.browser[browser]; there {
		delete(l.browser, browser)
		close(browser)
	}
}

func (l *Live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for browser := range l.browser {
		l.leave(browser)
	}
}

// join lets a browser in, and tells it what was told since it looked last. One that
// has missed more than is remembered, or comes from another process, looks anew.
func (l *Live) join(after string) (browser chan []byte, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(l.browser) >= l.most {
		return nil, false
	}
	browser = make(chan []byte, maxBehind)
	seen, err := strconv.ParseUint(after, 10, 64)
	if behind := l.now - seen; err == nil && behind <= uint64(len(l.told)) {
		for _, event := range l.told[len(l.told)-int(behind):] {
			browser <- event
		}
	} else {
		browser <- missed(l.now)
	}
	l.browser[browser] = struct{}{}
	return browser, true
}

// serve is one browser's stream.
func (l *Live) serve(w http.ResponseWriter, r *http.Request) {
	seen := r.Header.Get("Last-Event-ID")
	if seen == "" {
		seen = r.URL.Query().Get("after")
	}
	browser, ok := l.join(seen)
	if !ok {
		w.Header().Set("Retry-After", "30")
		orchestrator.WriteProblem(w, orchestrator.Unavailable, "as many browsers as are served at once are told of changes already; the pages work without")
		return
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.leave(browser)
	}()
	secure(w.Header())
	w.Header().Set("Content-Type", "text/event-stream")
	to := stream{w, http.NewResponseController(w)}
	if err := to.flush.SetReadDeadline(time.Time{}); err != nil || r.Method == http.MethodHead || !to.send([]byte("retry: 3000\n\n")) {
		return
	}
	to.all(r.Context(), browser)
}

// Ends reports whether a request is one whose answer ends: all but the streams.
func Ends(r *http.Request) bool { return r.URL.Path != "/live" }

// stream is the way to one browser.
type stream struct {
	w     http.ResponseWriter
	flush *http.ResponseController
}

func (s stream) all(ctx context.Context, events <-chan []byte) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	life := time.NewTimer(streamLife)
	defer life.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-life.C:
			return
		case <-beat.C:
			if !s.send([]byte(":\n\n")) {
				return
			}
		case event, going := <-events:
			if !going || !s.send(event) {
				return
			}
		}
	}
}

// send has a deadline of its own: that of the server is for answers that end.
func (s stream) send(text []byte) bool {
	if err := s.flush.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
		return false
	}
	if _, err := s.w.Write(text); err != nil {
		return false
	}
	return s.flush.Flush() == nil
}
