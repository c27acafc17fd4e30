package servicebus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
)

const inventory = "reservations/subscriptions/inventory"

// sessions is a receiver of the subscription that may require sessions.
func (w *world) sessions(slots int) Receiver {
	return Receiver{Client: w.client, Topic: "reservations", Subscription: "inventory", Sessions: true, Slots: slots, LockDuration: lock, Grace: 10 * time.Second}
}

// sendTo sends messages of a session, in their order.
func (w *world) sendTo(session string, ids ...string) {
	w.t.Helper()
	s, err := w.client.Sender("reservations")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, id := range ids {
		m := task(id)
		m.Session = session
		if err := s.Send(w.t.Context(), m); err != nil {
			w.t.Fatal(err)
		}
	}
}

// journal is what a handler was given, in order.
type journal struct {
	mu        sync.Mutex
	given     []string
	now, most int
}

func (j *journal) begin(id string) (end func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.given = append(j.given, id)
	j.now++
	j.most = max(j.most, j.now)
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.now--
	}
}

// peak is how many were worked on at once since it was last asked.
func (j *journal) peak() (most int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	most, j.most = j.most, j.now
	return most
}

// of is what was given of one session, whose messages begin with its name.
func (j *journal) of(session string) (ids []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range j.given {
		if strings.HasPrefix(id, session) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (j *journal) want(t *testing.T, session string, ids ...string) {
	t.Helper()
	if got := j.of(session); !slices.Equal(got, ids) {
		t.Errorf("of session %s came %v, want %v", session, got, ids)
	}
}

func numbered(session string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(session, i+1))
	}
	return ids
}

func TestEachSessionIsWorkedOnMessageByMessageAndSoManyAtOnce(t *testing.T) { // S1 S11
	inBubble(t, func(t *testing.T, w *world) {
		var j journal
		stop := w.run(w.sessions(3), func(_ context.Context, d message.Delivery) message.Settlement {
			defer j.begin(d.MessageID)()
			time.Sleep(time.Second) // whatever may run at once does
			return message.Done()
		})
		defer stop()
		sessions := []string{"a", "b", "c", "d", "e"}
		for i := range 4 {
			for _, s := range sessions {
				w.sendTo(s, numbered(s, 4)[i])
			}
		}
		for _, s := range sessions {
			w.settled(s + "4")
		}
		stop()
		if n := j.peak(); n != 3 {
			t.Errorf("%d messages at once, want 3", n)
		}
		for _, s := range sessions {
			j.want(t, s, numbered(s, 4)...)
		}
		held, locked := 0, 0
		for _, e := range w.hub.Events(0) {
			switch e.Kind {
			case "session-locked":
				held++
				locked = max(locked, held)
			case "session-released", "session-lock-expired":
				held--
			}
		}
		if locked != 3 || held != 0 {
			t.Errorf("%d sessions were held at once and %d in the end, want 3 and 0", locked, held)
		}
		w.logged("level=INFO", "msg=receiving", `way="session by session"`)
		w.loggedTimes(0, "level=WARN")
	})
}

func TestASessionIsGivenBackWhenItIsEmpty(t *testing.T) { // S11
	inBubble(t, func(t *testing.T, w *world) {
		stop := w.run(w.sessions(1), func(context.Context, message.Delivery) message.Settlement { return message.Done() })
		defer stop()
		w.sendTo("a", "a1")
		w.settled("a1")
		began := time.Now()
		w.sendTo("b", "b1")
		w.settled("b1")
		if took := time.Since(began); took > 2*sessionIdle {
			t.Errorf("an empty session kept the slot for %v", took)
		}
		time.Sleep(20 * time.Minute) // the sender's link is idle by then, and the connection has none
		stop()
		if n := w.count("session-released", nil); n != 2 {
			t.Errorf("%d sessions were given back, want 2", n)
		}
		w.loggedTimes(0, "level=WARN") // that nothing comes is no trouble
	})
}

// A session that is never empty does not keep the others waiting.
func TestASessionHasItsTurnAndNoMore(t *testing.T) { // S11
	inBubble(t, func(t *testing.T, w *world) {
		var j journal
		w.sendTo("hot", numbered("hot", 60)...)
		w.sendTo("cold", "cold1")
		began := time.Now()
		stop := w.run(w.sessions(1), func(_ context.Context, d message.Delivery) message.Settlement {
			defer j.begin(d.MessageID)()
			time.Sleep(2 * time.Second)
			return message.Done()
		})
		defer stop()
		w.settled("cold1")
		if took := time.Since(began); took > sessionTurn+10*time.Second {
			t.Errorf("a session waited for %v behind another", took)
		}
		w.settled("hot60")
		j.want(t, "hot", numbered("hot", 60)...)
	})
}

