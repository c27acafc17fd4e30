package sim

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// running is one place for a process, and who is in it.
type running struct {
	slot       string
	id         string
	generation int
	down       bool // killed or told to end, and nobody has come after it
	paused     bool
	stop       func()
	api        http.Handler
}

// player plays a plan in a bubble.
type player struct {
	*world
	h     *history
	start time.Time
	aside sync.WaitGroup
	ctx   context.Context // ends with the faults
	over  context.CancelFunc

	mu     sync.Mutex
	slots  map[string]*running
	rules  map[string]string        // name → kind
	clocks map[string]*atomic.Int64 // of each process: how wrong its wall clock is
	agenda []due
	armed  int
}

// due is something that is to be done at a time.
type due struct {
	at time.Duration
	do func()
}

func (pl *player) wrong(text string) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.h.problems = append(pl.h.problems, text)
}

// count says that a fault that is no rule has happened.
func (pl *player) count(kind string) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.h.faults[kind]++
}

// note writes into the event log what the player does.
func (pl *player) note(kind, key, reason string, status int) {
	pl.hub.Record(control.Event{Service: "sim", Kind: kind, Key: key, Reason: reason, Status: status})
}

// clockOf is a process's clock as the plan has it wrong.
func (pl *player) clockOf(id string) claim.Clock {
	wrong := pl.h.plan.Clocks[slotOf(id)]
	skew := new(atomic.Int64)
	skew.Store(int64(wrong.Skew))
	pl.clocks[id] = skew // startProcess holds the lock
	begun := time.Now()
	return func() claim.Reading {
		now := time.Now()
		slow := now.Sub(begun) / 1_000_000 * time.Duration(wrong.Drift)
		return claim.Reading{Monotonic: now.Add(-slow), Wall: now.Round(0).Add(time.Duration(skew.Load()) - slow)}
	}
}

// slotOf is the place that a process is in: its successors have the same.
func slotOf(id string) string {
	slot, _, _ := strings.Cut(id, ".")
	return slot
}

// begin starts the next process in a place. The caller holds pl.mu.
func (pl *player) begin(r *running) {
	r.generation++
	r.id, r.down, r.paused = r.slot, false, false
	if r.generation > 1 {
		r.id = fmt.Sprintf("%s.%d", r.slot, r.generation)
	}
	wrong := pl.h.plan.Clocks[r.slot]
	if wrong.Skew != 0 {
		pl.h.faults[skews]++
	}
	if wrong.Drift != 0 {
		pl.h.faults[drifts]++
	}
	switch r.slot[0] {
	case 'w':
		r.stop = pl.workerWith(r.id, simHandlers, pl.h.plan.Slots, pl.pace.grace)
	case 'o':
		r.stop = pl.orchestratorAs(r.id, true)
		r.api = pl.api.API()
	case 'p':
		r.stop = pl.projector(r.id)
	}
}

func (pl *player) play() {
	pl.ctx, pl.over = context.WithCancel(context.Background())
	for _, slot := range pl.h.plan.processes() {
		pl.slots[slot] = &running{slot: slot}
		pl.begin(pl.slots[slot])
	}
	for _, s := range pl.h.plan.Steps {
		pl.at(s.At, func() { pl.do(s) })
	}
	for {
		pl.mu.Lock()
		if len(pl.agenda) == 0 || pl.agenda[0].at > chaos {
			pl.mu.Unlock()
			break
		}
		next := pl.agenda[0]
		pl.mu.Unlock()
		if wait := time.Until(pl.start.Add(next.at)); wait > 0 {
			time.Sleep(min(wait, second)) // something earlier may come
			continue
		}
		pl.mu.Lock()
		next, pl.agenda = pl.agenda[0], pl.agenda[1:]
		pl.mu.Unlock()
		next.do()
	}
	time.Sleep(time.Until(pl.start.Add(chaos)))
	pl.peace()
	pl.quiesce()
	pl.h.lasted = time.Since(pl.start)
	pl.finish()
}

