package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"oneeffect/emulator/control"
)

// violation is a promise that a history breaks, and where.
type violation struct {
	Promise string
	Seq     uint64 // the event at which it shows
	Text    string
}

// moment is one thing that was seen, whoever saw it.
type moment struct {
	seq    uint64
	at     time.Time // by a clock that is right
	event  *control.Event
	commit *commit
	call   *call
}

// jump is one of the servers' clock.
type jump struct {
	at time.Time
	by time.Duration
}

// inspection goes once through a history and holds it against the promises. It knows
// the words of the documents and of the events, and none of the code that makes them.
type inspection struct {
	h          *history
	held       map[string]int // how often what a promise is about has happened
	violations []violation

	now    moment
	jumps  []jump
	peace  time.Time                // since when nothing goes wrong any more
	wrote  map[string]control.Event // by the version that a request made
	claims map[string]*claimSeen
	runs   map[string]*executionSeen
	outbox map[string]*document
	stock  map[string]*stockSeen
	events eventsSeen
}

func inspect(h *history) *inspection {
	i := &inspection{
		h: h, held: map[string]int{}, wrote: map[string]control.Event{},
		claims: map[string]*claimSeen{}, runs: map[string]*executionSeen{}, outbox: map[string]*document{}, stock: map[string]*stockSeen{}, events: newEventsSeen(),
	}
	for _, e := range h.events {
		if e.Service == "cosmos" && e.ETagAfter != "" && e.ETagAfter != e.ETagBefore && e.Status < 300 {
			i.wrote[e.ETagAfter] = e
		}
	}
	for _, m := range h.moments() {
		i.now = m
		switch {
		case m.call != nil:
			i.calls(m.call)
		case m.commit != nil:
			i.commits(m.commit)
		case m.event.Service == "sim" && m.event.Kind == "jump":
			d, _ := time.ParseDuration(m.event.Reason)
			i.jumps = append(i.jumps, jump{m.at, d})
		case m.event.Service == "sim":
			i.outside(m.event)
		case m.event.Kind == "rule-reached":
			i.disturbed(m.event.Client, m.event.Operation)
		case m.event.Kind == "peer-gone":
			i.gaveUp(m.event)
		case m.event.Service == "servicebus":
			i.message(m.event)
		case m.event.Service == "cosmos":
			i.request(m.event)
		}
	}
	i.end()
	return i
}

// moments are events, commits and calls in the order in which they happened.
func (h *history) moments() []moment {
	all := make([]moment, 0, len(h.events)+len(h.commits)+len(h.calls))
	var offset time.Duration
	for n := range h.events {
		e := &h.events[n]
		if e.Service == "sim" && e.Kind == "jump" {
			d, _ := time.ParseDuration(e.Reason)
			offset += d
		}
		all = append(all, moment{seq: e.Seq, at: e.At.Add(-offset), event: e})
	}
	for n := range h.commits {
		all = append(all, moment{seq: h.commits[n].seq, at: h.commits[n].at, commit: &h.commits[n]})
	}
	for n := range h.calls {
		all = append(all, moment{seq: h.calls[n].seq, at: h.calls[n].at, call: &h.calls[n]})
	}
	place := func(m moment) int {
		switch {
		case m.commit != nil:
			return m.commit.n
		case m.call != nil:
			return m.call.n
		}
		return -1 // an event comes before what was seen after it
	}
	slices.SortFunc(all, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(place(a), place(b)))
	})
	return all
}

func (i *inspection) broken(promise, format string, args ...any) {
	i.violations = append(i.violations, violation{promise, i.now.seq, fmt.Sprintf(format, args...)})
}

func (i *inspection) hold(promises ...string) {
	for _, p := range promises {
		i.held[p]++
	}
}

// jumped is whether the servers' clock has jumped in a direction in the time before now.
func (i *inspection) jumped(ago time.Duration, ahead bool) bool {
	return slices.ContainsFunc(i.jumps, func(j jump) bool {
		return (j.by > 0) == ahead && i.now.at.Sub(j.at) <= ago
	})
}

func (i *inspection) commits(c *commit) {
	for _, v := range c.versions {
		switch {
		case v.container == "claims":
			i.claimed(v)
		case v.container == "executions" && v.doc != nil && v.doc.Kind == "execution":
			i.transition(v, c)
		case v.container == "executions" && v.doc != nil && v.doc.Kind == "outbox":
			i.outbox[v.id] = v.doc
		case v.container == "executions" && v.doc == nil && strings.HasPrefix(v.id, "outbox:"):
			i.forgotten(v)
		case v.container == "executions" && v.doc != nil && v.doc.Kind == "redispatch":
			i.redispatched(v)
		}
	}
	if len(c.versions) > 0 && c.versions[0].container == "inventory" {
		i.inventory(c)
	}
}

// pod is the process that an owner's name begins with.
func pod(owner string) string {
	name, _, _ := strings.Cut(owner, "/")
	return name
}

// short is a document in a few words.
func (d *document) short() string {
	if d == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s run %d fence %d owner %s starts %d callStarted %t released %t", d.Status, d.Run, d.Fence, d.Owner, d.Starts, d.CallStarted, d.Released)
}
