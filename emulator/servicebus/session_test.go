package servicebus_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// step is a message of a session.
func step(id, session string) *azservicebus.Message {
	m := message(id)
	m.SessionID = &session
	return m
}

// sendSteps sends messages "session/n" to steps.
func (w *world) sendSteps(ids ...string) {
	w.t.Helper()
	c := w.client("sender")
	s := w.sender(c, "steps")
	for _, id := range ids {
		session, _, _ := strings.Cut(id, "/")
		w.must(s.SendMessage(w.ctx, step(id, session), nil))
	}
	w.must(c.Close(w.ctx))
}

func (w *world) accept(c *azservicebus.Client, session string) *azservicebus.SessionReceiver {
	w.t.Helper()
	r, err := c.AcceptSessionForQueue(w.ctx, "steps", session, nil)
	w.must(err)
	return r
}

func (w *world) acceptNext(c *azservicebus.Client) *azservicebus.SessionReceiver {
	w.t.Helper()
	r, err := c.AcceptNextSessionForQueue(w.ctx, "steps", nil)
	w.must(err)
	return r
}

func TestASessionIsReceivedByOneInItsOrder(t *testing.T) { // B11
	inBubble(t, func(t *testing.T, w *world) {
		w.sendSteps("a/1", "b/1", "a/2", "b/2", "a/3")
		one, two := w.accept(w.client("worker-1"), "b"), w.acceptNext(w.client("worker-2"))
		if two.SessionID() != "a" {
			t.Fatalf("the next session is %q, want a", two.SessionID())
		}
		if want := w.hub.Now().Add(time.Minute); !one.LockedUntil().Equal(want) {
			t.Errorf("locked until %v, want %v", one.LockedUntil(), want)
		}
		for r, want := range map[*azservicebus.SessionReceiver][]string{one: {"b/1", "b/2"}, two: {"a/1", "a/2", "a/3"}} {
			for _, id := range want {
				m := w.receive(r)
				if m.MessageID != id || *m.SessionID != r.SessionID() || !m.LockedUntil.Equal(r.LockedUntil()) {
					t.Errorf("session %s got %s of %s until %v, want %s", r.SessionID(), m.MessageID, *m.SessionID, m.LockedUntil, id)
				}
				w.must(r.CompleteMessage(w.ctx, m, nil))
			}
		}
	})
}

func TestASessionThatIsLockedIsRefused(t *testing.T) { // B11
	inBubble(t, func(t *testing.T, w *world) {
		r := w.accept(w.client("worker-1"), "a")
		_, err := w.client("worker-2").AcceptSessionForQueue(w.ctx, "steps", "a", nil)
		w.wantCondition(err, "com.microsoft:session-cannot-be-locked", "may be locked by another receiver")
		w.must(r.Close(w.ctx))
		w.accept(w.client("worker-2"), "a")
	})
}

func TestTheEndOfASessionReceiverCountsNothingButTheEndOfItsLockDoes(t *testing.T) { // B12
	for _, row := range []struct {
		name string
		end  func(w *world, c *azservicebus.Client, r *azservicebus.SessionReceiver)
		want []string // what the next receiver sees: message and count
	}{
		{"closed", func(w *world, _ *azservicebus.Client, r *azservicebus.SessionReceiver) { w.must(r.Close(w.ctx)) }, []string{"a/1 1", "a/2 1"}},
		{"connection closed", func(w *world, c *azservicebus.Client, _ *azservicebus.SessionReceiver) { w.must(c.Close(w.ctx)) }, []string{"a/1 1", "a/2 1"}},
		{"cut off", func(w *world, _ *azservicebus.Client, _ *azservicebus.SessionReceiver) {
			w.hub.Isolate("worker-1")
			w.event("session-released", "")
		}, []string{"a/1 1", "a/2 1"}},
		{"lock ran out", func(w *world, _ *azservicebus.Client, _ *azservicebus.SessionReceiver) { time.Sleep(time.Minute) }, []string{"a/1 2", "a/2 1"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.sendSteps("a/1", "a/2")
				c := w.client("worker-1")
				r := w.accept(c, "a")
				w.receive(r)
				row.end(w, c, r)
				next := w.accept(w.client("worker-2"), "a")
				var got []string
				for range row.want {
					m := w.receive(next)
					got = append(got, fmt.Sprint(m.MessageID, " ", m.DeliveryCount))
					w.must(next.CompleteMessage(w.ctx, m, nil))
				}
				if !slices.Equal(got, row.want) {
					t.Errorf("the next receiver saw %q, want %q", got, row.want)
				}
			})
		})
	}
}

