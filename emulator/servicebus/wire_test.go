package servicebus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/go-amqp"

	"oneeffect/emulator/servicebus"
)

// plain is a client that speaks AMQP without the SDK, for what the SDK never does.
type plain struct {
	w    *world
	conn *amqp.Conn
}

func (w *world) plain() *plain {
	w.t.Helper()
	nc, err := w.server.Dial(w.ctx)
	w.must(err)
	conn, err := amqp.NewConn(w.ctx, nc, &amqp.ConnOptions{HostName: "localhost", SASLType: amqp.SASLTypeAnonymous()})
	w.must(err)
	w.t.Cleanup(func() { _ = conn.Close() })
	return &plain{w, conn}
}

func (p *plain) session() *amqp.Session {
	p.w.t.Helper()
	s, err := p.conn.NewSession(p.w.ctx, nil)
	p.w.must(err)
	return s
}

// request sends a request to a node and returns the reply's status and description.
func (p *plain) request(node string, value any, properties map[string]any) (int32, string) {
	p.w.t.Helper()
	return p.requestOn(&amqp.ReceiverOptions{TargetAddress: "answers here"}, node, value, properties)
}

// requestOn asks for the reply on a link with these options, which somehow say "answers here".
func (p *plain) requestOn(replies *amqp.ReceiverOptions, node string, value any, properties map[string]any) (int32, string) {
	p.w.t.Helper()
	s := p.session()
	defer func() { p.w.must(s.Close(p.w.ctx)) }() // End without Detach, as the SDK does
	sender, err := s.NewSender(p.w.ctx, node, nil)
	p.w.must(err)
	r, err := s.NewReceiver(p.w.ctx, node, replies)
	p.w.must(err)
	p.w.must(sender.Send(p.w.ctx, &amqp.Message{
		Value: value, ApplicationProperties: properties,
		Properties: &amqp.MessageProperties{MessageID: "1", ReplyTo: new("answers here")},
	}, nil))
	m, err := r.Receive(p.w.ctx, nil)
	p.w.must(err)
	if m.Properties.CorrelationID != "1" {
		p.w.t.Errorf("reply correlates with %v", m.Properties.CorrelationID)
	}
	for _, names := range [][2]string{{"status-code", "status-description"}, {"statusCode", "statusDescription"}} {
		if status, ok := m.ApplicationProperties[names[0]].(int32); ok {
			return status, fmt.Sprint(m.ApplicationProperties[names[1]])
		}
	}
	p.w.t.Fatalf("reply without a status: %v", m.ApplicationProperties)
	return 0, ""
}

// token is a shared access signature by the emulator's key.
func token(resource string, expires time.Time) string {
	return signature(resource, servicebus.DefaultKey, expires)
}

func (p *plain) putToken(kind, token, path string) (int32, string) {
	p.w.t.Helper()
	return p.request("$cbs", token, map[string]any{"operation": "put-token", "type": kind, "name": "amqp://localhost/" + path})
}

// authorize puts a token for the whole namespace.
func (p *plain) authorize() {
	p.w.t.Helper()
	status, text := p.putToken("servicebus.windows.net:sastoken", token("amqp://localhost", p.w.hub.Now().Add(time.Hour)), "")
	if status != 202 {
		p.w.t.Fatalf("put-token: %d %s", status, text)
	}
}

func (w *world) wantCondition(err error, condition amqp.ErrCond, text string) {
	w.t.Helper()
	wire, ok := errors.AsType[*amqp.Error](err)
	if !ok || wire.Condition != condition || !strings.Contains(wire.Description, text) {
		w.t.Fatalf("error %v, want %s: …%s…", err, condition, text)
	}
}

func TestAttachingNeedsAToken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		_, err := p.session().NewSender(w.ctx, "tasks", nil)
		w.wantCondition(err, amqp.ErrCondUnauthorizedAccess, "'Send' claim(s) are required to perform this operation")
		_, err = p.session().NewReceiver(w.ctx, "tasks", nil)
		w.wantCondition(err, amqp.ErrCondUnauthorizedAccess, "'Listen' claim(s) are required to perform this operation")
		_, err = p.session().NewSender(w.ctx, "tasks/$management", nil)
		w.wantCondition(err, amqp.ErrCondUnauthorizedAccess, "$management")
		p.authorize()
		_, err = p.session().NewSender(w.ctx, "tasks", nil)
		w.must(err)
		w.hub.Jump(time.Hour)
		_, err = p.session().NewSender(w.ctx, "tasks", nil)
		w.wantCondition(err, amqp.ErrCondUnauthorizedAccess, "'Send' claim(s)")
	})
}

