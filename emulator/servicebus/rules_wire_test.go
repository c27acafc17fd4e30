package servicebus_test

import (
	"errors"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// The SDK would rather believe the annotation with the token, which hides a tag in the wrong order; other clients have
// nothing but the tag.
func TestTheDeliveryTagIsTheLocksTokenAsAGuid(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.send("tasks", "a")
		r := w.receiver(w.client("worker-1"), "tasks")
		m := w.receive(r)
		k := m.RawAMQPMessage.DeliveryTag // the first three groups of a Guid have their bytes reversed
		if len(k) != 16 {
			t.Fatalf("a delivery tag of %d bytes", len(k))
		}
		token := [16]byte{k[3], k[2], k[1], k[0], k[5], k[4], k[7], k[6], k[8], k[9], k[10], k[11], k[12], k[13], k[14], k[15]}
		if annotated := m.RawAMQPMessage.DeliveryAnnotations["x-opt-lock-token"]; annotated != amqp.UUID(token) {
			t.Errorf("the tag means %x, the annotation says %v", token, annotated)
		}
		w.must(r.CompleteMessage(w.ctx, &azservicebus.ReceivedMessage{LockToken: token}, nil))
	})
}

// A client must not believe what another broker, or another life of the message, has said about it.
func TestAnnotationsOfTheBrokerAreNotTakenFromASender(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		w.must(w.sender(c, "tasks").SendAMQPAnnotatedMessage(w.ctx, &azservicebus.AMQPAnnotatedMessage{
			DeliveryAnnotations: map[any]any{"x-opt-lock-token": amqp.UUID{1}},
			MessageAnnotations: map[any]any{
				"x-opt-sequence-number": int64(99), "x-opt-enqueued-time": time.Unix(1, 0), "x-opt-locked-until": time.Unix(1, 0),
				"x-opt-enqueue-sequence-number": int64(98), "x-opt-deadletter-source": "elsewhere", "x-opt-message-state": int32(1),
			},
			Body: azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("x")}},
		}, nil))
		r, err := c.NewReceiverForQueue("tasks", &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
		w.must(err)
		m := w.receive(r)
		if m.LockedUntil != nil || m.DeadLetterSource != nil || m.EnqueuedSequenceNumber != nil || m.State != azservicebus.MessageStateActive {
			t.Errorf("the sender's annotations came through: %v", m.RawAMQPMessage.MessageAnnotations)
		}
		if *m.SequenceNumber != 1 || !m.EnqueuedTime.Equal(w.hub.Now()) {
			t.Errorf("number %d, enqueued at %v", *m.SequenceNumber, m.EnqueuedTime)
		}
		if got := m.RawAMQPMessage.DeliveryAnnotations; len(got) != 0 {
			t.Errorf("delivery annotations %v", got)
		}
	})
}

func TestAMessageWithoutAnIDGetsOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		s, r := w.sender(c, "tasks"), w.receiver(c, "tasks")
		w.must(s.SendMessage(w.ctx, &azservicebus.Message{Body: []byte("x")}, nil))
		w.must(s.SendMessage(w.ctx, &azservicebus.Message{Body: []byte("x")}, nil))
		if a, b := w.receive(r).MessageID, w.receive(r).MessageID; a == "" || b == "" || a == b {
			t.Errorf("message ids %q and %q", a, b)
		}
	})
}

// Told that the largest message has 0 bytes, the SDK can put nothing into a batch.
func TestASenderLearnsTheLargestMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s := w.sender(w.client("worker-1"), "tasks")
		batch, err := s.NewMessageBatch(w.ctx, nil)
		w.must(err)
		for range 3 {
			w.must(batch.AddMessage(&azservicebus.Message{Body: make([]byte, 80<<10)}, nil))
		}
		if err := batch.AddMessage(&azservicebus.Message{Body: make([]byte, 80<<10)}, nil); !errors.Is(err, azservicebus.ErrMessageTooLarge) {
			t.Errorf("a fourth message of 80 KiB: %v, want %v", err, azservicebus.ErrMessageTooLarge)
		}
		w.must(s.SendMessageBatch(w.ctx, batch, nil))
	})
}

// The SDK puts every token in a session of its own and ends the session without detaching.
func TestOneConnectionReachesManyEntities(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client("worker-1")
		start := time.Now()
		for _, entity := range []string{"tasks", "Once", "task-events"} {
			w.must(w.sender(c, entity).SendMessage(w.ctx, message("a"), nil))
		}
		w.receive(w.receiver(c, "tasks"))
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v", took)
		}
		if n := w.count("connected", ""); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}
