package broker

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestConsumersAreServedInTheOrderTheirCreditCame(t *testing.T) {
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		q := r.queue("tasks")
		first := q.Consume("first", PeekLock, make(chan struct{}, 1))
		second := q.Consume("second", PeekLock, make(chan struct{}, 1))
		first.Collect(2)
		second.Collect(2)
		r.send("tasks", ids("a", "b", "c")...)
		if got := first.Collect(0); len(got) != 2 {
			t.Errorf("the first consumer got %d messages, want 2", len(got))
		}
		if got := second.Collect(1); len(got) != 1 || got[0].Message().ID != "c" {
			t.Errorf("the second consumer got %v, want c", got)
		}
	})
}

func TestAConsumerThatClosesGivesBackWhatItWasPromised(t *testing.T) {
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		q := r.queue("tasks")
		gone := q.Consume("gone", PeekLock, make(chan struct{}, 1))
		gone.Collect(3)
		r.send("tasks", ids("a", "b")...)
		held := slices.Clone(gone.Collect(3))
		r.send("tasks", ids("c")...)
		gone.Close()
		r.want(r.take("tasks", 9), "c")
		if d := held[0].Begin(); d != nil {
			t.Errorf("a closed consumer began delivery %+v", d)
		}
		held[1].Cancel()
		got := r.take("tasks", 9)
		r.want(got, "a", "b")
		if got[0].Failures+got[1].Failures != 0 {
			t.Error("a promise that was not kept counted as a delivery")
		}
	})
}

func TestAWaitingConsumerIsWoken(t *testing.T) {
	bubble(t, tasks(nil), func(t *testing.T, r *rig) {
		wake := make(chan struct{}, 1)
		c := r.queue("tasks").Consume("worker", ReceiveAndDelete, wake)
		defer c.Close()
		done := make(chan string)
		go func() {
			for {
				for _, reservation := range c.Collect(1) {
					done <- reservation.Begin().Message.ID
					return
				}
				<-wake
			}
		}()
		synctest.Wait()
		r.send("tasks", &Message{ID: "a", Size: 1, ScheduledFor: r.hub.Now().Add(time.Hour)})
		if id := <-done; id != "a" {
			t.Errorf("got %q", id)
		}
	})
}

func TestATopicSpreadsToEverySubscription(t *testing.T) { // B10
	config := Config{Topics: []TopicConfig{{
		Name: "Task-Events", TimeToLive: time.Minute, DetectDuplicates: true,
		Subscriptions: []SubscriptionConfig{{Name: "One", TimeToLive: time.Hour}, {Name: "two"}},
	}}}
	bubble(t, config, func(t *testing.T, r *rig) {
		r.send("task-events", ids("a", "a")...)
		r.send("TASK-EVENTS", &Message{ID: "later", Size: 1, ScheduledFor: r.hub.Now().Add(30 * time.Second)})
		for _, path := range []string{"task-events/subscriptions/one", "Task-Events/Subscriptions/TWO"} {
			got := r.take(path, 9)
			r.want(got, "a")
			if got[0].TimeToLive != time.Minute {
				t.Errorf("%s: time to live %v, want the topic's", path, got[0].TimeToLive)
			}
			r.mustSettle(path, got[0], Complete)
		}
		topic, err := r.ns.Find("task-events")
		if err != nil {
			t.Fatal(err)
		}
		r.want(topic.Peek(0, 9), "later")
		time.Sleep(30 * time.Second)
		r.want(r.take("task-events/subscriptions/one", 9), "later")
		time.Sleep(time.Minute)
		r.want(r.take("task-events/subscriptions/two", 9)) // the topic's time to live has ended it
	})
}

func TestATopicTakesWhatItHasRoomForInEverySubscriptionOrNothing(t *testing.T) { // B10
	config := Config{Topics: []TopicConfig{{Name: "events", MaxSize: 150, Subscriptions: []SubscriptionConfig{{Name: "one"}, {Name: "two"}}}}}
	bubble(t, config, func(t *testing.T, r *rig) {
		topic, err := r.ns.Find("events")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := topic.Enqueue("sender", ids("large")...); !errors.Is(err, ErrFull) {
			t.Errorf("a message with room for one of its two copies: %v, want %v", err, ErrFull)
		}
		r.send("events", &Message{ID: "small", Size: 75})
		for _, name := range []string{"one", "two"} {
			r.want(r.take(SubscriptionPath("events", name), 9), "small")
		}
	})
}
