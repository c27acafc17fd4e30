package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/claim"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

// bench is a worker on a real claim store, with a handler and a topic that are
// the test's.
type bench struct {
	*Worker
	t      *testing.T
	hub    *control.Hub
	server *emulator.Server

	declared  message.Declaration
	answer    func(ctx context.Context, c message.Call) message.Outcome
	calls     []message.Call
	published []message.Message
}

func (b *bench) Declaration() message.Declaration { return b.declared }

func (b *bench) Call(ctx context.Context, c message.Call) message.Outcome {
	b.calls = append(b.calls, c)
	return b.answer(ctx, c)
}

// endpoints numbers the accounts, since clients of one process share what they
// know of an endpoint, and bubbles must not share anything.
var endpoints atomic.Int64

const storeTimeout = 10 * time.Second

// inBubble gives a test a worker whose handler is keyed and succeeds, until the
// test says otherwise.
func inBubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub := control.New()
		server := emulator.New(hub, emulator.Options{})
		defer func() {
			hub.Close()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}()
		b := &bench{
			t: t, hub: hub, server: server,
			declared: message.Declaration{
				Type: "t", Keyed: true, KeyWindow: 24 * time.Hour, Timeout: 20 * time.Second,
				Attempts: 8, BackoffMin: 2 * time.Second, BackoffMax: 5 * time.Minute,
			},
			answer: func(context.Context, message.Call) message.Outcome {
				return message.Outcome{Effect: message.EffectApplied, Ref: "/c/1"}
			},
		}
		if err := b.open("setup").Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.Worker = b.another("worker-1")
		test(t, b)
	})
}

