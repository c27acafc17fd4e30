package journal_test

import (
	"reflect"
	"testing"
	"time"

	"oneeffect/emulator/servicebus/broker"
)

// wantKept compares what is on disk of every entity with what it was described as.
func (r *rig) wantKept(when string, q broker.QueueConfig, topic broker.TopicConfig, s broker.SubscriptionConfig) {
	r.t.Helper()
	r.close()
	past := load(r.t, r.folder)
	r.open()
	if len(past.Entities) != 3 {
		r.t.Fatalf("%s, %d entities are kept, want 3", when, len(past.Entities))
	}
	for _, d := range past.Entities {
		got, want := any(d.Queue), any(&q)
		switch {
		case d.Topic != nil:
			got, want = d.Topic, &topic
		case d.Subscription != nil:
			for i := range d.Subscription.Rules { // of which another test shows what they do
				d.Subscription.Rules[i].Apply, d.Subscription.Rules[i].Created = nil, time.Time{}
			}
			got, want = d.Subscription, &s
		}
		if !reflect.DeepEqual(got, want) {
			r.t.Errorf("%s, kept is\n%+v\nwant\n%+v", when, got, want)
		}
	}
}

// wantFull wants every field of a description set but those that exclude another or are described elsewhere.
func wantFull(t *testing.T, description any, but ...string) {
	t.Helper()
	v := reflect.ValueOf(description)
	zero := make(map[string]bool)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			zero[v.Type().Field(i).Name] = true
		}
	}
	for _, name := range but {
		delete(zero, name)
	}
	if len(zero) > 0 {
		t.Errorf("%T is described without %v", description, zero)
	}
}

func TestEveryFieldOfAnEntityIsKept(t *testing.T) { // J3
	q := broker.QueueConfig{
		Name: "Queue", LockDuration: time.Second, MaxDelivery: 2, TimeToLive: 3 * time.Hour, DeadLetterExpired: true,
		DetectDuplicates: true, DuplicateWindow: 4 * time.Minute, RequiresSession: true, ForwardDeadLettersTo: "topic",
		AutoDelete: 5 * time.Hour, Status: broker.SendDisabled, MaxMessage: 6000, MaxSize: 7000, Description: "queue",
	}
	topic := broker.TopicConfig{
		Name: "Topic", TimeToLive: 2 * time.Hour, DetectDuplicates: true, DuplicateWindow: 3 * time.Minute,
		AutoDelete: 4 * time.Hour, Status: broker.Disabled, MaxMessage: 5000, MaxSize: 6000, Description: "topic",
	}
	s := broker.SubscriptionConfig{
		Name: "Subscription", LockDuration: 2 * time.Second, MaxDelivery: 3, TimeToLive: 4 * time.Hour, DeadLetterExpired: true,
		ForwardTo: "queue", ForwardDeadLettersTo: "queue", AutoDelete: 5 * time.Hour, Status: broker.ReceiveDisabled,
		DeadLetterUnevaluated: true, Description: "subscription", Rules: []broker.Rule{{Name: "rule", Description: "x"}},
	}
	wantFull(t, q, "ForwardTo")
	wantFull(t, topic, "Subscriptions")
	wantFull(t, s, "RequiresSession")
	bubble(t, broker.Config{}, func(t *testing.T, r *rig) {
		r.must(r.ns.CreateQueue(q))
		r.must(r.ns.CreateTopic(topic))
		r.must(r.ns.CreateSubscription("topic", s))
		r.wantKept("when they are made", q, topic, s)

		q.LockDuration, q.MaxDelivery, q.TimeToLive, q.DeadLetterExpired = time.Minute, 20, 30*time.Hour, false
		q.DuplicateWindow, q.ForwardDeadLettersTo, q.AutoDelete = 40*time.Minute, "", 50*time.Hour
		q.Status, q.MaxMessage, q.MaxSize, q.Description = broker.Active, 60_000, 70_000, "another queue"
		topic.TimeToLive, topic.DuplicateWindow, topic.AutoDelete = 20*time.Hour, 30*time.Minute, 40*time.Hour
		topic.Status, topic.MaxMessage, topic.MaxSize, topic.Description = broker.Active, 50_000, 60_000, "another topic"
		s.LockDuration, s.MaxDelivery, s.TimeToLive, s.DeadLetterExpired = 2*time.Minute, 30, 40*time.Hour, false
		s.ForwardTo, s.ForwardDeadLettersTo, s.AutoDelete = "", "", 50*time.Hour
		s.Status, s.DeadLetterUnevaluated, s.Description = broker.Active, false, "another subscription"
		r.must(r.ns.UpdateQueue(q))
		r.must(r.ns.UpdateTopic(topic))
		r.must(r.ns.UpdateSubscription("topic", s))
		r.wantKept("when they are changed", q, topic, s)
	})
}
