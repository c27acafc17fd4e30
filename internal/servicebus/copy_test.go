package servicebus

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.opentelemetry.io/otel/trace"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
)

// aTask is a task of ours as it travels.
func (w *world) aTask(id string) message.Message {
	w.t.Helper()
	m, err := message.Task{
		ExecutionID: id, Run: 1, Type: "customer.create", Payload: []byte(`{}`), ExecutionETag: `"1"`,
		Deadline: time.Now().Add(24 * time.Hour), NotAfter: time.Now().Add(21 * 24 * time.Hour),
	}.Message(message.TaskMessageID(id, 1), time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// sdkSend sends what no sender of ours would.
func (w *world) sdkSend(m *azservicebus.AMQPAnnotatedMessage) {
	w.t.Helper()
	s, err := w.client.sdk.NewSender("tasks", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.SendAMQPAnnotatedMessage(w.t.Context(), m, nil); err != nil {
		w.t.Fatal(err)
	}
}

// A task that finds its claim busy a hundred times is still the task that it was,
// and as fresh to the broker as on its first day.
func TestAHundredCopiesKeepTraceAndIdentityAndSpendNoDelivery(t *testing.T) { // S4, S7
	inBubble(t, func(t *testing.T, w *world) {
		const copies = 100
		origin := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
		deliveries := make(chan message.Delivery, copies+1)
		n := 0
		stop := w.run(w.receiver(), func(ctx context.Context, d message.Delivery) message.Settlement {
			if got := trace.SpanContextFromContext(ctx); got.TraceID() != origin.TraceID() || got.SpanID() != origin.SpanID() {
				t.Errorf("copy %d is in the trace %v", n, got)
			}
			deliveries <- d
			if n++; n > copies {
				return message.Done()
			}
			return message.Later(5 * time.Minute)
		})
		defer stop()
		s, err := w.client.Sender("tasks")
		if err != nil {
			t.Fatal(err)
		}
		sent := w.aTask("82f3")
		if err := s.Send(trace.ContextWithSpanContext(t.Context(), origin), sent); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i := range copies + 1 {
			d := <-deliveries
			if d.Count != 1 || string(d.Body) != string(sent.Body) || d.CorrelationID != "82f3" {
				t.Errorf("copy %d: %+v", i, d)
			}
			if named := strings.HasPrefix(d.MessageID, "82f3/copy/"); seen[d.MessageID] || named != (i > 0) {
				t.Errorf("copy %d is named %s", i, d.MessageID)
			}
			seen[d.MessageID] = true
		}
		stop()
		for _, e := range w.hub.Events(0) {
			if e.Kind == "dead-lettered" || e.Kind == "lock-expired" || e.Kind == "settled" && (e.Disposition != "completed" || e.Subject != message.TypeTask) {
				t.Errorf("%+v", e)
			}
		}
	})
}

// A copy is the message that it is of in everything but its id.
func TestACopyHasAllThatItsOriginalHad(t *testing.T) { // S4
	inBubble(t, func(t *testing.T, w *world) {
		stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement { return message.Later(time.Minute) })
		sent := w.aTask("82f3")
		contentType, subject := "text/x", message.TypeTask
		w.sdkSend(&azservicebus.AMQPAnnotatedMessage{
			Properties:            &azservicebus.AMQPAnnotatedMessageProperties{MessageID: "82f3", CorrelationID: "82f3", ContentType: &contentType, Subject: &subject},
			ApplicationProperties: map[string]any{"theirs": "kept"}, Body: azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{sent.Body}},
		})
		w.settled("82f3")
		stop()
		r, err := w.client.sdk.NewReceiverForQueue("tasks", nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.ReceiveMessages(t.Context(), 1, nil)
		if err != nil || len(got) != 1 {
			t.Fatalf("received %d, %v", len(got), err)
		}
		m := got[0]
		for want, got := range map[string]*string{contentType: m.ContentType, subject: m.Subject, "82f3": m.CorrelationID} {
			if got == nil || *got != want {
				t.Errorf("the copy has no %q: %+v", want, m)
			}
		}
		if string(m.Body) != string(sent.Body) || m.ApplicationProperties["theirs"] != "kept" {
			t.Errorf("the copy is %+v", m)
		}
	})
}

// How many deliveries came to nothing in a row is told to the next one, and forgotten
// after one that did not.
func TestACopySaysHowManyDeliveriesWereInVain(t *testing.T) { // S4
	inBubble(t, func(t *testing.T, w *world) {
		told := []int{1, 2, 0, 1 << 30, 0}
		deliveries := make(chan message.Delivery, len(told)+1)
		n := 0
		stop := w.run(w.receiver(), func(_ context.Context, d message.Delivery) message.Settlement {
			deliveries <- d
			if n == len(told) {
				return message.Done()
			}
			s := message.Later(time.Minute)
			s.InVain = told[n]
			n++
			return s
		})
		defer stop()
		s, err := w.client.Sender("tasks")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(t.Context(), w.aTask("82f3")); err != nil {
			t.Fatal(err)
		}
		for i := range len(told) + 1 {
			want := 0
			if i > 0 {
				want = told[i-1]
			}
			if d := <-deliveries; d.InVain != want {
				t.Errorf("delivery %d is told of %d in vain, want %d", i, d.InVain, want)
			}
		}
	})
}

// What a task is stands in its body. The copy of one that was sent without any
// correlation, or under another's, bears the task's own name.
func TestACopyIsNamedAfterTheTaskInItsBody(t *testing.T) { // S4
	for correlation, given := range map[string]*string{"none": nil, "another's": new("of-another"), "no id of ours": new("a/b c")} {
		t.Run(correlation, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				deliveries := make(chan message.Delivery, 2)
				stop := w.run(w.receiver(), func(_ context.Context, d message.Delivery) message.Settlement {
					deliveries <- d
					if d.MessageID == "whatever" {
						return message.Later(time.Minute)
					}
					return message.Done()
				})
				defer stop()
				m := w.aTask("82f3")
				properties := &azservicebus.AMQPAnnotatedMessageProperties{MessageID: "whatever"}
				if given != nil {
					properties.CorrelationID = *given
				}
				w.sdkSend(&azservicebus.AMQPAnnotatedMessage{Properties: properties, Body: azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{m.Body}}})
				first, second := <-deliveries, <-deliveries
				if !strings.HasPrefix(second.MessageID, "82f3/copy/") || string(second.Body) != string(m.Body) || second.CorrelationID != first.CorrelationID {
					t.Errorf("the copy is %+v", second)
				}
			})
		})
	}
}