func TestASessionLockThatIsRenewedLasts(t *testing.T) { // B12
	inBubble(t, func(t *testing.T, w *world) {
		w.sendSteps("a/1")
		r := w.accept(w.client("worker-1"), "a")
		m := w.receive(r)
		for range 5 {
			time.Sleep(45 * time.Second)
			w.must(r.RenewSessionLock(w.ctx, nil))
			if want := w.hub.Now().Add(time.Minute); !r.LockedUntil().Equal(want) {
				t.Errorf("renewed until %v, want %v", r.LockedUntil(), want)
			}
			if n := w.count("session-lock-expired", ""); n != 0 { // the SDK would take the session again by itself
				t.Fatal("the lock ended all the same")
			}
		}
		w.must(r.CompleteMessage(w.ctx, m, nil))
	})
}

func TestAMessageWhoseSessionLockIsLostIsNotSettled(t *testing.T) { // B2, B12
	inBubble(t, func(t *testing.T, w *world) {
		w.sendSteps("a/1")
		r := w.accept(w.client("worker-1"), "a")
		m := w.receive(r)
		time.Sleep(time.Minute)
		other := w.accept(w.client("worker-2"), "a")
		if err := r.CompleteMessage(w.ctx, m, nil); err == nil {
			t.Error("a message of a lost session was completed")
		}
		if m := w.receive(other); m.DeliveryCount != 2 {
			t.Errorf("delivery %d, want 2", m.DeliveryCount)
		}
	})
}

func TestTheNextSessionIsWaitedForAsLongAsTheClientSays(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		start := time.Now()
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
		defer cancel()
		if _, err := c.AcceptNextSessionForQueue(ctx, "steps", nil); err == nil {
			t.Fatal("accepted a session that is not there")
		}
		if waited := time.Since(start); waited < 9*time.Second || waited > 10*time.Second { // the SDK takes a little off
			t.Errorf("waited %v, want 10s or a little less", waited)
		}
		// Somebody who waits gets the session as soon as it has a message.
		got := make(chan *azservicebus.SessionReceiver, 1)
		go func() {
			r, err := c.AcceptNextSessionForQueue(w.ctx, "steps", nil)
			if err != nil {
				t.Errorf("accept: %v", err)
			}
			got <- r
		}()
		time.Sleep(30 * time.Second)
		start = time.Now()
		w.sendSteps("a/1")
		if r := <-got; r == nil || r.SessionID() != "a" || time.Since(start) > 0 {
			t.Errorf("got %v after %v", r, time.Since(start))
		}
	})
}

// A client that has given up gets nothing any more, and the session goes to the next who asks.
func TestASessionIsNeverGrantedToAClientThatGaveUp(t *testing.T) { // B11
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		p.authorize()
		s := p.session()
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		_, err := s.NewReceiver(ctx, "steps", &amqp.ReceiverOptions{
			Filters: []amqp.LinkFilter{amqp.NewLinkFilter("com.microsoft:session-filter", 0x000000137000000C, nil)},
		})
		if err == nil {
			t.Fatal("attached to a session that is not there")
		}
		w.must(s.Close(w.ctx))
		w.sendSteps("a/1")
		r := w.acceptNext(w.client("worker-1"))
		if m := w.receive(r); m.DeliveryCount != 1 {
			t.Errorf("delivery %d, want 1", m.DeliveryCount)
		}
		_, err = p.session().NewSender(w.ctx, "tasks", nil) // the connection lives
		w.must(err)
	})
}

func TestTheSessionFilterIsEchoedInItsForm(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		p.authorize()
		r, err := p.session().NewReceiver(w.ctx, "steps", &amqp.ReceiverOptions{
			Filters: []amqp.LinkFilter{amqp.NewLinkFilter("com.microsoft:session-filter", 0x000000137000000C, "a")},
		})
		w.must(err)
		if got := r.LinkSourceFilterValue("com.microsoft:session-filter"); got != "a" {
			t.Errorf("the filter came back as %v", got)
		}
		want := (w.hub.Now().Add(time.Minute).Unix() + 62135596800) * 10_000_000
		if got := r.Properties()["com.microsoft:locked-until-utc"]; got != want {
			t.Errorf("locked until %v ticks, want %d", got, want)
		}
	})
}

func TestSessionsAndOtherReceiversDoNotMix(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		_, err := w.receiver(c, "steps").ReceiveMessages(w.ctx, 1, nil)
		w.wantCondition(err, amqp.ErrCondNotAllowed, "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.")
		_, err = c.AcceptSessionForQueue(w.ctx, "tasks", "a", nil)
		w.wantCondition(err, amqp.ErrCondNotAllowed, "does not require sessions")
		_, err = c.AcceptSessionForQueue(w.ctx, "steps/$DeadLetterQueue", "a", nil)
		w.wantCondition(err, amqp.ErrCondNotAllowed, "does not require sessions")
	})
}

