package cosmos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The expressions of the grammar, the loosest binding first:
//
//	expression  operators [? expression : expression]
//	operators   ??   OR   AND   comparison   |   ^   &   ||   + -   * / %     to the left, each level of its own
//	comparison  = != <> < <= > >=   [NOT] IN ( list )   [NOT] BETWEEN a AND b   [NOT] LIKE a [ESCAPE 'c']
//	unary       NOT - + ~
//	primary     literal  |  @parameter  |  name  |  ( expression )  |  [ list ]  |  { name: expression, … }
//	            function ( list )  |  aggregate ( expression )
//	            ( query )  |  EXISTS ( query )  |  ARRAY ( query )
//	            and behind any of these:  . name   [ expression ]

func (p *parser) expression() (expression, error) {
	defer func() { p.depth-- }()
	if err := p.deeper(); err != nil {
		return nil, err
	}
	test, err := p.operators(0)
	if err != nil || !p.take("?") {
		return test, err
	}
	yes, err := p.expression()
	if err != nil {
		return nil, err
	}
	if !p.take(":") {
		return nil, p.unexpected()
	}
	no, err := p.expression()
	return conditional{test, yes, no}, err
}

// levels are the binary operators by how tightly they bind. Comparisons, which
// do not chain, stand at comparisonLevel.
var levels = [][]string{
	{"??"}, {"OR"}, {"AND"}, {"=", "!=", "<>", "<", "<=", ">", ">="},
	{"|"}, {"^"}, {"&"}, {"||"}, {"+", "-"}, {"*", "/", "%"},
}

const comparisonLevel = 3

func (p *parser) operators(level int) (expression, error) {
	if level == len(levels) {
		return p.unary()
	}
	left, err := p.operators(level + 1)
	if err != nil {
		return nil, err
	}
	if level == comparisonLevel {
		return p.comparison(left)
	}
	for {
		operator, ok := p.operatorOf(level)
		if !ok {
			return left, nil
		}
		right, err := p.operators(level + 1)
		if err != nil {
			return nil, err
		}
		left = infix{operator, left, right}
	}
}

func (p *parser) operatorOf(level int) (string, bool) {
	t := p.peek()
	if (t.kind == symbolToken || t.kind == keywordToken) && slices.Contains(levels[level], t.text) {
		p.at++
		return t.text, true
	}
	return "", false
}

// comparison parses what may follow the left side of one.
func (p *parser) comparison(left expression) (expression, error) {
	start := p.peek()
	negated := false
	if p.isWord("NOT") && p.tokens[p.at+1].kind == keywordToken && slices.Contains([]string{"IN", "BETWEEN", "LIKE"}, p.tokens[p.at+1].text) {
		p.at++
		negated = true
	}
	var e expression
	var err error
	switch {
	case p.takeWord("IN"):
		e, err = p.membership(left)
	case p.takeWord("BETWEEN"):
		e, err = p.between(left)
	case p.takeWord("LIKE"):
		e, err = p.like(left)
	default:
		operator, ok := p.operatorOf(comparisonLevel)
		if !ok {
			return left, nil
		}
		var right expression
		right, err = p.operators(comparisonLevel + 1)
		e = infix{operator, left, right}
	}
	if err != nil {
		return nil, err
	}
	// NOT binds tighter than a comparison, so NOT c.a = 1 compares a negation. Nobody
	// means that: it is refused rather than answered with nothing.
	if n, ok := left.(unary); ok && n.operator == "NOT" {
		return nil, &syntaxError{start.start, start.end, codeUnsupported, "NOT binds tighter than a comparison: write NOT (…)."}
	}
	if negated {
		return unary{"NOT", e}, nil
	}
	return e, nil
}

func (p *parser) membership(of expression) (expression, error) {
	if !p.take("(") {
		return nil, p.unexpected()
	}
	if p.isWord("SELECT") {
		return nil, p.unsupported("a subquery as the list of IN")
	}
	list, err := p.list(")")
	if err == nil && len(list) == 0 {
		return nil, p.unexpected()
	}
	return membership{of, list}, err
}

func (p *parser) between(of expression) (expression, error) {
	low, err := p.operators(comparisonLevel + 1)
	if err != nil {
		return nil, err
	}
	if !p.takeWord("AND") {
		return nil, p.unexpected()
	}
	high, err := p.operators(comparisonLevel + 1)
	return between{of, low, high}, err
}

func (p *parser) like(of expression) (expression, error) {
	pattern, err := p.operators(comparisonLevel + 1)
	if err != nil {
		return nil, err
	}
	l := like{of: of, pattern: pattern}
	if p.takeWord("ESCAPE") {
		t := p.next()
		if t.kind != stringToken || len([]rune(t.text)) != 1 {
			return nil, near(p.text, t.start, t.end)
		}
		l.escape = t.text
	}
	return l, nil
}

func (p *parser) unary() (expression, error) {
	defer func() { p.depth-- }()
	if err := p.deeper(); err != nil {
		return nil, err
	}
	if p.takeWord("NOT") {
		of, err := p.unary()
		return unary{"NOT", of}, err
	}
	for _, sign := range []string{"-", "+", "~"} {
		if p.take(sign) {
			of, err := p.unary()
			if l, ok := of.(literal); ok { // -1 is a value that an index can be asked for
				return literal{signed(sign, l.v)}, err
			}
			return unary{sign, of}, err
		}
	}
	e, err := p.primary()
	if err != nil {
		return nil, err
	}
	return p.postfix(e)
}

// postfix parses the steps of a path behind an expression.
func (p *parser) postfix(e expression) (expression, error) {
	for {
		switch {
		case p.take("."):
			if p.peek().kind != nameToken {
				return nil, p.unexpected()
			}
			e = access{e, literal{p.next().text}}
		case p.take("["):
			key, err := p.expression()
			if err != nil {
				return nil, err
			}
			if !p.take("]") {
				return nil, p.unexpected()
			}
			e = access{e, key}
		default:
			return e, nil
		}
	}
}

