package servicebus

import (
	"fmt"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
)

// about fills in what a rule sees of a lock's message.
func about(operation string, m *broker.Message) control.Op {
	op := control.Op{Operation: operation}
	if m != nil {
		op.Key, op.Body = m.ID, data(m)
	}
	return op
}

func (n *management) renew(q *broker.Queue, body amqp.Map) (plan, error) {
	tokens, err := tokensOf(body)
	if err != nil {
		return plan{}, err
	}
	return plan{op: about("renew-lock", q.Locked(tokens[0])), run: func() reply {
		ends, err := q.Renew(n.connection.client, tokens...)
		if err != nil {
			return refused(err)
		}
		return done(amqp.Entry{Key: "expirations", Value: amqp.ArrayOf(ends...)})
	}, lose: loser(q, tokens)}, nil
}

// dispositions are the words of update-disposition. "defered" is how the service spells it.
var dispositions = map[string]struct {
	engine broker.Disposition
	rule   string
}{
	"completed": {broker.Complete, "complete"},
	"abandoned": {broker.Abandon, "abandon"},
	"suspended": {broker.DeadLetter, "dead-letter"},
	"defered":   {broker.Defer, "defer"},
}

func (n *management) update(q *broker.Queue, body amqp.Map) (plan, error) {
	tokens, err := tokensOf(body)
	if err != nil {
		return plan{}, err
	}
	word, _ := body.Get("disposition-status")
	text, _ := word.(string)
	disposition, known := dispositions[text]
	if !known {
		return plan{}, fmt.Errorf("disposition-status %v: %w", word, broker.ErrInvalid)
	}
	properties, _ := body.Get("properties-to-modify")
	given, _ := properties.(amqp.Map)
	s := broker.Settlement{Disposition: disposition.engine, Client: n.connection.client}
	if s.Changes, err = changesOf(given); err != nil {
		return plan{}, err
	}
	if s.Disposition == broker.DeadLetter {
		if s.Changes == nil {
			s.Changes = make(map[string]any, 2)
		}
		for member, property := range map[string]string{"deadletter-reason": broker.ReasonProperty, "deadletter-description": broker.DescriptionProperty} {
			if v, ok := body.Get(member); ok && v != nil {
				if _, isText := v.(string); !isText {
					return plan{}, fmt.Errorf("%s: %w: it must be a string", member, broker.ErrInvalid)
				}
				s.Changes[property] = v
			}
		}
		s.Reason, _ = s.Changes[broker.ReasonProperty].(string)
	}
	op := about(disposition.rule, q.Locked(tokens[0]))
	s.MessageID = op.Key
	return plan{op: op, run: func() reply {
		for _, t := range tokens {
			if err := q.Settle(t, s); err != nil {
				return refused(err)
			}
		}
		return done()
	}, lose: loser(q, tokens)}, nil
}

// loser ends locks for a rule.
func loser(q *broker.Queue, tokens []broker.Token) func() {
	return func() {
		for _, t := range tokens {
			q.Lose(t)
		}
	}
}