func TestAMessageWithoutASessionIsRefusedWithItsWholeBatch(t *testing.T) { // B6
	inBubble(t, func(t *testing.T, w *world) {
		s := w.sender(w.client("sender"), "steps")
		w.wantCondition(s.SendMessage(w.ctx, message("a"), nil), amqp.ErrCondNotAllowed, "The SessionId was not set on a message")
		batch, err := s.NewMessageBatch(w.ctx, nil)
		w.must(err)
		w.must(batch.AddMessage(step("a/1", "a"), nil))
		w.must(batch.AddMessage(message("b"), nil))
		w.wantCondition(s.SendMessageBatch(w.ctx, batch, nil), amqp.ErrCondNotAllowed, "The SessionId was not set on a message")
		_, err = s.ScheduleMessages(w.ctx, []*azservicebus.Message{step("a/1", "a"), message("b")}, time.Now().Add(time.Hour), nil)
		if err == nil {
			t.Error("scheduled a message without a session")
		}
		for _, e := range w.hub.Events(0) {
			if e.Kind == "enqueued" || e.Kind == "scheduled" {
				t.Errorf("%s %s", e.Kind, e.Key)
			}
		}
	})
}

func TestABlankSessionIsASession(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := w.sender(w.client("sender"), "steps")
		w.must(s.SendMessage(w.ctx, step("a", ""), nil))
		r := w.acceptNext(w.client("worker-1"))
		if r.SessionID() != "" {
			t.Errorf("session %q", r.SessionID())
		}
		w.must(r.CompleteMessage(w.ctx, w.receive(r), nil))
	})
}

func TestTheDeadLettersOfSessionsHaveNone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.sendSteps("a/1", "a/2")
		c := w.client("worker-1")
		r := w.accept(c, "a")
		w.must(r.DeadLetterMessage(w.ctx, w.receive(r), nil))
		for range 2 {
			w.must(r.AbandonMessage(w.ctx, w.receive(r), nil))
		}
		dead := w.deadLetters(c, "steps")
		for _, want := range []string{"a/1", "a/2"} {
			if m := w.receive(dead); m.MessageID != want || *m.SessionID != "a" {
				t.Errorf("dead letter %s of session %v, want %s", m.MessageID, m.SessionID, want)
			}
		}
	})
}

func TestAnEmptySessionStateIsNone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		r := w.accept(c, "a")
		want := func(r *azservicebus.SessionReceiver, state string) {
			t.Helper()
			got, err := r.GetSessionState(w.ctx, nil)
			w.must(err)
			if string(got) != state || (got == nil) != (state == "") {
				t.Errorf("state %q, want %q", got, state)
			}
		}
		want(r, "")
		w.must(r.SetSessionState(w.ctx, []byte("half way"), nil))
		w.must(r.Close(w.ctx))
		r = w.accept(c, "a")
		want(r, "half way")
		w.must(r.SetSessionState(w.ctx, nil, nil))
		want(r, "")
	})
}

func TestSessionsAreListedByTheirMessagesOrTheirState(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.sendSteps("with-message/1", "gone/1")
		c := w.client("worker-1")
		r := w.accept(c, "gone")
		w.must(r.CompleteMessage(w.ctx, w.receive(r), nil))
		w.must(r.Close(w.ctx))
		r = w.accept(c, "with-state")
		w.must(r.SetSessionState(w.ctx, []byte("x"), nil))
		w.must(r.Close(w.ctx))
		list := func(o *azservicebus.ListSessionsOptions) (all []string) {
			for p := c.NewListSessionsForQueuePager("steps", o); p.More(); {
				page, err := p.NextPage(w.ctx)
				w.must(err)
				all = append(all, page.Sessions...)
			}
			return all
		}
		if got := list(nil); !slices.Equal(got, []string{"with-message", "with-state"}) {
			t.Errorf("sessions %q", got)
		}
		before, after := w.hub.Now().Add(-time.Hour), w.hub.Now().Add(time.Hour)
		if got := list(&azservicebus.ListSessionsOptions{SessionStateUpdatedAfter: &before}); !slices.Equal(got, []string{"with-state"}) {
			t.Errorf("sessions with a newer state %q", got)
		}
		if got := list(&azservicebus.ListSessionsOptions{SessionStateUpdatedAfter: &after}); got != nil {
			t.Errorf("sessions with a newer state %q", got)
		}
	})
}

// What has been waiting longest comes next, so that one busy session does not keep the others out.
func TestSessionsTakeTurns(t *testing.T) { // B11
	inBubble(t, func(t *testing.T, w *world) {
		w.sendSteps("a/1", "a/2", "b/1", "c/1", "b/2")
		c := w.client("worker-1")
		var got []string
		for range 5 {
			r := w.acceptNext(c)
			m := w.receive(r)
			got = append(got, m.MessageID)
			w.must(r.CompleteMessage(w.ctx, m, nil))
			w.must(r.Close(w.ctx))
		}
		if want := []string{"a/1", "b/1", "c/1", "a/2", "b/2"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