func TestTokensAreAnsweredByTheirKind(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		good := token("amqp://localhost", w.hub.Now().Add(time.Hour))
		for _, row := range []struct {
			kind, token, path string
			status            int32
			text              string
		}{
			{"servicebus.windows.net:sastoken", good, "tasks", 202, "Accepted"},
			{"servicebus.windows.net:sastoken", good, "TASKS/$management", 202, "Accepted"},
			{"servicebus.windows.net:sastoken", good, "task-events/Subscriptions/audit/$DeadLetterQueue", 202, "Accepted"},
			{"servicebus.windows.net:sastoken", good, "nothing", 404, "The messaging entity 'sb://sbemulatorns.servicebus.onebox.windows-int.net/nothing' could not be found."},
			{"servicebus.windows.net:sastoken", "nonsense", "tasks", 401, "does not begin with"},
			{"servicebus.windows.net:sastoken", "SharedAccessSignature sr=%zz", "tasks", 401, "MalformedToken"},
			{"jwt", "ey…", "tasks", 401, "InvalidToken: forged"},
			{"other", "x", "tasks", 401, `token type "other" is not known`},
		} {
			if status, text := p.putToken(row.kind, row.token, row.path); status != row.status || !strings.Contains(text, row.text) {
				t.Errorf("%s %s: %d %s, want %d %s", row.kind, row.path, status, text, row.status, row.text)
			}
		}
	})
}

func TestAConnectionHasOneCBSSenderUntilItsSessionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		first := p.session()
		_, err := first.NewSender(w.ctx, "$cbs", nil)
		w.must(err)
		_, err = p.session().NewSender(w.ctx, "$CBS", nil)
		w.wantCondition(err, amqp.ErrCondNotAllowed, "Only one $cbs sender")
		w.must(first.Close(w.ctx))
		_, err = p.session().NewSender(w.ctx, "$cbs", nil)
		w.must(err)
	})
}

func TestALinkWithoutATargetAddressGetsRepliesByItsName(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		status, text := w.plain().requestOn(&amqp.ReceiverOptions{Name: "answers here"}, "$cbs", token("amqp://localhost", w.hub.Now().Add(time.Hour)),
			map[string]any{"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": "amqp://localhost/tasks"})
		if status != 202 {
			t.Errorf("put-token: %d %s", status, text)
		}
	})
}

func TestADeadLetterNeedsNoReason(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		p.authorize()
		s := p.session()
		sender, err := s.NewSender(w.ctx, "tasks", nil)
		w.must(err)
		w.must(sender.Send(w.ctx, &amqp.Message{Data: [][]byte{[]byte("x")}}, nil))
		receive := func(address string) (*amqp.Receiver, *amqp.Message) {
			r, err := s.NewReceiver(w.ctx, address, &amqp.ReceiverOptions{SettlementMode: amqp.ReceiverSettleModeSecond.Ptr()})
			w.must(err)
			m, err := r.Receive(w.ctx, nil)
			w.must(err)
			return r, m
		}
		r, m := receive("tasks")
		w.must(r.RejectMessage(w.ctx, m, &amqp.Error{
			Condition: "com.microsoft:dead-letter",
			Info:      map[string]any{"DeadLetterReason": nil, "DeadLetterErrorDescription": nil, "added": int32(1)},
		}))
		if _, dead := receive("tasks/$DeadLetterQueue"); len(dead.ApplicationProperties) != 1 || dead.ApplicationProperties["added"] != int32(1) {
			t.Errorf("the dead letter has %v", dead.ApplicationProperties)
		}
	})
}

func TestUnknownLinksAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		p.authorize()
		for _, row := range []struct {
			address   string
			condition amqp.ErrCond
			text      string
		}{
			{"nothing", amqp.ErrCondNotFound, "could not be found"},
			{"nothing/$management", amqp.ErrCondNotFound, "could not be found"},
			{"tasks/$DeadLetterQueue", amqp.ErrCondNotAllowed, "messages come here only from the entity it belongs to"},
			{"task-events/Subscriptions/audit", amqp.ErrCondNotAllowed, "messages come here only from the entity it belongs to"},
		} {
			_, err := p.session().NewSender(w.ctx, row.address, nil)
			w.wantCondition(err, row.condition, row.text)
		}
	})
}

