package rule

import (
	"fmt"
	"slices"
)

// Copy is a subscription's copy of a message, which an action may change.
type Copy interface {
	Message
	// SetSystem sets a system property to a string, or takes it away if there is none.
	SetSystem(name string, value *string) error
	// SetUser sets a user property, under the name it has if it is there.
	SetUser(name string, value any)
	// RemoveUser takes a user property away, if it is there.
	RemoveUser(name string)
}

// writable are the system properties that an action may set.
var writable = []string{
	"ContentType", "CorrelationId", "Label", "MessageId", "PartitionKey", "ReplyTo", "ReplyToSessionId", "SessionId", "To",
}

// Action changes messages.
type Action struct{ statements []statement }

type statement struct {
	property propertyNode
	value    node // nil to remove the property
}

// ParseAction reads an SQL action: SET and REMOVE statements, with or without a semicolon after each.
func ParseAction(expression string, parameters map[string]any) (*Action, error) {
	p, err := newParser(expression, parameters)
	if err != nil {
		return nil, err
	}
	a := &Action{}
	for p.peek().kind != end {
		at := p.peek().at
		s, err := p.statement()
		if err != nil {
			return nil, err
		}
		if a.statements = append(a.statements, s); len(a.statements) > MaxStatements {
			return nil, &SyntaxError{at, fmt.Sprintf("an action has at most %d statements, and this is one more", MaxStatements)}
		}
		p.accept(symbol, ";")
	}
	if len(a.statements) == 0 {
		return nil, &SyntaxError{1, "an action needs at least one statement"}
	}
	return a, nil
}

func (p *parser) statement() (statement, error) {
	word := p.next()
	if !word.is(keyword, "SET") && !word.is(keyword, "REMOVE") {
		return statement{}, p.unexpected(word, "SET or REMOVE should stand")
	}
	at := p.peek().at
	property, err := p.property(p.next())
	if err != nil {
		return statement{}, err
	}
	if property.system && !slices.Contains(writable, property.name) {
		return statement{}, &SyntaxError{at, fmt.Sprintf("an action cannot change sys.%s", property.name)}
	}
	if word.text == "REMOVE" {
		return statement{property: property}, nil
	}
	if err := p.expect("="); err != nil {
		return statement{}, err
	}
	at = p.peek().at
	value, err := p.sum()
	if err != nil {
		return statement{}, err
	}
	return statement{property, value}, p.value(value, at, "SET")
}

// Apply changes the copy. After an error, it is half changed and to be thrown away.
func (a *Action) Apply(c Copy) error {
	for _, s := range a.statements {
		if err := s.apply(c); err != nil {
			return err
		}
	}
	return nil
}

func (s statement) apply(c Copy) error {
	if s.value == nil {
		if s.property.system {
			return c.SetSystem(s.property.name, nil)
		}
		c.RemoveUser(s.property.name)
		return nil
	}
	v, err := s.value.eval(c)
	if err != nil {
		return err
	}
	if missing(v) {
		v = nil
	}
	if !s.property.system {
		old, _ := c.User(s.property.name)
		c.SetUser(s.property.name, adopt(old, v))
		return nil
	}
	if v == nil {
		return c.SetSystem(s.property.name, nil)
	}
	written, ok := text(v)
	if !ok {
		return fmt.Errorf("%w: sys.%s cannot be %s", ErrEvaluation, s.property.name, kind(v))
	}
	return c.SetSystem(s.property.name, &written)
}
