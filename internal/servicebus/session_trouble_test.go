package servicebus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
)

// A settlement that failed, in whatever way, lets nothing of the session overtake.
func TestAMessageThatWasNotSettledComesAgainFirst(t *testing.T) { // S3 S11
	for name, rule := range map[string]control.Rule{
		"refused":              {Do: "answer", Condition: "com.microsoft:server-busy"},
		"without an answer":    {Do: "silence"},
		"its link detached":    {Do: "detach", Condition: "amqp:link:detach-forced"},
		"its connection cut":   {Do: "drop"},
		"its answer lost":      {Do: "drop", When: "after"},
		"its session lost":     {Do: "lose-lock"},
		"its connection ended": {Do: "close", Condition: "amqp:connection:forced"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var j journal
				rule.Match = control.Match{Operation: "complete", Key: "a1"}
				rule.Nth = 1
				w.arm(rule)
				w.sendTo("a", "a1", "a2", "a3")
				stop := w.run(w.sessions(2), func(_ context.Context, d message.Delivery) message.Settlement {
					defer j.begin(d.MessageID)()
					return message.Done()
				})
				defer stop()
				w.settled("a3")
				if rule.When == "after" {
					j.want(t, "a", "a1", "a2", "a3")
				} else {
					j.want(t, "a", "a1", "a1", "a2", "a3")
				}
			})
		})
	}
}

// A handler that does not decide is a mistake, and no reason to run it without end.
func TestWhatIsLeftToItsLockKeepsItsSession(t *testing.T) { // S11
	inBubble(t, func(t *testing.T, w *world) {
		var given atomic.Int32
		stop := w.run(w.sessions(1), func(context.Context, message.Delivery) message.Settlement {
			given.Add(1)
			return message.Settlement{}
		})
		defer stop()
		w.sendTo("a", "a1")
		time.Sleep(time.Hour)
		if n := given.Load(); n < 2 || n > 13 {
			t.Errorf("given %d times in an hour, want once in every lock of %v", n, lock)
		}
	})
}

func TestReceivingBySessionSurvivesTenMinutesOf(t *testing.T) { // S6 S8 S11
	refusing := func(do, condition string) func(*world) (end func()) {
		return func(w *world) func() {
			rule := w.arm(control.Rule{Do: do, Condition: condition, Match: control.Match{Client: "worker-1", Operation: "attach", Entity: inventory}})
			w.cutAll()
			return func() {
				if err := w.hub.Disarm(rule); err != nil {
					w.t.Error(err)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		begin  func(*world) (end func())
		remedy string
	}{
		"an entity that is disabled":  {refusing("answer", "com.microsoft:entity-disabled"), "enable the entity again"},
		"an entity that is not there": {refusing("answer", "amqp:not-found"), "create the queue"},
		"refusals of either kind":     {refusing("answer", "amqp:not-allowed"), "grant this identity"},
		"a busy broker":               {refusing("answer", "com.microsoft:server-busy"), "none needed"},
		"an attach without reply":     {refusing("silence", ""), "none needed"},
		"no connection": {func(w *world) func() {
			w.unreachable()
			return w.reachable
		}, "none needed"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := w.sessions(2)
				r.Client = w.dial("worker-1")
				defer func() { _ = r.Client.Close(context.Background()) }()
				w.client = w.dial("sender")
				defer func() { _ = w.client.Close(context.Background()) }()
				stop := w.run(r, func(context.Context, message.Delivery) message.Settlement { return message.Done() })
				defer stop()
				w.sendTo("a", "before")
				w.settled("before")
				synctest.Wait()
				end := c.begin(w)
				sent := []string{"after"}
				if !w.away {
					w.sendTo("a", "meanwhile")
					sent = append(sent, "meanwhile")
				}
				time.Sleep(10 * time.Minute)
				ended := time.Now()
				end()
				w.sendTo("a", "after")
				for _, id := range sent {
					if e := w.settled(id); e.Delivery != 1 {
						t.Errorf("%s was delivered %d times", id, e.Delivery)
					}
				}
				if took := time.Since(ended); took > soon {
					t.Errorf("received again after %v, want at most %v", took, soon)
				}
				stop()
				w.logged("level=WARN", `msg="not receiving"`, "entity="+inventory, c.remedy)
				w.loggedTimes(1, "level=INFO", `msg="receiving again"`, `way="session by session"`)
			})
		})
	}
}

