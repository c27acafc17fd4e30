package cosmos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The syntax tree of the query language. parser.go builds it, eval.go gives it a
// meaning, plan.go decides what of it the gateway serves.

// selection is one parsed SELECT: a whole query, or a subquery in one.
type selection struct {
	distinct bool
	top      int // -1: none
	star     bool
	value    bool // SELECT VALUE: one unnamed expression
	columns  []column
	from     []source   // empty: a query without FROM, which has one row
	where    expression // nil: none
	groupBy  []grouping
	orderBy  []ordering
	offset   int // -1: none
	limit    int

	aggregates []*aggregate // those in columns, numbered
	size       int          // tokens of the whole query: how much one row may cost
	fromAt     span         // what stands behind FROM
	whereAt    span
}

// span is a part of the query's text, in tokens; the plan of a query is made of
// such parts. end is the first token behind it.
type span struct{ start, end int }

// column is one entry of the select list, or one member of an object.
type column struct {
	name string
	of   expression
	at   span
}

// source is what FROM or JOIN binds a name to: the document, a path in it or each
// result of a subquery; with IN each element of the array that is found there.
type source struct {
	alias   string
	path    expression // over the sources before it; nil: the document itself, or a subquery
	query   *selection // nil: a path
	iterate bool
}

// grouping is one key of GROUP BY.
type grouping struct {
	by expression
	at span
}

// ordering is one key of ORDER BY.
type ordering struct {
	by         expression
	descending bool
	at         span
}

type expression any

type (
	literal  struct{ v value }
	variable struct{ name string }

	// access is of.name or of[key].
	access struct{ of, key expression }

	unary struct {
		operator string // "-", "+", "~", "NOT"
		of       expression
	}
	infix struct {
		operator    string
		left, right expression
	}
	conditional struct{ test, yes, no expression }
	membership  struct {
		of   expression
		list []expression
	}
	between struct{ of, low, high expression }
	like    struct {
		of, pattern expression
		escape      string
	}
	invocation struct {
		name      string // upper case
		function  function
		arguments []expression
	}
	// aggregate is an invocation that looks at all rows; index is its place in the
	// accumulated results.
	aggregate struct {
		name  string
		of    expression
		index int
		at    span // of the argument
	}
	arrayOf  struct{ elements []expression }
	objectOf struct{ columns []column }

	// subquery is EXISTS(SELECT …), ARRAY(SELECT …) or (SELECT …), whose kind is "".
	subquery struct {
		kind string
		of   *selection
	}
)

// children lists the expressions directly below one. What is in a subquery has
// other names in scope, and is not among them.
func children(e expression) []expression {
	switch e := e.(type) {
	case access:
		return []expression{e.of, e.key}
	case unary:
		return []expression{e.of}
	case infix:
		return []expression{e.left, e.right}
	case conditional:
		return []expression{e.test, e.yes, e.no}
	case membership:
		return append([]expression{e.of}, e.list...)
	case between:
		return []expression{e.of, e.low, e.high}
	case like:
		return []expression{e.of, e.pattern}
	case invocation:
		return e.arguments
	case *aggregate:
		return []expression{e.of}
	case arrayOf:
		return e.elements
	case objectOf:
		list := make([]expression, 0, len(e.columns))
		for _, c := range e.columns {
			list = append(list, c.of)
		}
		return list
	}
	return nil
}

// walk visits an expression and all below it, until visit says no.
func walk(e expression, visit func(expression) bool) {
	if e == nil || !visit(e) {
		return
	}
	for _, c := range children(e) {
		walk(c, visit)
	}
}

// pathOf gives the property path of an expression that is one, and the name it
// starts from: c.a["b"] is c and [a b].
func pathOf(e expression) (alias string, path []string, ok bool) {
	switch e := e.(type) {
	case variable:
		return e.name, nil, true
	case access:
		key, isLiteral := e.key.(literal)
		if !isLiteral {
			return "", nil, false
		}
		name, isText := key.v.(string)
		if !isText {
			return "", nil, false
		}
		alias, path, ok = pathOf(e.of)
		return alias, append(path, name), ok
	}
	return "", nil, false
}

// same reports whether two expressions are spelled alike, as one in the select
// list has to be that GROUP BY names.
func same(a, b expression) bool {
	switch x := a.(type) {
	case literal:
		y, ok := b.(literal)
		return ok && (equal(x.v, y.v) || isUndefined(x.v) && isUndefined(y.v))
	case variable:
		return a == b
	case subquery, *aggregate:
		return false
	}
	if kindOf(a) != kindOf(b) {
		return false
	}
	return slices.EqualFunc(children(a), children(b), same)
}

// kindOf names an expression by all that is not in its children.
func kindOf(e expression) string {
	text := fmt.Sprintf("%T", e)
	switch e := e.(type) {
	case unary:
		return text + strings.Trim(e.operator, "()")
	case infix:
		return text + e.operator
	case like:
		return text + e.escape
	case invocation:
		return text + e.name
	case objectOf:
		for _, c := range e.columns {
			text += strconv.Quote(c.name)
		}
	}
	return text
}
