package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
)

const dead = broker.DeadLetterSuffix

func everything() broker.Config {
	return broker.Config{
		Queues: []broker.QueueConfig{
			{Name: "Tasks", LockDuration: 5 * time.Minute, MaxDelivery: 3, TimeToLive: time.Hour, DeadLetterExpired: true,
				DetectDuplicates: true, DuplicateWindow: 10 * time.Minute, Description: "tasks"},
			{Name: "steps", LockDuration: time.Minute, RequiresSession: true},
			{Name: "relay", ForwardTo: "tasks", ForwardDeadLettersTo: "tasks"},
			{Name: "doomed"},
		},
		Topics: []broker.TopicConfig{{Name: "events", TimeToLive: 30 * time.Minute, Subscriptions: []broker.SubscriptionConfig{
			{Name: "all", LockDuration: time.Minute, MaxDelivery: 2},
			{Name: "some", Rules: []broker.Rule{prefixed("good", "s-good"), prefixed("fine", "s-fine")}, DeadLetterUnevaluated: true},
		}}},
	}
}

var everywhere = []string{
	"tasks", "tasks" + dead, "steps", "relay", "relay" + dead, "events", "events/subscriptions/all", "events/subscriptions/all" + dead,
	"events/subscriptions/some",
}

func TestEveryKindOfStateIsAsItWas(t *testing.T) { // J3, B16
	bubble(t, everything(), func(t *testing.T, r *rig) {
		scheduled := message("scheduled")
		scheduled.ScheduledFor = r.hub.Now().Add(20 * time.Minute)
		number := r.send("tasks", scheduled)[0]
		r.send("tasks", message("locked"), message("abandoned"), message("rejected"), message("deferred"), message("deferred and locked"),
			message("completed"), message("available"), message("released"))
		r.send("tasks", message("completed"))
		locked := r.take("tasks")
		for range 2 {
			r.settle("tasks", r.take("tasks"), broker.Settlement{Disposition: broker.Abandon, Changes: map[string]any{"why": "not yet"}})
		}
		abandoned := r.take("tasks")
		r.settle("tasks", r.take("tasks"), broker.Settlement{Disposition: broker.DeadLetter, Reason: "bad", Changes: map[string]any{broker.ReasonProperty: "bad"}})
		for range 2 {
			r.settle("tasks", r.take("tasks"), broker.Settlement{Disposition: broker.Defer})
		}
		deferred, err := r.queue("tasks").ReceiveDeferred("worker-2", broker.PeekLock, 6)
		r.must(err)
		r.settle("tasks", r.take("tasks"), broker.Settlement{Disposition: broker.Complete})
		r.settle("tasks", abandoned, broker.Settlement{Disposition: broker.Release})
		deadLocked := r.take("tasks" + dead)
		r.send("relay", message("forwarded"))
		synctest.Wait()

		r.send("steps", inSession("one", "s"), inSession("two", "s"), inSession("three", ""))
		consumer, err := r.queue("steps").AcceptSession("worker-1", broker.PeekLock, "s", make(chan struct{}, 1))
		r.must(err)
		r.must(r.queue("steps").SetSessionState("s", []byte("so far")))
		inHand := consumer.Collect(1)[0].Begin()

		r.send("events", message("good"), message("other"))
		later := message("fine")
		later.ScheduledFor = r.hub.Now().Add(time.Minute)
		r.send("events", later)

		r.must(r.ns.CreateQueue(broker.QueueConfig{Name: "made", LockDuration: time.Second, Description: "by hand"}))
		r.must(r.ns.CreateSubscription("events", broker.SubscriptionConfig{Name: "late", Rules: []broker.Rule{prefixed("x", "x")}}))
		r.must(r.ns.CreateRule("events", "late", prefixed("y", "s-other")))
		r.must(r.ns.DeleteRule("events", "late", "x"))
		r.must(r.ns.UpdateSubscription("events", broker.SubscriptionConfig{Name: "all", LockDuration: 2 * time.Minute, MaxDelivery: 7}))
		r.must(r.ns.UpdateQueue(broker.QueueConfig{Name: "relay", Status: broker.SendDisabled}))
		r.send("doomed", message("lost"))
		r.must(r.ns.Delete("doomed"))

		consumer.Close() // as the end of the process ends it
		before := r.picture(everywhere...)
		r.again()
		r.wantSame(before, r.picture(everywhere...))
		if len(before) < 35 {
			t.Errorf("the picture shows %d things only", len(before))
		}

		for path, d := range map[string]*broker.Delivery{"tasks": locked, "tasks" + dead: deadLocked} {
			until, err := r.queue(path).Renew("worker-1", d.Token)
			r.must(err)
			if want := r.hub.Now().Add(r.queue(path).LockDuration()); !until[0].Equal(want) {
				t.Errorf("%s: renewed until %v, want %v", path, until[0], want)
			}
			r.settle(path, d, broker.Settlement{Disposition: broker.Complete})
		}
		r.settle("tasks", deferred[0], broker.Settlement{Disposition: broker.Abandon})
		if err := r.queue("steps").Settle(inHand.Token, broker.Settlement{Disposition: broker.Complete}); !errors.Is(err, broker.ErrLockLost) {
			t.Errorf("settled in a session that is over: %v", err)
		}
		r.must(r.entity("tasks").CancelScheduled(number))
		if n := r.send("tasks", message("completed")); n[0] != 0 {
			t.Error("the history of duplicates is lost")
		}
		if n := r.send("tasks", message("new")); n[0] != 11 {
			t.Errorf("the next number is %d, want 11", n[0])
		}
		for _, want := range []string{"abandoned", "available", "released", "forwarded", "new"} {
			if d := r.take("tasks"); d.Message.ID != want {
				t.Errorf("received %s, want %s", d.Message.ID, want)
			}
		}
		if _, err := r.ns.Find("doomed"); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("a deleted queue is back: %v", err)
		}
	})
}

