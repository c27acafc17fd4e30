package cosmos

import (
	"math"
	"strings"
)

// row is what an expression is evaluated over: the document, the names that FROM
// has bound, and beside aggregates the accumulated results.
type row struct {
	document value
	names    *binding
	totals   []value
	work     *work
}

// binding is one name and those bound before it.
type binding struct {
	name  string
	v     value
	outer *binding
}

func (r row) with(name string, v value) row {
	r.names = &binding{name, v, r.names}
	return r
}

func (r row) lookup(name string) value {
	for b := r.names; b != nil; b = b.outer {
		if b.name == name {
			return b.v
		}
	}
	if name == documentName {
		return r.document
	}
	return undefined{}
}

// eval gives the value of an expression over a row. It never fails: what makes
// no sense is undefined, which is how the language says it.
func eval(e expression, r row) value {
	if !r.work.spend(1) {
		return undefined{}
	}
	switch e := e.(type) {
	case literal:
		return e.v
	case variable:
		return r.lookup(e.name)
	case access:
		of, key := eval(e.of, r), eval(e.key, r)
		if o, ok := of.(*object); ok && !r.work.spend(len(o.members)/8) {
			return undefined{}
		}
		return step(of, key)
	case unary:
		return evalUnary(e, r)
	case infix:
		return evalInfix(e, r)
	case conditional:
		if eval(e.test, r) == true {
			return eval(e.yes, r)
		}
		return eval(e.no, r)
	case membership:
		return evalMembership(e, r)
	case between:
		of := eval(e.of, r)
		return both(
			comparison(r.work, of, eval(e.low, r), func(c int) bool { return c >= 0 }),
			comparison(r.work, of, eval(e.high, r), func(c int) bool { return c <= 0 }))
	case like:
		return evalLike(e, r)
	case invocation:
		arguments := make([]value, len(e.arguments))
		for i, a := range e.arguments {
			arguments[i] = eval(a, r)
		}
		return e.function.apply(r.work, arguments)
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
	case subquery:
		return evalSubquery(e, r)
	}
	return undefined{}
}

// evalColumns makes an object of named expressions; undefined ones are left out.
// The parser has seen to it that no name is there twice.
func evalColumns(columns []column, r row) value {
	o := &object{members: make([]member, 0, len(columns))}
	for _, c := range columns {
		if v := eval(c.of, r); !isUndefined(v) {
			o.members = append(o.members, member{c.name, v})
		}
	}
	return o
}

func evalSubquery(e subquery, r row) value {
	switch e.kind {
	case "EXISTS":
		for range e.of.results(r) {
			return true
		}
		return false
	case "ARRAY":
		list := []any{}
		for v := range e.of.results(r) {
			list = append(list, v)
		}
		return list
	}
	for v := range e.of.results(r) {
		return v // the parser has refused those that may have another
	}
	return undefined{}
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
func equality(w *work, a, b value) value {
	if isUndefined(a) || isUndefined(b) || !w.weigh(a) || !w.weigh(b) {
		return undefined{}
	}
	return equal(a, b)
}

// comparison is undefined across types and between arrays or objects.
func comparison(w *work, a, b value, holds func(int) bool) value {
	switch x := a.(type) {
	case number:
		if y, ok := b.(number); ok {
			return holds(orderNumbers(x, y))
		}
	case string:
		if y, ok := b.(string); ok && w.spendText(min(len(x), len(y))) {
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
	if e.operator == "NOT" || e.operator == "(NOT)" {
		return negate(v)
	}
	return signed(e.operator, v)
}

// signed applies an operator that stands in front of a number.
func signed(operator string, v value) value {
	n, ok := v.(number)
	if !ok {
		return undefined{}
	}
	switch operator {
	case "+":
		return n
	case "-":
		return numberOf(-n.f)
	}
	if i, whole := n.integer(); whole && int64(int32(i)) == i {
		return integerOf(^i)
	}
	return undefined{}
}

func evalMembership(e membership, r row) value {
	of := eval(e.of, r)
	var result value = false
	for _, one := range e.list {
		if result = either(result, equality(r.work, of, eval(one, r))); result == true {
			break
		}
	}
	return result
}

func evalInfix(e infix, r row) value {
	left := eval(e.left, r)
	switch e.operator { // those that need not look at the right side
	case "AND":
		if left == false {
			return false
		}
		return both(left, eval(e.right, r))
	case "OR":
		if left == true {
			return true
		}
		return either(left, eval(e.right, r))
	case "??":
		if isUndefined(left) {
			return eval(e.right, r)
		}
		return left
	}
	right := eval(e.right, r)
	switch e.operator {
	case "=":
		return equality(r.work, left, right)
	case "!=", "<>":
		return negate(equality(r.work, left, right))
	case "<":
		return comparison(r.work, left, right, func(c int) bool { return c < 0 })
	case "<=":
		return comparison(r.work, left, right, func(c int) bool { return c <= 0 })
	case ">":
		return comparison(r.work, left, right, func(c int) bool { return c > 0 })
	case ">=":
		return comparison(r.work, left, right, func(c int) bool { return c >= 0 })
	case "||":
		return concat(r.work, []value{left, right})
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
		return numberOf(a.f + b.f)
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
