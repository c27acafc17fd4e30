package servicebus

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
)

// maxSessions bounds the sessions of one page of a list.
const maxSessions = 1_000

func (n *management) renewSession(q *broker.Queue, body amqp.Map) (plan, error) {
	id, err := textOf(body, "session-id")
	if err != nil {
		return plan{}, err
	}
	return plan{op: control.Op{Operation: "renew-session-lock", Key: id}, run: func() reply {
		until, err := q.RenewSession(n.connection.client, id)
		if err != nil {
			return refused(err)
		}
		return done(amqp.Entry{Key: "expiration", Value: until})
	}, lose: func() { q.LoseSession(id) }}, nil
}

func (n *management) sessionState(q *broker.Queue, body amqp.Map) (plan, error) {
	id, err := textOf(body, "session-id")
	if err != nil {
		return plan{}, err
	}
	return plan{op: control.Op{Operation: "get-session-state", Key: id}, run: func() reply {
		state, err := q.SessionState(id)
		if err != nil {
			return refused(err)
		}
		var value any // null, unless there is a state
		if state != nil {
			value = state
		}
		return done(amqp.Entry{Key: "session-state", Value: value})
	}}, nil
}

// setSessionState keeps a state. Some clients clear it with null, others with nothing.
func (n *management) setSessionState(q *broker.Queue, body amqp.Map) (plan, error) {
	id, err := textOf(body, "session-id")
	if err != nil {
		return plan{}, err
	}
	value, _ := body.Get("session-state")
	state, isBinary := value.([]byte)
	if !isBinary && value != nil {
		return plan{}, fmt.Errorf("session-state: %w: it must be binary or null, got %T", broker.ErrInvalid, value)
	}
	return plan{op: control.Op{Operation: "set-session-state", Key: id}, run: func() reply {
		if err := q.SetSessionState(id, bytes.Clone(state)); err != nil {
			return refused(err)
		}
		return done()
	}}, nil
}

func (n *management) listSessions(q *broker.Queue, body amqp.Map) (plan, error) {
	since, _ := body.Get("last-updated-time")
	after, isTime := since.(time.Time)
	if !isTime {
		return plan{}, fmt.Errorf("last-updated-time: %w: a timestamp is needed, got %T", broker.ErrInvalid, since)
	}
	skip, err := numberOf(body, "skip")
	if err != nil {
		return plan{}, err
	}
	top, err := numberOf(body, "top")
	if err != nil {
		return plan{}, err
	}
	return plan{op: control.Op{Operation: "list-sessions"}, run: func() reply {
		ids := q.Sessions(after, int(min(max(0, skip), 1<<30)), int(min(max(0, top), maxSessions)))
		if len(ids) == 0 {
			return reply{status: http.StatusNoContent, description: "No sessions available."}
		}
		return done(
			amqp.Entry{Key: "skip", Value: int32(int(skip) + len(ids))},
			amqp.Entry{Key: "sessions-ids", Value: amqp.ArrayOf(ids...)})
	}}, nil
}
