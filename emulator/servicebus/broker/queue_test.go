package broker

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"oneeffect/emulator/control"
)

func TestDuplicateDetection(t *testing.T) { // B7
	const window = 5 * time.Minute
	detecting := tasks(func(q *QueueConfig) { q.DetectDuplicates, q.DuplicateWindow = true, window })
	at := func(r *rig, id string, in time.Duration) *Message {
		return &Message{ID: id, Size: 1, ScheduledFor: r.hub.Now().Add(in)}
	}
	for _, row := range []struct {
		name string
		run  func(r *rig)
		want []string
	}{
		{"an id within the window is dropped", func(r *rig) {
			r.send("tasks", ids("a")...)
			time.Sleep(window - time.Nanosecond)
			r.send("tasks", ids("a", "b")...)
		}, []string{"a", "b"}},
		{"an id after the window is new", func(r *rig) {
			r.send("tasks", ids("a")...)
			time.Sleep(window)
			r.send("tasks", ids("a")...)
		}, []string{"a", "a"}},
		{"a dropped duplicate does not stretch the window", func(r *rig) {
			r.send("tasks", ids("a")...)
			time.Sleep(window / 2)
			r.send("tasks", ids("a")...)
			time.Sleep(window / 2)
			r.send("tasks", ids("a")...)
		}, []string{"a", "a"}},
		{"a completed message is remembered", func(r *rig) {
			r.send("tasks", ids("a")...)
			r.mustSettle("tasks", r.take("tasks", 1)[0], Complete)
			r.send("tasks", ids("a")...)
		}, nil},
		{"duplicates within one batch", func(r *rig) {
			r.send("tasks", ids("a", "b", "a")...)
		}, []string{"a", "b"}},
		{"ids differ in case", func(r *rig) {
			r.send("tasks", ids("a", "A")...)
		}, []string{"a", "A"}},
		{"scheduling after sending is dropped", func(r *rig) {
			r.send("tasks", ids("a")...)
			if got := r.send("tasks", at(r, "a", time.Minute)); got[0] != 0 {
				r.t.Errorf("a dropped duplicate got sequence number %d", got[0])
			}
			time.Sleep(2 * time.Minute)
		}, []string{"a"}},
		{"a scheduled message gives way to one sent meanwhile", func(r *rig) {
			r.send("tasks", at(r, "a", time.Minute))
			r.send("tasks", ids("a")...)
			time.Sleep(2 * time.Minute)
		}, []string{"a"}},
		{"sending after activation is dropped", func(r *rig) {
			r.send("tasks", at(r, "a", time.Minute))
			time.Sleep(2 * time.Minute)
			r.send("tasks", ids("a")...)
		}, []string{"a"}},
		{"of two scheduled with one id the later is dropped", func(r *rig) {
			r.send("tasks", at(r, "a", 2*time.Minute), at(r, "a", time.Minute))
			time.Sleep(3 * time.Minute)
		}, []string{"a"}},
		{"switched off", func(r *rig) {
			if err := r.hub.Switch("servicebus.duplicate-detection", true); err != nil {
				r.t.Fatal(err)
			}
			r.send("tasks", ids("a", "a")...)
		}, []string{"a", "a"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, detecting, func(t *testing.T, r *rig) {
				row.run(r)
				r.want(r.take("tasks", 9), row.want...)
			})
		})
	}
}

func TestTheHistoryForgetsWhatIsOlderThanItsWindow(t *testing.T) {
	h := newHistory(time.Minute)
	now := time.Unix(0, 0)
	for i := range 10_000 {
		for _, ok := h.next(now); ok; {
			_, ok = h.next(now)
		}
		h.add(Sighting{ID: fmt.Sprint(i), At: now})
		now = now.Add(time.Second)
	}
	if len(h.seen) > 61 || len(h.order) > 200 {
		t.Errorf("history holds %d ids in %d places, want about 60", len(h.seen), len(h.order))
	}
}

