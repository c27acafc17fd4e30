package rule

import (
	"fmt"
	"slices"
	"strings"
)

// Filter decides whether a message matches.
type Filter interface {
	// Match reports whether the message matches. Its errors wrap ErrEvaluation.
	Match(Message) (bool, error)
}

// True matches every message, False none.
type (
	True  struct{}
	False struct{}
)

// Match reports true.
func (True) Match(Message) (bool, error) { return true, nil }

// Match reports false.
func (False) Match(Message) (bool, error) { return false, nil }

// SQL is a filter in the service's dialect of SQL-92.
type SQL struct{ predicate node }

// ParseFilter reads an SQL filter. Parameters are named with their @; their values have the types that properties have.
func ParseFilter(expression string, parameters map[string]any) (*SQL, error) {
	p, err := newParser(expression, parameters)
	if err != nil {
		return nil, err
	}
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	if t := p.next(); t.kind != end {
		return nil, p.unexpected(t, "the filter should end")
	}
	if !isPredicate(n) {
		return nil, &SyntaxError{1, "this is a value; a filter is a condition, such as a comparison"}
	}
	return &SQL{n}, nil
}

// parser reads by recursive descent, one method for each level of binding. Conditions and values are read by the same
// methods, since a bracket may open either; operators check what they are given.
type parser struct {
	tokens     []token
	parameters map[string]any
}

func newParser(expression string, parameters map[string]any) (*parser, error) {
	tokens, err := lex(expression)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, parameters: make(map[string]any, len(parameters))}
	for name, v := range parameters {
		p.parameters[strings.ToLower("@"+strings.TrimPrefix(name, "@"))] = v
	}
	return p, nil
}

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) next() token {
	t := p.tokens[0]
	if t.kind != end {
		p.tokens = p.tokens[1:]
	}
	return t
}

