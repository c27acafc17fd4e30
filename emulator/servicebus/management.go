package servicebus

import (
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
	*attachment
	connection *connection
	entity     broker.Entity
	name       string // the entity's path
}

var _ incoming = (*management)(nil)

func (c *connection) attachManagement(l *amqp.Link, path string) {
	entity, err := c.server.namespace.Find(path)
	if err != nil {
		c.refuse(l, c.server.notFound(path))
		return
	}
	address := entity.Path() + managementSuffix
	if err := c.authorize(address, path+managementSuffix, Send|Listen); err != nil {
		c.refuse(l, wireError(err))
		return
	}
	a := managementAttachment(l, entityText(address), Send|Listen)
	if l.Outgoing() {
		c.attachReplier(l, a, entity, managementNames)
		return
	}
	l.Data = &management{attachment: a, connection: c, entity: entity, name: entityText(entity.Path())}
	c.log("accept link", c.accept(l, a, entity, amqp.Acceptance{Credit: senderCredit}))
}

// plan is a request that has been understood: what rules see of it, and how to run it.
type plan struct {
	op   control.Op
	run  func() reply
	lose func() // ends the lock that it needs, if it needs one
}

func (n *management) transfer(d *amqp.Delivery) {
	c := n.connection
	r, err := parseRequest(d)
	if err != nil {
		c.log("settle request", d.Settle(amqp.Rejected{Error: amqp.Errorf(amqp.ErrCondDecodeError, "%s", err)}))
		return
	}
	c.log("settle request", d.Settle(amqp.Accepted{}))
	c.touchNamed(r.text("associated-link-name"))
	p, err := n.plan(r)
	if err != nil {
		c.reply(r, managementNames, refused(err))
		return
	}
	p.op.Entity = n.name
	c.request(r, managementNames, p)
}

// plan reads a request. What the service has and this emulator has not yet is refused by name.
func (n *management) plan(r *request) (plan, error) {
	operation := r.text("operation")
	if operation == "" {
		return plan{}, fmt.Errorf("request without an operation: %w", broker.ErrInvalid)
	}
	read, ok := managementOperations[operation]
	if !ok {
		return plan{}, fmt.Errorf("operation %s: it is %w", operation, broker.ErrUnsupported)
	}
	body, ok := r.body.(amqp.Map)
	if !ok {
		return plan{}, fmt.Errorf("%s: %w: the body must be a map", operation, broker.ErrInvalid)
	}
	if err := n.connection.authorize(n.path, n.name, read.right); err != nil {
		return plan{}, err
	}
	if read.onQueue != nil {
		q, ok := n.entity.(*broker.Queue)
		if !ok {
			return plan{}, fmt.Errorf("%s on a topic: %w: its messages are in its subscriptions", operation, broker.ErrInvalid)
		}
		return read.onQueue(n, q, body)
	}
	return read.onEntity(n, body)
}

// reading is how an operation is read, and the right it needs.
type reading struct {
	right    Rights
	onEntity func(*management, amqp.Map) (plan, error)
	onQueue  func(*management, *broker.Queue, amqp.Map) (plan, error)
}

// managementOperations are those of $management. The service's are all known to it under com.microsoft.
var managementOperations = map[string]reading{
	"com.microsoft:schedule-message":           {right: Send, onEntity: (*management).schedule},
	"com.microsoft:cancel-scheduled-message":   {right: Send, onEntity: (*management).cancel},
	"com.microsoft:peek-message":               {right: Listen, onEntity: (*management).peek},
	"com.microsoft:renew-lock":                 {right: Listen, onQueue: (*management).renew},
	"com.microsoft:update-disposition":         {right: Listen, onQueue: (*management).update},
	"com.microsoft:receive-by-sequence-number": {right: Listen, onQueue: (*management).receiveDeferred},
	"com.microsoft:renew-session-lock":         {right: Listen, onQueue: (*management).renewSession},
	"com.microsoft:get-session-state":          {right: Listen, onQueue: (*management).sessionState},
	"com.microsoft:set-session-state":          {right: Listen, onQueue: (*management).setSessionState},
	"com.microsoft:get-message-sessions":       {right: Listen, onQueue: (*management).listSessions},
	"com.microsoft:add-rule":                   {right: Listen, onQueue: (*management).addRule},
	"com.microsoft:remove-rule":                {right: Listen, onQueue: (*management).removeRule},
	"com.microsoft:enumerate-rules":            {right: Listen, onQueue: (*management).listRules},
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

// textOf reads a member that must be a string; a session may have the empty one.
func textOf(body amqp.Map, name string) (string, error) {
	v, _ := body.Get(name)
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s: %w: a string is needed, got %T", name, broker.ErrInvalid, v)
	}
	return s, nil
}

// numberOf reads a member that must be a whole number, of whatever width.
func numberOf(body amqp.Map, name string) (int64, error) {
	v, _ := body.Get(name)
	i, ok := amqp.Integer(v)
	if !ok {
		return 0, fmt.Errorf("%s: %w: a whole number is needed, got %T", name, broker.ErrInvalid, v)
	}
	return i, nil
}

// done is the reply to what has been done.
func done(body ...amqp.Entry) reply {
	return reply{status: http.StatusOK, description: "OK", body: body}
}
