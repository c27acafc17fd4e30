package servicebus

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"oneeffect/emulator/amqp"
	"oneeffect/emulator/control"
	"oneeffect/emulator/servicebus/atom"
	"oneeffect/emulator/servicebus/broker"
	"oneeffect/emulator/servicebus/rule"
)

// Descriptors of the types in which rules are listed.
const (
	describedRule        = uint64(0x0000013700000004)
	describedEmptyAction = uint64(0x0000013700000005)
	describedSQLAction   = uint64(0x0000013700000006)
	describedSQLFilter   = uint64(0x0000001370000006)
	describedTrueFilter  = uint64(0x0000001370000007)
	describedFalseFilter = uint64(0x0000001370000008)
	describedCorrelation = uint64(0x0000001370000009)
)

// maxRules bounds the rules of one page of a list.
const maxRules = 2_000

// subscriptionOf finds out which topic's subscription a queue is.
func subscriptionOf(q *broker.Queue) (topic, name string, err error) {
	const between = "/subscriptions/"
	path := q.Path()
	i := strings.Index(strings.ToLower(path), between)
	if i < 0 || q.TakesSends() {
		return "", "", fmt.Errorf("rules of %s: %w: only subscriptions have rules", path, broker.ErrInvalid)
	}
	return path[:i], path[i+len(between):], nil
}

func (n *management) addRule(q *broker.Queue, body amqp.Map) (plan, error) {
	topic, subscription, err := subscriptionOf(q)
	if err != nil {
		return plan{}, err
	}
	name, err := textOf(body, "rule-name")
	if err != nil {
		return plan{}, err
	}
	v, _ := body.Get("rule-description")
	given, ok := v.(amqp.Map)
	if !ok {
		return plan{}, fmt.Errorf("rule-description: %w: a map is needed, got %T", broker.ErrInvalid, v)
	}
	described, err := ruleDescribed(name, given)
	if err != nil {
		return plan{}, err
	}
	var x examination
	r := x.rule(name, described)
	if len(x.mistakes) > 0 {
		return plan{}, fmt.Errorf("%w: %w", broker.ErrInvalid, x.mistakes[0])
	}
	return plan{op: control.Op{Operation: "add-rule", Key: name}, run: func() reply {
		if err := n.connection.server.namespace.CreateRule(topic, subscription, r); err != nil {
			return refused(err)
		}
		return done()
	}}, nil
}

func (n *management) removeRule(q *broker.Queue, body amqp.Map) (plan, error) {
	topic, subscription, err := subscriptionOf(q)
	if err != nil {
		return plan{}, err
	}
	name, err := textOf(body, "rule-name")
	if err != nil {
		return plan{}, err
	}
	return plan{op: control.Op{Operation: "remove-rule", Key: name}, run: func() reply {
		if err := n.connection.server.namespace.DeleteRule(topic, subscription, name); err != nil {
			return refused(err)
		}
		return done()
	}}, nil
}

func (n *management) listRules(q *broker.Queue, body amqp.Map) (plan, error) {
	topic, subscription, err := subscriptionOf(q)
	if err != nil {
		return plan{}, err
	}
	top, err := numberOf(body, "top")
	if err != nil {
		return plan{}, err
	}
	skip, err := numberOf(body, "skip")
	if err != nil {
		return plan{}, err
	}
	return plan{op: control.Op{Operation: "list-rules"}, run: func() reply {
		rules, err := n.connection.server.namespace.Rules(topic, subscription)
		if err != nil {
			return refused(err)
		}
		rules = rules[min(max(0, skip), int64(len(rules))):]
		rules = rules[:min(max(0, top), maxRules, int64(len(rules)))]
		if len(rules) == 0 {
			return reply{status: http.StatusNoContent, description: "No rules."}
		}
		var list amqp.List
		for _, r := range rules {
			list = append(list, amqp.Map{{Key: "rule-description", Value: ruleOnWire(r)}})
		}
		return done(amqp.Entry{Key: "rules", Value: list})
	}}, nil
}

// ruleDescribed reads a rule as clients write it down over AMQP.
func ruleDescribed(name string, given amqp.Map) (*atom.Rule, error) {
	d := &atom.Rule{Name: &name}
	if action, ok := member(given, "sql-rule-action"); ok {
		expression, err := textOf(action, "expression")
		if err != nil {
			return nil, fmt.Errorf("sql-rule-action: %w", err)
		}
		d.Action = &atom.Action{Type: atom.SQLAction, SQLExpression: &expression}
	}
	sql, isSQL := member(given, "sql-filter")
	correlation, isCorrelation := member(given, "correlation-filter")
	_, isTrue := member(given, "true-filter")
	_, isFalse := member(given, "false-filter")
	switch {
	case isSQL:
		expression, err := textOf(sql, "expression")
		if err != nil {
			return nil, fmt.Errorf("sql-filter: %w", err)
		}
		d.Filter = &atom.Filter{Type: atom.SQLFilter, SQLExpression: &expression}
	case isCorrelation:
		filter, err := correlationDescribed(correlation)
		if err != nil {
			return nil, fmt.Errorf("correlation-filter: %w", err)
		}
		d.Filter = filter
	case isTrue:
		d.Filter = &atom.Filter{Type: atom.TrueFilter}
	case isFalse:
		d.Filter = &atom.Filter{Type: atom.FalseFilter}
	default:
		return nil, fmt.Errorf("rule-description: %w: it has no filter", broker.ErrInvalid)
	}
	return d, nil
}

