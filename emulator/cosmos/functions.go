package cosmos

import (
	"math"
	"strings"
)

// function is one built-in of the query language. Arguments of a type that it
// does not take make its result undefined.
type function struct {
	least, most int // arguments
	apply       func([]value) value
}

var functions = map[string]function{
	"IS_DEFINED":   test(func(v value) bool { return !isUndefined(v) }),
	"IS_NULL":      test(func(v value) bool { return v == nil }),
	"IS_BOOL":      test(func(v value) bool { _, ok := v.(bool); return ok }),
	"IS_NUMBER":    test(func(v value) bool { _, ok := v.(number); return ok }),
	"IS_STRING":    test(func(v value) bool { _, ok := v.(string); return ok }),
	"IS_ARRAY":     test(func(v value) bool { _, ok := v.([]any); return ok }),
	"IS_OBJECT":    test(func(v value) bool { _, ok := v.(*object); return ok }),
	"IS_PRIMITIVE": test(isPrimitive),
	"IS_INTEGER": test(func(v value) bool {
		n, ok := v.(number)
		return ok && n.f == math.Trunc(n.f)
	}),

	"STARTSWITH":   textTest(strings.HasPrefix),
	"ENDSWITH":     textTest(strings.HasSuffix),
	"CONTAINS":     textTest(strings.Contains),
	"STRINGEQUALS": textTest(func(a, b string) bool { return a == b }),

	"LOWER": onText(func(s string) value { return strings.ToLower(s) }),
	"UPPER": onText(func(s string) value { return strings.ToUpper(s) }),
	"TRIM":  onText(func(s string) value { return strings.TrimSpace(s) }),
	"LENGTH": onText(func(s string) value {
		return integerOf(int64(len([]rune(s))))
	}),
	"CONCAT":    {2, 64, concat},
	"SUBSTRING": {3, 3, substring},
	"INDEX_OF":  {2, 2, indexOf},

	"ABS":     onNumber(math.Abs),
	"FLOOR":   onNumber(math.Floor),
	"CEILING": onNumber(math.Ceil),
	"ROUND":   onNumber(math.Round),

	"ARRAY_LENGTH": {1, 1, func(a []value) value {
		if list, ok := a[0].([]any); ok {
			return integerOf(int64(len(list)))
		}
		return undefined{}
	}},
	"ARRAY_CONTAINS": {2, 3, arrayContains},
}

// test makes a type test; it is defined whatever its argument, undefined included.
func test(is func(value) bool) function {
	return function{1, 1, func(a []value) value { return is(a[0]) }}
}

func isPrimitive(v value) bool {
	switch v.(type) {
	case nil, bool, number, string:
		return true
	}
	return false
}

// textTest makes a test of two texts whose third argument, if true, ignores case.
func textTest(is func(a, b string) bool) function {
	return function{2, 3, func(a []value) value {
		x, ok := a[0].(string)
		y, ok2 := a[1].(string)
		if !ok || !ok2 {
			return undefined{}
		}
		if len(a) == 3 {
			fold, ok := a[2].(bool)
			if !ok {
				return undefined{}
			}
			if fold {
				x, y = strings.ToLower(x), strings.ToLower(y)
			}
		}
		return is(x, y)
	}}
}

func onText(f func(string) value) function {
	return function{1, 1, func(a []value) value {
		if s, ok := a[0].(string); ok {
			return f(s)
		}
		return undefined{}
	}}
}

func onNumber(f func(float64) float64) function {
	return function{1, 1, func(a []value) value {
		if n, ok := a[0].(number); ok {
			return numberOf(f(n.f))
		}
		return undefined{}
	}}
}

func concat(a []value) value {
	var all strings.Builder
	for _, v := range a {
		s, ok := v.(string)
		if !ok {
			return undefined{}
		}
		all.WriteString(s)
	}
	return all.String()
}

func substring(a []value) value {
	s, ok := a[0].(string)
	start, ok2 := wholeNumber(a[1])
	length, ok3 := wholeNumber(a[2])
	if !ok || !ok2 || !ok3 {
		return undefined{}
	}
	runes := []rune(s)
	start = min(max(start, 0), int64(len(runes)))
	length = min(max(length, 0), int64(len(runes))-start)
	return string(runes[start : start+length])
}

func indexOf(a []value) value {
	s, ok := a[0].(string)
	part, ok2 := a[1].(string)
	if !ok || !ok2 {
		return undefined{}
	}
	i := strings.Index(s, part)
	if i > 0 {
		i = len([]rune(s[:i]))
	}
	return integerOf(int64(i))
}

func wholeNumber(v value) (int64, bool) {
	if n, ok := v.(number); ok {
		return n.integer()
	}
	return 0, false
}

// arrayContains looks for an element; with a third argument that is true, an
// object also matches an element that has at least its members.
func arrayContains(a []value) value {
	list, ok := a[0].([]any)
	if !ok || isUndefined(a[1]) {
		return undefined{}
	}
	partial := len(a) == 3 && a[2] == true
	for _, e := range list {
		if equal(e, a[1]) || partial && includes(e, a[1]) {
			return true
		}
	}
	return false
}

func includes(whole, part value) bool {
	w, ok := whole.(*object)
	p, ok2 := part.(*object)
	if !ok || !ok2 {
		return false
	}
	for _, m := range p.members {
		v, found := w.get(m.name)
		if !found || !equal(v, m.value) && !includes(v, m.value) {
			return false
		}
	}
	return true
}
