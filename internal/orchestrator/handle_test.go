package orchestrator_test

import (
	"net/http"
	"testing"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
	"oneeffect/internal/orchestrator"
)

// create makes an execution in its first run and returns its ETag.
func (b *bench) create(t *testing.T, id string) string {
	t.Helper()
	w := b.ask(http.MethodPost, "/v1/executions", `{"executionId":"`+id+`","type":"t"}`)
	if w.Code != http.StatusCreated {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Header().Get("ETag")
}

func completion(id, ticket, digest string) message.Event {
	return message.Event{Completed: &message.Completed{ExecutionID: id, Run: 1, Fence: 1, ResultRef: "/c/1", ResultDigest: digest, ExecutionETag: ticket}}
}

// deliver hands an event to the orchestrator, as its count-th delivery.
func (b *bench) deliver(t *testing.T, e message.Event, count int) message.Settlement {
	t.Helper()
	m, err := e.Message(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return b.Handle(t.Context(), message.Delivery{MessageID: m.ID, Body: m.Body, Count: count})
}

func (b *bench) arm(t *testing.T, r control.Rule) {
	t.Helper()
	r.Match.Service, r.Match.Entity = "cosmos", "executions"
	if _, err := b.hub.Arm(r); err != nil {
		t.Fatal(err)
	}
}

func TestAnEventIsSettledByWhatItDoes(t *testing.T) { // E1 E2
	inBubble(t, func(t *testing.T, b *bench) {
		ticket := b.create(t, "82f3")
		for _, step := range []struct {
			what   string
			event  message.Event
			want   message.Action
			reason string
		}{
			{"the completion", completion("82f3", ticket, "sha256:one"), message.Complete, ""},
			{"the same once more", completion("82f3", ticket, "sha256:one"), message.Complete, ""},
			{"without a ticket", completion("82f3", "", "sha256:one"), message.Complete, ""},
			{"another result", completion("82f3", ticket, "sha256:two"), message.DeadLetter, orchestrator.ResultChanged},
			{"of nothing that stands", completion("none", ticket, "sha256:one"), message.DeadLetter, orchestrator.UnknownExecution},
		} {
			if s := b.deliver(t, step.event, 1); s.Action != step.want || s.Reason != step.reason {
				t.Errorf("%s: %s %q, want %s %q", step.what, s.Action, s.Reason, step.want, step.reason)
			}
		}
		if e := b.load(t, "82f3").Execution; e.Status != execution.Completed || e.Result.Digest != "sha256:one" || len(e.History) != 2 {
			t.Errorf("%+v", e)
		}
		if s := b.Handle(t.Context(), message.Delivery{Body: []byte(`{}`), Count: 1}); s.Action != message.DeadLetter || s.Reason != message.InvalidMessage {
			t.Errorf("a body that is no event: %s %q", s.Action, s.Reason)
		}
	})
}

// The answer is lost, before or after the transition was made: it is made once.
func TestALostAnswerToATransitionIsOneTransition(t *testing.T) { // E1
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				ticket := b.create(t, "82f3")
				b.arm(t, control.Rule{Match: control.Match{Operation: "patch"}, When: when, Do: "drop", Times: 1})
				if s := b.deliver(t, completion("82f3", ticket, "sha256:one"), 1); s.Action != message.Complete {
					t.Errorf("%s, want it completed", s.Action)
				}
				if e := b.load(t, "82f3").Execution; e.Status != execution.Completed || len(e.History) != 2 {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// A read that finds nothing may have asked a replica that lags. Only a write knows.
func TestAnEventIsNotThrownAwayForWhatAReplicaDoesNotKnowYet(t *testing.T) { // E3 E6
	inBubble(t, func(t *testing.T, b *bench) {
		ticket := b.create(t, "82f3")
		b.arm(t, control.Rule{Match: control.Match{Operation: "patch"}, Do: "drop", Times: 1})
		b.arm(t, control.Rule{Match: control.Match{Operation: "read"}, Do: "answer", Status: http.StatusNotFound, Times: 1})
		if s := b.deliver(t, completion("82f3", ticket, "sha256:one"), 1); s.Action != message.CopyLater {
			t.Errorf("%s %s, want it put off", s.Action, s.Reason)
		}
		if s := b.deliver(t, completion("82f3", ticket, "sha256:one"), 2); s.Action != message.Complete {
			t.Errorf("%s %s, want it completed", s.Action, s.Reason)
		}
	})
}

// Ten deliveries are what an event has. They must outlast an outage that people
// need time to end.
func TestTheDeliveriesOfAnEventOutlastAnOutageOfTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ticket := b.create(t, "82f3")
		b.arm(t, control.Rule{Match: control.Match{Client: "orchestrator"}, Do: "answer", Status: http.StatusTooManyRequests})
		var waited, last time.Duration
		for count := 1; count <= 10; count++ {
			s := b.deliver(t, completion("82f3", ticket, "sha256:one"), count)
			if s.Action != message.CopyLater || s.Delay < last*8/10 || s.Delay > 10*time.Minute {
				t.Fatalf("delivery %d: %s after %v, want a longer wait than %v, and no more than ten minutes", count, s.Action, s.Delay, last)
			}
			waited, last = waited+s.Delay, s.Delay
			if count == 1 && s.Delay > 10*time.Second {
				t.Errorf("the first wait is %v, want seconds", s.Delay)
			}
		}
		if waited < 45*time.Minute {
			t.Errorf("ten deliveries outlast %v, want three quarters of an hour", waited)
		}
	})
}
