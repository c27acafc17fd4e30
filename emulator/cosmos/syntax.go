package cosmos

// The syntax tree of the query language. parser.go builds it, eval.go gives it a
// meaning, plan.go decides what of it the gateway serves.

// selection is one parsed SELECT.
type selection struct {
	distinct bool
	top      int // -1: none
	star     bool
	value    bool // SELECT VALUE: one unnamed expression
	columns  []column
	from     []source
	where    expression // nil: none
	orderBy  []ordering
	offset   int // -1: none
	limit    int

	aggregates []*aggregate // those in columns, numbered
}

// column is one entry of the select list.
type column struct {
	name string
	of   expression
}

// source is what FROM or JOIN binds a name to: the document or a path in it, or
// with IN each element of the array at that path.
type source struct {
	alias   string
	path    expression // over the sources before it; nil: the document itself
	iterate bool
}

// ordering is one key of ORDER BY.
type ordering struct {
	by         expression
	descending bool
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
	}
	arrayOf  struct{ elements []expression }
	objectOf struct{ columns []column }
)

// children lists the expressions directly below one.
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
