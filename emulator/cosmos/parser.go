package cosmos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	maxQueryText  = 512 << 10
	maxQueryDepth = 128
	maxJoins      = 10
)

// parser is a recursive descent over the tokens of one query. Parameters are
// put in as literals while it parses, so that everything behind it sees values.
type parser struct {
	text       string
	tokens     []token
	at         int
	depth      int
	parameters map[string]value

	aggregates  []*aggregate
	inAggregate bool
	inSelect    bool
}

// parseQuery parses a whole SELECT.
func parseQuery(text string, parameters map[string]value) (*selection, error) {
	p, err := newParser(text, parameters)
	if err != nil {
		return nil, err
	}
	s, err := p.selection()
	if err != nil {
		return nil, err
	}
	return s, p.resolve(s)
}

// parseCondition parses the condition of a patch: FROM alias WHERE expression.
func parseCondition(text string) (*selection, error) {
	p, err := newParser(text, nil)
	if err != nil {
		return nil, err
	}
	s := &selection{top: -1, offset: -1, star: true}
	if err := p.from(s); err != nil {
		return nil, err
	}
	if len(s.from) != 1 || s.from[0].path != nil {
		return nil, &syntaxError{0, len(text), codeSyntax, "Syntax error, a patch condition has one FROM alias."}
	}
	if p.takeWord("WHERE") {
		if s.where, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.peek().kind != endOfQuery {
		return nil, p.unexpected()
	}
	return s, p.resolve(s)
}

func newParser(text string, parameters map[string]value) (*parser, error) {
	if len(text) > maxQueryText {
		return nil, &syntaxError{0, 0, codeSyntax, "The SQL query text exceeded the maximum limit of 512 KB."}
	}
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	return &parser{text: text, tokens: tokens, parameters: parameters}, nil
}

// selection parses the clauses in their order.
func (p *parser) selection() (*selection, error) {
	s := &selection{top: -1, offset: -1}
	if !p.takeWord("SELECT") {
		return nil, p.unexpected()
	}
	s.distinct = p.takeWord("DISTINCT")
	var err error
	if p.takeWord("TOP") {
		if s.top, err = p.count(); err != nil {
			return nil, err
		}
	}
	if err := p.columns(s); err != nil {
		return nil, err
	}
	if err := p.from(s); err != nil {
		return nil, err
	}
	if p.takeWord("WHERE") {
		if s.where, err = p.expression(); err != nil {
			return nil, err
		}
	}
	for _, clause := range []string{"GROUP", "HAVING"} {
		if p.isWord(clause) {
			return nil, p.unsupported(clause + " BY")
		}
	}
	if err := p.orderBy(s); err != nil {
		return nil, err
	}
	if p.takeWord("OFFSET") {
		if s.offset, err = p.count(); err != nil {
			return nil, err
		}
		if !p.takeWord("LIMIT") {
			return nil, p.unexpected()
		}
		if s.limit, err = p.count(); err != nil {
			return nil, err
		}
	}
	if p.peek().kind != endOfQuery {
		return nil, p.unexpected()
	}
	s.aggregates = p.aggregates
	return s, nil
}

func (p *parser) columns(s *selection) error {
	if p.take("*") {
		s.star = true
		return nil
	}
	p.inSelect = true
	defer func() { p.inSelect = false }()
	if p.takeWord("VALUE") {
		s.value = true
		e, err := p.expression()
		s.columns = []column{{of: e}}
		return err
	}
	for {
		c, err := p.column(len(s.columns) + 1)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(s.columns, func(other column) bool { return other.name == c.name }) {
			return &syntaxError{p.peek().start, p.peek().end, "SC2006",
				fmt.Sprintf("The property name '%s' is used more than once in the select list.", c.name)}
		}
		s.columns = append(s.columns, c)
		if !p.take(",") {
			return nil
		}
	}
}

// column parses one entry of the select list. Without AS it is named by the last
// step of its path, and otherwise by its place, $1 being the first.
func (p *parser) column(place int) (column, error) {
	e, err := p.expression()
	if err != nil {
		return column{}, err
	}
	c := column{name: "$" + strconv.Itoa(place), of: e}
	if alias, path, ok := pathOf(e); ok {
		c.name = alias
		if len(path) > 0 {
			c.name = path[len(path)-1]
		}
	}
	if p.takeWord("AS") {
		if p.peek().kind != nameToken {
			return column{}, p.unexpected()
		}
		c.name = p.next().text
	} else if p.peek().kind == nameToken {
		c.name = p.next().text
	}
	return c, nil
}

func (p *parser) from(s *selection) error {
	if !p.takeWord("FROM") {
		if p.peek().kind == endOfQuery {
			return p.unsupported("a query without FROM")
		}
		return p.unexpected()
	}
	first, err := p.source(true)
	if err != nil {
		return err
	}
	s.from = []source{first}
	for p.takeWord("JOIN") {
		if len(s.from) > maxJoins {
			return &syntaxError{p.peek().start, p.peek().end, "SC3015", fmt.Sprintf("The query has more than %d JOINs.", maxJoins)}
		}
		joined, err := p.source(false)
		if err != nil {
			return err
		}
		s.from = append(s.from, joined)
	}
	return nil
}

// source parses "name", "name.path", "name [AS] alias" and "alias IN path". The
// first name of the first source may be any: it always means the document.
func (p *parser) source(first bool) (source, error) {
	if p.take("(") {
		return source{}, p.unsupported("a subquery")
	}
	if p.peek().kind != nameToken {
		return source{}, p.unexpected()
	}
	name := p.next().text
	if p.takeWord("IN") {
		if p.take("(") {
			return source{}, p.unsupported("a subquery")
		}
		if p.peek().kind != nameToken {
			return source{}, p.unexpected()
		}
		root := p.next().text
		path, err := p.postfix(variable{p.rootName(root, first)})
		return source{alias: name, path: path, iterate: true}, err
	}
	path, err := p.postfix(variable{p.rootName(name, first)})
	if err != nil {
		return source{}, err
	}
	src := source{alias: name}
	if _, steps, ok := pathOf(path); !ok || len(steps) > 0 || !first {
		src.path = path
		if len(steps) > 0 {
			src.alias = steps[len(steps)-1]
		}
	}
	if p.takeWord("AS") {
		if p.peek().kind != nameToken {
			return source{}, p.unexpected()
		}
		src.alias = p.next().text
	} else if p.peek().kind == nameToken {
		src.alias = p.next().text
	}
	return src, nil
}

// documentName is what the first source's path starts from, whatever the query
// calls the container. No query can spell it.
const documentName = "\x00document"

func (p *parser) rootName(name string, first bool) string {
	if first {
		return documentName
	}
	return name
}

func (p *parser) orderBy(s *selection) error {
	if !p.takeWord("ORDER") {
		return nil
	}
	if !p.takeWord("BY") {
		return p.unexpected()
	}
	for {
		start := p.peek()
		e, err := p.expression()
		if err != nil {
			return err
		}
		if _, path, ok := pathOf(e); !ok || len(path) == 0 {
			return &syntaxError{start.start, p.peek().start, "SC2102", "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path."}
		}
		o := ordering{by: e}
		if p.takeWord("DESC") {
			o.descending = true
		} else {
			p.takeWord("ASC")
		}
		s.orderBy = append(s.orderBy, o)
		if !p.take(",") {
			return nil
		}
	}
}

// count parses the number behind TOP, OFFSET and LIMIT.
func (p *parser) count() (int, error) {
	t := p.next()
	v := value(nil)
	switch t.kind {
	case numberToken:
		v = literalNumber(t.text)
	case parameterToken:
		var ok bool
		if v, ok = p.parameters[t.text]; !ok {
			return 0, p.unbound(t)
		}
	}
	if n, ok := v.(number); ok {
		if i, ok := n.integer(); ok && i >= 0 && i <= 1<<31-1 {
			return int(i), nil
		}
	}
	return 0, &syntaxError{t.start, t.end, "SC2101", fmt.Sprintf("'%s' is not a non-negative integer.", t.text)}
}

func (p *parser) peek() token { return p.tokens[p.at] }

// next takes the next token; the end of the query stays where it is.
func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != endOfQuery {
		p.at++
	}
	return t
}

func (p *parser) take(symbol string) bool {
	if t := p.peek(); t.kind == symbolToken && t.text == symbol {
		p.at++
		return true
	}
	return false
}

func (p *parser) isWord(keyword string) bool {
	t := p.peek()
	return t.kind == keywordToken && t.text == keyword
}

func (p *parser) takeWord(keyword string) bool {
	if p.isWord(keyword) {
		p.at++
		return true
	}
	return false
}

func (p *parser) unexpected() error {
	t := p.peek()
	if t.kind == endOfQuery {
		return &syntaxError{t.start, t.end, codeSyntax, "Syntax error, unexpected end of query."}
	}
	return near(p.text, t.start, t.end)
}

func (p *parser) unbound(t token) error {
	return &syntaxError{t.start, t.end, "SC2010", fmt.Sprintf("Parameter '%s' has no value among the query's parameters.", t.text)}
}

func (p *parser) unsupported(what string) error {
	t := p.peek()
	return &syntaxError{t.start, t.end, codeUnsupported,
		fmt.Sprintf("This emulator does not support %s near '%s'.", what, strings.TrimSpace(p.text[t.start:t.end]))}
}
