package servicebus

import (
	"fmt"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/servicebus/broker"
)

// settlementOf translates the state a client gives a delivery: to the engine's settlement, to the operation's name in
// rules, and to the state the server answers when it is applied. No name means that the state settles nothing.
//
// A dead-lettering comes as rejected and must be answered accepted: to clients, a rejected answer is a failure.
func settlementOf(state amqp.State) (s broker.Settlement, name string, answer amqp.State, err error) {
	answer = amqp.Accepted{}
	switch state := state.(type) {
	case nil, amqp.Received:
		return s, "", nil, nil
	case amqp.Accepted:
		s.Disposition, name = broker.Complete, "complete"
	case amqp.Released:
		s.Disposition, name, answer = broker.Release, "release", amqp.Released{}
	case amqp.Modified:
		s.Disposition, name, answer = broker.Abandon, "abandon", amqp.Modified{}
		if state.UndeliverableHere {
			s.Disposition, name = broker.Defer, "defer"
		}
		s.Changes, err = changesOf(state.MessageAnnotations)
	case amqp.Rejected:
		s.Disposition, name = broker.DeadLetter, "dead-letter"
		if state.Error == nil {
			break
		}
		s.Changes, err = changesOf(state.Error.Info)
		if s.Changes == nil && state.Error.Condition != "com.microsoft:dead-letter" {
			// A plain AMQP client knows no more than the error.
			s.Changes = map[string]any{
				broker.ReasonProperty:      string(state.Error.Condition),
				broker.DescriptionProperty: state.Error.Description,
			}
		}
		s.Reason, _ = s.Changes[broker.ReasonProperty].(string)
	default:
		err = fmt.Errorf("delivery state %T: %w", state, broker.ErrUnsupported)
	}
	return s, name, answer, err
}

// changesOf reads properties to modify. They become application properties, which are scalars; and clients take the
// reason and description of a dead letter for strings without looking.
func changesOf(given amqp.Map) (map[string]any, error) {
	if len(given) == 0 {
		return nil, nil
	}
	changes := make(map[string]any, len(given))
	for _, e := range given {
		var name string
		switch key := e.Key.(type) {
		case string:
			name = key
		case amqp.Symbol:
			name = string(key)
		default:
			return nil, fmt.Errorf("property to modify %v: %w: its name is of type %T", e.Key, broker.ErrInvalid, e.Key)
		}
		value, ok := given.Get(e.Key)
		if !ok {
			return nil, fmt.Errorf("property to modify %s: %w: its value does not decode", name, broker.ErrInvalid)
		}
		isReason := name == broker.ReasonProperty || name == broker.DescriptionProperty
		if isReason && value == nil {
			continue // some clients, @azure/service-bus among them, write down what they were not given
		}
		switch value.(type) {
		case amqp.List, amqp.Map, amqp.Array, amqp.Described:
			return nil, fmt.Errorf("property to modify %s: %w: application properties are simple values", name, broker.ErrInvalid)
		}
		if _, isText := value.(string); isReason && !isText {
			return nil, fmt.Errorf("property to modify %s: %w: it must be a string", name, broker.ErrInvalid)
		}
		changes[name] = value
	}
	return changes, nil
}