// member finds a member that is a map.
func member(m amqp.Map, name string) (amqp.Map, bool) {
	v, _ := m.Get(name)
	inner, ok := v.(amqp.Map)
	return inner, ok
}

// compared are the members of a correlation filter, in the order in which they are listed.
var compared = []struct {
	name string
	of   func(*atom.Filter) **string
}{
	{"correlation-id", func(f *atom.Filter) **string { return &f.CorrelationID }},
	{"message-id", func(f *atom.Filter) **string { return &f.MessageID }},
	{"to", func(f *atom.Filter) **string { return &f.To }},
	{"reply-to", func(f *atom.Filter) **string { return &f.ReplyTo }},
	{"label", func(f *atom.Filter) **string { return &f.Label }},
	{"session-id", func(f *atom.Filter) **string { return &f.SessionID }},
	{"reply-to-session-id", func(f *atom.Filter) **string { return &f.ReplyToSessionID }},
	{"content-type", func(f *atom.Filter) **string { return &f.ContentType }},
}

func correlationDescribed(given amqp.Map) (*atom.Filter, error) {
	f := &atom.Filter{Type: atom.CorrelationFilter}
	for _, c := range compared {
		switch v, _ := given.Get(c.name); v := v.(type) {
		case nil:
		case string:
			*c.of(f) = &v
		default:
			return nil, fmt.Errorf("%s: %w: a string is needed, got %T", c.name, broker.ErrInvalid, v)
		}
	}
	properties, _ := member(given, "properties")
	for _, p := range properties {
		name, _ := p.Key.(string)
		value, err := describeValue(p.Value)
		if err != nil {
			return nil, fmt.Errorf("property %v: %w", p.Key, err)
		}
		if f.Properties == nil {
			f.Properties = &atom.Parameters{}
		}
		f.Properties.List = append(f.Properties.List, atom.Parameter{Key: name, Value: value})
	}
	return f, nil
}

// describeValue writes a value with its XML schema type.
func describeValue(v any) (atom.Value, error) {
	if i, ok := amqp.Integer(v); ok {
		return atom.Value{Type: "long", Text: strconv.FormatInt(i, 10)}, nil
	}
	switch v := v.(type) {
	case string:
		return atom.Value{Type: "string", Text: v}, nil
	case bool:
		return atom.Value{Type: "boolean", Text: strconv.FormatBool(v)}, nil
	case float32:
		return atom.Value{Type: "double", Text: strconv.FormatFloat(float64(v), 'g', -1, 32)}, nil
	case float64:
		return atom.Value{Type: "double", Text: strconv.FormatFloat(v, 'g', -1, 64)}, nil
	case time.Time:
		return atom.Value{Type: "dateTime", Text: v.UTC().Format(time.RFC3339Nano)}, nil
	case amqp.UUID:
		return atom.Value{Type: "guid", Text: v.String()}, nil
	}
	return atom.Value{}, fmt.Errorf("%w: a filter cannot compare with a %T", broker.ErrInvalid, v)
}

// ruleOnWire is a rule as clients read it over AMQP.
func ruleOnWire(r broker.Rule) amqp.Described {
	d, _ := r.Description.(*atom.Rule)
	if d == nil || d.Filter == nil {
		d = &atom.Rule{Filter: &atom.Filter{Type: atom.TrueFilter}}
	}
	action := amqp.Described{Descriptor: describedEmptyAction, Value: amqp.List{}}
	if d.Action != nil && d.Action.Type == atom.SQLAction {
		action = amqp.Described{Descriptor: describedSQLAction, Value: amqp.List{textOrNull(d.Action.SQLExpression), int32(compatibilityLevel)}}
	}
	return amqp.Described{Descriptor: describedRule, Value: amqp.List{filterOnWire(d.Filter), action, r.Name, r.Created}}
}

func filterOnWire(f *atom.Filter) amqp.Described {
	switch f.Type {
	case atom.FalseFilter:
		return amqp.Described{Descriptor: describedFalseFilter, Value: amqp.List{}}
	case atom.SQLFilter:
		return amqp.Described{Descriptor: describedSQLFilter, Value: amqp.List{textOrNull(f.SQLExpression), int32(compatibilityLevel)}}
	case atom.CorrelationFilter:
		var list amqp.List
		for _, c := range compared {
			list = append(list, textOrNull(*c.of(f)))
		}
		return amqp.Described{Descriptor: describedCorrelation, Value: append(list, propertiesOnWire(f.Properties))}
	}
	return amqp.Described{Descriptor: describedTrueFilter, Value: amqp.List{}}
}

// propertiesOnWire is a map of what a correlation filter compares with; null if that is nothing.
func propertiesOnWire(p *atom.Parameters) any {
	if p == nil || len(p.List) == 0 {
		return nil
	}
	m := make(amqp.Map, 0, len(p.List))
	for _, parameter := range p.List {
		v, err := valueOf(parameter.Value)
		if err != nil {
			continue // what does not read was refused when the rule was made
		}
		switch value := v.(type) {
		case rule.GUID:
			v = amqp.UUID(value)
		case time.Duration:
			v = parameter.Value.Text
		}
		m = append(m, amqp.Entry{Key: parameter.Key, Value: v})
	}
	return m
}

func textOrNull(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}
