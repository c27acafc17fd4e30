package broker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
)

// rig is a namespace in a bubble, with what tests ask of it.
type rig struct {
	t   *testing.T
	hub *control.Hub
	ns  *Namespace
}

// bubble runs a test on a namespace inside a synctest bubble, where minutes pass at once.
func bubble(t *testing.T, c Config, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		ns, err := New(hub, c)
		if err != nil {
			t.Fatal(err)
		}
		defer ns.Close()
		test(t, &rig{t, hub, ns})
	})
}

// tasks is the queue most tests use.
func tasks(change func(*QueueConfig)) Config {
	q := QueueConfig{Name: "tasks", LockDuration: 5 * time.Minute, MaxDelivery: 3}
	if change != nil {
		change(&q)
	}
	return Config{Queues: []QueueConfig{q}}
}

func (r *rig) queue(path string) *Queue {
	r.t.Helper()
	e, err := r.ns.Find(path)
	if err != nil {
		r.t.Fatal(err)
	}
	q, ok := e.(*Queue)
	if !ok {
		r.t.Fatalf("%s is a %T", path, e)
	}
	return q
}

func (r *rig) send(path string, messages ...*Message) []int64 {
	r.t.Helper()
	e, err := r.ns.Find(path)
	if err != nil {
		r.t.Fatal(err)
	}
	numbers, err := e.Enqueue("sender", messages...)
	if err != nil {
		r.t.Fatal(err)
	}
	return numbers
}

func ids(names ...string) []*Message {
	messages := make([]*Message, len(names))
	for i, name := range names {
		messages[i] = &Message{ID: name, Size: 100}
	}
	return messages
}

// take locks up to n messages for a client that then goes away without a word.
func (r *rig) take(path string, n int) []*Delivery {
	return r.takeBy("worker-1", PeekLock, path, n)
}

func (r *rig) takeBy(client string, mode Mode, path string, n int) []*Delivery {
	c := r.queue(path).Consume(client, mode, make(chan struct{}, 1))
	defer c.Close()
	var got []*Delivery
	for len(got) < n {
		reserved := c.Collect(n - len(got))
		if len(reserved) == 0 {
			break
		}
		for _, reservation := range reserved {
			got = append(got, reservation.Begin())
		}
	}
	return got
}

func (r *rig) settle(path string, d *Delivery, disposition Disposition) error {
	return r.queue(path).Settle(d.Token, Settlement{Disposition: disposition, Client: "worker-1", MessageID: d.Message.ID})
}

func (r *rig) mustSettle(path string, d *Delivery, disposition Disposition) {
	r.t.Helper()
	if err := r.settle(path, d, disposition); err != nil {
		r.t.Fatalf("settle %s as %s: %v", d.Message.ID, disposition, err)
	}
}

// want checks the ids of deliveries, in order.
func (r *rig) want(got []*Delivery, names ...string) {
	r.t.Helper()
	var have []string
	for _, d := range got {
		have = append(have, d.Message.ID)
	}
	if !slices.Equal(have, names) {
		r.t.Fatalf("got messages %q, want %q", have, names)
	}
}

// kinds lists the kinds of all events so far.
func (r *rig) kinds() []string {
	var kinds []string
	for _, e := range r.hub.Events(0) {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// used is the space that an entity's messages take up, once everything that is due has happened.
func (r *rig) used(path string) int64 {
	r.t.Helper()
	e, err := r.ns.Find(path)
	if err != nil {
		r.t.Fatal(err)
	}
	q, isQueue := e.(*Queue)
	if !isQueue {
		q = e.(*Topic).list()[0].queue
	}
	q.Peek(0, 1)
	q.quota.mu.Lock()
	defer q.quota.mu.Unlock()
	return q.quota.used
}
