package orchestrator_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"
)

func TestATimelineMergesWhatHappenedToExecutionAndClaim(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.ctx = propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
		b.submit()
		time.Sleep(time.Second)
		b.failed(message.OutcomeUnknown)
		time.Sleep(time.Second)
		if w := b.ask(http.MethodPost, "/v1/executions/82f3/resolve", `{"reason":"seen","resultRef":"tray/7"}`); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		line := read[struct {
			TraceID string `json:"traceId"`
			Status  string `json:"status"`
			Claim   struct {
				Status string `json:"status"`
				Fence  int64  `json:"fence"`
			} `json:"claim"`
			Dispatches []struct{ State string } `json:"dispatches"`
			Entries    []struct {
				Source, What, By, End string
				Fence                 int64
			} `json:"entries"`
		}](t, b.ask(http.MethodGet, "/v1/executions/82f3/timeline", ""), http.StatusOK)
		var got []string
		for _, e := range line.Entries {
			got = append(got, fmt.Sprintf("%s %s %d %s %s", e.Source, e.What, e.Fence, e.By, e.End))
		}
		want := []string{"execution created 0 anonymous ", "claim granted 1  ", "execution failed 1  ", "claim granted 2  resolved", "execution resolved 2 anonymous "}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if line.TraceID != "0af7651916cd43dd8448eb211c80319c" || line.Status != "COMPLETED" || line.Claim.Status != "COMPLETED" || line.Claim.Fence != 2 || len(line.Dispatches) != 1 || line.Dispatches[0].State != "sent" {
			t.Errorf("%+v", line)
		}
	})
}

