package broker

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// chain is queues of which each forwards to the next.
func chain(names ...string) Config {
	var c Config
	for i, name := range names {
		q := QueueConfig{Name: name, LockDuration: time.Minute, MaxDelivery: 3}
		if i+1 < len(names) {
			q.ForwardTo = names[i+1]
		}
		c.Queues = append(c.Queues, q)
	}
	return c
}

func TestAMessageIsForwardedWithTheNumberItHadFirst(t *testing.T) { // B15
	bubble(t, chain("a", "b", "c"), func(t *testing.T, r *rig) {
		r.send("c", ids("before")...)
		r.send("a", ids("one", "two")...)
		synctest.Wait()
		got := r.take("c", 3)
		r.want(got, "before", "one", "two")
		if got[0].EnqueuedNumber != 0 || got[1].EnqueuedNumber != 1 || got[1].SequenceNumber != 2 || got[2].EnqueuedNumber != 2 {
			t.Errorf("numbers %d, %d of %d, %d", got[0].EnqueuedNumber, got[1].EnqueuedNumber, got[1].SequenceNumber, got[2].EnqueuedNumber)
		}
		if n := len(r.queue("a").Peek(0, 10)) + len(r.queue("b").Peek(0, 10)); n != 0 {
			t.Errorf("%d messages stayed behind", n)
		}
		if used := r.used("a"); used != 0 {
			t.Errorf("%d bytes stayed taken", used)
		}
	})
}

func TestAMessageIsForwardedFourTimesAndThenDead(t *testing.T) { // B15
	bubble(t, chain("a", "b", "c", "d", "e", "f"), func(t *testing.T, r *rig) {
		r.send("a", ids("far")...)
		r.send("b", ids("near")...)
		synctest.Wait()
		r.want(r.take("f", 1), "near")
		dead := r.take("e"+DeadLetterSuffix, 1)
		r.want(dead, "far")
		if dead[0].Changes[ReasonProperty] != "MaxTransferHopCountExceeded" || dead[0].EnqueuedNumber != 1 {
			t.Errorf("dead letter %+v", dead[0])
		}
	})
}

func TestWhatForwardsInACircleComesToAnEnd(t *testing.T) { // B15
	c := chain("a", "b")
	c.Queues[1].ForwardTo = "a"
	bubble(t, c, func(t *testing.T, r *rig) {
		r.send("a", ids("round")...)
		synctest.Wait()
		r.want(r.take("a"+DeadLetterSuffix, 1), "round")
	})
}

func TestWhatCannotBeForwardedIsADeadLetterWhereItIs(t *testing.T) { // B15
	for _, row := range []struct {
		name   string
		spoil  func(r *rig) error
		reason string
	}{
		{"gone", func(r *rig) error { return r.ns.Delete("b") }, "MessagingEntityNotFoundException"},
		{"disabled", func(r *rig) error {
			return r.ns.UpdateQueue(QueueConfig{Name: "b", Status: SendDisabled})
		}, "MessagingEntityDisabledException"},
		{"full", func(r *rig) error { return r.ns.UpdateQueue(QueueConfig{Name: "b", MaxSize: 50}) }, "QuotaExceededException"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, chain("a", "b"), func(t *testing.T, r *rig) {
				if err := row.spoil(r); err != nil {
					t.Fatal(err)
				}
				r.send("a", ids("stuck")...)
				synctest.Wait()
				dead := r.take("a"+DeadLetterSuffix, 1)
				r.want(dead, "stuck")
				if dead[0].Changes[ReasonProperty] != row.reason {
					t.Errorf("reason %v, want %s", dead[0].Changes[ReasonProperty], row.reason)
				}
			})
		})
	}
}

func TestDeadLettersAreForwardedWithTheirReason(t *testing.T) { // B15
	c := chain("a")
	c.Queues[0].ForwardDeadLettersTo = "failed"
	c.Topics = []TopicConfig{{Name: "failed", Subscriptions: []SubscriptionConfig{{Name: "all", MaxDelivery: 2}}}}
	bubble(t, c, func(t *testing.T, r *rig) {
		r.send("a", ids("bad")...)
		for range 3 {
			r.mustSettle("a", r.take("a", 1)[0], Abandon)
		}
		synctest.Wait()
		got := r.take("failed/Subscriptions/all", 1)
		r.want(got, "bad")
		if got[0].Changes[ReasonProperty] != "MaxDeliveryCountExceeded" || got[0].DeadLetterSource != "a" || got[0].Failures != 0 {
			t.Errorf("forwarded as %+v", got[0])
		}
	})
}