// The client dies between the two: afterwards there are both, and the claim that
// both stand for decides.
func TestACrashBetweenCopyAndCompletionLeavesTwoMessages(t *testing.T) { // S4
	inBubble(t, func(t *testing.T, w *world) {
		rule := w.arm(control.Rule{Do: "hold", Match: control.Match{Operation: "complete", Client: "worker-1"}})
		handle := func(context.Context, message.Delivery) message.Settlement { return message.Later(time.Minute) }
		stop := w.run(w.receiver(), handle)
		s, err := w.client.Sender("tasks")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(t.Context(), w.aTask("82f3")); err != nil {
			t.Fatal(err)
		}
		w.reached(rule)
		w.hub.Isolate("worker-1")
		stop()

		second := w.dial("worker-2")
		defer func() { _ = second.Close(context.Background()) }()
		got := make(chan message.Delivery, 2)
		r := w.receiver()
		r.Client = second
		stop = w.run(r, func(_ context.Context, d message.Delivery) message.Settlement {
			got <- d
			return message.Done()
		})
		defer stop()
		kept, original := <-got, <-got // the copy after a minute, the original after its lock
		if !strings.HasPrefix(kept.MessageID, "82f3/copy/") || kept.Count != 1 {
			t.Errorf("first came %+v", kept)
		}
		if original.MessageID != "82f3" || original.Count != 2 || string(original.Body) != string(kept.Body) {
			t.Errorf("then came %+v", original)
		}
		w.settled("82f3")
	})
}