func TestASessionsLockIsRenewedWhileItsMessageIsWorkedOn(t *testing.T) { // S2 S11
	inBubble(t, func(t *testing.T, w *world) {
		// One renewal may come to nothing.
		w.arm(control.Rule{Match: control.Match{Operation: "renew-session-lock"}, Do: "answer", Status: 500, Nth: 2})
		stop := w.run(w.sessions(1), func(context.Context, message.Delivery) message.Settlement {
			time.Sleep(time.Hour)
			return message.Done()
		})
		defer stop()
		w.sendTo("a", "a1")
		if e := w.settled("a1"); e.Delivery != 1 || e.Disposition != "completed" {
			t.Errorf("settled: %+v", e)
		}
		w.loggedTimes(0, "session lost")
	})
}

// The handler goes on when its session is lost. Its message comes again, before
// those behind it, and to whoever has the session then.
func TestALostSessionBeginsAgainWithTheMessageInHand(t *testing.T) { // S2 S3 S11
	inBubble(t, func(t *testing.T, w *world) {
		var j journal
		var cancelled atomic.Bool
		w.arm(control.Rule{Match: control.Match{Operation: "renew-session-lock", Client: "worker-1"}, Do: "lose-lock", Nth: 1})
		handle := func(ctx context.Context, d message.Delivery) message.Settlement {
			defer j.begin(d.MessageID)()
			if d.MessageID == "a1" && d.Count == 1 {
				time.Sleep(lock)
				cancelled.Store(ctx.Err() != nil)
			}
			if d.MessageID == "a2" {
				time.Sleep(lock)
			}
			return message.Done()
		}
		w.sendTo("a", "a1", "a2")
		stop := w.run(w.sessions(1), handle)
		defer stop()
		w.await("delivered", "a1", 0)
		other := w.sessions(1)
		other.Client = w.dial("worker-2")
		defer func() { _ = other.Client.Close(context.Background()) }()
		stopOther := w.run(other, handle)
		defer stopOther()
		w.settled("a2")
		j.want(t, "a", "a1", "a1", "a2")
		if e := w.settled("a1"); e.Delivery != 2 || e.Client != "worker-2" {
			t.Errorf("settled: %+v", e)
		}
		if cancelled.Load() {
			t.Error("the handler was disturbed")
		}
		w.logged("level=WARN", "session lost", "session=a")
		w.logged("level=WARN", "not settled", "message=a1", "session=a", "the lock is lost")
	})
}

// While a message waits to be tried again, nothing of its session overtakes it.
func TestAMessageThatIsHeldHoldsItsSession(t *testing.T) { // S11
	inBubble(t, func(t *testing.T, w *world) {
		var j journal
		w.sendTo("a", "a1", "a2")
		stop := w.run(w.sessions(1), func(_ context.Context, d message.Delivery) message.Settlement {
			defer j.begin(d.MessageID)()
			if d.MessageID == "a1" && d.Count < 3 {
				return message.Later(9 * time.Minute)
			}
			return message.Done()
		})
		defer stop()
		w.settled("a2")
		j.want(t, "a", "a1", "a1", "a1", "a2")
		if n := w.count("session-lock-expired", nil); n != 0 {
			t.Errorf("%d sessions expired", n)
		}
	})
}

// A message that waits in a session which another process has by now is not waited for:
// it is worked on there, and the slot is needed here.
func TestAMessageThatIsHeldIsLetGoWithItsSession(t *testing.T) { // S11
	inBubble(t, func(t *testing.T, w *world) {
		w.arm(control.Rule{Match: control.Match{Operation: "renew-session-lock", Client: "worker-1"}, Do: "lose-lock", Nth: 1})
		handle := func(_ context.Context, d message.Delivery) message.Settlement {
			switch {
			case d.MessageID == "a1" && d.Count == 1:
				return message.Later(9 * time.Minute)
			case d.MessageID == "a1":
				time.Sleep(8 * time.Minute)
			}
			return message.Done()
		}
		w.sendTo("a", "a1")
		stop := w.run(w.sessions(1), handle)
		defer stop()
		w.await("delivered", "a1", 0)
		other := w.sessions(1)
		other.Client = w.dial("worker-2")
		defer func() { _ = other.Client.Close(context.Background()) }()
		stopOther := w.run(other, handle)
		defer stopOther()
		time.Sleep(lock)
		w.sendTo("b", "b1")
		began := time.Now()
		if e := w.settled("b1"); e.Client != "worker-1" || time.Since(began) > soon {
			t.Errorf("settled after %v: %+v", time.Since(began), e)
		}
	})
}
