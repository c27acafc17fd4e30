package cosmos

import (
	"math"
	"strconv"
	"strings"
)

// row is what an expression is evaluated over: the names that FROM has bound,
// and in an aggregate query the accumulated results.
type row struct {
	names  []string
	values []value
	totals []value
}

func (r row) with(name string, v value) row {
	r.names = append(r.names[:len(r.names):len(r.names)], name)
	r.values = append(r.values[:len(r.values):len(r.values)], v)
	return r
}

func (r row) lookup(name string) value {
	for i := len(r.names) - 1; i >= 0; i-- {
		if r.names[i] == name {
			return r.values[i]
		}
	}
	return undefined{}
}

// eval gives the value of an expression over a row. It never fails: what makes
// no sense is undefined, which is how the language says it.
func eval(e expression, r row) value {
	switch e := e.(type) {
	case literal:
		return e.v
	case variable:
		return r.lookup(e.name)
	case access:
		return step(eval(e.of, r), eval(e.key, r))
	case unary:
		return evalUnary(e, r)
	case infix:
		return evalBinary(e, r)
	case conditional:
		if eval(e.test, r) == true {
			return eval(e.yes, r)
		}
		return eval(e.no, r)
	case membership:
		of := eval(e.of, r)
		var result value = false
		for _, one := range e.list {
			result = either(result, equality(of, eval(one, r)))
		}
		return result
	case between:
		of := eval(e.of, r)
		return both(
			comparison(of, eval(e.low, r), func(c int) bool { return c >= 0 }),
			comparison(of, eval(e.high, r), func(c int) bool { return c <= 0 }))
	case like:
		return evalLike(e, r)
	case invocation:
		arguments := make([]value, len(e.arguments))
		for i, a := range e.arguments {
			arguments[i] = eval(a, r)
		}
		return e.function.apply(arguments)
	case *aggregate:
		return r.totals[e.index]
	case arrayOf:
		list := make([]any, 0, len(e.elements))
		for _, one := range e.elements {
			if v := eval(one, r); !isUndefined(v) {
				list = append(list, v)
			}
		}
		return list
	case objectOf:
		return evalColumns(e.columns, r)
	}
	return undefined{}
}

// evalColumns makes an object of named expressions; undefined ones are left out.
func evalColumns(columns []column, r row) value {
	o := &object{}
	for _, c := range columns {
		if v := eval(c.of, r); !isUndefined(v) {
			o.set(c.name, v)
		}
	}
	return o
}

func isUndefined(v value) bool {
	_, yes := v.(undefined)
	return yes
}

// step is one step of a path.
func step(of, key value) value {
	switch of := of.(type) {
	case *object:
		if name, ok := key.(string); ok {
			if v, found := of.get(name); found {
				return v
			}
		}
	case []any:
		if n, ok := key.(number); ok {
			if i, whole := n.integer(); whole && i >= 0 && i < int64(len(of)) {
				return of[i]
			}
		}
	}
	return undefined{}
}

// The three-valued logic. Anything that is not a boolean counts as undefined, so
// a filter over a property that is missing, or of another type, selects nothing.

func negate(v value) value {
	if b, ok := v.(bool); ok {
		return !b
	}
	return undefined{}
}

func both(a, b value) value {
	if a == false || b == false {
		return false
	}
	if a == true && b == true {
		return true
	}
	return undefined{}
}

func either(a, b value) value {
	if a == true || b == true {
		return true
	}
	if a == false && b == false {
		return false
	}
	return undefined{}
}

// equality is undefined if either side is; values of different types are unequal.
// The vendor's documentation calls the second case undefined too, its own offline
// engine, which its clients are tested against, does not, nor does the service:
// c.x != null is how people select what is not null.
func equality(a, b value) value {
	if isUndefined(a) || isUndefined(b) {
		return undefined{}
	}
	return equal(a, b)
}

// comparison is undefined across types and between arrays or objects.
func comparison(a, b value, holds func(int) bool) value {
	switch x := a.(type) {
	case number:
		if y, ok := b.(number); ok {
			return holds(orderNumbers(x, y))
		}
	case string:
		if y, ok := b.(string); ok {
			return holds(strings.Compare(x, y))
		}
	case bool:
		if _, ok := b.(bool); ok {
			return holds(order(a, b))
		}
	case nil:
		if b == nil {
			return holds(0)
		}
	}
	return undefined{}
}

func evalUnary(e unary, r row) value {
	v := eval(e.of, r)
	switch e.operator {
	case "NOT", "(NOT)":
		return negate(v)
	case "+":
		if n, ok := v.(number); ok {
			return n
		}
	case "-":
		if n, ok := v.(number); ok {
			if i, whole := n.integer(); whole && i != math.MinInt64 {
				return integerOf(-i)
			}
			return numberOf(-n.f)
		}
	case "~":
		if n, ok := v.(number); ok {
			if i, whole := n.integer(); whole && int64(int32(i)) == i {
				return integerOf(^i)
			}
		}
	}
	return undefined{}
}