// open makes a client of the store, known to rules and events by name.
func (b *bench) open(name string) *cosmos.Database {
	b.t.Helper()
	db, err := cosmos.Open(cosmos.Options{
		Endpoint: fmt.Sprintf("http://worker-%d.test/", endpoints.Add(1)), Key: emulator.EmulatorKey,
		ApplicationID: name, Transport: b.server.Transport(), Timeout: storeTimeout,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(db.Close)
	return db
}

// another is the worker of a process of its own.
func (b *bench) another(name string) *Worker {
	b.t.Helper()
	return &Worker{
		Claims: &claim.Desk{
			Store: b.open(name).Claims(), Process: name + "/" + claim.Nonce(), Timeout: storeTimeout,
			Terms: claim.Terms{Lease: 5 * time.Minute, OwnerMargin: 10 * time.Second, ChallengerMargin: 5 * time.Second, MaxAttempts: 8, Keep: 30 * 24 * time.Hour},
		},
		Handlers: map[string]message.Handler{"t": b},
		Publish: func(_ context.Context, m message.Message) error {
			b.published = append(b.published, m)
			return nil
		},
		BusyWait: 20 * time.Second, PublishTimeout: 30 * time.Second, SettleTimeout: 10 * time.Second, KeyMargin: 15 * time.Minute,
		Log: slog.New(slog.DiscardHandler),
	}
}

// keyless makes the handler one whose downstream honours no key.
func (b *bench) keyless() { b.declared.Keyed, b.declared.KeyWindow, b.declared.Attempts = false, 0, 1 }

// deliver hands the task to the worker, as the count-th delivery.
func (b *bench) deliver(ctx context.Context, count int) message.Settlement {
	b.t.Helper()
	task := message.Task{
		ExecutionID: "82f3", Run: 1, Type: "t", Payload: jsontext.Value(`{}`),
		Deadline: time.Now().Add(24 * time.Hour), NotAfter: time.Now().Add(21 * 24 * time.Hour),
	}
	return b.deliverTask(ctx, task, count)
}

func (b *bench) deliverTask(ctx context.Context, task message.Task, count int) message.Settlement {
	b.t.Helper()
	return b.Handle(ctx, b.delivery(task, count))
}

// deliverCopy hands the task to the worker as the copy that a settlement has made of it.
func (b *bench) deliverCopy(ctx context.Context, task message.Task, of message.Settlement) message.Settlement {
	b.t.Helper()
	d := b.delivery(task, 1)
	d.InVain = of.InVain
	return b.Handle(ctx, d)
}

func (b *bench) delivery(task message.Task, count int) message.Delivery {
	b.t.Helper()
	m, err := task.Message("82f3", time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	return message.Delivery{MessageID: m.ID, CorrelationID: m.CorrelationID, Body: m.Body, Count: count, Taken: time.Now(), Received: time.Now()}
}

// afterWrite calls back when a write of the claim was applied and its answer has
// come, before the worker sees that.
func (b *bench) afterWrite(f func(claim.Claim)) { b.Claims.Store = watched{b.Claims.Store, f} }

type watched struct {
	claim.Store
	after func(claim.Claim)
}

func (w watched) Record(id string) claim.Record { return watchedRecord{w.Store.Record(id), w.after} }

type watchedRecord struct {
	claim.Record
	after func(claim.Claim)
}

func (r watchedRecord) Create(ctx context.Context, c claim.Claim) (claim.ETag, error) {
	etag, err := r.Record.Create(ctx, c)
	if err == nil {
		r.after(c)
	}
	return etag, err
}

func (r watchedRecord) Replace(ctx context.Context, c claim.Claim, unchanged claim.ETag) (claim.ETag, error) {
	etag, err := r.Record.Replace(ctx, c, unchanged)
	if err == nil {
		r.after(c)
	}
	return etag, err
}

// stands is the claim as it stands.
func (b *bench) stands() claim.Claim {
	b.t.Helper()
	s, err := b.Claims.Store.Record("82f3").Read(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return s.Claim
}

func (b *bench) arm(r control.Rule) {
	b.t.Helper()
	r.Match.Service, r.Match.Entity = "cosmos", "claims"
	if _, err := b.hub.Arm(r); err != nil {
		b.t.Fatal(err)
	}
}

// starting is the write that says that a keyless call starts.
var starting = control.Match{Operation: "replace", Body: map[string]any{"/callStarted": true, "/status": "IN_PROGRESS"}}

func TestAKeylessCallIsMadeOnlyAfterTheClaimSaysSo(t *testing.T) { // W1
	inBubble(t, func(t *testing.T, b *bench) {
		b.keyless()
		b.answer = func(_ context.Context, c message.Call) message.Outcome {
			if stands := b.stands(); !stands.CallStarted || stands.Keyed {
				t.Errorf("during the call the claim says callStarted %t, keyed %t", stands.CallStarted, stands.Keyed)
			}
			if c.Key != "" {
				t.Errorf("a key %q for a downstream that honours none", c.Key)
			}
			return message.Outcome{Effect: message.EffectApplied}
		}
		if s := b.deliver(t.Context(), 1); s.Action != message.Complete || len(b.calls) != 1 {
			t.Errorf("%s after %d calls", s.Action, len(b.calls))
		}
	})
}

// Whatever becomes of that write, one call is made, or none and the next delivery
// makes it.
func TestALostAnswerToCallStartedCostsNoEffectAndNoSecondCall(t *testing.T) { // W1 C9
	for _, fault := range []control.Rule{
		{When: "before", Do: "drop", Times: 1},
		{When: "after", Do: "drop", Times: 1},
		{When: "before", Do: "answer", Status: http.StatusServiceUnavailable, Times: 1},
		{When: "after", Do: "answer", Status: http.StatusRequestTimeout, Times: 1},
	} {
		t.Run(fmt.Sprintf("%s %s %d", fault.When, fault.Do, fault.Status), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.keyless()
				fault.Match = starting
				b.arm(fault)
				s := b.deliver(t.Context(), 1)
				for count := 2; s.Action == message.CopyLater && count < 5; count++ {
					time.Sleep(s.Delay)
					s = b.deliver(t.Context(), count)
				}
				if s.Action != message.Complete || len(b.calls) != 1 {
					t.Errorf("%s after %d calls, want complete after 1", s.Action, len(b.calls))
				}
			})
		})
	}
}

// The store refuses to write that a call starts, and goes on refusing: while the
// lease stands as well as after it, no call is made.
func TestACallThatCannotBeAnnouncedIsNotMade(t *testing.T) { // W1
	inBubble(t, func(t *testing.T, b *bench) {
		b.keyless()
		b.arm(control.Rule{Match: starting, Do: "answer", Status: http.StatusForbidden})
		if s := b.deliver(t.Context(), 1); s.Action != message.CopyLater || len(b.calls) > 0 {
			t.Errorf("%s after %d calls, want it put off and none", s.Action, len(b.calls))
		}
	})
}

// Cancelled between "call started" and the call: nothing was called, and the claim
// goes back so that the next delivery calls.
func TestAKeylessCallThatIsNotMadeAfterAllIsMadeLater(t *testing.T) { // W1
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("withdrawal lost %t", lost), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.keyless()
				ctx, stop := context.WithCancelCause(t.Context())
				b.afterWrite(func(c claim.Claim) {
					if c.CallStarted {
						stop(errors.New("stopping"))
					}
				})
				if lost {
					b.arm(control.Rule{Name: "withdrawal", Match: control.Match{Operation: "replace", Body: map[string]any{"/callStarted": false, "/released": false}}, Do: "drop"})
				}
				s := b.deliver(ctx, 1)
				if s.Action != message.CopyLater || len(b.calls) > 0 {
					t.Fatalf("%s %s after %d calls, want it put off and none", s.Action, s.Reason, len(b.calls))
				}
				if stands := b.stands(); stands.CallStarted || !stands.Released || stands.Starts != 0 {
					t.Errorf("callStarted %t, released %t, starts %d, want it given back", stands.CallStarted, stands.Released, stands.Starts)
				}
				if lost {
					if err := b.hub.Disarm("withdrawal"); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(s.Delay)
				if s := b.deliver(t.Context(), 2); s.Action != message.Complete || len(b.calls) != 1 {
					t.Errorf("%s after %d calls, want complete after 1", s.Action, len(b.calls))
				}
			})
		})
	}
}