func TestSessionsAreFreeAndKeepTheirState(t *testing.T) { // B16
	bubble(t, everything(), func(t *testing.T, r *rig) {
		q := r.queue("steps")
		r.send("steps", inSession("one", "s"), inSession("two", "s"), inSession("three", "s"))
		c, err := q.AcceptSession("worker-1", broker.PeekLock, "s", make(chan struct{}, 1))
		r.must(err)
		reserved := c.Collect(3)
		first, second := reserved[0].Begin(), reserved[1].Begin()
		r.must(q.Settle(first.Token, broker.Settlement{Disposition: broker.Abandon}))
		r.must(q.Settle(second.Token, broker.Settlement{Disposition: broker.Defer}))
		_, err = q.ReceiveDeferred("worker-1", broker.PeekLock, second.SequenceNumber)
		r.must(err)
		r.must(q.SetSessionState("s", []byte("half")))
		r.must(q.SetSessionState("s", []byte("so far")))
		r.again()
		q = r.queue("steps")
		c, err = q.AcceptSession("worker-2", broker.PeekLock, "s", make(chan struct{}, 1))
		r.must(err)
		defer c.Close()
		if state, err := q.SessionState("s"); err != nil || string(state) != "so far" {
			t.Errorf("state %q, %v", state, err)
		}
		got := c.Collect(3)
		if len(got) != 2 {
			t.Fatalf("%d messages are available, want 2", len(got))
		}
		one, three := got[0].Begin(), got[1].Begin()
		if one.Message.ID != "one" || one.Failures != 1 || three.Message.ID != "three" || three.Failures != 0 {
			t.Errorf("received %s after %d failures, %s after %d", one.Message.ID, one.Failures, three.Message.ID, three.Failures)
		}
		again, err := q.ReceiveDeferred("worker-2", broker.PeekLock, second.SequenceNumber)
		r.must(err)
		if again[0].Failures != 0 {
			t.Errorf("the end of the process counted: %d failures", again[0].Failures)
		}
	})
}

