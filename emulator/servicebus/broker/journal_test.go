package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
)

// tape is a journal that shows what belongs together.
type tape struct {
	t    *testing.T
	mu   sync.Mutex // held by an operation
	open bool
	now  []string
	past []string // one line for each operation that has written anything
}

func (*tape) Load() (*Snapshot, error) { return &Snapshot{}, nil }

func (j *tape) Begin() {
	j.mu.Lock()
	j.open = true
}

func (j *tape) End() {
	if len(j.now) > 0 {
		j.past = append(j.past, strings.Join(j.now, ", "))
	}
	j.open, j.now = false, nil
	j.mu.Unlock()
}

func (j *tape) Write(r Record) {
	if !j.open {
		j.t.Errorf("written outside of any operation: %+v", r)
	}
	what := []string{"added", "altered", "removed", "sighted", "forgotten", "state of", "described", "dropped"}[r.Change]
	switch r.Change {
	case Added, Altered, Removed:
		what = fmt.Sprintf("%s %d", what, r.Stored.SequenceNumber)
	case Sighted, Forgotten, StateSet:
		what += " " + r.ID
	}
	line := r.Queue + ": " + what
	if len(j.now) == 0 || j.now[len(j.now)-1] != line { // of two that say the same, the second counts
		j.now = append(j.now, line)
	}
}

func (j *tape) Kept(answer func()) { answer() }

// since returns what was written since it was asked last.
func (j *tape) since() []string {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	past := j.past
	j.past = nil
	return past
}

// TestAnOperationIsWrittenAsAWhole shows what the journal is told, one line for each operation. A journal keeps a line or
// does not: none may leave a message in two places or in none.
func TestAnOperationIsWrittenAsAWhole(t *testing.T) { // B6, B10, B15, B16
	synctest.Test(t, func(t *testing.T) {
		j := &tape{t: t}
		hub := control.New()
		ns, err := New(hub, Config{
			Journal: j,
			Queues: []QueueConfig{
				{Name: "tasks", LockDuration: time.Minute, MaxDelivery: 2, DetectDuplicates: true},
				{Name: "steps", RequiresSession: true}, {Name: "a", ForwardTo: "b"}, {Name: "b"},
			},
			Topics: []TopicConfig{{Name: "events", Subscriptions: []SubscriptionConfig{{Name: "one"}, {Name: "two"}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer ns.Close()
		r := &rig{t, hub, ns}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		var locked *Delivery
		later := ids("later")
		later[0].ScheduledFor = hub.Now().Add(10 * time.Minute)
		for _, row := range []struct {
			what string
			do   func()
			want []string
		}{
			{"the beginning", func() {}, []string{
				"tasks: described", "steps: described", "a: described", "b: described",
				"events: described, events/subscriptions/one: described, events/subscriptions/two: described",
			}},
			{"a batch", func() { r.send("tasks", ids("x", "y")...) }, []string{"tasks: sighted x, tasks: added 1, tasks: sighted y, tasks: added 2"}},
			{"a duplicate", func() { r.send("tasks", ids("x")...) }, nil},
			{"a delivery", func() { locked = r.take("tasks", 1)[0] }, []string{"tasks: altered 1"}},
			{"a renewal", func() { _, err := r.queue("tasks").Renew("c", locked.Token); must(err) }, []string{"tasks: altered 1"}},
			{"an abandoned one", func() { r.mustSettle("tasks", locked, Abandon) }, []string{"tasks: altered 1"}},
			{"the last abandoned one", func() { r.mustSettle("tasks", r.take("tasks", 1)[0], Abandon) }, []string{
				"tasks: altered 1", "tasks: removed 1, tasks/$deadletterqueue: added 1",
			}},
			{"a completion", func() { r.mustSettle("tasks", r.take("tasks", 1)[0], Complete) }, []string{"tasks: altered 2", "tasks: removed 2"}},
			{"a schedule", func() { r.send("tasks", later...) }, []string{"tasks: added 3"}},
			{"its time", func() { time.Sleep(time.Hour) }, []string{"tasks: removed 3, tasks: forgotten x, tasks: forgotten y, tasks: sighted later, tasks: added 4"}},
			{"a reservation that comes to nothing", func() {
				c := r.queue("tasks").Consume("c", PeekLock, make(chan struct{}, 1))
				c.Collect(1)[0].Cancel()
				c.Close()
			}, nil},
			{"a lock that runs out", func() { r.take("tasks", 1); time.Sleep(time.Hour) }, []string{"tasks: altered 4", "tasks: altered 4"}},
			{"a topic's message", func() { r.send("events", ids("e")...) }, []string{"events/subscriptions/one: added 1, events/subscriptions/two: added 1"}},
			{"forwarding", func() { r.send("a", ids("f", "g")...) }, []string{
				"a: added 1, a: added 2", "b: added 1, a: removed 1", "b: added 2, a: removed 2",
			}},
			{"a session", func() {
				c, err := r.queue("steps").AcceptSession("c", PeekLock, "s", make(chan struct{}, 1))
				must(err)
				must(r.queue("steps").SetSessionState("s", []byte("x")))
				c.Close()
			}, []string{"steps: state of s"}},
			{"a change", func() { must(ns.UpdateQueue(QueueConfig{Name: "b", ForwardTo: "tasks"})) }, []string{
				"b: altered 1, b: altered 2", "b: described",
				"tasks: forgotten later, tasks: sighted f, tasks: added 5, b: removed 1", "tasks: sighted g, tasks: added 6, b: removed 2",
			}},
			{"a rule", func() { must(ns.CreateRule("events", "one", Rule{Name: "r"})) }, []string{"events/subscriptions/one: described"}},
			{"an end", func() { must(ns.Delete("events")) }, []string{strings.Join([]string{
				"events: dropped", "events/subscriptions/one: dropped", "events/subscriptions/one/$deadletterqueue: dropped",
				"events/subscriptions/one/$transfer/$deadletterqueue: dropped", "events/subscriptions/two: dropped",
				"events/subscriptions/two/$deadletterqueue: dropped", "events/subscriptions/two/$transfer/$deadletterqueue: dropped",
			}, ", ")}},
		} {
			row.do()
			if got := j.since(); !slices.Equal(got, row.want) {
				t.Errorf("%s is written as\n\t%s\nwant\n\t%s", row.what, strings.Join(got, "\n\t"), strings.Join(row.want, "\n\t"))
			}
		}
	})
}
