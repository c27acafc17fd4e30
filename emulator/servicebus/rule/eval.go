package rule

import (
	"fmt"
	"slices"
	"strings"
)

// Message is a message as filters read it. Values are nil, bool, string, integers and floats of every width, time.Time,
// time.Duration and GUID; values of other types exist and equal nothing.
type Message interface {
	// System returns a system property by its name as systemProperties has it, and whether the message has it.
	System(name string) (any, bool)
	// User returns a user property, found without regard to case, and whether the message has it.
	User(name string) (any, bool)
}

// systemProperties are those that an expression may name.
var systemProperties = []string{
	"ContentType", "CorrelationId", "Label", "MessageId", "PartitionKey", "ReplyTo", "ReplyToSessionId",
	"ScheduledEnqueueTimeUtc", "SessionId", "Size", "TimeToLive", "To",
}

// elsewhere are system properties that the service knows when a rule is evaluated and this emulator does not.
var elsewhere = []string{
	"DeadLetterSource", "DeliveryCount", "EnqueuedSequenceNumber", "EnqueuedTimeUtc", "ExpiresAtUtc", "ForcePersistence",
	"IsBodyConsumed", "LockToken", "LockedUntilUtc", "SequenceNumber", "State", "ViaPartitionKey",
}

// systemProperty returns the name as it is written in the list.
func systemProperty(name string) (string, error) {
	same := func(s string) bool { return strings.EqualFold(s, name) }
	if i := slices.IndexFunc(systemProperties, same); i >= 0 {
		return systemProperties[i], nil
	}
	if slices.ContainsFunc(elsewhere, same) {
		return "", fmt.Errorf("the system property %s is not supported by this emulator; supported are %s", name, strings.Join(systemProperties, ", "))
	}
	if same("Subject") {
		return "", fmt.Errorf("there is no system property %s: a message's subject is sys.Label", name)
	}
	return "", fmt.Errorf("there is no system property %s; there are %s", name, strings.Join(systemProperties, ", "))
}

// node is a part of an expression: a predicate, which is true, false or unknown, or a value.
type node interface {
	eval(Message) (any, error) // a predicate gives a bool or unknown
}

type (
	constantNode struct{ value any }
	propertyNode struct {
		system bool
		name   string
	}
	lookupNode struct{ name node }
	newIDNode  struct{}
	signNode   struct {
		op string
		of node
	}
	arithmeticNode struct {
		op          string
		left, right node
	}

	orNode      struct{ left, right node }
	andNode     struct{ left, right node }
	notNode     struct{ of node }
	compareNode struct {
		op          string
		left, right node
	}
	nullNode   struct{ property propertyNode }
	existsNode struct{ property propertyNode }
	inNode     struct {
		left node
		list []node
	}
	likeNode struct{ left, pattern, escape node }
)

func isPredicate(n node) bool {
	switch n.(type) {
	case orNode, andNode, notNode, compareNode, nullNode, existsNode, inNode, likeNode:
		return true
	}
	return false
}

// Match reports whether the filter's condition is true of the message.
func (f *SQL) Match(m Message) (bool, error) {
	v, err := f.predicate.eval(m)
	matches, _ := v.(bool)
	return matches && err == nil, err
}

func (n constantNode) eval(Message) (any, error) { return n.value, nil }

func (n propertyNode) eval(m Message) (any, error) {
	if v, ok := n.find(m); ok {
		return v, nil
	}
	return unknown{}, nil
}

func (n propertyNode) find(m Message) (any, bool) {
	if n.system {
		return m.System(n.name)
	}
	return m.User(n.name)
}

func (n lookupNode) eval(m Message) (any, error) {
	v, err := n.name.eval(m)
	if err != nil || missing(v) {
		return unknown{}, err
	}
	name, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("%w: property() needs a string, not %s", ErrEvaluation, kind(widen(v)))
	}
	return propertyNode{name: name}.eval(m)
}

func (newIDNode) eval(Message) (any, error) { return newGUID(), nil }

func (n signNode) eval(m Message) (any, error) {
	v, err := n.of.eval(m)
	if err != nil || missing(v) {
		return unknown{}, err
	}
	if n.op == "-" {
		return compute("-", int64(0), v)
	}
	return compute("*", int64(1), v)
}

// operands evaluates two values. If one of them is missing, ok is false.
func operands(m Message, left, right node) (a, b any, ok bool, err error) {
	if a, err = left.eval(m); err != nil {
		return nil, nil, false, err
	}
	if b, err = right.eval(m); err != nil {
		return nil, nil, false, err
	}
	return a, b, !missing(a) && !missing(b), nil
}

func (n arithmeticNode) eval(m Message) (any, error) {
	a, b, ok, err := operands(m, n.left, n.right)
	if !ok {
		return unknown{}, err
	}
	return compute(n.op, a, b)
}

func (n compareNode) eval(m Message) (any, error) {
	a, b, ok, err := operands(m, n.left, n.right)
	if !ok {
		return unknown{}, err
	}
	switch n.op {
	case "=":
		return equal(a, b), nil
	case "<>", "!=":
		return !equal(a, b), nil
	}
	c, err := order(a, b)
	if err != nil {
		return nil, err
	}
	switch n.op {
	case ">":
		return c > 0, nil
	case ">=":
		return c >= 0, nil
	case "<":
		return c < 0, nil
	}
	return c <= 0, nil
}

// What decides alone is not evaluated further: a part that cannot be evaluated does no harm behind it.

func (n orNode) eval(m Message) (any, error) { return junction(m, n.left, n.right, true) }

func (n andNode) eval(m Message) (any, error) { return junction(m, n.left, n.right, false) }

func junction(m Message, left, right node, decides bool) (any, error) {
	a, err := left.eval(m)
	if err != nil || a == any(decides) {
		return a, err
	}
	b, err := right.eval(m)
	if err != nil || b == any(decides) || missing(b) {
		return b, err
	}
	return a, nil
}

func (n notNode) eval(m Message) (any, error) {
	v, err := n.of.eval(m)
	if is, ok := v.(bool); ok {
		return !is, err
	}
	return v, err
}

func (n nullNode) eval(m Message) (any, error) {
	v, ok := n.property.find(m)
	return !ok || v == nil, nil
}

func (n existsNode) eval(m Message) (any, error) {
	_, ok := n.property.find(m)
	return ok, nil
}

func (n inNode) eval(m Message) (any, error) {
	v, err := n.left.eval(m)
	if err != nil || missing(v) {
		return unknown{}, err
	}
	var outcome any = false
	for _, item := range n.list {
		other, err := item.eval(m)
		switch {
		case err != nil:
			return nil, err
		case missing(other):
			outcome = unknown{}
		case equal(v, other):
			return true, nil
		}
	}
	return outcome, nil
}

func (n likeNode) eval(m Message) (any, error) {
	parts := []node{n.left, n.pattern}
	if n.escape != nil {
		parts = append(parts, n.escape)
	}
	texts := make([][]rune, len(parts))
	for i, part := range parts {
		v, err := part.eval(m)
		if err != nil || missing(v) {
			return unknown{}, err
		}
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%w: LIKE needs strings, not %s", ErrEvaluation, kind(widen(v)))
		}
		texts[i] = []rune(s)
	}
	if len(texts) == 2 {
		return like(texts[0], texts[1], 0, false), nil
	}
	if len(texts[2]) != 1 {
		return nil, fmt.Errorf("%w: ESCAPE needs one character, not %q", ErrEvaluation, string(texts[2]))
	}
	return like(texts[0], texts[1], texts[2][0], true), nil
}
