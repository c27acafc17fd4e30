package servicebus

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
)

// peek shows messages of the entity, or of one session of it.
func (n *management) peek(body amqp.Map) (plan, error) {
	from, err := numberOf(body, "from-sequence-number")
	if err != nil {
		return plan{}, err
	}
	count, err := numberOf(body, "message-count")
	if err != nil {
		return plan{}, err
	}
	if count < 1 {
		return plan{}, fmt.Errorf("message-count %d: %w: it must be positive", count, broker.ErrInvalid)
	}
	session, inSession := body.Get("session-id")
	return plan{op: control.Op{Operation: "peek"}, run: func() reply {
		var list amqp.List
		size, want := 0, int(min(count, maxPeek))
		for len(list) < want {
			found := n.entity.Peek(from, want)
			for _, d := range found {
				from = d.SequenceNumber + 1
				if inSession && session != nil && (!d.Message.InSession || d.Message.SessionID != session) {
					continue
				}
				message, err := n.encode(d)
				if err != nil {
					return refused(err)
				}
				if size += len(message); size > maxPeekBytes && len(list) > 0 || len(list) == want {
					return done(amqp.Entry{Key: "messages", Value: list}) // the client asks again from the next number
				}
				list = append(list, amqp.Map{{Key: "message", Value: message}})
			}
			if len(found) < want {
				break
			}
		}
		if len(list) == 0 {
			return reply{status: http.StatusNoContent, description: "No messages available."}
		}
		return done(amqp.Entry{Key: "messages", Value: list})
	}}, nil
}

// encode writes a message as a reply carries it.
func (n *management) encode(d *broker.Delivery) ([]byte, error) {
	parts, err := encode(n.connection.server.hub, d)
	return bytes.Join(parts, nil), err
}

// receiveDeferred takes deferred messages. The lock's token goes with each, and inside it, where some clients look.
func (n *management) receiveDeferred(q *broker.Queue, body amqp.Map) (plan, error) {
	numbers, err := values[int64](body, "sequence-numbers")
	if err != nil {
		return plan{}, err
	}
	mode := broker.PeekLock
	if settle, err := numberOf(body, "receiver-settle-mode"); err != nil {
		return plan{}, err
	} else if settle == 0 {
		mode = broker.ReceiveAndDelete
	}
	return plan{op: control.Op{Operation: "receive-deferred"}, run: func() reply {
		deliveries, err := q.ReceiveDeferred(n.connection.client, mode, numbers...)
		if err != nil {
			r := refused(err)
			if errors.Is(err, broker.ErrNoMessage) {
				r.description = "Failed to lock one or more specified messages. The message does not exist: " + r.description
			}
			return r
		}
		var list amqp.List
		for _, d := range deliveries {
			message, err := n.encode(d)
			if err != nil {
				return refused(err)
			}
			entry := amqp.Map{{Key: "message", Value: message}}
			if mode == broker.PeekLock {
				entry = append(entry, amqp.Entry{Key: "lock-token", Value: amqp.UUID(d.Token)})
			}
			list = append(list, entry)
		}
		return done(amqp.Entry{Key: "messages", Value: list})
	}}, nil
}
