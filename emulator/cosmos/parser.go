package cosmos

import (
	"fmt"
	"strconv"
	"strings"
)

// The grammar of the query language. This file has the clauses, expression.go
// the expressions; what is in neither is refused with its place.
//
//	query       SELECT [DISTINCT] [TOP n] list [FROM sources] [WHERE expression]
//	            [GROUP BY expression {, expression}] [ORDER BY key {, key}] [OFFSET n LIMIT n]
//	list        *  |  VALUE expression  |  column {, column}
//	column      expression [[AS] name]
//	sources     source {JOIN source}
//	source      place [[AS] name]  |  name IN place
//	place       name {. name | [expression]}  |  ( query )
//	key         path [ASC | DESC]
//	condition   FROM place [[AS] name] [WHERE expression]          of a patch
//
// A subquery has no TOP, ORDER BY or OFFSET LIMIT, in the service as here.
const maxJoins = 10

// parseQuery parses a whole SELECT.
func parseQuery(text string, parameters map[string]value) (*selection, error) {
	p, err := newParser(text, parameters)
	if err != nil {
		return nil, err
	}
	s, err := p.selection(level{root: true})
	if err != nil {
		return nil, err
	}
	if p.peek().kind != endOfQuery {
		return nil, p.unexpected()
	}
	return s, p.resolve(s, nil)
}

