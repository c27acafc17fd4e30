package main

import (
	"context"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
	"github.com/tmaxmax/go-sse"
)

// What listening to the orchestrator is bounded by.
const (
	maxEvent    = 1 << 20          // bytes; it tells of a hundred executions at most
	silence     = 45 * time.Second // three heartbeats: then nobody is there any more
	listenAgain = time.Second      // after a stream has ended; doubled while there is none
	maxAgain    = 30 * time.Second
)

// notice is what the orchestrator tells of changes.
type notice struct {
	live bool     // from now on it tells; false: from now on it does not
	all  bool     // anything may have changed
	ids  []string // else these have
}

// concerns reports whether an execution may have changed.
func (n notice) concerns(id string) bool { return n.all || slices.Contains(n.ids, id) }

// listen hands on what the orchestrator tells those who look at its page, until ctx
// ends. A stream that ends, as each does after some minutes, is opened again with the
// number of the last event: whoever has missed one is told to look anew. Where there is
// none, that is said once, and it is asked for again by and by. Why there is none is not
// told here: who does not hear looks, and is answered.
func (a *app) listen(ctx context.Context, to chan<- notice) {
	s := stream{app: a, to: to}
	for wait := listenAgain; ; wait = min(2*wait, maxAgain) {
		if s.hear(ctx) {
			wait = listenAgain
		}
		if s.live {
			s.live = false
			s.tell(ctx, notice{})
		}
		if message.Pause(ctx, wait) != nil {
			return
		}
	}
}

// stream is a place among the events.
type stream struct {
	*app
	to   chan<- notice
	last string // the number of the newest event that was heard
	live bool
}

// tell hands on a notice, unless nobody takes it any more.
func (s *stream) tell(ctx context.Context, n notice) {
	select {
	case s.to <- n:
	case <-ctx.Done():
	}
}

// hear opens the stream and hands on what comes, until it ends. It reports whether
// there was one.
func (s *stream) hear(ctx context.Context) bool {
	token, err := s.bearer(ctx)
	if err != nil {
		return false
	}
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	quiet := time.AfterFunc(silence, hangUp)
	defer quiet.Stop()
	header := map[string]string{"Accept": "text/event-stream"}
	if s.last != "" {
		header["Last-Event-ID"] = s.last
	}
	r, err := s.request(ctx, inquiry{method: http.MethodGet, path: "/live", header: header}, nil, token)
	if err != nil {
		return false
	}
	w, err := s.client.Do(r)
	if err != nil {
		return false
	}
	defer w.Body.Close()
	if media, _, _ := mime.ParseMediaType(w.Header.Get("Content-Type")); w.StatusCode != http.StatusOK || media != "text/event-stream" {
		return false
	}
	s.live = true
	s.tell(ctx, notice{live: true})
	for event, err := range sse.Read(beats{w.Body, quiet}, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		if err != nil {
			break
		}
		s.last = event.LastEventID
		s.tell(ctx, noticeOf(event))
	}
	return true
}

// noticeOf reads an event. What it does not know may mean anything.
func noticeOf(event sse.Event) notice {
	n := notice{live: true, all: true}
	var changed []execution.Summary
	if event.Type != "changed" || json.Unmarshal([]byte(event.Data), &changed) != nil {
		return n
	}
	n.all = false
	for _, e := range changed {
		n.ids = append(n.ids, e.ExecutionID)
	}
	return n
}

// beats is a stream whose every byte, a heartbeat's too, says that somebody is there.
type beats struct {
	io.Reader
	quiet *time.Timer
}

func (b beats) Read(into []byte) (int, error) {
	n, err := b.Reader.Read(into)
	if n > 0 {
		b.quiet.Reset(silence)
	}
	return n, err
}
