package servicebus_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

func TestMessagesRoundTripUnchanged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		sent := &azservicebus.Message{
			Body: []byte{0, 1, 255}, MessageID: new("id"), CorrelationID: new("correlation"), Subject: new("subject"),
			ContentType: new("application/cloudevents+json"), ReplyTo: new("reply"), ReplyToSessionID: new("reply session"),
			SessionID: new("session"), PartitionKey: new("session"), To: new("to"), TimeToLive: new(20 * time.Minute),
			ApplicationProperties: map[string]any{
				"string": "text", "bool": true, "int8": int8(-8), "int16": int16(-16), "int32": int32(-32), "int64": int64(-64),
				"uint8": uint8(8), "uint16": uint16(16), "uint32": uint32(32), "uint64": uint64(64), "float32": float32(1.5),
				"float64": 2.5, "time": time.UnixMilli(1_700_000_000_123).UTC(), "uuid": amqp.UUID{1, 2, 3, 15: 16},
				"binary": []byte("bytes"), "symbol": "", "null": nil, "unicode": "ключ",
			},
		}
		w.must(s.SendMessage(w.ctx, sent, nil))
		got := w.receive(r)
		back := got.Message()
		back.ApplicationProperties["time"] = back.ApplicationProperties["time"].(time.Time).UTC()
		if !reflect.DeepEqual(back, sent) {
			t.Errorf("sent     %+v\nreceived %+v", sent, back)
			for k, v := range sent.ApplicationProperties {
				if !reflect.DeepEqual(v, back.ApplicationProperties[k]) {
					t.Errorf("property %s: sent %T %v, received %T %v", k, v, v, back.ApplicationProperties[k], back.ApplicationProperties[k])
				}
			}
		}
		if got.DeliveryCount != 1 || *got.SequenceNumber != 1 || !got.EnqueuedTime.Equal(w.hub.Now()) || !got.ExpiresAt.Equal(w.hub.Now().Add(20*time.Minute)) {
			t.Errorf("received %+v", got)
		}
	})
}

// What an ordinary message carries is exact: a client must not learn to rely on annotations the service does not send.
func TestAnActiveMessageCarriesExactlyTheseSections(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		w.must(s.SendAMQPAnnotatedMessage(w.ctx, &azservicebus.AMQPAnnotatedMessage{
			Header:              &azservicebus.AMQPAnnotatedMessageHeader{Durable: true, Priority: 100},
			DeliveryAnnotations: map[any]any{"x-opt-mine": "d", "x-opt-lock-token": amqp.UUID{1}},
			MessageAnnotations:  map[any]any{"x-opt-mine": "m", "x-opt-locked-until": time.Unix(1, 0), "x-opt-sequence-number": int64(99), "x-opt-message-state": int32(1)},
			Footer:              map[any]any{"x-opt-mine": "f"},
			Body:                azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("one"), []byte("two")}},
		}, nil))
		m := w.receive(r)
		raw := m.RawAMQPMessage
		token := amqp.UUID(m.LockToken)
		if want := (map[any]any{"x-opt-mine": "d", "x-opt-lock-token": token}); !reflect.DeepEqual(raw.DeliveryAnnotations, want) {
			t.Errorf("delivery annotations %v, want %v", raw.DeliveryAnnotations, want)
		}
		want := map[any]any{
			"x-opt-mine": "m", "x-opt-sequence-number": int64(1), "x-opt-enqueued-time": m.EnqueuedTime.UTC(), "x-opt-locked-until": m.LockedUntil.UTC(),
		}
		for k, v := range raw.MessageAnnotations {
			if at, ok := v.(time.Time); ok {
				raw.MessageAnnotations[k] = at.UTC()
			}
		}
		if !reflect.DeepEqual(raw.MessageAnnotations, want) {
			t.Errorf("message annotations %v, want %v", raw.MessageAnnotations, want)
		}
		if !reflect.DeepEqual(raw.Body.Data, [][]byte{[]byte("one"), []byte("two")}) || !reflect.DeepEqual(raw.Footer, map[any]any{"x-opt-mine": "f"}) {
			t.Errorf("body %q, footer %v", raw.Body.Data, raw.Footer)
		}
		if !raw.Header.Durable || raw.Header.Priority != 100 || raw.Header.DeliveryCount != 0 || raw.Header.TTL != time.Hour {
			t.Errorf("header %+v", raw.Header)
		}
		if m.MessageID == "" {
			t.Error("the broker gave no message id")
		}
		// The tag is the lock token as a .NET Guid has its bytes.
		tag, k := raw.DeliveryTag, m.LockToken
		if guid := []byte{k[3], k[2], k[1], k[0], k[5], k[4], k[7], k[6], k[8], k[9], k[10], k[11], k[12], k[13], k[14], k[15]}; !bytes.Equal(tag, guid) {
			t.Errorf("delivery tag %x of token %x", tag, k)
		}
	})
}