func TestDeadLettersThatCannotBeForwardedStay(t *testing.T) { // B15
	c := chain("a", "b")
	c.Queues[0].ForwardTo, c.Queues[0].ForwardDeadLettersTo = "", "b"
	bubble(t, c, func(t *testing.T, r *rig) {
		if err := r.ns.Delete("b"); err != nil {
			t.Fatal(err)
		}
		r.send("a", ids("bad")...)
		r.mustSettle("a", r.take("a", 1)[0], DeadLetter)
		synctest.Wait()
		dead := r.take("a"+DeadLetterSuffix, 2)
		r.want(dead, "bad")
		r.mustSettle("a"+DeadLetterSuffix, dead[0], Complete)
	})
}

func TestForwardingThatIsTurnedOnTakesWhatWaits(t *testing.T) { // B15
	c := chain("a", "b")
	c.Queues[0].ForwardTo = ""
	bubble(t, c, func(t *testing.T, r *rig) {
		r.send("a", ids("locked", "waiting")...)
		held := r.take("a", 1)[0]
		if err := r.ns.UpdateQueue(QueueConfig{Name: "a", LockDuration: time.Minute, ForwardTo: "b"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.want(r.take("b", 2), "waiting")
		r.mustSettle("a", held, Release)
		synctest.Wait()
		r.want(r.take("b", 2), "locked")
	})
}

func TestAForwardedMessageMeetsTheRulesOfItsNewPlace(t *testing.T) { // B7, B9, B15
	c := chain("a", "b")
	c.Queues[1].DetectDuplicates, c.Queues[1].TimeToLive = true, time.Minute
	bubble(t, c, func(t *testing.T, r *rig) {
		r.send("a", ids("x", "x")...)
		synctest.Wait()
		if got := r.queue("b").Peek(0, 10); len(got) != 1 || got[0].TimeToLive != time.Minute {
			t.Errorf("%d messages: %+v", len(got), got)
		}
		if !slices.Contains(r.kinds(), "duplicate-dropped") {
			t.Error("no duplicate was dropped")
		}
	})
}

func TestWhatForwardsMustHaveAWhereTo(t *testing.T) { // B15
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		_, err := New(r.hub, Config{Queues: []QueueConfig{{Name: "a", ForwardTo: "nowhere"}}})
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("forward to nowhere: %v", err)
		}
		_, err = New(r.hub, Config{Queues: []QueueConfig{{Name: "a", ForwardTo: "b", RequiresSession: true}, {Name: "b"}}})
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("forward sessions: %v", err)
		}
	})
}

func TestAMessageWithoutASessionIsADeadLetterWhereOneIsNeeded(t *testing.T) { // B11
	c := Config{Topics: []TopicConfig{{Name: "events", Subscriptions: []SubscriptionConfig{{Name: "steps", RequiresSession: true}}}}}
	bubble(t, c, func(t *testing.T, r *rig) {
		r.send("events", ids("none")...)
		dead := r.take("events/Subscriptions/steps"+DeadLetterSuffix, 1)
		r.want(dead, "none")
		if dead[0].Changes[ReasonProperty] != "Session ID is null." {
			t.Errorf("reason %v", dead[0].Changes[ReasonProperty])
		}
	})
}

func TestAThousandMessagesAreForwardedInOrder(t *testing.T) { // B4, B15
	bubble(t, chain("a", "b"), func(t *testing.T, r *rig) {
		for i := range 1000 {
			r.send("a", ids(fmt.Sprint(i))...)
		}
		synctest.Wait()
		got := r.take("b", 1001)
		if len(got) != 1000 {
			t.Fatalf("%d messages came, want 1000", len(got))
		}
		for i, d := range got {
			if d.Message.ID != fmt.Sprint(i) {
				t.Fatalf("message %s at place %d", d.Message.ID, i)
			}
		}
	})
}