// accept takes the next token if it is this one.
func (p *parser) accept(kind tokenKind, text string) bool {
	if !p.peek().is(kind, text) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(text string) error {
	if t := p.next(); !t.is(symbol, text) {
		return p.unexpected(t, fmt.Sprintf("%q should stand", text))
	}
	return nil
}

func (p *parser) unexpected(t token, instead string) error {
	return &SyntaxError{t.at, fmt.Sprintf("here is %s where %s", t, instead)}
}

func (p *parser) condition(n node, at int, operator string) error {
	if !isPredicate(n) {
		return &SyntaxError{at, operator + " joins conditions, and this is a value"}
	}
	return nil
}

func (p *parser) value(n node, at int, operator string) error {
	if isPredicate(n) {
		return &SyntaxError{at, operator + " takes values, and this is a condition"}
	}
	return nil
}

func (p *parser) or() (node, error)  { return p.junction("OR", p.and) }
func (p *parser) and() (node, error) { return p.junction("AND", p.not) }

// junction reads operands with one word between them.
func (p *parser) junction(word string, operand func() (node, error)) (node, error) {
	at := p.peek().at
	left, err := operand()
	for err == nil && p.peek().is(keyword, word) {
		if err := p.condition(left, at, word); err != nil {
			return nil, err
		}
		p.next()
		at := p.peek().at
		var right node
		if right, err = operand(); err == nil {
			err = p.condition(right, at, word)
		}
		if word == "OR" {
			left = orNode{left, right}
		} else {
			left = andNode{left, right}
		}
	}
	return left, err
}

func (p *parser) not() (node, error) {
	if !p.accept(keyword, "NOT") {
		return p.comparison()
	}
	at := p.peek().at
	n, err := p.not()
	if err != nil {
		return nil, err
	}
	return notNode{n}, p.condition(n, at, "NOT")
}

var comparisons = []string{"=", "<>", "!=", ">", ">=", "<", "<="}

func (p *parser) comparison() (node, error) {
	at := p.peek().at
	left, err := p.sum()
	if err != nil {
		return nil, err
	}
	t := p.peek()
	if t.kind == symbol && slices.Contains(comparisons, t.text) {
		p.next()
		rightAt := p.peek().at
		right, err := p.sum()
		if err != nil {
			return nil, err
		}
		if err := p.value(left, at, t.text); err != nil {
			return nil, err
		}
		return compareNode{t.text, left, right}, p.value(right, rightAt, t.text)
	}
	if p.accept(keyword, "IS") {
		return p.isNull(left, at)
	}
	negated := p.accept(keyword, "NOT")
	var n node
	switch t := p.peek(); {
	case t.is(keyword, "IN"):
		n, err = p.in(left, at)
	case t.is(keyword, "LIKE"):
		n, err = p.like(left, at)
	case negated:
		return nil, p.unexpected(t, "IN or LIKE should follow NOT")
	default:
		return left, nil
	}
	if negated {
		n = notNode{n}
	}
	return n, err
}

func (p *parser) isNull(left node, at int) (node, error) {
	negated := p.accept(keyword, "NOT")
	if t := p.next(); !t.is(keyword, "NULL") {
		return nil, p.unexpected(t, "NULL should follow IS")
	}
	property, ok := left.(propertyNode)
	if !ok {
		return nil, &SyntaxError{at, "IS NULL asks about a property, and this is none"}
	}
	var n node = nullNode{property}
	if negated {
		n = notNode{n}
	}
	return n, nil
}

func (p *parser) in(left node, at int) (node, error) {
	p.next()
	if err := p.value(left, at, "IN"); err != nil {
		return nil, err
	}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	n := inNode{left: left}
	for {
		at := p.peek().at
		item, err := p.sum()
		if err != nil {
			return nil, err
		}
		if err := p.value(item, at, "IN"); err != nil {
			return nil, err
		}
		n.list = append(n.list, item)
		if !p.accept(symbol, ",") {
			return n, p.expect(")")
		}
	}
}

func (p *parser) like(left node, at int) (node, error) {
	p.next()
	if err := p.value(left, at, "LIKE"); err != nil {
		return nil, err
	}
	n := likeNode{left: left}
	read := func(into *node) (err error) {
		at := p.peek().at
		if *into, err = p.sum(); err != nil {
			return err
		}
		return p.value(*into, at, "LIKE")
	}
	if err := read(&n.pattern); err != nil {
		return nil, err
	}
	if p.accept(keyword, "ESCAPE") {
		return n, read(&n.escape)
	}
	return n, nil
}

func (p *parser) sum() (node, error) { return p.arithmetic(p.product, "+", "-") }

func (p *parser) product() (node, error) { return p.arithmetic(p.unary, "*", "/", "%") }

// arithmetic reads operands with operators of one level between them, from left to right.
func (p *parser) arithmetic(operand func() (node, error), operators ...string) (node, error) {
	at := p.peek().at
	left, err := operand()
	for err == nil && p.peek().kind == symbol && slices.Contains(operators, p.peek().text) {
		if err := p.value(left, at, p.peek().text); err != nil {
			return nil, err
		}
		op := p.next().text
		at := p.peek().at
		var right node
		if right, err = operand(); err == nil {
			err = p.value(right, at, op)
		}
		left = arithmeticNode{op, left, right}
	}
	return left, err
}

func (p *parser) unary() (node, error) {
	for _, sign := range []string{"-", "+"} {
		if p.accept(symbol, sign) {
			at := p.peek().at
			n, err := p.unary()
			if err != nil {
				return nil, err
			}
			return signNode{sign, n}, p.value(n, at, sign)
		}
	}
	return p.primary()
}

func (p *parser) primary() (node, error) {
	t := p.next()
	switch {
	case t.kind == constant:
		return constantNode{t.value}, nil
	case t.is(keyword, "TRUE"), t.is(keyword, "FALSE"):
		return constantNode{t.text == "TRUE"}, nil
	case t.is(keyword, "NULL"):
		return constantNode{nil}, nil
	case t.kind == parameter:
		v, ok := p.parameters[strings.ToLower(t.text)]
		if !ok {
			return nil, &SyntaxError{t.at, "the parameter " + t.text + " has no value"}
		}
		return constantNode{v}, nil
	case t.is(keyword, "EXISTS"):
		if err := p.expect("("); err != nil {
			return nil, err
		}
		property, err := p.property(p.next())
		if err != nil {
			return nil, err
		}
		return existsNode{property}, p.expect(")")
	case t.is(symbol, "("):
		n, err := p.or()
		if err != nil {
			return nil, err
		}
		return n, p.expect(")")
	case t.kind == name && p.peek().is(symbol, "("):
		return p.function(t)
	}
	return p.property(t)
}

// property reads a name, with sys. or user. before it or without.
func (p *parser) property(t token) (propertyNode, error) {
	if t.kind != name && t.kind != quoted {
		return propertyNode{}, p.unexpected(t, "a value should stand")
	}
	if t.kind == quoted || !p.accept(symbol, ".") {
		return propertyNode{name: t.text}, nil
	}
	of := p.next()
	if of.kind != name && of.kind != quoted {
		return propertyNode{}, p.unexpected(of, "the name of a property should follow")
	}
	switch {
	case strings.EqualFold(t.text, "user"):
		return propertyNode{name: of.text}, nil
	case strings.EqualFold(t.text, "sys"):
		canonical, err := systemProperty(of.text)
		if err != nil {
			return propertyNode{}, &SyntaxError{of.at, err.Error()}
		}
		return propertyNode{system: true, name: canonical}, nil
	}
	return propertyNode{}, &SyntaxError{t.at, fmt.Sprintf("%q is no scope; there are sys and user, and a name with a point in it stands in [brackets]", t.text)}
}

func (p *parser) function(t token) (node, error) {
	p.next()
	switch strings.ToLower(t.text) {
	case "newid":
		return newIDNode{}, p.expect(")")
	case "property", "p":
		at := p.peek().at
		n, err := p.sum()
		if err != nil {
			return nil, err
		}
		if err := p.value(n, at, t.text); err != nil {
			return nil, err
		}
		return lookupNode{n}, p.expect(")")
	}
	return nil, &SyntaxError{t.at, fmt.Sprintf("there is no function %s; there are newid, property and p", t.text)}
}