func TestBodiesOfEveryKindRoundTrip(t *testing.T) {
	for _, body := range []azservicebus.AMQPAnnotatedMessageBody{
		{Value: "text"}, {Value: map[string]any{"a": int64(1)}}, {Sequence: [][]any{{"a", int64(1)}, {true}}}, {Data: [][]byte{{}}},
	} {
		t.Run(fmt.Sprintf("%v", body), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.client("worker-1")
				s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
				w.must(s.SendAMQPAnnotatedMessage(w.ctx, &azservicebus.AMQPAnnotatedMessage{Body: body}, nil))
				if got := w.receive(r).RawAMQPMessage.Body; fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", body) {
					t.Errorf("sent %#v, received %#v", body, got)
				}
			})
		})
	}
}

func TestABatchArrivesAsItsMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		batch, err := s.NewMessageBatch(w.ctx, nil)
		w.must(err)
		for _, id := range []string{"a", "b", "c"} {
			w.must(batch.AddMessage(message(id), nil))
		}
		w.must(s.SendMessageBatch(w.ctx, batch, nil))
		got, err := r.ReceiveMessages(w.ctx, 10, nil)
		w.must(err)
		if len(got) != 3 {
			t.Fatalf("received %d messages, want 3", len(got))
		}
		for i, id := range []string{"a", "b", "c"} {
			if got[i].MessageID != id || string(got[i].Body) != `{"id":"`+id+`"}` {
				t.Errorf("message %d is %s %s", i, got[i].MessageID, got[i].Body)
			}
		}
	})
}

func TestTooLargeIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s := w.sender(c, "tasks")
		big := &azservicebus.Message{Body: make([]byte, 256<<10)}
		if err := s.SendMessage(w.ctx, big, nil); !errors.Is(err, azservicebus.ErrMessageTooLarge) {
			t.Errorf("send: %v, want %v", err, azservicebus.ErrMessageTooLarge)
		}
		batch, err := s.NewMessageBatch(w.ctx, nil)
		w.must(err)
		if err := batch.AddMessage(big, nil); !errors.Is(err, azservicebus.ErrMessageTooLarge) {
			t.Errorf("add to a batch: %v, want %v", err, azservicebus.ErrMessageTooLarge)
		}
		w.must(s.SendMessage(w.ctx, &azservicebus.Message{Body: make([]byte, 255<<10)}, nil))
	})
}

func TestAnOverlongMessageIDIsRefusedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := w.sender(w.client("worker-1"), "tasks")
		start := time.Now()
		err := s.SendMessage(w.ctx, message(strings.Repeat("x", 129)), nil)
		if err == nil || !strings.Contains(err.Error(), "at most 128") || time.Since(start) != 0 {
			t.Errorf("send after %v: %v", time.Since(start), err)
		}
	})
}

func TestDuplicatesAreAcceptedAndDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "once"), w.receiver(c, "ONCE") // names are compared without case
		w.must(s.SendMessage(w.ctx, message("a"), nil))
		w.must(s.SendMessage(w.ctx, message("a"), nil))
		_, err := s.ScheduleMessages(w.ctx, []*azservicebus.Message{message("a")}, w.hub.Now().Add(time.Minute), nil)
		w.must(err)
		m := w.receive(r)
		w.must(r.CompleteMessage(w.ctx, m, nil))
		w.receiveNothing(r)
		time.Sleep(time.Minute)
		w.receiveNothing(r)
		if n := w.count("duplicate-dropped", "a"); n != 2 {
			t.Errorf("%d duplicates dropped, want 2", n)
		}
		time.Sleep(5 * time.Minute)
		w.must(s.SendMessage(w.ctx, message("a"), nil))
		w.must(r.CompleteMessage(w.ctx, w.receive(r), nil))
	})
}

