package servicebus

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
)

func TestAMessageSentForLaterComesThen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		got := make(chan time.Time, 1)
		stop := w.run(w.receiver(), func(context.Context, message.Delivery) message.Settlement {
			got <- time.Now()
			return message.Done()
		})
		defer stop()
		s, err := w.client.Sender("tasks")
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(90 * time.Minute)
		if err := s.SendLater(t.Context(), task("82f3"), at); err != nil {
			t.Fatal(err)
		}
		if came := <-got; came.Before(at) || came.After(at.Add(time.Second)) {
			t.Errorf("came %v after its time", came.Sub(at))
		}
	})
}

func TestSendingIsRepeatedUntilItIsDoneOrTimeIsUp(t *testing.T) {
	busy := control.Rule{Do: "answer", Condition: "com.microsoft:server-busy"}
	deaf := control.Rule{Do: "silence"}
	lost := control.Rule{Do: "drop", When: "after"}
	disabled := control.Rule{Do: "detach", Condition: "com.microsoft:entity-disabled"}
	detached := control.Rule{Do: "detach", Condition: "amqp:link:detach-forced"}
	for _, c := range []struct {
		name  string
		rule  control.Rule
		times int
		limit time.Duration
		want  error
		took  time.Duration // at most
	}{
		{"a busy broker twice", busy, 2, time.Minute, nil, 3 * time.Second},
		{"a busy broker for longer than the SDK tries", busy, 12, 0, nil, DefaultSendTimeout},
		{"a busy broker for ever", busy, 0, 0, message.ErrUnknown, DefaultSendTimeout},
		{"a busy broker until the caller's deadline", busy, 0, 3 * time.Second, message.ErrUnknown, 3 * time.Second},
		{"an answer that never comes", deaf, 0, 0, message.ErrUnknown, DefaultSendTimeout},
		{"an answer that never comes in time", deaf, 0, time.Second, message.ErrUnknown, time.Second},
		{"an answer lost with its connection", lost, 1, 0, nil, 2 * time.Second},
		{"a queue disabled for a while", disabled, 4, 0, nil, DefaultSendTimeout},
		{"a link detached", detached, 2, 0, nil, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.send("tasks", "first")
				c.rule.Match.Operation, c.rule.Times = "send", c.times
				w.arm(c.rule)
				s, _ := w.client.Sender("tasks")
				ctx := t.Context()
				if c.limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.limit)
					defer cancel()
				}
				began := time.Now()
				err := s.Send(ctx, task("82f3"))
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("error is %v, want %v", err, c.want)
				}
				if took := time.Since(began); took > c.took {
					t.Errorf("took %v, at most %v are allowed", took, c.took)
				}
			})
		})
	}
}

func TestARefusalIsFinalAndNamesItsCause(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		s, err := w.client.Sender("nowhere")
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, s.Send(t.Context(), task("82f3")), message.ErrNotFound)

		s, _ = w.client.Sender("tasks")
		m := task("large")
		m.Body = make([]byte, 300<<10)
		wantErr(t, s.Send(t.Context(), m), message.ErrRefused)

		stranger, err := Dial(Options{
			ConnectionString: strings.Replace(connectionString, "SAS_KEY_VALUE", "wrong", 1),
			NewConn:          w.server.Dial,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close(context.Background())
		s, _ = stranger.Sender("tasks")
		wantErr(t, s.Send(t.Context(), task("82f3")), message.ErrRefused)
		if took := time.Since(began); took > time.Second {
			t.Errorf("three refusals took %v", took)
		}
	})
}

func TestAnAttemptWithoutAnswerIsNotForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "first")
		lost := w.arm(control.Rule{Do: "drop", When: "after", Match: control.Match{Operation: "send"}, Times: 1})
		s, _ := w.client.Sender("tasks")
		failed := make(chan error)
		go func() { failed <- s.Send(t.Context(), task("82f3")) }()
		w.reached(lost)
		w.arm(control.Rule{Do: "answer", Condition: "com.microsoft:server-busy", Match: control.Match{Operation: "send"}})
		err := <-failed
		wantErr(t, err, message.ErrUnknown)
		if !strings.Contains(err.Error(), "server-busy") {
			t.Errorf("the cause is not said: %v", err)
		}
		if w.count("enqueued", func(e control.Event) bool { return e.Key == "82f3" }) != 1 {
			t.Error("the first attempt was not applied")
		}
	})
}

// At this very moment the SDK renews its tokens. Its client library then ends a
// session that it had never begun, for which the broker closes the connection with
// a condition that the SDK takes for final.
func TestSendingSurvivesAConnectionClosedForABreachOfTheProtocol(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		done := func(context.Context, message.Delivery) message.Settlement { return message.Done() }
		stop := w.run(w.receiver(), done)
		defer func() { stop() }() // the last one
		w.send("tasks", "one")
		for range 5 {
			time.Sleep(time.Until(time.Now().Truncate(5 * time.Minute).Add(5 * time.Minute)))
			stop()
			stop = w.run(w.receiver(), done)
			w.send("tasks", "two")
		}
	})
}

func TestASenderIsMadeOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, _ := w.client.Sender("tasks")
		b, _ := w.client.Sender("tasks")
		if a != b {
			t.Error("two senders of one queue")
		}
		if err := w.client.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := w.client.Sender("task-events"); err == nil {
			t.Error("a sender of a closed client")
		}
		wantErr(t, a.Send(t.Context(), task("82f3")), message.ErrRefused)
	})
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"neither way in":       {},
		"half a way in":        {Namespace: "x.servicebus.windows.net"},
		"both ways in":         {ConnectionString: connectionString, Namespace: "x"},
		"a name too long":      {ConnectionString: connectionString, ApplicationID: strings.Repeat("x", 25)},
		"a negative time":      {ConnectionString: connectionString, SendTimeout: -1},
		"no connection string": {ConnectionString: "hello"},
	} {
		if _, err := Dial(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestErrorsMean(t *testing.T) {
	condition := func(c amqp.ErrCond) error { return &amqp.Error{Condition: c} }
	for _, c := range []struct {
		err  error
		want error
	}{
		{context.Canceled, message.ErrUnknown},
		{context.DeadlineExceeded, message.ErrUnknown},
		{errors.New("never seen"), message.ErrUnknown},
		{azservicebus.ErrMessageTooLarge, message.ErrRefused},
		{&azservicebus.Error{Code: azservicebus.CodeUnauthorizedAccess}, message.ErrRefused},
		{&azservicebus.Error{Code: azservicebus.CodeNotFound}, message.ErrNotFound},
		{&azservicebus.Error{Code: azservicebus.CodeLockLost}, errLockLost},
		{&azservicebus.Error{Code: azservicebus.CodeConnectionLost}, message.ErrUnknown},
		{&azservicebus.Error{Code: azservicebus.CodeTimeout}, message.ErrUnknown},
		{&azservicebus.Error{Code: azservicebus.CodeClosed}, message.ErrRefused},
		{&azservicebus.Error{Code: "new"}, message.ErrUnknown},
		{condition("com.microsoft:server-busy"), message.ErrTransient},
		{condition("com.microsoft:entity-disabled"), message.ErrTransient},
		{condition("amqp:resource-limit-exceeded"), message.ErrTransient},
		{condition("com.microsoft:message-lock-lost"), errLockLost},
		{condition("amqp:not-found"), message.ErrNotFound},
		{condition("amqp:not-allowed"), message.ErrRefused},
		{condition("amqp:unauthorized-access"), message.ErrRefused},
		{condition("amqp:internal-error"), message.ErrUnknown},
		{&amqp.LinkError{RemoteErr: &amqp.Error{Condition: "com.microsoft:entity-disabled"}}, message.ErrTransient},
		{&amqp.ConnError{RemoteErr: &amqp.Error{Condition: "amqp:not-allowed"}}, message.ErrUnknown},
		{&amqp.SessionError{RemoteErr: &amqp.Error{Condition: "amqp:unauthorized-access"}}, message.ErrUnknown},
	} {
		got := translate("send", c.err)
		if !errors.Is(got, c.want) || !strings.HasPrefix(got.Error(), "send: ") {
			t.Errorf("%v is %v, want %v", c.err, got, c.want)
		}
		meanings := 0
		for _, m := range []error{message.ErrUnknown, message.ErrTransient, message.ErrRefused, message.ErrNotFound, errLockLost} {
			if errors.Is(got, m) {
				meanings++
			}
		}
		if meanings != 1 {
			t.Errorf("%v has %d meanings", got, meanings)
		}
	}
	if translate("send", nil) != nil {
		t.Error("nothing is an error")
	}
}

func TestWaitsGrowToTheirLimitAndAreNeverAllTheSame(t *testing.T) {
	for failures, limit := range map[int]time.Duration{1: firstPause, 2: 2 * firstPause, 7: 64 * firstPause, 8: longestPause, 1000: longestPause} {
		seen := map[time.Duration]bool{}
		for range 50 {
			wait := backoff(failures)
			if wait < limit/2 || wait > limit {
				t.Errorf("after %d failures %v, want %v to %v", failures, wait, limit/2, limit)
			}
			seen[wait] = true
		}
		if len(seen) < 10 {
			t.Errorf("after %d failures only %d different waits", failures, len(seen))
		}
	}
}

func TestAReasonIsCutAtACharacter(t *testing.T) {
	if got := cut("short"); got != "short" {
		t.Errorf("got %q", got)
	}
	long := strings.Repeat("x", maxReason-1) + "é"
	if got := cut(long); got != long[:maxReason-1] {
		t.Errorf("got %d bytes ending in %q", len(got), got[len(got)-2:])
	}
}
