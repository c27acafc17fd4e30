package servicebus

import (
	"fmt"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/broker"
)

// sender is a link on which a client sends to a queue or topic.
type sender struct {
	*attachment
	connection *connection
	entity     broker.Entity
}

var _ incoming = (*sender)(nil)

func (c *connection) attachSender(l *amqp.Link, entity broker.Entity) (accept func(), err error) {
	if q, ok := entity.(*broker.Queue); ok && !q.TakesSends() {
		return nil, fmt.Errorf("send to %s: %w: messages come here only from the entity it belongs to", entity.Path(), broker.ErrInvalid)
	}
	s := &sender{attachment: attachmentTo(l, entityText(entity.Path()), Send), connection: c, entity: entity}
	l.Data = s
	return func() {
		how := amqp.Acceptance{MaxMessageSize: uint64(entity.MaxMessage()), Credit: senderCredit}
		if c.server.hub.Off("servicebus.max-message-size") {
			how.MaxMessageSize = 0
		}
		c.log("accept sender", c.accept(l, s.attachment, entity, how))
	}, nil
}

// transfer takes a message or a batch.
func (s *sender) transfer(d *amqp.Delivery) {
	c := s.connection
	messages, err := parseTransfer(c.server.hub, d.Format, d.Message)
	if err != nil {
		s.settle(d, err)
		return
	}
	op := control.Op{Operation: "send", Entity: s.path, Key: messages[0].ID} // a rule sees a batch as its first message
	if !c.concerned(op) {
		_, err := s.entity.Enqueue(c.client, messages...)
		c.server.namespace.Kept(func() { s.settle(d, err) })
		return
	}
	op.Body = data(messages[0])
	c.perform(operation{
		op:   op,
		link: s.link,
		apply: func() func() {
			_, err := s.entity.Enqueue(c.client, messages...)
			return func() { s.settle(d, err) }
		},
		refuse: func(decision control.Decision) { s.answer(d, amqp.Rejected{Error: ordered(decision)}) },
	})
}

func (s *sender) settle(d *amqp.Delivery, err error) {
	if err != nil {
		s.answer(d, amqp.Rejected{Error: wireError(err)})
		return
	}
	s.answer(d, amqp.Accepted{})
}

func (s *sender) answer(d *amqp.Delivery, state amqp.State) {
	if !d.Settled { // who sends settled wants no answer
		s.connection.log("settle send", d.Settle(state))
	}
}
