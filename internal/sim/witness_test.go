package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"oneeffect/emulator/control"
	cosmosemulator "oneeffect/emulator/cosmos"
	downstreamemulator "oneeffect/emulator/downstream"
)

// document is an item of any container as the witness reads it. It is written down
// here once more, since a witness believes no package that it looks at.
type document struct {
	ID     string `json:"id"`
	ETag   string `json:"_etag"`
	Stamp  int64  `json:"_ts"`
	Kind   string `json:"kind"`
	Status string `json:"status"`
	Run    int    `json:"run"`
	Type   string `json:"type"`

	// Of claims.
	Fence       int64      `json:"fence"`
	Owner       string     `json:"owner"`
	Lease       int64      `json:"leaseSeconds"`
	Keyed       bool       `json:"keyed"`
	Fingerprint string     `json:"fingerprint"`
	CallStarted bool       `json:"callStarted"`
	FirstCallAt time.Time  `json:"firstCallAt"`
	Starts      int        `json:"starts"`
	Answered    int        `json:"answered"`
	NotBefore   time.Time  `json:"notBefore"`
	Released    bool       `json:"released"`
	Steps       jsonObject `json:"steps"`
	Result      *struct {
		Ref    string `json:"ref"`
		Digest string `json:"digest"`
	} `json:"result"`
	Failure *struct {
		Reason  string `json:"reason"`
		Outcome string `json:"outcome"`
	} `json:"failure"`

	// Of executions.
	ExecutionID   string `json:"executionId"`
	MessageID     string `json:"messageId"`
	Asserted      bool   `json:"asserted"`
	Orchestration string `json:"orchestrationId"`
	Tasks         []struct {
		ExecutionID string `json:"executionId"`
		Status      string `json:"status"`
	} `json:"tasks"`

	History []struct {
		To string `json:"to"`
	} `json:"history"`

	// Of the inventory.
	SKU     string `json:"sku"`
	Stock   int64  `json:"stock"`
	Version int64  `json:"version"`
	Key     string `json:"key"`
	Digest  string `json:"digest"`
	Outcome string `json:"outcome"`
	Delta   int64  `json:"delta"`
	Gap     int64  `json:"gap"`
	W       string `json:"w"`
}

type jsonObject map[string]json.RawMessage

// version is one item as one commit leaves it.
type version struct {
	container, id string
	doc           *document // nil: deleted
	text          []byte
}

// commit is what one request has changed, all at once.
type commit struct {
	n        int       // its place among commits and calls
	seq      uint64    // of the newest event before it
	at       time.Time // by a clock that is right
	versions []version
}

// call is one request as it came to the downstream's door.
type call struct {
	n                             int
	seq                           uint64
	at                            time.Time
	client, task, path, key, body string
	ended                         time.Time // zero: never
}

// witness sees what the emulators do, and nothing of what the processes say.
type witness struct {
	hub *control.Hub

	mu      sync.Mutex
	commits []commit
	calls   []call
	newest  map[string]version // of executions
	open    map[string]bool    // executions that have not ended
	shops   map[string]*downstreamemulator.Server
	closed  bool
	wrong   []string
}

func newWitness() *witness {
	return &witness{newest: map[string]version{}, open: map[string]bool{}, shops: map[string]*downstreamemulator.Server{}}
}

// committed is the store's Options.Committed.
func (w *witness) committed(container string, versions []cosmosemulator.Version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := commit{n: len(w.commits) + len(w.calls), seq: w.hub.Last(), at: time.Now()}
	for _, v := range versions {
		seen := version{container: container, id: v.ID, text: v.Text}
		if v.Text != nil {
			seen.doc = new(document)
			if err := json.Unmarshal(v.Text, seen.doc); err != nil {
				w.wrong = append(w.wrong, fmt.Sprintf("%s of %s cannot be read: %v", v.ID, container, err))
			}
		}
		c.versions = append(c.versions, seen)
		if container == "executions" && seen.doc != nil && seen.doc.Kind == "execution" {
			w.newest[v.ID] = seen
			w.open[v.ID] = seen.doc.Status == "RUNNING"
		}
	}
	w.commits = append(w.commits, c)
}

// execution is the newest version of one, by the store itself.
func (w *witness) execution(id string) (version, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.newest[id]
	return v, ok
}

// claim is the newest version of a claim, nil if there is none.
func (w *witness) claim(id string) *version {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.commits) - 1; i >= 0; i-- {
		for _, v := range w.commits[i].versions {
			if v.container == "claims" && v.id == id {
				return &v
			}
		}
	}
	return nil
}

// failed are the executions of one task that stand FAILED, and since when.
func (w *witness) failed() map[string]time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := map[string]time.Time{}
	for _, c := range w.commits {
		for _, v := range c.versions {
			if v.container != "executions" || v.doc == nil || v.doc.Kind != "execution" {
				continue
			}
			delete(since, v.id)
			if v.doc.Status == "FAILED" && len(v.doc.Tasks) == 0 {
				since[v.id] = c.at
			}
		}
	}
	return since
}

func (w *witness) running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, open := range w.open {
		if open {
			n++
		}
	}
	return n
}

// RoundTrip sends each task's calls to a downstream of its own, so that effects are
// told apart where no key does it.
func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	var payload struct {
		For string `json:"for"`
	}
	if err := json.Unmarshal(body, &payload); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	client, _, _ := strings.Cut(r.UserAgent(), "/")
	shop, ended := w.shop(payload.For, &call{client: client, task: payload.For, path: r.URL.Path, key: r.Header.Get("Idempotency-Key"), body: string(body)})
	if shop == nil {
		return nil, io.ErrClosedPipe
	}
	defer ended()
	return shop.Transport().RoundTrip(r)
}

// shop is the downstream of a task, which a call is made to until it has ended.
func (w *witness) shop(task string, c *call) (at *downstreamemulator.Server, ended func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, nil
	}
	ended = func() {}
	if !w.hub.Isolated(c.client) {
		c.n, c.seq, c.at = len(w.commits)+len(w.calls), w.hub.Last(), time.Now()
		n := len(w.calls)
		w.calls = append(w.calls, *c)
		ended = func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls[n].ended = time.Now()
		}
	}
	s, ok := w.shops[task]
	if !ok {
		s = downstreamemulator.New(w.hub)
		w.shops[task] = s
	}
	return s, ended
}

// effects are those of a task, by path and key.
func (w *witness) effects(task string) map[string]int {
	w.mu.Lock()
	s := w.shops[task]
	w.mu.Unlock()
	effects := map[string]int{}
	if s != nil {
		for _, e := range s.Ledger().Entries {
			effects[e.Path+" "+e.Key] += e.Effects
		}
	}
	return effects
}

func (w *witness) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	var first error
	for _, s := range w.shops {
		if err := s.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