func TestScheduledMessagesComeAtTheirTimeUnderANewNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		when := w.hub.Now().Add(9 * time.Minute)
		numbers, err := s.ScheduleMessages(w.ctx, []*azservicebus.Message{message("a"), message("b")}, when, nil)
		w.must(err)
		annotated := message("c")
		annotated.ScheduledEnqueueTime = new(when.Add(time.Minute))
		w.must(s.SendMessage(w.ctx, annotated, nil))
		peeked, err := r.PeekMessages(w.ctx, 10, nil)
		w.must(err)
		if len(peeked) != 3 || peeked[0].State != azservicebus.MessageStateScheduled || *peeked[0].SequenceNumber != numbers[0] {
			t.Fatalf("peeked %d messages: %+v", len(peeked), peeked)
		}
		w.must(s.CancelScheduledMessages(w.ctx, numbers[1:], nil))
		w.receiveNothing(r)
		m := w.receive(r)
		if m.MessageID != "a" || !w.hub.Now().Equal(when) || *m.SequenceNumber <= numbers[1] || !m.EnqueuedTime.Equal(when) || !m.ScheduledEnqueueTime.Equal(when) {
			t.Errorf("received at %v: %+v", w.hub.Now(), m)
		}
		if m.DeliveryCount != 1 || m.State != azservicebus.MessageStateActive {
			t.Errorf("activated as delivery %d in state %v", m.DeliveryCount, m.State)
		}
		w.must(r.CompleteMessage(w.ctx, m, nil))
		if m := w.receive(r); m.MessageID != "c" {
			t.Errorf("received %s, want c: b was cancelled", m.MessageID)
		}
		w.wantCode(s.CancelScheduledMessages(w.ctx, numbers[:1], nil), azservicebus.CodeNotFound)
	})
}

func TestATopicFansOut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s := w.sender(c, "task-events")
		w.must(s.SendMessage(w.ctx, message("now"), nil))
		_, err := s.ScheduleMessages(w.ctx, []*azservicebus.Message{message("later")}, w.hub.Now().Add(time.Minute), nil)
		w.must(err)
		for _, name := range []string{"orchestrator", "AUDIT"} {
			r, err := c.NewReceiverForSubscription("Task-Events", name, nil)
			w.must(err)
			for _, id := range []string{"now", "later"} {
				m := w.receive(r)
				if m.MessageID != id || m.DeliveryCount != 1 {
					t.Errorf("%s received %s, delivery %d; want %s, 1", name, m.MessageID, m.DeliveryCount, id)
				}
				w.must(r.CompleteMessage(w.ctx, m, nil))
			}
		}
	})
}

func TestPeekingLocksNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a", "b")
		r := w.receiver(w.client("worker-1"), "tasks")
		w.receive(r)
		peeked, err := r.PeekMessages(w.ctx, 10, &azservicebus.PeekMessagesOptions{FromSequenceNumber: new(int64(1))})
		w.must(err)
		if len(peeked) != 2 || peeked[0].LockedUntil != nil || peeked[1].MessageID != "b" {
			t.Fatalf("peeked %+v", peeked)
		}
		none, err := r.PeekMessages(w.ctx, 10, &azservicebus.PeekMessagesOptions{FromSequenceNumber: new(int64(3))})
		w.must(err)
		if len(none) != 0 {
			t.Errorf("peeked %d messages behind the end", len(none))
		}
		if m := w.receive(r); m.MessageID != "b" || m.DeliveryCount != 1 {
			t.Errorf("what was peeked at is received as %s, delivery %d; want b, 1", m.MessageID, m.DeliveryCount)
		}
	})
}