func TestATimelineShowsWhatWaitsToBeSent(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.failSends(message.ErrTransient)
		b.submit()
		w := b.ask(http.MethodGet, "/v1/executions/82f3/timeline", "")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"dispatches":[{"run":1,"messageId":"82f3","state":"waiting"}]`) || strings.Contains(w.Body.String(), `"claim":`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// It has no task: those of its parts are in their own timelines.
func TestATimelineOfAnOrchestrationShowsNoTaskOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for id, want := range map[string]string{"82f3": `"dispatches":[]`, b.several(t, 1)[0]: `"messageId":"82f3:0"`} {
			if w := b.ask(http.MethodGet, "/v1/executions/"+id+"/timeline", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: %d %s, want %s", id, w.Code, w.Body, want)
			}
		}
	})
}

func TestATimelineShowsThatATaskWasSentAgain(t *testing.T) { // E5
	inBubble(t, func(t *testing.T, b *bench) {
		b.runs(t, "82f3", 1)
		show := func() string { return b.ask(http.MethodGet, "/v1/executions/82f3/timeline", "").Body.String() }
		if line := show(); strings.Contains(line, "redispatched") {
			t.Errorf("before: %s", line)
		}
		for times, age := range []time.Duration{b.ReconcileAge, 2 * b.ReconcileAge} {
			time.Sleep(age)
			b.reconcileFor(t, oneRound)
			if line, want := show(), fmt.Sprintf(`"redispatched":{"run":1,"times":%d,"ageSeconds":`, times+1); !strings.Contains(line, want) {
				t.Errorf("%s, want %s", line, want)
			}
		}
	})
}

// The entry of a part stands in its orchestration.
func TestATimelineOfAPartShowsThatItsTaskWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.failSends(message.ErrTransient)
		part := b.several(t, 2)[1]
		if w := b.ask(http.MethodGet, "/v1/executions/"+part+"/timeline", ""); !strings.Contains(w.Body.String(), `"dispatches":[{"run":1,"messageId":"82f3:1","state":"waiting"}]`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		b.failSends(nil)
		b.relayFor(t, 2*time.Minute)
		if w := b.ask(http.MethodGet, "/v1/executions/"+part+"/timeline", ""); !strings.Contains(w.Body.String(), `"state":"sent"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// dies puts a message into the dead-letter queue.
func (b *bench) dies(run int, payload, reason string) {
	b.t.Helper()
	task := message.Task{ExecutionID: "82f3", Run: run, Type: "letter.print", Payload: jsontext.Value(payload), Deadline: time.Now(), NotAfter: time.Now()}
	m, err := task.Message("82f3", time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	b.dead.all = append(b.dead.all, message.Dead{Sequence: int64(len(b.dead.all) + 1), MessageID: m.ID, Body: m.Body, Reason: reason, EnqueuedAt: time.Now(), DeliveryCount: 10})
}

// Each verdict, and that it says what a replay then does.
func TestADeadLetterIsToldWhatAReplayWouldComeTo(t *testing.T) { // E7 O4
	const same = `{"to":"Ada"}`
	for name, test := range map[string]struct {
		stands  func(b *bench)
		run     int
		payload string
		verdict string
		replay  int // its status, without an assertion
	}{
		"failed without an effect": {func(b *bench) { b.failed(message.DownstreamRejected) }, 1, same, "safe", 200},
		"a call may be made":       {func(b *bench) { b.failed(message.OutcomeUnknown) }, 1, same, "outcome unknown", 409},
		"a call was started":       {func(b *bench) { b.claimed(func(c *claim.Claim) { c.CallStarted = true }) }, 1, same, "outcome unknown", 409},
		"still running":            {func(b *bench) {}, 1, same, "inert", 409},
		"another payload":          {func(b *bench) { b.failed(message.DownstreamRejected) }, 1, `{"to":"Bob"}`, "payload conflict", 200},
		"past notAfter": {func(b *bench) {
			b.failed(message.OutcomeUnknown)
			time.Sleep(execution.NotAfterAfter + time.Minute)
		}, 1, same, "horizon expired", 409},
		"completed": {func(b *bench) { b.deliver(b.t, completion("82f3", "", "sha256:1"), 1) }, 1, same, "already done", 409},
		"its claim is completed": {func(b *bench) {
			b.claimed(func(c *claim.Claim) {
				c.Status, c.Result = claim.Completed, &claim.Result{Ref: "x", Digest: "sha256:1"}
			})
		}, 1, same, "already done", 409},
		"cancelled": {func(b *bench) {
			b.ask(http.MethodPost, "/v1/executions/82f3/cancel", "", "If-Match", "*")
		}, 1, same, "inert", 409},
		"replayed since": {func(b *bench) {
			b.failed(message.DownstreamRejected)
			b.ask(http.MethodPost, "/v1/executions/82f3/replay", `{"reason":"x"}`)
		}, 1, same, "inert", 200},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.submit()
				test.stands(b)
				b.dies(test.run, test.payload, "MaxDeliveryCountExceeded")
				before := b.stands().ETag
				answer := read[letterPage](t, b.ask(http.MethodGet, "/v1/dead-letters", ""), http.StatusOK)
				if len(answer.DeadLetters) != 1 || answer.DeadLetters[0].Verdict != test.verdict || answer.DeadLetters[0].Why == "" {
					t.Errorf("%+v, want %s", answer, test.verdict)
				}
				if b.stands().ETag != before {
					t.Error("looking has changed the execution")
				}
				if w := b.ask(http.MethodPost, "/v1/executions/82f3/replay", `{"reason":"x"}`); w.Code != test.replay {
					t.Errorf("its replay: %d %s, want %d", w.Code, w.Body, test.replay)
				}
			})
		})
	}
}

type letterPage struct {
	DeadLetters []struct {
		Verdict, Why string
	} `json:"deadLetters"`
	Next string `json:"next"`
}

func TestDeadLettersArePagedByTheirSequenceNumbers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for range 5 {
			b.dies(1, `{}`, "TTLExpiredException")
		}
		b.dead.all = append(b.dead.all, message.Dead{Sequence: 9, Body: []byte("\xff not a message")})
		seen := 0
		for next := "/v1/dead-letters?limit=2"; next != ""; {
			p := read[letterPage](t, b.ask(http.MethodGet, next, ""), http.StatusOK)
			for _, l := range p.DeadLetters {
				seen++
				if l.Verdict != "inert" { // no execution has the id, or nobody can read it
					t.Errorf("%+v", l)
				}
			}
			next = p.Next
		}
		if seen != 6 {
			t.Errorf("%d of 6 seen", seen)
		}
		for _, query := range []string{"from=-1", "from=x", "limit=0", "limit=101", "state=dead"} {
			if w := b.ask(http.MethodGet, "/v1/dead-letters?"+query, ""); w.Code != http.StatusBadRequest {
				t.Errorf("%s: %d %s", query, w.Code, w.Body)
			}
		}
	})
}