// A rolling deploy that adds a key: the claim began without one, and may yet pass
// to a worker that knows of none, whose call would be a second effect. So a call
// under it is made once, as if there were no key.
func TestAClaimThatBeganKeylessKeepsItsRules(t *testing.T) { // W1 W2
	inBubble(t, func(t *testing.T, b *bench) {
		b.keyless()
		ctx, stop := context.WithCancelCause(t.Context())
		b.afterWrite(func(claim.Claim) { stop(errors.New("stopping")) }) // given back before any call
		s := b.deliver(ctx, 1)
		if s.Action != message.CopyLater {
			t.Fatalf("%s, want it put off", s.Action)
		}
		time.Sleep(s.Delay)

		b.declared.Keyed, b.declared.KeyWindow, b.declared.Attempts = true, 24*time.Hour, 8
		b.answer = func(_ context.Context, c message.Call) message.Outcome {
			if c.Key != "82f3" {
				t.Errorf("called with key %q, the handler declares one", c.Key)
			}
			if !b.stands().CallStarted {
				t.Error("called, and the claim does not say so")
			}
			return message.Outcome{Effect: message.EffectUnknown, Retry: true, Description: "reset"}
		}
		if s := b.deliver(t.Context(), 2); s.Action != message.DeadLetter || s.Reason != claim.OutcomeUnknown {
			t.Errorf("%s %s, want it dead-lettered as %s", s.Action, s.Reason, claim.OutcomeUnknown)
		}

		b.keyless() // the old worker again
		if s := b.deliver(t.Context(), 3); s.Action != message.DeadLetter || len(b.calls) != 1 {
			t.Errorf("%s after %d calls, want it dead-lettered after 1", s.Action, len(b.calls))
		}
	})
}

// A call may have been made in the first run. An operator's replay makes a second
// only with the assertion that there was none; by mistake without it, none.
func TestAReplayCallsAgainWithoutAKeyOnlyIfSomebodyVouches(t *testing.T) { // W1
	for _, asserted := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *bench) {
			b.keyless()
			b.answer = func(context.Context, message.Call) message.Outcome {
				return message.Outcome{Effect: message.EffectUnknown}
			}
			b.deliver(t.Context(), 1)
			b.answer = func(context.Context, message.Call) message.Outcome {
				return message.Outcome{Effect: message.EffectApplied}
			}
			s := b.deliverTask(t.Context(), message.Task{
				ExecutionID: "82f3", Run: 2, Type: "t", Payload: jsontext.Value(`{}`), Asserted: asserted,
				Deadline: time.Now().Add(time.Hour), NotAfter: time.Now().Add(time.Hour),
			}, 1)
			if asserted && (s.Action != message.Complete || len(b.calls) != 2) {
				t.Errorf("asserted: %s %s after %d calls, want complete after 2", s.Action, s.Reason, len(b.calls))
			}
			if !asserted && (s.Action != message.DeadLetter || s.Reason != claim.OutcomeUnknown || len(b.calls) != 1 || b.stands().Run != 2) {
				t.Errorf("not asserted: %s %s after %d calls, want it dead-lettered after 1", s.Action, s.Reason, len(b.calls))
			}
		})
	}
}

