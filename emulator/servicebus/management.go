package servicebus

import (
	"bytes"
	"fmt"
	"net/http"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
)

const (
	// maxPeek and maxPeekBytes bound the messages of one peek.
	maxPeek      = 250
	maxPeekBytes = 1 << 20
	// maxNumbers bounds the lock tokens or sequence numbers of one request.
	maxNumbers = 5_000
)

// management is an entity's $management node.
type management struct {
	connection *connection
	entity     broker.Entity
	path       string
}

var _ incoming = (*management)(nil)

func (c *connection) attachManagement(l *amqp.Link, path string) {
	entity, err := c.server.namespace.Find(path)
	switch {
	case err != nil:
		c.refuse(l, c.server.notFound(path))
	case !c.authorized(entity.Path() + managementSuffix):
		c.refuse(l, amqp.Errorf(amqp.ErrCondUnauthorizedAccess,
			"Unauthorized access. 'Listen' or 'Send' claim(s) are required to perform this operation. Resource: 'sb://%s/%s%s'.", c.server.name, path, managementSuffix))
	case l.Outgoing():
		c.attachReplier(l, managementNames)
	default:
		l.Data = &management{connection: c, entity: entity, path: entityText(entity.Path())}
		c.log("accept link", l.Accept(amqp.Acceptance{Credit: senderCredit}))
	}
}

// plan is a request that has been understood: what rules see of it, and how to run it.
type plan struct {
	op  control.Op
	run func() reply
}

func (n *management) transfer(d *amqp.Delivery) {
	c := n.connection
	r, err := parseRequest(d)
	if err != nil {
		c.log("settle request", d.Settle(amqp.Rejected{Error: amqp.Errorf(amqp.ErrCondDecodeError, "%s", err)}))
		return
	}
	c.log("settle request", d.Settle(amqp.Accepted{}))
	p, err := n.plan(r)
	if err != nil {
		c.reply(r, managementNames, refused(err))
		return
	}
	p.op.Entity = n.path
	c.request(r, managementNames, p.op, p.run)
}

// plan reads a request. What the service has and this emulator has not yet is refused by name.
func (n *management) plan(r *request) (plan, error) {
	body, ok := r.body.(amqp.Map)
	operation := r.text("operation")
	if !ok && operation != "" {
		return plan{}, fmt.Errorf("%s: %w: the body must be a map", operation, broker.ErrInvalid)
	}
	switch operation {
	case "com.microsoft:schedule-message":
		return n.schedule(body)
	case "com.microsoft:cancel-scheduled-message":
		return n.cancel(body)
	case "com.microsoft:peek-message":
		return n.peek(body)
	case "com.microsoft:renew-lock", "com.microsoft:update-disposition":
		q, ok := n.entity.(*broker.Queue)
		if !ok {
			return plan{}, fmt.Errorf("%s on a topic: %w: its messages are in its subscriptions", operation, broker.ErrInvalid)
		}
		if operation == "com.microsoft:renew-lock" {
			return n.renew(q, body)
		}
		return n.update(q, body)
	case "":
		return plan{}, fmt.Errorf("request without an operation: %w", broker.ErrInvalid)
	}
	return plan{}, fmt.Errorf("operation %s: it is %w", operation, broker.ErrUnsupported)
}

// values reads a member that holds an array, or a list, of one type.
func values[T any](body amqp.Map, name string) ([]T, error) {
	v, _ := body.Get(name)
	items, ok := amqp.Slice[T](v)
	if !ok || len(items) == 0 || len(items) > maxNumbers {
		return nil, fmt.Errorf("%s: %w: 1 to %d values are needed, got %T", name, broker.ErrInvalid, maxNumbers, v)
	}
	return items, nil
}

func tokensOf(body amqp.Map) ([]broker.Token, error) {
	ids, err := values[amqp.UUID](body, "lock-tokens")
	tokens := make([]broker.Token, len(ids))
	for i, id := range ids {
		tokens[i] = broker.Token(id)
	}
	return tokens, err
}

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
	return plan{about("renew-lock", q.Locked(tokens[0])), func() reply {
		ends, err := q.Renew(n.connection.client, tokens...)
		if err != nil {
			return refused(err)
		}
		return reply{status: http.StatusOK, description: "OK", body: amqp.Map{{Key: "expirations", Value: amqp.ArrayOf(ends...)}}}
	}}, nil
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
	disposition, ok := dispositions[text]
	if !ok {
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
	return plan{op, func() reply {
		for _, t := range tokens {
			if err := q.Settle(t, s); err != nil {
				return refused(err)
			}
		}
		return reply{status: http.StatusOK, description: "OK"}
	}}, nil
}

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
		m, err := parseMessage(raw)
		if err != nil {
			return plan{}, fmt.Errorf("messages[%d]: %w", i, err)
		}
		if m.ScheduledFor.IsZero() {
			return plan{}, fmt.Errorf("messages[%d]: %w: it has no %s", i, broker.ErrInvalid, annotationScheduled)
		}
		messages[i] = m
	}
	return plan{about("schedule", messages[0]), func() reply {
		numbers, err := n.entity.Enqueue(n.connection.client, messages...)
		if err != nil {
			return refused(err)
		}
		return reply{status: http.StatusOK, description: "OK", body: amqp.Map{{Key: "sequence-numbers", Value: amqp.ArrayOf(numbers...)}}}
	}}, nil
}

func (n *management) cancel(body amqp.Map) (plan, error) {
	numbers, err := values[int64](body, "sequence-numbers")
	if err != nil {
		return plan{}, err
	}
	return plan{control.Op{Operation: "cancel-scheduled"}, func() reply {
		if err := n.entity.CancelScheduled(numbers...); err != nil {
			return refused(err)
		}
		return reply{status: http.StatusOK, description: "OK"}
	}}, nil
}

func (n *management) peek(body amqp.Map) (plan, error) {
	fromValue, _ := body.Get("from-sequence-number")
	countValue, _ := body.Get("message-count")
	from, ok1 := amqp.Integer(fromValue)
	count, ok2 := amqp.Integer(countValue)
	if !ok1 || !ok2 || count < 1 {
		return plan{}, fmt.Errorf("peek: %w: from-sequence-number and a positive message-count are needed", broker.ErrInvalid)
	}
	return plan{control.Op{Operation: "peek"}, func() reply {
		var list amqp.List
		size := 0
		for _, d := range n.entity.Peek(from, int(min(count, maxPeek))) {
			parts, err := encode(d)
			if err != nil {
				return refused(err)
			}
			message := bytes.Join(parts, nil)
			if size += len(message); size > maxPeekBytes && len(list) > 0 {
				break // the client asks again from the next number
			}
			list = append(list, amqp.Map{{Key: "message", Value: message}})
		}
		if len(list) == 0 {
			return reply{status: http.StatusNoContent, description: "No messages available."}
		}
		return reply{status: http.StatusOK, description: "OK", body: amqp.Map{{Key: "messages", Value: list}}}
	}}, nil
}
