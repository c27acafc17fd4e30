package broker

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
)

func steps(change func(*QueueConfig)) Config {
	return tasks(func(q *QueueConfig) {
		q.RequiresSession = true
		if change != nil {
			change(q)
		}
	})
}

// of makes messages "session/n" of the sessions that their ids begin with.
func of(names ...string) []*Message {
	messages := ids(names...)
	for _, m := range messages {
		m.SessionID, m.InSession = m.ID[:1], true
	}
	return messages
}

func (r *rig) accept(id string) *Consumer {
	r.t.Helper()
	c, err := r.queue("tasks").AcceptSession("worker-1", PeekLock, id, make(chan struct{}, 1))
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func begin(c *Consumer, n int) (got []*Delivery) {
	for _, reservation := range c.Collect(n) {
		if d := reservation.Begin(); d != nil {
			got = append(got, d)
		}
	}
	return got
}

func TestASessionsConsumerGetsItsMessagesInOrder(t *testing.T) { // B4, B11
	bubble(t, steps(nil), func(t *testing.T, r *rig) {
		r.send("tasks", of("a1", "b1", "a2", "b2", "a3")...)
		a, b := r.accept("a"), r.accept("b")
		r.want(begin(b, 1), "b1")
		first := begin(a, 2)
		r.want(first, "a1", "a2")
		r.mustSettle("tasks", first[0], Release)
		r.want(begin(a, 5), "a1", "a3")
		r.send("tasks", of("b3")...)
		r.want(begin(b, 5), "b2", "b3")
		r.want(begin(a, 5))
	})
}

func TestTheNextSessionGoesToWhoHasWaitedLongest(t *testing.T) { // B11
	bubble(t, steps(nil), func(t *testing.T, r *rig) {
		q := r.queue("tasks")
		wait := func() *Applicant {
			a, err := q.AwaitSession("worker-1", PeekLock, make(chan struct{}, 1))
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		one, two, three := wait(), wait(), wait()
		if two.Withdraw() != nil {
			t.Error("who withdraws before there is a session has got one")
		}
		r.send("tasks", of("a1", "b1")...)
		<-one.Granted()
		<-three.Granted()
		if a, b := one.Withdraw(), three.Withdraw(); a.Session() != "a" || b.Session() != "b" {
			t.Errorf("sessions %s and %s", a.Session(), b.Session())
		}
		select {
		case <-two.Granted():
			t.Error("who gave up was granted a session")
		default:
		}
	})
}

func TestASessionThatWasGrantedTooLateIsFreeAgain(t *testing.T) { // B11
	bubble(t, steps(nil), func(t *testing.T, r *rig) {
		a, err := r.queue("tasks").AwaitSession("worker-1", PeekLock, make(chan struct{}, 1))
		if err != nil {
			t.Fatal(err)
		}
		r.send("tasks", of("a1")...)
		a.Withdraw().Close()
		got := begin(r.accept("a"), 1)
		r.want(got, "a1")
		if got[0].Failures != 0 {
			t.Errorf("%d failures", got[0].Failures)
		}
	})
}

func TestALockThatRunsOutCountsEveryMessageUnderIt(t *testing.T) { // B3, B12
	bubble(t, steps(nil), func(t *testing.T, r *rig) {
		r.send("tasks", of("a1", "a2", "a3")...)
		c := r.accept("a")
		held := begin(c, 2)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		select {
		case <-c.Lost():
		default:
			t.Error("the consumer does not know of its loss")
		}
		if err := r.settle("tasks", held[0], Complete); !errors.Is(err, ErrLockLost) {
			t.Errorf("settle: %v", err)
		}
		if got := begin(c, 1); got != nil {
			t.Errorf("a consumer without its session received %v", got)
		}
		got := begin(r.accept("a"), 3)
		r.want(got, "a1", "a2", "a3")
		if got[0].Failures != 1 || got[1].Failures != 1 || got[2].Failures != 0 {
			t.Errorf("failures %d, %d, %d; want 1, 1, 0", got[0].Failures, got[1].Failures, got[2].Failures)
		}
		c.Close() // late, and of no consequence
		if _, err := r.queue("tasks").AcceptSession("worker-2", PeekLock, "a", nil); !errors.Is(err, ErrSessionLocked) {
			t.Errorf("accept: %v", err)
		}
	})
}

func TestASessionEndsWithoutALockTime(t *testing.T) { // B12: the switch that turns lock expiry off
	bubble(t, steps(nil), func(t *testing.T, r *rig) {
		if err := r.hub.Switch("servicebus.lock-expiry", true); err != nil {
			t.Fatal(err)
		}
		r.send("tasks", of("a1")...)
		d := begin(r.accept("a"), 1)[0]
		time.Sleep(time.Hour)
		r.mustSettle("tasks", d, Complete)
	})
}

// Sessions come and go by the million, and leave nothing behind.
func TestASessionThatNothingIsLeftOfIsForgotten(t *testing.T) {
	bubble(t, steps(func(q *QueueConfig) { q.TimeToLive = time.Hour }), func(t *testing.T, r *rig) {
		q := r.queue("tasks")
		r.send("tasks", of("a1", "b1", "c1", "d1")...)
		a := r.accept("a")
		r.mustSettle("tasks", begin(a, 1)[0], Complete)
		a.Close()
		b := r.accept("b")
		r.mustSettle("tasks", begin(b, 1)[0], DeadLetter)
		b.Close()
		c := r.accept("c")
		if err := q.SetSessionState("c", []byte("state")); err != nil {
			t.Fatal(err)
		}
		r.mustSettle("tasks", begin(c, 1)[0], Complete)
		c.Close()
		r.accept("empty").Close()
		time.Sleep(time.Hour) // d1 expires
		if got := q.Sessions(time.Unix(endOfTime, 0), 0, 10); !slices.Equal(got, []string{"c"}) {
			t.Errorf("sessions %q, want c", got)
		}
		if used := r.used("tasks"); used != 100+5 {
			t.Errorf("%d bytes are taken, want a dead letter's and a state's", used)
		}
		c = r.accept("c")
		if err := q.SetSessionState("c", nil); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if n := len(q.sessions); n != 0 {
			t.Errorf("%d sessions are kept", n)
		}
	})
}

func TestNobodyTouchesASessionWithoutItsLock(t *testing.T) { // B11
	bubble(t, steps(nil), func(t *testing.T, r *rig) {
		q := r.queue("tasks")
		r.send("tasks", of("a1")...)
		c := r.accept("a")
		d := begin(c, 1)[0]
		if _, err := q.Renew("worker-1", d.Token); !errors.Is(err, ErrInvalid) {
			t.Errorf("renew a message's lock: %v", err)
		}
		r.mustSettle("tasks", d, Defer)
		c.Close()
		_, errRenew := q.RenewSession("worker-1", "a")
		_, errGet := q.SessionState("a")
		_, errDeferred := q.ReceiveDeferred("worker-1", PeekLock, d.SequenceNumber)
		for what, err := range map[string]error{
			"renew": errRenew, "get state": errGet, "set state": q.SetSessionState("a", nil), "receive deferred": errDeferred,
		} {
			if !errors.Is(err, ErrSessionLockLost) {
				t.Errorf("%s: %v, want %v", what, err, ErrSessionLockLost)
			}
		}
	})
}

func TestALockThatPassedToAnotherClientIsNotRenewed(t *testing.T) { // B11
	bubble(t, steps(nil), func(t *testing.T, r *rig) {
		r.accept("a")
		if _, err := r.queue("tasks").RenewSession("worker-2", "a"); !errors.Is(err, ErrSessionLockLost) {
			t.Errorf("by another: %v, want %v", err, ErrSessionLockLost)
		}
		if _, err := r.queue("tasks").RenewSession("worker-1", "a"); err != nil {
			t.Errorf("by its holder: %v", err)
		}
	})
}

func TestADeletedQueueLetsGoOfItsSessions(t *testing.T) {
	bubble(t, steps(nil), func(t *testing.T, r *rig) {
		q := r.queue("tasks")
		r.send("tasks", of("a1", "a2")...)
		c := r.accept("a")
		d := begin(c, 1)[0]
		waiting := c.Collect(1)
		if len(waiting) != 1 {
			t.Fatalf("%d messages are reserved, want 1", len(waiting))
		}
		if err := r.ns.Delete("tasks"); err != nil {
			t.Fatal(err)
		}
		if err := q.Settle(d.Token, Settlement{Disposition: Complete}); !errors.Is(err, ErrLockLost) {
			t.Errorf("settle: %v", err)
		}
		if waiting[0].Begin() != nil {
			t.Error("a message of a deleted queue was delivered")
		}
		c.Close()
		if _, err := q.AwaitSession("worker-1", PeekLock, nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("waiting for a session of a queue that is gone: %v", err)
		}
		if _, err := q.AcceptSession("worker-1", PeekLock, "a", nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("accept: %v", err)
		}
	})
}

func BenchmarkSessions(b *testing.B) {
	bench := func(b *testing.B, sessions int) {
		ns, err := New(control.New(), steps(nil))
		if err != nil {
			b.Fatal(err)
		}
		defer ns.Close()
		q, err := ns.queue("tasks")
		if err != nil {
			b.Fatal(err)
		}
		for i := range sessions {
			m := &Message{ID: fmt.Sprint(i), Size: 100, SessionID: fmt.Sprint(i), InSession: true}
			if _, err := q.Enqueue("sender", m); err != nil {
				b.Fatal(err)
			}
		}
		wake := make(chan struct{}, 1)
		for b.Loop() {
			a, err := q.AwaitSession("worker-1", PeekLock, wake)
			if err != nil {
				b.Fatal(err)
			}
			c := a.Withdraw()
			begin(c, 1)
			c.Close()
		}
	}
	for _, sessions := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(sessions), func(b *testing.B) { bench(b, sessions) })
	}
}
