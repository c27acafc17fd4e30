package cosmos

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// function is one built-in of the query language. Arguments of a type that it
// does not take make its result undefined. What makes or reads much of anything
// spends work for it first.
type function struct {
	least, most int // arguments
	apply       func(*work, []value) value
	timed       bool // its result depends on the time
}

// functions are all that there are, but for the aggregates; their names are
// written in any case.
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
	"IS_FINITE_NUMBER": test(func(v value) bool {
		n, ok := v.(number)
		return ok && !math.IsInf(n.f, 0)
	}),
	"IIF": {least: 3, most: 3, apply: func(_ *work, a []value) value {
		if a[0] == true {
			return a[1]
		}
		return a[2]
	}},

	"STARTSWITH":   textTest(strings.HasPrefix),
	"ENDSWITH":     textTest(strings.HasSuffix),
	"CONTAINS":     textTest(strings.Contains),
	"STRINGEQUALS": textTest(func(a, b string) bool { return a == b }),
	"REGEXMATCH":   {least: 2, most: 3, apply: regexMatch},

	"LOWER":           onText(func(s string) value { return strings.ToLower(s) }),
	"UPPER":           onText(func(s string) value { return strings.ToUpper(s) }),
	"TRIM":            trims(strings.TrimSpace, strings.Trim),
	"LTRIM":           trims(trimLeft, strings.TrimLeft),
	"RTRIM":           trims(trimRight, strings.TrimRight),
	"REVERSE":         onText(reversed),
	"LENGTH":          onText(func(s string) value { return integerOf(int64(len([]rune(s)))) }),
	"STRINGTOARRAY":   onText(parsed[[]any]),
	"STRINGTOBOOLEAN": onText(parsed[bool]),
	"STRINGTONULL":    onText(parsedNull),
	"STRINGTONUMBER":  onText(parsed[number]),
	"STRINGTOOBJECT":  onText(parsed[*object]),
	"CONCAT":          {least: 2, most: 64, apply: concat},
	"SUBSTRING":       {least: 3, most: 3, apply: substring},
	"LEFT":            part(func(s []rune, n int64) []rune { return s[:n] }),
	"RIGHT":           part(func(s []rune, n int64) []rune { return s[int64(len(s))-n:] }),
	"INDEX_OF":        finds(strings.Index),
	"LASTINDEXOF":     finds(strings.LastIndex),
	"REPLACE":         {least: 3, most: 3, apply: replace},
	"REPLICATE":       {least: 2, most: 2, apply: replicate},
	"STRINGJOIN":      {least: 2, most: 2, apply: join},
	"STRINGSPLIT":     {least: 2, most: 2, apply: split},
	"TOSTRING":        {least: 1, most: 1, apply: toString},

	"ABS":       onNumber(math.Abs),
	"ACOS":      onNumber(math.Acos),
	"ASIN":      onNumber(math.Asin),
	"ATAN":      onNumber(math.Atan),
	"CEILING":   onNumber(math.Ceil),
	"COS":       onNumber(math.Cos),
	"COT":       onNumber(func(f float64) float64 { return 1 / math.Tan(f) }),
	"DEGREES":   onNumber(func(f float64) float64 { return f * 180 / math.Pi }),
	"EXP":       onNumber(math.Exp),
	"FLOOR":     onNumber(math.Floor),
	"LOG10":     onNumber(math.Log10),
	"RADIANS":   onNumber(func(f float64) float64 { return f * math.Pi / 180 }),
	"SIGN":      onNumber(sign),
	"SIN":       onNumber(math.Sin),
	"SQRT":      onNumber(math.Sqrt),
	"SQUARE":    onNumber(func(f float64) float64 { return f * f }),
	"TAN":       onNumber(math.Tan),
	"TRUNC":     onNumber(math.Trunc),
	"ATN2":      onNumbers(math.Atan2),
	"POWER":     onNumbers(math.Pow),
	"LOG":       {least: 1, most: 2, apply: logarithm},
	"ROUND":     {least: 1, most: 2, apply: round},
	"NUMBERBIN": {least: 1, most: 2, apply: numberBin},
	"PI":        {apply: func(*work, []value) value { return numberOf(math.Pi) }},
	"RAND":      {apply: func(*work, []value) value { return numberOf(rand.Float64()) }},

	"INTADD":           onIntegers(func(a, b int64) value { return integerOf(a + b) }),
	"INTSUB":           onIntegers(func(a, b int64) value { return integerOf(a - b) }),
	"INTMUL":           onIntegers(func(a, b int64) value { return integerOf(a * b) }),
	"INTDIV":           onIntegers(quotient),
	"INTMOD":           onIntegers(remainder),
	"INTBITAND":        onIntegers(func(a, b int64) value { return integerOf(a & b) }),
	"INTBITOR":         onIntegers(func(a, b int64) value { return integerOf(a | b) }),
	"INTBITXOR":        onIntegers(func(a, b int64) value { return integerOf(a ^ b) }),
	"INTBITLEFTSHIFT":  onIntegers(func(a, b int64) value { return integerOf(a << (b & 63)) }),
	"INTBITRIGHTSHIFT": onIntegers(func(a, b int64) value { return integerOf(a >> (b & 63)) }),
	"INTBITNOT": {least: 1, most: 1, apply: func(_ *work, a []value) value {
		if n, ok := wholeNumber(a[0]); ok {
			return integerOf(^n)
		}
		return undefined{}
	}},

	"ARRAY_LENGTH": {least: 1, most: 1, apply: func(_ *work, a []value) value {
		if list, ok := a[0].([]any); ok {
			return integerOf(int64(len(list)))
		}
		return undefined{}
	}},
	"ARRAY_CONCAT":       {least: 2, most: 64, apply: arrayConcat},
	"ARRAY_CONTAINS":     {least: 2, most: 3, apply: arrayContains},
	"ARRAY_CONTAINS_ALL": {least: 2, most: 64, apply: containsMany(false)},
	"ARRAY_CONTAINS_ANY": {least: 2, most: 64, apply: containsMany(true)},
	"ARRAY_SLICE":        {least: 2, most: 3, apply: arraySlice},
	"CHOOSE":             {least: 2, most: 64, apply: choose},
	"OBJECTTOARRAY":      {least: 1, most: 3, apply: objectToArray},
	"SETINTERSECT":       {least: 2, most: 2, apply: setIntersect},
	"SETUNION":           {least: 2, most: 2, apply: setUnion},

	"GETCURRENTDATETIME":        current(formatted),
	"GETCURRENTDATETIMESTATIC":  current(formatted),
	"GETCURRENTTIMESTAMP":       current(timestamp),
	"GETCURRENTTIMESTAMPSTATIC": current(timestamp),
	"GETCURRENTTICKS":           current(ticks),
	"GETCURRENTTICKSSTATIC":     current(ticks),
	"DATETIMETOTIMESTAMP":       onTime(timestamp),
	"DATETIMETOTICKS":           onTime(ticks),
	"TIMESTAMPTODATETIME":       ofNumber(fromTimestamp),
	"TICKSTODATETIME":           ofNumber(fromTicks),
	"DATETIMEADD":               {least: 3, most: 3, apply: dateTimeAdd},
	"DATETIMEDIFF":              {least: 3, most: 3, apply: dateTimeDiff},
	"DATETIMEPART":              {least: 2, most: 2, apply: dateTimePart},
	"DATETIMEFROMPARTS":         {least: 3, most: 7, apply: dateTimeFromParts},
}

// test makes a type test; it is defined whatever its argument, undefined included.
func test(is func(value) bool) function {
	return function{least: 1, most: 1, apply: func(_ *work, a []value) value { return is(a[0]) }}
}

func isPrimitive(v value) bool {
	switch v.(type) {
	case nil, bool, number, string:
		return true
	}
	return false
}

// current makes a function of the time at which the query is evaluated.
func current(of func(time.Time) value) function {
	return function{timed: true, apply: func(w *work, _ []value) value { return of(w.now) }}
}

func wholeNumber(v value) (int64, bool) {
	if n, ok := v.(number); ok {
		return n.integer()
	}
	return 0, false
}