// AMQP lets a body come in sections; what is no bytes at all is refused in words.
func TestABodyIsReadFromAllItsSections(t *testing.T) {
	whole := `{"task":"82f3"}`
	for name, c := range map[string]struct {
		body        azservicebus.AMQPAnnotatedMessageBody
		description string // of the dead letter; empty: it is read
	}{
		"one":             {azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte(whole)}}, ""},
		"cut anywhere":    {azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte(whole[:5]), {}, []byte(whole[5:])}}, ""},
		"a string":        {azservicebus.AMQPAnnotatedMessageBody{Value: whole}, "the body is an AMQP value or sequence"},
		"a list":          {azservicebus.AMQPAnnotatedMessageBody{Sequence: [][]any{{whole}}}, "the body is an AMQP value or sequence"},
		"nothing in data": {azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{{}}}, "there is no body"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				bodies := make(chan string, 4)
				stop := w.run(w.receiver(), func(_ context.Context, d message.Delivery) message.Settlement {
					bodies <- string(d.Body)
					if len(bodies) == 1 {
						return message.Later(time.Minute) // a copy has all of it too
					}
					return message.Done()
				})
				defer stop()
				w.sdkSend(&azservicebus.AMQPAnnotatedMessage{Properties: &azservicebus.AMQPAnnotatedMessageProperties{MessageID: "82f3"}, Body: c.body})
				if c.description != "" {
					if e := w.await("dead-lettered", "82f3", 0); e.Reason != message.InvalidMessage {
						t.Errorf("dead-lettered: %+v", e)
					}
					synctest.Wait()
					w.logged("disposition=dead-letter", "reason=InvalidMessage", c.description)
					if len(bodies) != 0 {
						t.Errorf("the handler was given %q", <-bodies)
					}
					return
				}
				w.await("settled", "", w.settled("82f3").Seq)
				stop()
				for range 2 {
					if got := <-bodies; got != whole {
						t.Errorf("the body is %q", got)
					}
				}
			})
		})
	}
}

// Whose lock is over has the message no longer: it comes again by itself, and a copy
// would be one message more, which nobody asked for. Of a task that has failed it
// would be a second dead letter.
func TestAMessageWhoseLockIsOverIsNotCopied(t *testing.T) { // S4
	for why, broken := range map[string]control.Rule{
		"it was lost":                 {Do: "lose-lock", Nth: 1},
		"no renewal is ever answered": {Do: "silence"},
	} {
		t.Run(why, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				broken.Match = control.Match{Operation: "renew-lock"}
				w.arm(broken)
				deliveries := make(chan message.Delivery, 2)
				r := w.receiver()
				stop := w.run(r, func(_ context.Context, d message.Delivery) message.Settlement {
					deliveries <- d
					if d.Count > 1 {
						return message.Done()
					}
					time.Sleep(2 * r.LockDuration)
					return message.Later(time.Minute)
				})
				s, err := w.client.Sender("tasks")
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Send(t.Context(), w.aTask("82f3")); err != nil {
					t.Fatal(err)
				}
				first, second := <-deliveries, <-deliveries
				w.settled("82f3")
				stop()
				if first.MessageID != "82f3" || second.MessageID != "82f3" || second.Count != 2 {
					t.Errorf("delivered %+v, then %+v", first, second)
				}
				for _, e := range w.hub.Events(0) {
					if e.Kind == "scheduled" {
						t.Errorf("%+v", e)
					}
				}
				w.logged("disposition=leave", "lock is over")
			})
		})
	}
}