func TestScheduledMessages(t *testing.T) { // B8
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		when := r.hub.Now().Add(10 * time.Minute)
		first := r.send("tasks", &Message{ID: "later", Size: 1, ScheduledFor: when})[0]
		r.send("tasks", ids("now")...)
		r.want(r.takeBy("worker-1", ReceiveAndDelete, "tasks", 9), "now")
		peeked := r.queue("tasks").Peek(0, 9)
		r.want(peeked, "later")
		if peeked[0].State != Scheduled || peeked[0].SequenceNumber != first {
			t.Errorf("peeked %+v, want it scheduled under %d", peeked[0], first)
		}
		time.Sleep(10*time.Minute - time.Nanosecond)
		r.want(r.queue("tasks").Peek(first, 1), "later")
		time.Sleep(time.Nanosecond)
		got := r.take("tasks", 1)
		r.want(got, "later")
		if d := got[0]; d.SequenceNumber <= first || !d.EnqueuedAt.Equal(when) || d.Failures != 0 {
			t.Errorf("activated as %+v, want a new number and enqueued time %v", d, when)
		}
		if err := r.queue("tasks").CancelScheduled(first); !errors.Is(err, ErrNotFound) {
			t.Errorf("cancel after activation: %v, want %v", err, ErrNotFound)
		}
		kinds := r.kinds()
		if !slices.Contains(kinds, "scheduled") || !slices.Contains(kinds, "activated") {
			t.Errorf("events %q", kinds)
		}
	})
}

func TestAPastScheduleIsImmediate(t *testing.T) {
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		r.send("tasks", &Message{ID: "a", Size: 1, ScheduledFor: r.hub.Now()})
		r.want(r.take("tasks", 1), "a")
	})
}

func TestCancellingIsAllOrNone(t *testing.T) {
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		when := r.hub.Now().Add(time.Minute)
		n := r.send("tasks", &Message{ID: "a", Size: 1, ScheduledFor: when}, &Message{ID: "b", Size: 1, ScheduledFor: when})
		if err := r.queue("tasks").CancelScheduled(n[0], 999); !errors.Is(err, ErrNotFound) {
			t.Fatalf("cancel with an unknown number: %v", err)
		}
		if err := r.queue("tasks").CancelScheduled(n[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		r.want(r.take("tasks", 9), "b")
	})
}

func TestTimeToLive(t *testing.T) { // B9
	expiring := func(deadLetter bool) Config {
		return tasks(func(q *QueueConfig) { q.TimeToLive, q.DeadLetterExpired = time.Hour, deadLetter })
	}
	for _, row := range []struct {
		name       string
		deadLetter bool
		ttl        time.Duration
		run        func(r *rig)
		queue      []string
		dead       []string
	}{
		{"the entity's default ends it", false, 0, func(*rig) { time.Sleep(time.Hour) }, nil, nil},
		{"a moment before it is there", false, 0, func(*rig) { time.Sleep(time.Hour - 1) }, []string{"a"}, nil},
		{"the entity's default is the ceiling", false, 2 * time.Hour, func(*rig) { time.Sleep(time.Hour) }, nil, nil},
		{"its own is shorter", false, time.Minute, func(*rig) { time.Sleep(time.Minute) }, nil, nil},
		{"dead-lettered if so configured", true, 0, func(*rig) { time.Sleep(time.Hour) }, nil, []string{"a"}},
		{"dead letters do not expire", true, 0, func(*rig) { time.Sleep(100 * time.Hour) }, nil, []string{"a"}},
		{"a locked message is not expired before its lock ends", true, 0, func(r *rig) {
			time.Sleep(time.Hour - time.Minute)
			d := r.take("tasks", 1)[0]
			time.Sleep(2 * time.Minute)
			r.mustSettle("tasks", d, Complete)
		}, nil, nil},
		{"an overdue message expires when its lock ends", true, 0, func(r *rig) {
			time.Sleep(time.Hour - time.Minute)
			r.take("tasks", 1)
			time.Sleep(5 * time.Minute)
		}, nil, []string{"a"}},
		{"an overdue message expires when it is abandoned", true, 0, func(r *rig) {
			time.Sleep(time.Hour - time.Minute)
			d := r.take("tasks", 1)[0]
			time.Sleep(2 * time.Minute)
			r.mustSettle("tasks", d, Abandon)
		}, nil, []string{"a"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, expiring(row.deadLetter), func(t *testing.T, r *rig) {
				r.send("tasks", &Message{ID: "a", Size: 1, TimeToLive: row.ttl})
				row.run(r)
				r.want(r.take("tasks", 9), row.queue...)
				dead := r.take("tasks/$DeadLetterQueue", 9)
				r.want(dead, row.dead...)
				if len(dead) > 0 && dead[0].Changes[ReasonProperty] != "TTLExpiredException" {
					t.Errorf("reason %v", dead[0].Changes[ReasonProperty])
				}
			})
		})
	}
}

