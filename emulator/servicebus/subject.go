package servicebus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/servicebus/broker"
	"oneeffect/emulator/servicebus/rule"
)

// subject is a message while rules look at it. Actions change the subject; message makes a message of it again.
type subject struct {
	original    *broker.Message
	content     *content
	properties  amqp.Properties
	application amqp.Map
	partition   *string // what an action has set; the annotation otherwise
	repartition bool
}

var _ rule.Copy = (*subject)(nil)

func newSubject(m *broker.Message) (*subject, error) {
	c, ok := m.Content.(*content)
	if !ok {
		return nil, fmt.Errorf("message %s has content %T", m.ID, m.Content)
	}
	s := &subject{original: m, content: c}
	var err error
	if s.properties, err = (amqp.Message{Properties: c.properties}).DecodeProperties(); err != nil {
		return nil, fmt.Errorf("properties: %w", err)
	}
	if s.application, err = c.application.Map(); err != nil {
		return nil, fmt.Errorf("application properties: %w", err)
	}
	return s, nil
}

// System returns a property of the message itself.
func (s *subject) System(name string) (any, bool) {
	p := &s.properties
	switch name {
	case "MessageId":
		return idText(p.MessageID), p.MessageID != nil
	case "CorrelationId":
		return idText(p.CorrelationID), p.CorrelationID != nil
	case "ContentType":
		return string(p.ContentType.Or("")), p.ContentType.Set
	case "PartitionKey":
		if s.repartition {
			return optional(s.partition)
		}
		v, _ := annotation(s.content.head().messageAnnotations, annotationPartition)
		key, ok := v.(string)
		return key, ok
	case "ScheduledEnqueueTimeUtc":
		return s.original.ScheduledFor, !s.original.ScheduledFor.IsZero()
	case "Size":
		return int64(s.original.Size), true
	case "TimeToLive":
		return s.original.TimeToLive, s.original.TimeToLive > 0
	}
	if field := s.text(name); field != nil {
		return field.Or(""), field.Set
	}
	return nil, false
}

// text finds a property that is a string.
func (s *subject) text(name string) *amqp.Optional[string] {
	switch name {
	case "Label":
		return &s.properties.Subject
	case "ReplyTo":
		return &s.properties.ReplyTo
	case "ReplyToSessionId":
		return &s.properties.ReplyToGroupID
	case "SessionId":
		return &s.properties.GroupID
	case "To":
		return &s.properties.To
	}
	return nil
}

func optional(s *string) (any, bool) {
	if s == nil {
		return nil, false
	}
	return *s, true
}

// User returns an application property.
func (s *subject) User(name string) (any, bool) {
	i := s.index(name)
	if i < 0 {
		return nil, false
	}
	v := s.application[i].Value
	if raw, ok := v.(amqp.Raw); ok {
		decoded, err := raw.Decode()
		if err != nil {
			return raw, true
		}
		v = decoded
	}
	return ruleValue(v), true
}

func (s *subject) index(name string) int {
	return slices.IndexFunc(s.application, func(e amqp.Entry) bool {
		key, ok := e.Key.(string)
		return ok && strings.EqualFold(key, name)
	})
}

// The descriptors under which .NET sends what AMQP has no type for.
const (
	describedTimeSpan       = amqp.Symbol("com.microsoft:timespan")
	describedDateTimeOffset = amqp.Symbol("com.microsoft:datetime-offset")
	describedURI            = amqp.Symbol("com.microsoft:uri")
)

// ruleValue is an AMQP value as rules know it.
func ruleValue(v any) any {
	switch v := v.(type) {
	case amqp.Symbol:
		return string(v)
	case amqp.Char:
		return string(rune(v))
	case amqp.UUID:
		return rule.GUID(v)
	case amqp.Described:
		ticks, isTicks := v.Value.(int64)
		switch {
		case v.Descriptor == any(describedTimeSpan) && isTicks:
			return durationOfTicks(ticks)
		case v.Descriptor == any(describedDateTimeOffset) && isTicks:
			return timeOfTicks(ticks)
		case v.Descriptor == any(describedURI):
			return v.Value
		}
	}
	return v
}

// wireValue is a rule's value as AMQP carries it.
func wireValue(v any) any {
	switch v := v.(type) {
	case rule.GUID:
		return amqp.UUID(v)
	case time.Duration:
		return amqp.Described{Descriptor: describedTimeSpan, Value: int64(v / 100)}
	}
	return v
}

// SetSystem sets a property of the message itself.
func (s *subject) SetSystem(name string, value *string) error {
	if field := s.text(name); field != nil {
		*field = amqp.Optional[string]{}
		if value != nil {
			*field = amqp.Some(*value)
		}
		return nil
	}
	switch p := &s.properties; name {
	case "MessageId":
		if value == nil {
			return fmt.Errorf("%w: a message cannot be without sys.MessageId", rule.ErrEvaluation)
		}
		p.MessageID = *value
	case "CorrelationId":
		p.CorrelationID = nil
		if value != nil {
			p.CorrelationID = *value
		}
	case "ContentType":
		p.ContentType = amqp.Optional[amqp.Symbol]{}
		if value != nil {
			p.ContentType = amqp.Some(amqp.Symbol(*value))
		}
	case "PartitionKey":
		s.partition, s.repartition = value, true
	default:
		return fmt.Errorf("%w: sys.%s cannot be set", rule.ErrEvaluation, name)
	}
	return nil
}

// SetUser sets an application property, under the name it has if it is there.
func (s *subject) SetUser(name string, value any) {
	value = wireValue(value)
	s.application = slices.Clone(s.application)
	if i := s.index(name); i >= 0 {
		s.application[i].Value = value
		return
	}
	s.application = append(s.application, amqp.Entry{Key: name, Value: value})
}

// RemoveUser takes an application property away.
func (s *subject) RemoveUser(name string) {
	if i := s.index(name); i >= 0 {
		s.application = slices.Delete(slices.Clone(s.application), i, i+1)
	}
}

// message makes a message of what actions have left.
func (s *subject) message() (*broker.Message, error) {
	c := *s.content
	var err error
	if c.properties, err = amqp.AppendProperties(nil, s.properties); err != nil {
		return nil, fmt.Errorf("%w: properties: %w", rule.ErrEvaluation, err)
	}
	c.application = nil
	if len(s.application) > 0 {
		if c.application, err = amqp.AppendMap(nil, amqp.KindApplicationProperties, s.application); err != nil {
			return nil, fmt.Errorf("%w: application properties: %w", rule.ErrEvaluation, err)
		}
	}
	if s.repartition {
		b := c.head()
		b.messageAnnotations = without(slices.Clone(b.messageAnnotations), annotationPartition)
		if s.partition != nil {
			b.messageAnnotations = append(b.messageAnnotations, amqp.Entry{Key: annotationPartition, Value: *s.partition})
		}
		c.put(b)
	}
	m := *s.original
	grown := len(c.properties) + len(c.application) - len(s.content.properties) - len(s.content.application)
	m.Size, m.HeaderSize = m.Size+grown, m.HeaderSize+grown
	if m.HeaderSize > broker.MaxHeader {
		return nil, fmt.Errorf("%w: it would make properties of %d bytes, at most %d are allowed", rule.ErrEvaluation, m.HeaderSize, broker.MaxHeader)
	}
	m.Content = &c
	m.ID, m.CorrelationID, m.Subject = idText(s.properties.MessageID), idText(s.properties.CorrelationID), s.properties.Subject.Or("")
	m.SessionID, m.InSession = s.properties.GroupID.Or(""), s.properties.GroupID.Set
	return &m, nil
}