// The connection breaks while messages are worked on. Each comes again, first.
func TestSessionsSurviveTheLossOfTheirConnection(t *testing.T) { // S6 S11
	inBubble(t, func(t *testing.T, w *world) {
		var j journal
		r := w.sessions(2)
		r.Client = w.dial("worker-1")
		defer func() { _ = r.Client.Close(context.Background()) }()
		w.sendTo("a", numbered("a", 5)...)
		w.sendTo("b", numbered("b", 5)...)
		stop := w.run(r, func(_ context.Context, d message.Delivery) message.Settlement {
			defer j.begin(d.MessageID)()
			time.Sleep(time.Second)
			if d.MessageID == "a3" && d.Count == 1 && len(j.of("a")) == 3 {
				w.cutAll()
			}
			return message.Done()
		})
		defer stop()
		w.settled("a5")
		w.settled("b5")
		for _, s := range []string{"a", "b"} {
			if got := slices.Compact(j.of(s)); !slices.Equal(got, numbered(s, 5)) {
				t.Errorf("of session %s came %v", s, j.of(s))
			}
		}
		j.want(t, "a", "a1", "a2", "a3", "a3", "a4", "a5")
	})
}

func TestTheEndOfReceivingBySessionIsBounded(t *testing.T) { // S5 S11
	for name, c := range map[string]struct {
		works  time.Duration
		within time.Duration
		ends   string
	}{
		"with nothing to do":                 {0, time.Second, ""},
		"while a handler works":              {5 * time.Second, 6 * time.Second, "completed"},
		"while a handler works without end":  {time.Hour, 11 * time.Second, "abandoned"},
		"while a message waits for its time": {-1, time.Second, "abandoned"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				stop := w.run(w.sessions(2), func(ctx context.Context, _ message.Delivery) message.Settlement {
					if c.works < 0 {
						return message.Later(9 * time.Minute)
					}
					if message.Pause(ctx, c.works) != nil {
						if !errors.Is(context.Cause(ctx), ErrStopping) {
							t.Errorf("cancelled by %v", context.Cause(ctx))
						}
						return message.Retry()
					}
					return message.Done()
				})
				if c.ends != "" {
					w.sendTo("a", "a1")
					w.await("delivered", "a1", 0)
				}
				synctest.Wait()
				began := time.Now()
				stop()
				if took := time.Since(began); took > c.within {
					t.Errorf("the end took %v, want at most %v", took, c.within)
				}
				if c.ends != "" {
					if e := w.settled("a1"); e.Disposition != c.ends {
						t.Errorf("settled: %+v", e)
					}
					w.await("session-released", "", 0)
				}
			})
		})
	}
}

// Which kind a subscription is, is found out, and again when it is made anew.
func TestWhetherASubscriptionRequiresSessionsIsFoundOut(t *testing.T) { // S11
	inBubble(t, func(t *testing.T, w *world) {
		stop := w.run(w.sessions(1), func(context.Context, message.Delivery) message.Settlement { return message.Done() })
		defer stop()
		for i, way := range []string{"session by session", "message by message", "session by session"} {
			if i > 0 {
				w.unreachable()
				if err := w.server.Close(); err != nil {
					t.Fatal(err)
				}
				w.plain = !w.plain
				w.serve()
			}
			id := fmt.Sprint("a", i)
			began := time.Now()
			w.sendTo("a", id)
			w.settled(id)
			if took := time.Since(began); took > soon {
				t.Errorf("%s: after %v", way, took)
			}
			w.logged("level=INFO", `way="`+way+`"`)
		}
		w.loggedTimes(0, "level=ERROR")
	})
}

// The lock that is observed is the session's: what is told of it bounds it from
// above, and never says less than it lasts.
func TestASessionsLockIsNotTakenForAShorterOne(t *testing.T) { // S11
	inBubble(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		seen := map[string]message.Delivery{}
		stop := w.run(w.sessions(1), func(_ context.Context, d message.Delivery) message.Settlement {
			mu.Lock()
			defer mu.Unlock()
			seen[d.MessageID] = d
			if drift := w.hub.Now().Sub(d.BrokerNow()); drift < 0 || drift > time.Second {
				t.Errorf("%s: the broker's time is taken to be %v off", d.MessageID, drift)
			}
			time.Sleep(10 * time.Second)
			return message.Done()
		})
		defer stop()
		w.sendTo("a", "a1")
		w.await("delivered", "a1", 0)
		time.Sleep(5 * time.Second)
		w.sendTo("a", "a2")
		w.settled("a2")
		if got := seen["a1"].LockAtMost; got < lock || got > lock+time.Second {
			t.Errorf("the first message says at most %v, the lock lasts %v", got, lock)
		}
		if got := seen["a2"].LockAtMost; got != 0 {
			t.Errorf("the second message says at most %v, and knows nothing", got)
		}
	})
}
