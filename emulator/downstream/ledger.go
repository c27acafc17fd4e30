package downstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	entriesKept = 1 << 17 // more keys than this and the ledger is full: it refuses, it does not forget
	repliesKept = 32      // per entry, the newest

	// keyWindow is how long the CRM remembers a key after its first call.
	keyWindow = 24 * time.Hour
)

// Reply is one answer that was sent, be it the ledger's own, a refusal or a rule's.
type Reply struct {
	At          time.Time `json:"at"`
	Status      int       `json:"status"`
	Replayed    bool      `json:"replayed,omitempty"`
	Resource    string    `json:"resource,omitempty"`
	Client      string    `json:"client,omitempty"`
	Traceparent string    `json:"traceparent,omitempty"`
}

// Entry is what the ledger knows about one path and key. Calls without a key
// share the entry whose key is empty.
type Entry struct {
	Path        string   `json:"path"`
	Key         string   `json:"key"`
	Calls       int      `json:"calls"`     // calls that arrived, whatever became of them
	Effects     int      `json:"effects"`   // what they did to the world
	Running     bool     `json:"running"`   // the first call has not been answered yet
	Resource    string   `json:"resource"`  // the newest
	Resources   []string `json:"resources"` // all different ones, the newest 32
	Traceparent string   `json:"traceparent,omitempty"`
	Replies     []Reply  `json:"replies"` // the newest 32
}

// Summary is the whole ledger.
type Summary struct {
	Calls   int     `json:"calls"`
	Effects int     `json:"effects"`
	Entries []Entry `json:"entries"`
}

type entryName struct{ path, key string }

// entry adds to an Entry what only the ledger needs.
type entry struct {
	Entry
	payload string    // of the call that is stored under the key, in normal form
	stored  int       // the failure that is stored under the key; 0: none, or an effect
	first   time.Time // when the key was first used; zero: not yet, or so long ago that it is forgotten
}

// ledger counts calls and effects. Whether a call has an effect and what is
// answered are decided together, under the one lock: two calls with one key can
// never both find it free.
type ledger struct {
	mu      sync.Mutex
	entries map[entryName]*entry
	order   []*entry
	serial  map[string]int // resources made so far, by path
}

func newLedger() *ledger {
	return &ledger{entries: make(map[entryName]*entry), serial: make(map[string]int)}
}

// call is one call as the ledger sees it.
type call struct {
	path, key, client, traceparent string
	payload                        string // in normal form
	keyed                          bool   // the path honours the key, and keys are not being forgotten
	fail                           int    // the status the payload asks for instead of an effect, 0 for none
	at                             time.Time
}

// outcome is what has been decided about a call.
type outcome struct {
	status   int
	resource string // Location, empty if there is none
	replayed bool
	effects  int // of the entry so far
	problem  error
	first    bool // this call runs until settled is called
}

var errFull = errors.New("the ledger is full; restart the emulator")

// arrive counts a call; it reports false if the ledger has no room for its key.
func (l *ledger) arrive(c call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, known := l.entries[entryName{c.path, c.key}]
	if !known {
		if len(l.entries) >= entriesKept {
			return false
		}
		e = &entry{Entry: Entry{Path: c.path, Key: c.key, Traceparent: c.traceparent}}
		l.entries[entryName{c.path, c.key}] = e
		l.order = append(l.order, e)
	}
	e.Calls++
	return true
}

// decide lets a call have its effect, if it is to have one, and says what is
// answered. The call has arrived before.
func (l *ledger) decide(c call) outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[entryName{c.path, c.key}]
	o := l.decideFor(e, c)
	o.effects = e.Effects
	return o
}

func (l *ledger) decideFor(e *entry, c call) outcome {
	if c.keyed && !e.first.IsZero() && c.at.Sub(e.first) >= keyWindow {
		e.first, e.stored = time.Time{}, 0 // the key is forgotten: the next call under it is a first one
	}
	known := c.keyed && !e.first.IsZero()
	switch {
	case known && c.payload != e.payload:
		return outcome{status: http.StatusUnprocessableEntity, problem: fmt.Errorf(
			"Idempotency-Key %q was used with another payload; send that payload again, or take a new key", c.key)}
	case known && e.Running:
		return outcome{status: http.StatusConflict, problem: fmt.Errorf(
			"the first call with Idempotency-Key %q is still running; send the same call again later", c.key)}
	case known && e.stored != 0:
		return outcome{status: e.stored, replayed: true, problem: errors.New("the failure that is stored under this key, for as long as the key is remembered")}
	case known:
		return outcome{status: http.StatusOK, resource: e.Resource, replayed: true}
	case c.fail != 0:
		if c.keyed {
			e.first, e.payload, e.stored = c.at, c.payload, c.fail
		}
		return outcome{status: c.fail, problem: errors.New("the payload asks for this failure; nothing was done")}
	}
	l.serial[c.path]++
	e.Effects++
	e.Resource = fmt.Sprintf("%s/%d", c.path, 1000+l.serial[c.path])
	e.Resources = appendNewest(e.Resources, e.Resource)
	e.payload, e.first = c.payload, c.at
	e.Running = true
	return outcome{status: http.StatusCreated, resource: e.Resource, first: true}
}

// settled ends the time in which a first call is running.
func (l *ledger) settled(c call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[entryName{c.path, c.key}].Running = false
}

// replied notes an answer that is being sent.
func (l *ledger) replied(c call, r Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[entryName{c.path, c.key}]
	r.Client, r.Traceparent = c.client, c.traceparent
	e.Replies = appendNewest(e.Replies, r)
}

// summary copies the entries of one key, or all of them.
func (l *ledger) summary(only func(Entry) bool) Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Summary{Entries: []Entry{}}
	for _, e := range l.order {
		if !only(e.Entry) {
			continue
		}
		view := e.Entry
		view.Replies = append([]Reply{}, e.Replies...)
		view.Resources = append([]string{}, e.Resources...)
		s.Calls += e.Calls
		s.Effects += e.Effects
		s.Entries = append(s.Entries, view)
	}
	return s
}

// made reports whether a resource exists.
func (l *ledger) made(path string, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return n > 1000 && n <= 1000+l.serial[path]
}

func appendNewest[T any](kept []T, next T) []T {
	if len(kept) == repliesKept {
		kept = append(kept[:0], kept[1:]...)
	}
	return append(kept, next)
}

// normalForm writes a JSON object so that two texts of the same payload are
// equal: members sorted, no white space, numbers as they stand.
func normalForm(object map[string]any) (string, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return "", fmt.Errorf("normalise the payload: %w", err)
	}
	return string(text), nil
}