// at puts something on the agenda. What would be later than the chaos is left to
// peace.
func (pl *player) at(when time.Duration, do func()) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	i := len(pl.agenda)
	for i > 0 && pl.agenda[i-1].at > when {
		i--
	}
	pl.agenda = slices.Insert(pl.agenda, i, due{when, do})
}

func (pl *player) in(d time.Duration, do func()) { pl.at(time.Since(pl.start)+d, do) }

// peace ends all that goes wrong, and has every process run.
func (pl *player) peace() {
	pl.over()
	for _, r := range pl.hub.Rules() {
		_ = pl.hub.Disarm(r.Rule.Name)
	}
	for _, l := range pl.hub.Lags() {
		pl.hub.EndLag(l.Container)
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for _, slot := range pl.h.plan.processes() {
		r := pl.slots[slot]
		if r.paused {
			r.paused = false
			pl.hub.Rejoin(r.id)
		}
		if r.down {
			pl.begin(r)
		}
	}
	pl.note("peace", "", "", 0)
}

// quiesce waits until every execution has ended and every message is settled.
func (pl *player) quiesce() {
	pl.aside.Go(func() {
		time.Sleep(pl.pace.replaySettle + time.Minute)
		pl.attend(0)
	})
	pl.aside.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	left := map[string]int{}
	_, err := pl.hub.WaitEvent(ctx, 0, func(e control.Event) bool {
		settle(left, e)
		return pl.hub.Last() == e.Seq && pl.h.running() == 0 && quiet(left)
	})
	pl.h.stuck = err != nil
	pl.h.left = left
	time.Sleep(time.Minute) // whatever is still on its way
	synctest.Wait()
}

// settle counts the messages that are in the queues.
func settle(left map[string]int, e control.Event) {
	if e.Service != "servicebus" || e.Entity != message.Tasks && e.Entity != subscription && e.Entity != reservations {
		return
	}
	switch {
	case e.Kind == "enqueued", e.Kind == "scheduled":
		left[e.Entity]++
	case e.Kind == "settled" && e.Disposition == "completed", e.Kind == "dead-lettered", e.Kind == "duplicate-dropped" && e.Client == "":
		left[e.Entity]--
	}
}

func quiet(left map[string]int) bool {
	for _, n := range left {
		if n != 0 {
			return false
		}
	}
	return true
}

// finish takes down what is to be looked at, and ends everything.
func (pl *player) finish() {
	for task := range pl.h.plan.Tasks {
		pl.h.effects[task] = pl.h.witness.effects(task)
	}
	pl.end()
	if err := pl.h.close(); err != nil {
		pl.wrong(err.Error())
	}
	pl.h.events = pl.hub.Events(0)
	if len(pl.h.events) > 0 && pl.h.events[0].Seq != 1 {
		pl.wrong("the history is longer than the event log")
	}
	for _, e := range pl.h.events {
		if kind, ok := pl.rules[e.Rule]; ok && e.Kind == "rule-reached" {
			pl.h.faults[kind]++
		}
	}
	pl.h.problems = append(pl.h.problems, pl.h.wrong...)
}

// logger keeps what a process says.
func (pl *player) logger(id string) *slog.Logger {
	return slog.New(&scribe{h: pl.h, process: id, hub: pl.hub})
}

type scribe struct {
	h       *history
	hub     *control.Hub
	process string
	with    []slog.Attr
}

func (s *scribe) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (s *scribe) Handle(_ context.Context, r slog.Record) error {
	r = r.Clone()
	r.AddAttrs(s.with...)
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.h.said = append(s.h.said, said{s.hub.Last(), s.process, r})
	return nil
}

func (s *scribe) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *s
	next.with = append(slices.Clip(s.with), attrs...)
	return &next
}

func (s *scribe) WithGroup(string) slog.Handler { return s }
