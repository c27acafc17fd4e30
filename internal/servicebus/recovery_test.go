package servicebus

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
)

// soon is within what time a message that waits is delivered once the broker
// answers again (S8).
const soon = standTimeout + longestPause

// issuer gives tokens, or none.
type issuer struct{ refuses atomic.Bool }

func (i *issuer) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if i.refuses.Load() {
		return azcore.AccessToken{}, errors.New("the identity endpoint is away")
	}
	return azcore.AccessToken{Token: "a.b.c", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// Each trouble lasts for an hour. The receiver is told nothing of its end.
func TestReceivingSurvivesAnHourOf(t *testing.T) { // S6, S8
	refusing := func(operation, do, condition string) func(*world, *issuer) (end func()) {
		return func(w *world, _ *issuer) func() {
			rule := w.arm(control.Rule{Do: do, Condition: condition, Match: control.Match{Client: "worker-1", Operation: operation}})
			w.cutAll()
			return func() {
				if err := w.hub.Disarm(rule); err != nil {
					w.t.Error(err)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		begin  func(*world, *issuer) (end func())
		remedy string
	}{
		"a token that is refused":       {refusing("put-token", "answer", "amqp:unauthorized-access"), "grant this identity the right to listen"},
		"a token request without reply": {refusing("put-token", "silence", ""), "none needed"},
		"an entity that is disabled":    {refusing("attach", "answer", "com.microsoft:entity-disabled"), "enable the entity again"},
		"an entity that is not there":   {refusing("attach", "answer", "amqp:not-found"), "create the queue"},
		"a busy broker":                 {refusing("attach", "answer", "com.microsoft:server-busy"), "none needed"},
		"an attach without reply":       {refusing("attach", "silence", ""), "none needed"},
		"an identity without tokens": {func(w *world, i *issuer) func() {
			i.refuses.Store(true)
			w.cutAll()
			return func() { i.refuses.Store(false) }
		}, "an identity that Entra ID has a token for"},
		"no connection": {func(w *world, _ *issuer) func() {
			w.unreachable()
			return w.reachable
		}, "none needed"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				identity := &issuer{}
				w.client = w.dial("sender")
				defer func() { _ = w.client.Close(context.Background()) }()
				worker := w.dialAs(Options{Namespace: "localhost", Credential: identity, ApplicationID: "worker-1"})
				defer func() { _ = worker.Close(context.Background()) }()
				r := w.receiver()
				r.Client = worker
				stop := w.run(r, func(context.Context, message.Delivery) message.Settlement { return message.Done() })
				defer stop()
				w.send("tasks", "before")
				w.settled("before")
				synctest.Wait()
				end := c.begin(w, identity)
				sent := []string{"after"}
				if !w.away {
					w.send("tasks", "meanwhile")
					sent = append(sent, "meanwhile")
				}
				time.Sleep(time.Hour)
				ended := time.Now()
				end()
				w.send("tasks", "after")
				for _, id := range sent {
					if e := w.settled(id); e.Delivery != 1 {
						t.Errorf("%s was delivered %d times", id, e.Delivery)
					}
				}
				if took := time.Since(ended); took > soon {
					t.Errorf("received again after %v, want at most %v", took, soon)
				}
				stop()
				w.loggedTimes(1, "level=WARN", `msg="not receiving"`)
				w.logged("level=WARN", `msg="not receiving"`, "entity=tasks", c.remedy)
				w.loggedTimes(1, "level=INFO", "msg=receiving", "entity=tasks")
				w.loggedTimes(1, "level=INFO", `msg="receiving again"`, "after=1h")
			})
		})
	}
}

// The server ends and another begins on its folder. A message in hand is settled
// by its lock token if its lock still stands, and comes again otherwise.
func TestReceivingSurvivesARestartOfTheServer(t *testing.T) { // S6, S8
	for name, c := range map[string]struct {
		away       time.Duration
		deliveries int
	}{
		"within a lock":        {time.Minute, 1},
		"of longer than locks": {time.Hour, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleOn(t, t.TempDir(), func(t *testing.T, w *world) {
				started, goOn := make(chan struct{}, 2), make(chan struct{})
				r := w.receiver()
				r.Slots = 2
				stop := w.run(r, func(_ context.Context, d message.Delivery) message.Settlement {
					if d.MessageID == "in-hand" && d.Count == 1 {
						started <- struct{}{}
						<-goOn
					}
					return message.Done()
				})
				defer stop()
				w.send("tasks", "in-hand")
				<-started
				synctest.Wait()
				w.unreachable()
				if err := w.server.Close(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(c.away)
				w.serve()
				began := time.Now()
				w.send("tasks", "next")
				w.settled("next")
				if took := time.Since(began); took > soon {
					t.Errorf("received again after %v, want at most %v", took, soon)
				}
				close(goOn)
				if e := w.settled("in-hand"); e.Delivery != c.deliveries || e.Disposition != "completed" {
					t.Errorf("settled: %+v", e)
				}
				stop()
				w.loggedTimes(1, "level=WARN", `msg="not receiving"`)
				w.loggedTimes(1, `msg="receiving again"`)
			})
		})
	}
}

// What is sent into a deaf link is held until the link is replaced, or until its
// lock ends where the broker counts it as delivered; nothing else is.
func TestADeafLinkHoldsAMessageForNoLongerThanItsBound(t *testing.T) { // S8
	for when, c := range map[string]struct {
		bound      time.Duration
		deliveries int
	}{
		"before": {DefaultSilence + soon, 1},
		"after":  {lock + soon, 2},
	} {
		t.Run(when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement { return message.Done() })
				defer stop()
				synctest.Wait()
				w.arm(control.Rule{Do: "silence", When: when, Match: control.Match{Operation: "deliver"}, Times: 1})
				w.send("tasks", "swallowed")
				sent := time.Now()
				if e := w.settled("swallowed"); e.Delivery != c.deliveries || time.Since(sent) > c.bound {
					t.Errorf("settled: %+v after %v", e, time.Since(sent))
				}
				stop()
				w.loggedTimes(0, "level=WARN")
			})
		})
	}
}

