package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Lag is how far the replica that reads may be served from is behind the writes:
// by a number of commits, or by a time of the hub's clock. Exactly one of the two
// is said.
type Lag struct {
	Commits  int      `json:"commits,omitempty"`
	Duration Duration `json:"duration,omitzero"`
}

// LagState is one lag as GET /control/lag shows it.
type LagState struct {
	Container string `json:"container"` // empty: of all that have none of their own
	Lag
}

// lagLimit is the longest lag: further behind, no replica is still taken for one.
const lagLimit = 24 * time.Hour

// SetLag makes the replica of a Cosmos DB container lag, or of all containers with
// "". It begins with what is there now, and falls behind with every commit.
func (h *Hub) SetLag(container string, l Lag) error {
	var mistakes []error
	wrong := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }
	if container != strings.ToLower(container) {
		wrong("container %q: containers are written in lower case here", container)
	}
	if l.Commits < 0 || l.Duration < 0 {
		wrong("commits %d, duration %v: cannot be negative", l.Commits, l.Duration)
	}
	if (l.Commits == 0) == (l.Duration == 0) {
		wrong(`say either commits, a number, or duration, like "5s"; DELETE ends a lag`)
	}
	if time.Duration(l.Duration) > lagLimit {
		wrong("duration %v: at most %v", l.Duration, lagLimit)
	}
	if err := errors.Join(mistakes...); err != nil {
		return err
	}
	h.changeLags(func(all map[string]*Lag) { all[container] = &l })
	return nil
}

// EndLag lets the replica of a container, or of all with "", be current again.
func (h *Hub) EndLag(container string) {
	h.changeLags(func(all map[string]*Lag) { delete(all, container) })
}

func (h *Hub) changeLags(change func(map[string]*Lag)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := maps.Clone(*h.lags.Load())
	change(next)
	h.lags.Store(&next)
}

// LagOf gives the lag of a container, nil if it has none. It is the same pointer as
// long as nobody sets another.
func (h *Hub) LagOf(container string) *Lag {
	all := *h.lags.Load()
	if len(all) == 0 {
		return nil
	}
	if l, ok := all[container]; ok {
		return l
	}
	return all[""]
}

// Lags lists every lag.
func (h *Hub) Lags() []LagState {
	all := *h.lags.Load()
	states := make([]LagState, 0, len(all))
	for _, container := range slices.Sorted(maps.Keys(all)) {
		states = append(states, LagState{container, *all[container]})
	}
	return states
}