func TestManagementRefusesByName(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		p.authorize()
		id := amqp.UUID{1}
		for _, row := range []struct {
			operation string
			body      any
			status    int32
			text      string
		}{
			{"com.microsoft:transfer", map[string]any{}, 501, "operation com.microsoft:transfer: it is not supported by this emulator yet"},
			{"com.microsoft:add-rule", map[string]any{}, 400, "only subscriptions have rules"},
			{"com.microsoft:get-session-state", map[string]any{"session-id": "s"}, 400, "tasks has no sessions"},
			{"com.microsoft:set-session-state", map[string]any{"session-id": "s", "session-state": "text"}, 400, "session-state"},
			{"com.microsoft:renew-session-lock", map[string]any{}, 400, "session-id"},
			{"com.microsoft:get-message-sessions", map[string]any{"last-updated-time": 1}, 400, "last-updated-time"},
			{"com.microsoft:receive-by-sequence-number", map[string]any{}, 400, "sequence-numbers"},
			{"com.microsoft:receive-by-sequence-number", map[string]any{"sequence-numbers": []int64{7}, "receiver-settle-mode": uint32(1)}, 404, "The message does not exist"},
			{"com.microsoft:peek-message", "text", 400, "the body must be a map"},
			{"com.microsoft:peek-message", map[string]any{"from-sequence-number": "x"}, 400, "from-sequence-number"},
			{"com.microsoft:renew-lock", map[string]any{}, 400, "lock-tokens"},
			{"com.microsoft:renew-lock", map[string]any{"lock-tokens": []amqp.UUID{id}}, 410, "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue"},
			{"com.microsoft:update-disposition", map[string]any{"lock-tokens": []amqp.UUID{id}, "disposition-status": "lost"}, 400, "disposition-status lost"},
			{"com.microsoft:update-disposition", map[string]any{"lock-tokens": []amqp.UUID{id}, "disposition-status": "completed"}, 410, "The lock supplied is invalid"},
			{"com.microsoft:schedule-message", map[string]any{"messages": []any{map[string]any{"message": []byte{1}}}}, 400, "messages[0]"},
			{"com.microsoft:cancel-scheduled-message", map[string]any{"sequence-numbers": []int64{7}}, 404, "scheduled message 7 in tasks: message not found"},
			{"", map[string]any{}, 400, "without an operation"},
		} {
			status, text := p.request("tasks/$management", row.body, map[string]any{"operation": row.operation})
			if status != row.status || !strings.Contains(text, row.text) {
				t.Errorf("%s %v: %d %s, want %d %s", row.operation, row.body, status, text, row.status, row.text)
			}
		}
	})
}

func TestADrainIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a", "b")
		p := w.plain()
		p.authorize()
		r, err := p.session().NewReceiver(w.ctx, "tasks", &amqp.ReceiverOptions{Credit: -1})
		w.must(err)
		for _, id := range []string{"a", "b"} {
			w.must(r.IssueCredit(5))
			m, err := r.Receive(w.ctx, nil)
			w.must(err)
			if m.Properties.MessageID != id {
				t.Errorf("received %v, want %s", m.Properties.MessageID, id)
			}
			w.must(r.AcceptMessage(w.ctx, m))
			if id == "a" {
				continue
			}
			w.must(r.DrainCredit(w.ctx, nil))
		}
		w.send("tasks", "c") // nobody has credit for it
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		if m, err := r.Receive(ctx, nil); err == nil {
			t.Errorf("received %v without credit", m.Properties.MessageID)
		}
		w.must(r.IssueCredit(1))
		m, err := r.Receive(w.ctx, nil)
		w.must(err)
		if m.Properties.MessageID != "c" {
			t.Errorf("received %v, want c", m.Properties.MessageID)
		}
	})
}

func TestABatchWithOneBadMessageEnqueuesNone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		p.authorize()
		s, err := p.session().NewSender(w.ctx, "tasks", nil)
		w.must(err)
		good, err := (&amqp.Message{Data: [][]byte{[]byte("x")}}).MarshalBinary()
		w.must(err)
		err = s.Send(w.ctx, &amqp.Message{Format: 0x80013700, Data: [][]byte{good, {0xff}}}, nil)
		w.wantCondition(err, amqp.ErrCondDecodeError, "message 1 of the batch")
		err = s.Send(w.ctx, &amqp.Message{Format: 7, Data: [][]byte{good}}, nil)
		w.wantCondition(err, amqp.ErrCondNotAllowed, "message-format 0x7: not supported by this emulator yet")
		for _, e := range w.hub.Events(0) {
			if e.Kind == "enqueued" {
				t.Errorf("enqueued %+v", e)
			}
		}
	})
}

func TestWhatIsSentSettledIsTaken(t *testing.T) { // that there is no answer, package amqp sees to
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		p.authorize()
		s, err := p.session().NewSender(w.ctx, "tasks", &amqp.SenderOptions{SettlementMode: amqp.SenderSettleModeSettled.Ptr()})
		w.must(err)
		w.must(s.Send(w.ctx, &amqp.Message{Data: [][]byte{[]byte("x")}, Properties: &amqp.MessageProperties{MessageID: uint64(7)}}, nil))
		w.event("enqueued", "7")
	})
}

func TestAnnotationsOfAWrongTypeAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		p.authorize()
		s, err := p.session().NewSender(w.ctx, "tasks", nil)
		w.must(err)
		for name, value := range map[string]any{"x-opt-scheduled-enqueue-time": int64(1), "x-opt-partition-key": int32(1)} {
			err := s.Send(w.ctx, &amqp.Message{Data: [][]byte{[]byte("x")}, Annotations: amqp.Annotations{name: value}}, nil)
			w.wantCondition(err, amqp.ErrCondNotAllowed, name)
		}
	})
}