func TestWhatComesDueMeanwhileHappensAtTheStart(t *testing.T) { // B16
	bubble(t, everything(), func(t *testing.T, r *rig) {
		soon := message("scheduled")
		soon.ScheduledFor = r.hub.Now().Add(8 * time.Minute)
		brief := message("brief")
		brief.TimeToLive = time.Minute
		r.send("tasks", message("locked"), soon)
		r.take("tasks")
		r.send("tasks", brief)
		r.close()
		time.Sleep(9 * time.Minute)
		r.open()
		synctest.Wait()
		locked, scheduled := r.take("tasks"), r.take("tasks")
		if locked.Message.ID != "locked" || locked.Failures != 1 {
			t.Errorf("received %s after %d failures", locked.Message.ID, locked.Failures)
		}
		if scheduled.Message.ID != "scheduled" || scheduled.SequenceNumber != 4 {
			t.Errorf("received %s as number %d", scheduled.Message.ID, scheduled.SequenceNumber)
		}
		if d := r.take("tasks" + dead); d.Message.ID != "brief" {
			t.Errorf("%s is a dead letter", d.Message.ID)
		}
		expired := slices.ContainsFunc(r.hub.Events(0), func(e control.Event) bool { return e.Kind == "lock-expired" && e.Client == "worker-1" })
		if !expired {
			t.Error("nobody was told whose lock has expired")
		}
		// The history of duplicates, too, is older now.
		time.Sleep(2 * time.Minute)
		if n := r.send("tasks", message("locked")); n[0] == 0 {
			t.Error("a duplicate is remembered for longer than the window")
		}
	})
}

func TestWhatHasBegunToBeForwardedGoesOn(t *testing.T) { // B15, B16
	c := broker.Config{Queues: []broker.QueueConfig{{Name: "a", ForwardTo: "b"}, {Name: "b"}}}
	bubble(t, c, func(t *testing.T, r *rig) {
		for i := range 500 {
			r.send("a", message(fmt.Sprint(i)))
		}
		r.again() // somewhere in between
		synctest.Wait()
		if left := r.queue("a").Peek(0, 1); len(left) != 0 {
			t.Errorf("%s is left behind", left[0].Message.ID)
		}
		got := r.queue("b").Peek(0, 1000)
		if len(got) != 500 {
			t.Fatalf("%d messages have come, want 500", len(got))
		}
		for i, d := range got {
			if d.Message.ID != fmt.Sprint(i) {
				t.Fatalf("message %s at place %d", d.Message.ID, i)
			}
		}
	})
}

func TestAQueueOfTheSameNameStartsEmpty(t *testing.T) { // J3
	bubble(t, everything(), func(t *testing.T, r *rig) {
		r.send("doomed", message("one"), message("two"))
		held := r.queue("doomed").Consume("worker-1", broker.PeekLock, make(chan struct{}, 1)).Collect(1)[0]
		r.must(r.ns.Delete("doomed"))
		r.must(r.ns.CreateQueue(broker.QueueConfig{Name: "doomed"}))
		r.send("doomed", message("three"))
		held.Cancel() // of the old queue's first message, which has the number of the new one's
		r.again()
		got := r.queue("doomed").Peek(0, 10)
		if len(got) != 1 || got[0].Message.ID != "three" || got[0].SequenceNumber != 1 {
			t.Errorf("it holds %d messages: %+v", len(got), got)
		}
	})
}

func TestADeclarationThatChangesIsAppliedToWhatIsThere(t *testing.T) { // B16
	bubble(t, everything(), func(t *testing.T, r *rig) {
		r.send("tasks", message("kept"))
		r.must(r.ns.UpdateQueue(broker.QueueConfig{Name: "steps", LockDuration: 2 * time.Minute}))
		r.close()
		r.config.Queues[0].MaxDelivery = 5
		r.config.Queues = append(r.config.Queues, broker.QueueConfig{Name: "another"})
		r.config.Topics[0].Subscriptions[1].Rules = []broker.Rule{prefixed("good", "s-good"), prefixed("best", "s-best")}
		r.open()
		d := r.take("tasks")
		for range 4 {
			r.settle("tasks", d, broker.Settlement{Disposition: broker.Abandon})
			d = r.take("tasks")
		}
		if d.Failures != 4 {
			t.Errorf("%d failures of at most 5", d.Failures)
		}
		r.entity("another")
		if got := r.queue("steps").LockDuration(); got != 2*time.Minute {
			t.Errorf("a declaration that has not changed gave steps a lock of %v again, want the 2m it was changed to", got)
		}
		rules, err := r.ns.Rules("events", "some")
		r.must(err)
		if len(rules) != 2 || rules[0].Name != "best" || rules[1].Name != "good" {
			t.Errorf("rules %+v", rules)
		}
		r.close()
		r.config.Queues[1].RequiresSession = false
		if err := r.tryOpen(); err == nil || !strings.Contains(err.Error(), "start afresh") {
			t.Errorf("what is for life was changed: %v", err)
		}
		r.config.Queues[1].RequiresSession = true
		r.open()
	})
}