func TestABatchIsEnqueuedWholeOrNotAtAll(t *testing.T) { // B6
	for _, row := range []struct {
		name  string
		batch []*Message
		want  error
	}{
		{"too large together", []*Message{{ID: "a", Size: MaxMessage / 2}, {ID: "b", Size: MaxMessage/2 + 1}}, ErrTooLarge},
		{"an id too long", []*Message{{ID: "a", Size: 1}, {ID: string(make([]byte, 129)), Size: 1}}, ErrInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, tasks(nil), func(t *testing.T, r *rig) {
				if _, err := r.queue("tasks").Enqueue("sender", row.batch...); !errors.Is(err, row.want) {
					t.Errorf("enqueue: %v, want %v", err, row.want)
				}
				r.want(r.take("tasks", 9))
				if n := r.hub.Last(); n != 0 {
					t.Errorf("%d events recorded, want none", n)
				}
			})
		})
	}
}

func TestSpaceIsGivenBackWhereverAMessageEnds(t *testing.T) {
	config := tasks(func(q *QueueConfig) { q.TimeToLive, q.DetectDuplicates = time.Hour, true })
	config.Topics = []TopicConfig{{Name: "events", DetectDuplicates: true, Subscriptions: []SubscriptionConfig{{Name: "one"}, {Name: "two"}}}}
	bubble(t, config, func(t *testing.T, r *rig) {
		r.send("tasks", ids("done", "dup", "dup", "expired", "dead")...)
		n := r.send("tasks", &Message{ID: "cancelled", Size: 100, ScheduledFor: r.hub.Now().Add(time.Minute)})
		if err := r.queue("tasks").CancelScheduled(n...); err != nil {
			t.Fatal(err)
		}
		r.mustSettle("tasks", r.take("tasks", 1)[0], Complete)
		r.takeBy("worker", ReceiveAndDelete, "tasks", 1)
		left := r.take("tasks", 2)
		r.want(left, "expired", "dead")
		r.mustSettle("tasks", left[0], Release)
		r.mustSettle("tasks", left[1], DeadLetter)
		if used := r.used("tasks"); used != 200 {
			t.Errorf("%d bytes used by a message and a dead letter, want 200", used)
		}
		r.mustSettle("tasks/$DeadLetterQueue", r.take("tasks/$DeadLetterQueue", 1)[0], Complete)
		time.Sleep(time.Hour)
		r.send("events", ids("x", "x")...)
		if used := r.used("events"); used != 200 {
			t.Errorf("%d bytes used by a message in two subscriptions, want 200", used)
		}
		for _, s := range []string{"one", "two"} {
			r.takeBy("worker", ReceiveAndDelete, "events/Subscriptions/"+s, 9)
		}
		for _, path := range []string{"tasks", "events"} {
			if used := r.used(path); used != 0 {
				t.Errorf("%s: %d bytes still used", path, used)
			}
		}
	})
}

func TestAFullEntityRefusesAndRecovers(t *testing.T) {
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		q := r.queue("tasks")
		q.quota.used = MaxEntity - 100
		r.send("tasks", ids("fits")...)
		if _, err := q.Enqueue("sender", ids("does not")...); !errors.Is(err, ErrFull) {
			t.Fatalf("enqueue into a full queue: %v, want %v", err, ErrFull)
		}
		r.mustSettle("tasks", r.take("tasks", 1)[0], Complete)
		r.send("tasks", ids("fits again")...)
	})
}

