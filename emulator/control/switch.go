package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// SwitchState is one switch as GET /control/switches shows it.
type SwitchState struct {
	Name string `json:"name"`
	Off  bool   `json:"off"`
	Says string `json:"whenOff"` // what is so while it is off
}

// Off reports whether the named rule of an emulator is turned off. A name with
// an entity, "cosmos.if-match/executions", is off also when the name without it is.
func (h *Hub) Off(name string) bool {
	off := *h.switches.Load()
	if len(off) == 0 {
		return false
	}
	base, _, _ := strings.Cut(name, "/")
	return off[name] || off[base]
}

// Switch turns the named rule of an emulator off, or on again.
func (h *Hub) Switch(name string, off bool) error {
	base, entity, hasEntity := strings.Cut(name, "/")
	known, ok := knownSwitches[base]
	switch {
	case !ok:
		return fmt.Errorf("switch %q: there is none of that name; there are %s",
			name, strings.Join(slices.Sorted(maps.Keys(knownSwitches)), ", "))
	case hasEntity && !known.perEntity:
		return fmt.Errorf("switch %q: %s has no switch per entity; use the name without it", name, base)
	case hasEntity && entity == "":
		return fmt.Errorf("switch %q: the entity after the / is missing", name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	next := maps.Clone(*h.switches.Load())
	if off {
		next[name] = true
	} else {
		delete(next, name)
	}
	h.switches.Store(&next)
	return nil
}

// Switches lists every switch, and those for one entity that are off.
func (h *Hub) Switches() []SwitchState {
	off := *h.switches.Load()
	names := slices.Collect(maps.Keys(knownSwitches))
	for name := range off {
		if strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	states := make([]SwitchState, 0, len(names))
	for _, name := range names {
		base, _, _ := strings.Cut(name, "/")
		states = append(states, SwitchState{Name: name, Off: off[name], Says: knownSwitches[base].off})
	}
	return states
}
