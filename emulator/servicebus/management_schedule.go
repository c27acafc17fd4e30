package servicebus

import (
	"fmt"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
)

func (n *management) schedule(body amqp.Map) (plan, error) {
	v, _ := body.Get("messages")
	list, _ := v.(amqp.List)
	if len(list) == 0 || len(list) > maxBatch {
		return plan{}, fmt.Errorf("messages: %w: a list of 1 to %d is needed", broker.ErrInvalid, maxBatch)
	}
	messages := make([]*broker.Message, len(list))
	for i, item := range list {
		entry, _ := item.(amqp.Map)
		encoded, _ := entry.Get("message")
		raw, _ := encoded.([]byte)
		m, err := parseMessage(n.connection.server.hub, raw)
		if err != nil {
			return plan{}, fmt.Errorf("messages[%d]: %w", i, err)
		}
		if m.ScheduledFor.IsZero() {
			return plan{}, fmt.Errorf("messages[%d]: %w: it has no %s", i, broker.ErrInvalid, annotationScheduled)
		}
		messages[i] = m
	}
	return plan{op: about("schedule", messages[0]), run: func() reply {
		numbers, err := n.entity.Enqueue(n.connection.client, messages...)
		if err != nil {
			return refused(err)
		}
		return done(amqp.Entry{Key: "sequence-numbers", Value: amqp.ArrayOf(numbers...)})
	}}, nil
}

func (n *management) cancel(body amqp.Map) (plan, error) {
	numbers, err := values[int64](body, "sequence-numbers")
	if err != nil {
		return plan{}, err
	}
	return plan{op: control.Op{Operation: "cancel-scheduled"}, run: func() reply {
		if err := n.entity.CancelScheduled(numbers...); err != nil {
			return refused(err)
		}
		return done()
	}}, nil
}