func TestNamesAreUniqueAndFoundWithoutCase(t *testing.T) {
	if _, err := New(control.New(), Config{Queues: []QueueConfig{{}}}); err == nil {
		t.Error("a queue without a name was accepted")
	}
	for what, c := range map[string]Config{
		"two queues":          {Queues: []QueueConfig{{Name: "a"}, {Name: "A"}}},
		"a queue and a topic": {Queues: []QueueConfig{{Name: "a"}}, Topics: []TopicConfig{{Name: "A"}}},
		"two topics":          {Topics: []TopicConfig{{Name: "a"}, {Name: "A"}}},
		"two subscriptions":   {Topics: []TopicConfig{{Name: "t", Subscriptions: []SubscriptionConfig{{Name: "a"}, {Name: "A"}}}}},
	} {
		ns, err := New(control.New(), c)
		if !errors.Is(err, ErrExists) {
			t.Errorf("%s of one name: %v, want %v", what, err, ErrExists)
		}
		if err == nil {
			ns.Close()
		}
	}
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		if got := r.queue("TASKS").Path(); got != "tasks" {
			t.Errorf("path %q", got)
		}
		if _, err := r.ns.Find("other"); !errors.Is(err, ErrNotFound) {
			t.Errorf("find an unknown entity: %v", err)
		}
	})
}

func TestPeekSeesEveryStateInOrder(t *testing.T) {
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		r.send("tasks", ids("completed", "deferred", "locked", "available")...)
		last := r.send("tasks", &Message{ID: "scheduled", Size: 1, ScheduledFor: r.hub.Now().Add(time.Hour)})[0]
		got := r.take("tasks", 3)
		r.mustSettle("tasks", got[0], Complete)
		r.mustSettle("tasks", got[1], Defer)
		peeked := r.queue("tasks").Peek(0, 9)
		r.want(peeked, "deferred", "locked", "available", "scheduled")
		for i, want := range []State{Deferred, Locked, Available, Scheduled} {
			if d := peeked[i]; d.State != want || !d.LockedUntil.IsZero() || d.Token != (Token{}) {
				t.Errorf("peeked %+v, want it in state %d and without a lock", d, want)
			}
		}
		r.want(r.queue("tasks").Peek(0, 2), "deferred", "locked")
		r.want(r.queue("tasks").Peek(last, 9), "scheduled")
		r.want(r.queue("tasks").Peek(last+1, 9))
	})
}

func TestALongQueueKeepsItsOrderThroughCompaction(t *testing.T) {
	bubble(t, tasks(func(q *QueueConfig) { q.MaxDelivery = 100 }), func(t *testing.T, r *rig) {
		const n = 5 * compactAt
		for i := range n {
			r.send("tasks", &Message{ID: fmt.Sprint(i), Size: 1})
		}
		seen := make(map[string]bool)
		for len(seen) < n {
			got := r.take("tasks", 7)
			if len(got) == 0 {
				t.Fatalf("only %d of %d messages seen", len(seen), n)
			}
			if !slices.IsSortedFunc(got, func(a, b *Delivery) int { return int(a.SequenceNumber - b.SequenceNumber) }) {
				t.Fatal("out of order")
			}
			for i, d := range got {
				if i%3 == 2 {
					r.mustSettle("tasks", d, Release)
					continue
				}
				if seen[d.Message.ID] {
					t.Fatalf("%s came again after it was completed", d.Message.ID)
				}
				seen[d.Message.ID] = true
				r.mustSettle("tasks", d, Complete)
			}
		}
		q := r.queue("tasks")
		if left := len(q.shelf.entries); left > 2*compactAt {
			t.Errorf("%d entries kept of an empty queue", left)
		}
		if len(q.deadlines)+len(q.locks)+len(q.shelf.returned) != 0 {
			t.Errorf("an empty queue keeps %d deadlines, %d locks, %d returned", len(q.deadlines), len(q.locks), len(q.shelf.returned))
		}
	})
}
