package downstream

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"oneeffect/emulator/control"
)

// world is a downstream in a bubble.
type world struct {
	t   *testing.T
	hub *control.Hub
	s   *Server
}

func bubble(t *testing.T, f func(t *testing.T, w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world{t: t, hub: control.New()}
		w.s = New(w.hub)
		defer func() { // also when the test has given up: what is left in a bubble hides why
			w.hub.Close()
			if err := w.s.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(t, w)
	})
}

// answer is a response whose body has been read.
type answer struct {
	status int
	header http.Header
	body   string
}

// send posts a JSON body as worker-1; headers are "Name: value".
func (w world) send(ctx context.Context, path, body string, headers ...string) (answer, error) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", "http://downstream"+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "worker-1/dev (test)")
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if r.Header.Del(name); value != "" {
			r.Header.Set(name, value)
		}
	}
	return w.do(r)
}

func (w world) do(r *http.Request) (answer, error) {
	resp, err := w.s.Transport().RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

func (w world) mustSend(path, body string, headers ...string) answer {
	w.t.Helper()
	a, err := w.send(w.t.Context(), path, body, headers...)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// sendTo sends meanwhile. What is not answered is an error of the test, and has no status.
func (w world) sendTo(answers chan<- answer, path, body string, headers ...string) {
	go func() {
		a, err := w.send(w.t.Context(), path, body, headers...)
		if err != nil {
			w.t.Error(err)
		}
		answers <- a
	}()
}

func (w world) get(path string) answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), "GET", "http://downstream"+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	a, err := w.do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w world) arm(rule control.Rule) string {
	w.t.Helper()
	name, err := w.hub.Arm(rule)
	if err != nil {
		w.t.Fatal(err)
	}
	return name
}

func (w world) release(name, action string) {
	w.t.Helper()
	if err := w.hub.Release(name, control.Release{Action: action}); err != nil {
		w.t.Fatal(err)
	}
}

func (w world) wantCounts(calls, effects int) {
	w.t.Helper()
	if got := w.s.Ledger(); got.Calls != calls || got.Effects != effects {
		w.t.Errorf("%d calls and %d effects, want %d and %d", got.Calls, got.Effects, calls, effects)
	}
}

const key = "Idempotency-Key: 82f3"