// Nothing to do for a day: links are replaced and tokens renewed, and an operator
// reads nothing of it.
func TestAnIdleDayIsQuietAndCheap(t *testing.T) { // S8
	inBubble(t, func(t *testing.T, w *world) {
		stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement { return message.Done() })
		defer stop()
		w.send("tasks", "before")
		w.settled("before")
		synctest.Wait()
		links, goroutines, last := w.lines("silent link replaced"), runtime.NumGoroutine(), w.hub.Last()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		// Each link lives for three quarters of Silence at least.
		if replaced := w.lines("silent link replaced") - links; replaced < 24*6 || replaced > 24*8 {
			t.Errorf("%d links were replaced in a day, want one in %v to %v", replaced, DefaultSilence*3/4, DefaultSilence)
		}
		if n := runtime.NumGoroutine(); n > goroutines+8 {
			t.Errorf("%d goroutines after the day, %d before", n, goroutines)
		}
		for _, e := range w.hub.Events(last) {
			if e.Kind != "attached" && e.Kind != "detached" {
				t.Errorf("on an idle day: %+v", e)
			}
		}
		if n := w.connections(); n != 1 {
			t.Errorf("%d connections, want the one", n)
		}
		began := time.Now()
		w.send("tasks", "after")
		if w.settled("after"); time.Since(began) > time.Second {
			t.Errorf("after the day a task took %v", time.Since(began))
		}
		stop()
		w.loggedTimes(0, "level=WARN")
		w.loggedTimes(1, "level=INFO") // receiving
		w.loggedTimes(2, "level=DEBUG", "msg=settled")
	})
}