// parseCondition parses the condition of a patch: FROM alias WHERE expression.
func parseCondition(text string) (*selection, error) {
	p, err := newParser(text, nil)
	if err != nil {
		return nil, err
	}
	p.root, p.condition = true, true
	s := &selection{top: -1, offset: -1, star: true, size: len(p.tokens)}
	if err := p.from(s); err != nil {
		return nil, err
	}
	if len(s.from) != 1 || s.from[0].path != nil || s.from[0].query != nil {
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
	return s, p.resolve(s, nil)
}

// selection parses the clauses in their order.
func (p *parser) selection(within level) (*selection, error) {
	outer := p.level
	p.level = within
	defer func() { p.level = outer }()
	s := &selection{top: -1, offset: -1, size: len(p.tokens)}
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
	if p.isWord("FROM") {
		if err := p.from(s); err != nil {
			return nil, err
		}
	}
	if start := p.at + 1; p.takeWord("WHERE") {
		if s.where, err = p.expression(); err != nil {
			return nil, err
		}
		s.whereAt = span{start, p.at}
	}
	if err := p.groupBy(s); err != nil {
		return nil, err
	}
	if err := p.orderBy(s); err != nil {
		return nil, err
	}
	if err := p.offsetLimit(s); err != nil {
		return nil, err
	}
	s.aggregates = p.aggregates
	return s, nil
}

// subquery parses ( SELECT … ), from behind the parenthesis on.
func (p *parser) subquery(root bool) (*selection, error) {
	defer func() { p.depth-- }()
	if err := p.deeper(); err != nil {
		return nil, err
	}
	if p.condition {
		return nil, p.unsupported("a subquery in the condition of a patch")
	}
	start := p.peek()
	s, err := p.selection(level{nested: true, root: root})
	if err != nil {
		return nil, err
	}
	if !p.take(")") {
		return nil, p.unexpected()
	}
	for _, c := range []struct {
		has  bool
		name string
	}{{s.top >= 0, "TOP"}, {len(s.orderBy) > 0, "ORDER BY"}, {s.offset >= 0, "OFFSET LIMIT"}} {
		if c.has {
			return nil, &syntaxError{start.start, p.peek().start, codeSyntax, fmt.Sprintf("'%s' is not supported in subqueries.", c.name)}
		}
	}
	if len(s.groupBy) > 0 {
		return nil, &syntaxError{start.start, p.peek().start, codeUnsupported, "This emulator does not support GROUP BY in a subquery."}
	}
	if root && (s.distinct || len(s.aggregates) > 0) {
		return nil, &syntaxError{start.start, p.peek().start, codeUnsupported, "This emulator does not support DISTINCT or aggregates in a subquery over all items."}
	}
	return s, nil
}

func (p *parser) columns(s *selection) error {
	if p.take("*") {
		s.star = true
		return nil
	}
	p.inSelect = true
	defer func() { p.inSelect = false }()
	start := p.at
	if p.takeWord("VALUE") {
		s.value = true
		e, err := p.expression()
		s.columns = []column{{of: e, at: span{start + 1, p.at}}}
		return err
	}
	names := map[string]bool{}
	for {
		c, err := p.column(len(s.columns) + 1)
		if err != nil {
			return err
		}
		if names[c.name] {
			return &syntaxError{p.tokens[c.at.start].start, p.peek().start, "SC2006",
				fmt.Sprintf("The property name '%s' is used more than once in the select list.", c.name)}
		}
		names[c.name] = true
		s.columns = append(s.columns, c)
		if !p.take(",") {
			return nil
		}
	}
}

// column parses one entry of the select list. Without AS it is named by the last
// step of its path, and otherwise by its place, $1 being the first.
func (p *parser) column(place int) (column, error) {
	start := p.at
	e, err := p.expression()
	if err != nil {
		return column{}, err
	}
	c := column{name: "$" + strconv.Itoa(place), of: e, at: span{start, p.at}}
	if alias, path, ok := pathOf(e); ok {
		c.name = alias
		if len(path) > 0 {
			c.name = path[len(path)-1]
		}
	}
	return c, p.alias(&c.name)
}

// alias parses [AS] name.
func (p *parser) alias(name *string) error {
	if p.takeWord("AS") && p.peek().kind != nameToken {
		return p.unexpected()
	}
	if p.peek().kind == nameToken {
		*name = p.next().text
	}
	return nil
}

func (p *parser) from(s *selection) error {
	if !p.takeWord("FROM") {
		return p.unexpected()
	}
	start := p.at
	first, err := p.source(0)
	if err != nil {
		return err
	}
	s.from = []source{first}
	for p.takeWord("JOIN") {
		if len(s.from) > maxJoins {
			return &syntaxError{p.peek().start, p.peek().end, "SC3015", fmt.Sprintf("The query has more than %d JOINs.", maxJoins)}
		}
		joined, err := p.source(len(s.from))
		if err != nil {
			return err
		}
		s.from = append(s.from, joined)
	}
	s.fromAt = span{start, p.at}
	return nil
}

// source parses one of FROM, whose place in it is given. The first name of the
// first source may be any: it always means the document.
func (p *parser) source(place int) (source, error) {
	root := p.root && place == 0
	if p.take("(") {
		src := source{alias: fmt.Sprintf("\x00%d", place)} // no query can spell it
		var err error
		if src.query, err = p.subquery(root); err != nil {
			return src, err
		}
		return src, p.alias(&src.alias)
	}
	if p.peek().kind != nameToken {
		return source{}, p.unexpected()
	}
	name := p.next()
	if p.takeWord("IN") {
		src := source{alias: name.text, iterate: true}
		var err error
		if p.take("(") {
			src.query, err = p.subquery(root)
			return src, err
		}
		if p.peek().kind != nameToken {
			return source{}, p.unexpected()
		}
		src.path, err = p.postfix(p.variable(p.next(), root))
		return src, err
	}
	path, err := p.postfix(p.variable(name, root))
	if err != nil {
		return source{}, err
	}
	src := source{alias: name.text, path: path}
	if _, steps, ok := pathOf(path); ok && len(steps) > 0 {
		src.alias = steps[len(steps)-1]
	} else if ok && root && !p.nested {
		src.path = nil
	}
	return src, p.alias(&src.alias)
}

// documentName is what the first source's path starts from, whatever the query
// calls the container. No query can spell it.
const documentName = "\x00document"

// variable is the use of a name.
func (p *parser) variable(name token, root bool) variable {
	if root {
		return variable{documentName}
	}
	if _, seen := p.used[name.text]; !seen {
		p.used[name.text] = name
	}
	return variable{name.text}
}

func (p *parser) groupBy(s *selection) error {
	if !p.takeWord("GROUP") {
		return nil
	}
	if !p.takeWord("BY") {
		return p.unexpected()
	}
	for {
		start := p.at
		e, err := p.expression()
		if err != nil {
			return err
		}
		s.groupBy = append(s.groupBy, grouping{e, span{start, p.at}})
		walk(e, func(e expression) bool {
			if _, ok := e.(subquery); ok {
				err = &syntaxError{p.tokens[start].start, p.peek().start, codeSyntax, "A GROUP BY expression cannot have a subquery."}
			}
			return err == nil
		})
		if err != nil {
			return err
		}
		if !p.take(",") {
			break
		}
	}
	if p.isWord("ORDER") {
		return &syntaxError{p.peek().start, p.peek().end, codeSyntax, "'ORDER BY' is not supported in presence of GROUP BY."}
	}
	return nil
}

func (p *parser) orderBy(s *selection) error {
	if !p.takeWord("ORDER") {
		return nil
	}
	if !p.takeWord("BY") {
		return p.unexpected()
	}
	for {
		start := p.at
		if t := p.peek(); t.kind == nameToken && strings.EqualFold(t.text, "RANK") && p.tokens[p.at+1].kind == nameToken {
			return p.unsupported("ORDER BY RANK")
		}
		e, err := p.expression()
		if err != nil {
			return err
		}
		if _, path, ok := pathOf(e); !ok || len(path) == 0 {
			return &syntaxError{p.tokens[start].start, p.peek().start, "SC2102", "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path."}
		}
		o := ordering{by: e, at: span{start, p.at}}
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

func (p *parser) offsetLimit(s *selection) (err error) {
	if !p.takeWord("OFFSET") {
		return nil
	}
	if s.offset, err = p.count(); err != nil {
		return err
	}
	if !p.takeWord("LIMIT") {
		return p.unexpected()
	}
	s.limit, err = p.count()
	return err
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