// What a handler says of retrying counts for nothing where no key is honoured.
func TestTheFirstFailureOfAKeylessHandlerIsFinal(t *testing.T) { // W1 D1
	for _, test := range []struct {
		outcome message.Outcome
		reason  string
		effect  string
	}{
		{message.Outcome{Effect: message.EffectNotApplied, Retry: true, Free: true}, claim.DownstreamRejected, claim.EffectNone},
		{message.Outcome{Effect: message.EffectUnknown, Retry: true}, claim.OutcomeUnknown, claim.EffectUnknown},
		{message.Outcome{}, claim.OutcomeUnknown, claim.EffectUnknown},
	} {
		t.Run(test.outcome.Effect.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.keyless()
				b.answer = func(context.Context, message.Call) message.Outcome { return test.outcome }
				s := b.deliver(t.Context(), 1)
				if s.Action != message.DeadLetter || s.Reason != test.reason || len(b.calls) != 1 {
					t.Errorf("%s %s after %d calls, want it dead-lettered as %s after 1", s.Action, s.Reason, len(b.calls), test.reason)
				}
				if f := b.stands().Failure; f == nil || f.Outcome != test.effect {
					t.Errorf("the claim says %+v, want outcome %s", f, test.effect)
				}
				if len(b.published) != 1 || b.published[0].ID != "82f3/failed/1" {
					t.Errorf("published %v", b.published)
				}
			})
		})
	}
}

// The window would end during the very first call.
func TestACallThatOutlastsTheKeyWindowIsNotMade(t *testing.T) { // W2
	inBubble(t, func(t *testing.T, b *bench) {
		b.declared.KeyWindow = b.KeyMargin + b.declared.Timeout
		if s := b.deliver(t.Context(), 1); s.Action != message.DeadLetter || s.Reason != claim.KeyWindowPassed || len(b.calls) > 0 {
			t.Errorf("%s %s after %d calls, want it dead-lettered as %s after none", s.Action, s.Reason, len(b.calls), claim.KeyWindowPassed)
		}
	})
}

// The window ends during the wait for the next try: no call can be sure of it any more.
func TestNoKeyedCallIsMadeThatTheDownstreamMayNotRecognise(t *testing.T) { // W2
	inBubble(t, func(t *testing.T, b *bench) {
		b.declared.KeyWindow = time.Hour
		b.answer = func(context.Context, message.Call) message.Outcome {
			return message.Outcome{Effect: message.EffectUnknown, Retry: true, Free: true}
		}
		begun := time.Now()
		s := b.deliver(t.Context(), 1)
		for count := 2; s.Action == message.CopyLater && count < 1000; count++ {
			time.Sleep(s.Delay)
			s = b.deliver(t.Context(), count)
		}
		if s.Action != message.DeadLetter || s.Reason != claim.KeyWindowPassed {
			t.Errorf("%s %s, want it dead-lettered as %s", s.Action, s.Reason, claim.KeyWindowPassed)
		}
		if took := time.Since(begun); took < 30*time.Minute || took > time.Hour {
			t.Errorf("it ended after %v, want a moment before the window and its margin", took)
		}
	})
}

// The downstream asks for more time than it remembers the key for. It is asked once
// more while it does.
func TestRetryAfterIsObeyedWithinTheKeyWindow(t *testing.T) { // W2
	inBubble(t, func(t *testing.T, b *bench) {
		b.declared.KeyWindow = time.Hour
		b.answer = func(context.Context, message.Call) message.Outcome {
			return message.Outcome{Effect: message.EffectUnknown, Retry: true, Free: true, After: 2 * time.Hour}
		}
		s := b.deliver(t.Context(), 1)
		if s.Action != message.CopyLater || s.Delay < 40*time.Minute || s.Delay > 45*time.Minute {
			t.Fatalf("%s after %v, want it put off to the end of the window less its margin of a quarter of an hour", s.Action, s.Delay)
		}
		time.Sleep(s.Delay)
		b.answer = func(context.Context, message.Call) message.Outcome {
			return message.Outcome{Effect: message.EffectApplied}
		}
		if s := b.deliver(t.Context(), 2); s.Action != message.Complete {
			t.Errorf("%s %s, want it completed by the last call", s.Action, s.Reason)
		}
	})
}