func evalBinary(e infix, r row) value {
	left, right := eval(e.left, r), eval(e.right, r)
	switch e.operator {
	case "AND":
		return both(left, right)
	case "OR":
		return either(left, right)
	case "??":
		if isUndefined(left) {
			return right
		}
		return left
	case "=":
		return equality(left, right)
	case "!=", "<>":
		return negate(equality(left, right))
	case "<":
		return comparison(left, right, func(c int) bool { return c < 0 })
	case "<=":
		return comparison(left, right, func(c int) bool { return c <= 0 })
	case ">":
		return comparison(left, right, func(c int) bool { return c > 0 })
	case ">=":
		return comparison(left, right, func(c int) bool { return c >= 0 })
	case "||":
		a, ok := left.(string)
		b, ok2 := right.(string)
		if ok && ok2 {
			return a + b
		}
		return undefined{}
	}
	a, ok := left.(number)
	b, ok2 := right.(number)
	if !ok || !ok2 {
		return undefined{}
	}
	return arithmetic(e.operator, a, b)
}

func arithmetic(operator string, a, b number) value {
	switch operator {
	case "+":
		return sum(a, b)
	case "-":
		return numberOf(a.f - b.f)
	case "*":
		return numberOf(a.f * b.f)
	case "/":
		return numberOf(a.f / b.f)
	case "%":
		return numberOf(math.Mod(a.f, b.f))
	}
	i, whole := a.integer()
	j, whole2 := b.integer()
	if !whole || !whole2 || int64(int32(i)) != i || int64(int32(j)) != j {
		return undefined{} // bits are those of 32-bit integers
	}
	switch operator {
	case "&":
		return integerOf(i & j)
	case "|":
		return integerOf(i | j)
	}
	return integerOf(i ^ j)
}

// sum adds exactly where both are integers and the result fits one.
func sum(a, b number) value {
	i, err := strconv.ParseInt(a.text, 10, 64)
	j, err2 := strconv.ParseInt(b.text, 10, 64)
	if err == nil && err2 == nil {
		if s := i + j; (s > i) == (j > 0) {
			return integerOf(s)
		}
	}
	return numberOf(a.f + b.f)
}

// evalLike matches % (any text), _ (any character) and [set]; the escape makes
// the next character stand for itself. It walks both texts once per %, so no
// pattern is slow.
func evalLike(e like, r row) value {
	of, ok := eval(e.of, r).(string)
	pattern, ok2 := eval(e.pattern, r).(string)
	if !ok || !ok2 {
		return undefined{}
	}
	return likeMatches([]rune(of), likePattern(pattern, e.escape))
}

// likePart is one element of a LIKE pattern.
type likePart struct {
	many bool            // %
	is   func(rune) bool // nil with many
}

func likePattern(pattern, escape string) []likePart {
	runes := []rune(pattern)
	var parts []likePart
	for i := 0; i < len(runes); i++ {
		c := runes[i]
		switch {
		case escape != "" && string(c) == escape && i+1 < len(runes):
			i++
			parts = append(parts, likePart{is: exactly(runes[i])})
		case c == '%':
			parts = append(parts, likePart{many: true})
		case c == '_':
			parts = append(parts, likePart{is: func(rune) bool { return true }})
		case c == '[':
			end := i + 1
			for end < len(runes) && runes[end] != ']' {
				end++
			}
			if end == len(runes) {
				parts = append(parts, likePart{is: exactly(c)})
				continue
			}
			parts = append(parts, likePart{is: anyOf(runes[i+1 : end])})
			i = end
		default:
			parts = append(parts, likePart{is: exactly(c)})
		}
	}
	return parts
}

func exactly(want rune) func(rune) bool { return func(c rune) bool { return c == want } }

// anyOf is a [set]: characters, ranges like a-f, and ^ in front for all others.
func anyOf(set []rune) func(rune) bool {
	negated := len(set) > 0 && set[0] == '^'
	if negated {
		set = set[1:]
	}
	return func(c rune) bool {
		for i := 0; i < len(set); i++ {
			if i+2 < len(set) && set[i+1] == '-' {
				if set[i] <= c && c <= set[i+2] {
					return !negated
				}
				i += 2
			} else if set[i] == c {
				return !negated
			}
		}
		return negated
	}
}

func likeMatches(text []rune, parts []likePart) bool {
	t, p := 0, 0
	star, mark := -1, 0 // the last % seen, and where its match ends so far
	for t < len(text) {
		switch {
		case p < len(parts) && parts[p].many:
			star, mark = p, t
			p++
		case p < len(parts) && parts[p].is(text[t]):
			t++
			p++
		case star >= 0:
			mark++
			t, p = mark, star+1
		default:
			return false
		}
	}
	for p < len(parts) && parts[p].many {
		p++
	}
	return p == len(parts)
}
