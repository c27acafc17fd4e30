package servicebus

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/atom"
	"oneeffect/emulator/servicebus/broker"
	"oneeffect/emulator/servicebus/journal"
)

// openNamespace makes the namespace, in memory alone or with its journal.
func openNamespace(h *control.Hub, c Config) (*broker.Namespace, *journal.Journal, error) {
	declared := described(c.MessagingSKU, c.Namespace)
	if c.Data == "" {
		n, err := broker.New(h, declared)
		return n, nil, err
	}
	j, err := journal.Open(c.Data, codec{c.MessagingSKU})
	if err != nil {
		return nil, nil, err
	}
	n, err := restored(h, j, declared)
	if err != nil {
		return nil, nil, errors.Join(err, j.Close())
	}
	return n, j, nil
}

// restored makes the namespace of a journal, and has it be as declared where that says something new.
func restored(h *control.Hub, j *journal.Journal, declared broker.Config) (*broker.Namespace, error) {
	news, err := j.News(declared)
	if err != nil {
		return nil, err
	}
	news.Journal = j
	n, err := broker.New(h, news)
	if err != nil {
		return nil, err
	}
	if err := j.Declared(declared); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Failed is closed when the server's data cannot be written any more. Every connection is cut then, and nothing that was
// not kept is ever answered: it is time to end the process. Without a data folder it is nil.
func (s *Server) Failed() <-chan struct{} {
	if s.journal == nil {
		return nil
	}
	return s.journal.Failed()
}

// Err is why the server's data cannot be written any more.
func (s *Server) Err() error {
	if s.journal == nil {
		return nil
	}
	return s.journal.Err()
}

// watchJournal ends all connections when the journal fails.
func (s *Server) watchJournal() {
	if s.journal == nil {
		return
	}
	s.work.Go(func() {
		select {
		case <-s.journal.Failed():
			s.log.Error("the data cannot be written", slog.Any("err", s.journal.Err()))
			s.end(s.journal.Err())
		case <-s.life.Done():
		}
	})
}

// awaitKept waits until everything that has been done so far outlives the process. It reports false if it never will.
func (s *Server) awaitKept() bool {
	if !s.namespace.Lasting() {
		return true
	}
	kept := make(chan struct{})
	s.namespace.Kept(func() { close(kept) })
	select {
	case <-kept:
		return true
	case <-s.Failed():
		return false
	}
}

// codec writes and reads for the journal what the engine carries for the dialect: messages as AMQP, and descriptions as
// JSON.
type codec struct{ tier string }

var _ journal.Codec = codec{}

// AppendContent writes a message in the sections it came in.
func (codec) AppendContent(dst []byte, v any) ([]byte, error) {
	c, ok := v.(*content)
	if !ok {
		return nil, fmt.Errorf("content is of type %T", v)
	}
	own := c.head()
	var err error
	if own.header != (amqp.Header{}) {
		dst = amqp.AppendHeader(dst, own.header)
	}
	if len(own.deliveryAnnotations) > 0 {
		if dst, err = amqp.AppendMap(dst, amqp.KindDeliveryAnnotations, own.deliveryAnnotations); err != nil {
			return nil, fmt.Errorf("delivery annotations: %w", err)
		}
	}
	if len(own.messageAnnotations) > 0 {
		if dst, err = amqp.AppendMap(dst, amqp.KindMessageAnnotations, own.messageAnnotations); err != nil {
			return nil, fmt.Errorf("message annotations: %w", err)
		}
	}
	for _, section := range [][]byte{c.properties, c.application, c.body, c.footer} {
		dst = append(dst, section...)
	}
	return dst, nil
}

// Content reads what AppendContent has written. The content keeps views of it.
func (codec) Content(encoded []byte) (any, error) {
	sections, err := amqp.SplitMessage(encoded)
	if err != nil {
		return nil, err
	}
	c, err := contentOf(sections)
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// AppendChanges writes application properties.
func (codec) AppendChanges(dst []byte, changes map[string]any) ([]byte, error) {
	m := make(amqp.Map, 0, len(changes))
	for name, value := range changes {
		m = append(m, amqp.Entry{Key: name, Value: value})
	}
	return amqp.Append(dst, m)
}

// Changes reads application properties.
func (codec) Changes(encoded []byte) (map[string]any, error) {
	v, _, err := amqp.Decode(encoded)
	if err != nil {
		return nil, err
	}
	m, ok := v.(amqp.Map)
	if !ok {
		return nil, fmt.Errorf("application properties are of type %T", v)
	}
	changes := make(map[string]any, len(m))
	for _, e := range m {
		name, ok := e.Key.(string)
		if !ok {
			return nil, fmt.Errorf("the name of an application property is of type %T", e.Key)
		}
		changes[name] = e.Value
	}
	return changes, nil
}

// DescriptionJSON writes a description of package atom.
func (codec) DescriptionJSON(description any) ([]byte, error) { return json.Marshal(description) }

// QueueDescription reads the description of a queue.
func (codec) QueueDescription(text []byte) (any, error) { return readDescription[atom.Queue](text) }

// TopicDescription reads the description of a topic.
func (codec) TopicDescription(text []byte) (any, error) { return readDescription[atom.Topic](text) }

// SubscriptionDescription reads the description of a subscription.
func (codec) SubscriptionDescription(text []byte) (any, error) {
	return readDescription[atom.Subscription](text)
}

func readDescription[T any](text []byte) (any, error) {
	d := new(T)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, err
	}
	return d, nil
}

// Rule reads the description of a rule and makes the rule that it describes.
func (c codec) Rule(name string, text []byte) (broker.Rule, error) {
	d := &atom.Rule{}
	if err := json.Unmarshal(text, d); err != nil {
		return broker.Rule{}, err
	}
	x := &examination{tier: c.tier}
	r := x.rule(name, d)
	return r, errors.Join(x.mistakes...)
}