func (p *parser) primary() (expression, error) {
	t := p.peek()
	switch t.kind {
	case stringToken:
		return literal{p.next().text}, nil
	case numberToken:
		return literal{literalNumber(p.next().text)}, nil
	case parameterToken:
		v, ok := p.parameters[p.next().text]
		if !ok {
			return nil, p.unbound(t)
		}
		return literal{v}, nil
	case nameToken:
		p.next()
		if v, ok := literals[t.text]; ok {
			return literal{v}, nil
		}
		if strings.EqualFold(t.text, "udf") && p.isSymbol(".") {
			return nil, p.unsupported("user-defined functions")
		}
		if p.take("(") {
			return p.invocation(t)
		}
		return p.variable(t, false), nil
	case keywordToken:
		if kind := t.text; p.takeWord("EXISTS") || p.takeWord("ARRAY") {
			if !p.take("(") {
				return nil, p.unexpected()
			}
			return p.subqueryOf(kind)
		}
	case symbolToken:
		switch {
		case p.take("("):
			if p.isWord("SELECT") {
				return p.subqueryOf("")
			}
			e, err := p.expression()
			if err != nil {
				return nil, err
			}
			if !p.take(")") {
				return nil, p.unexpected()
			}
			return parenthesised(e), nil
		case p.take("["):
			elements, err := p.list("]")
			return arrayOf{elements}, err
		case p.take("{"):
			return p.object()
		}
	}
	return nil, p.unexpected()
}

// subqueryOf parses a subquery that is a value. One that can have several results
// is not one, unless EXISTS or ARRAY makes one of them.
func (p *parser) subqueryOf(kind string) (expression, error) {
	start := p.peek()
	s, err := p.subquery(false)
	if err != nil {
		return nil, err
	}
	many := slices.ContainsFunc(s.from, func(src source) bool { return src.iterate || src.query != nil })
	if kind == "" && many && len(s.aggregates) == 0 {
		return nil, &syntaxError{start.start, p.peek().start, codeSyntax, "Cardinality of a scalar subquery result set cannot be greater than one."}
	}
	return subquery{kind, s}, nil
}

// parenthesised hides a NOT from the check in comparison: (NOT a) = b is meant.
func parenthesised(e expression) expression {
	if n, ok := e.(unary); ok && n.operator == "NOT" {
		return unary{"(NOT)", n.of}
	}
	return e
}

func (p *parser) list(end string) ([]expression, error) {
	var list []expression
	if p.take(end) {
		return nil, nil
	}
	for {
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		list = append(list, e)
		if p.take(end) {
			return list, nil
		}
		if !p.take(",") {
			return nil, p.unexpected()
		}
	}
}

func (p *parser) object() (expression, error) {
	var o objectOf
	if p.take("}") {
		return o, nil
	}
	names := map[string]bool{}
	for {
		t := p.next()
		if t.kind != nameToken && t.kind != stringToken {
			return nil, near(p.text, t.start, t.end)
		}
		if names[t.text] {
			return nil, &syntaxError{t.start, t.end, "SC2006", fmt.Sprintf("The property name '%s' is used more than once in an object.", t.text)}
		}
		names[t.text] = true
		if !p.take(":") {
			return nil, p.unexpected()
		}
		start := p.at
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		o.columns = append(o.columns, column{t.text, e, span{start, p.at}})
		if p.take("}") {
			return o, nil
		}
		if !p.take(",") {
			return nil, p.unexpected()
		}
	}
}

var aggregateNames = []string{"COUNT", "SUM", "MIN", "MAX", "AVG", "COUNTIF"}

func (p *parser) invocation(name token) (expression, error) {
	upper := strings.ToUpper(name.text)
	if slices.Contains(aggregateNames, upper) {
		return p.aggregate(name, upper)
	}
	arguments, err := p.list(")")
	if err != nil {
		return nil, err
	}
	f, ok := functions[upper]
	if !ok {
		return nil, &syntaxError{name.start, name.end, "SC2005",
			fmt.Sprintf("'%s' is not a function that this emulator has.", name.text)}
	}
	if len(arguments) < f.least || len(arguments) > f.most {
		return nil, &syntaxError{name.start, name.end, "SC2050",
			fmt.Sprintf("The %s function requires %d to %d argument(s), not %d.", upper, f.least, f.most, len(arguments))}
	}
	if f.timed && p.condition {
		return nil, &syntaxError{name.start, name.end, codeUnsupported,
			fmt.Sprintf("This emulator does not support %s in the condition of a patch.", upper)}
	}
	if upper == "REGEXMATCH" {
		if err := checkPattern(arguments); err != nil {
			return nil, &syntaxError{name.start, p.peek().start, codeSyntax, err.Error()}
		}
	}
	return invocation{upper, f, arguments}, nil
}

func (p *parser) aggregate(name token, upper string) (expression, error) {
	if !p.inSelect || p.inAggregate {
		return nil, &syntaxError{name.start, name.end, "SC2104", fmt.Sprintf("The aggregate %s is only valid in the select list.", upper)}
	}
	p.inAggregate = true
	defer func() { p.inAggregate = false }()
	start := p.at
	of, err := p.expression()
	if err != nil {
		return nil, err
	}
	at := span{start, p.at}
	if !p.take(")") {
		return nil, p.unexpected()
	}
	a := &aggregate{name: upper, of: of, index: len(p.aggregates), at: at}
	p.aggregates = append(p.aggregates, a)
	return a, nil
}

func literalNumber(text string) value {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return undefined{}
	}
	return numberOf(f)
}
