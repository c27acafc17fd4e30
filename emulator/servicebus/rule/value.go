package rule

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// maxText is the longest string that an expression may make, in bytes: no message has room for more.
const maxText = 64 << 10

// ErrEvaluation is wrapped by every reason why a rule cannot be evaluated for a message.
var ErrEvaluation = errors.New("the rule cannot be evaluated")

// GUID is a UUID as a value of a property. The function newid() makes one.
type GUID [16]byte

// String returns the usual form, 8-4-4-4-12 lower-case hexadecimal digits.
func (g GUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", g[0:4], g[4:6], g[6:8], g[8:10], g[10:16])
}

func newGUID() GUID {
	var g GUID
	_, _ = rand.Read(g[:]) // it never fails: crypto/rand ends the program instead
	g[6] = g[6]&0x0f | 0x40
	g[8] = g[8]&0x3f | 0x80
	return g
}

// unknown is the value of what does not exist.
type unknown struct{}

// missing reports whether there is nothing to compute with: no value, or null.
func missing(v any) bool {
	_, ok := v.(unknown)
	return ok || v == nil
}

// widen brings the integers and floats of all widths to one each. Everything else stays what it is.
func widen(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case uint8:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	case uint64:
		if v > math.MaxInt64 {
			return float64(v)
		}
		return int64(v)
	case float32:
		return float64(v)
	}
	return v
}

// number returns a widened value as a float, if it is a number.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// equal compares two values that are there. Values of different kinds are not equal.
func equal(a, b any) bool {
	a, b = widen(a), widen(b)
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			return x == y
		}
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case time.Time:
		b, ok := b.(time.Time)
		return ok && a.Equal(b)
	case GUID:
		b, ok := b.(GUID)
		return ok && a == b
	case time.Duration:
		b, ok := b.(time.Duration)
		return ok && a == b
	}
	return false
}

// order compares two values that are there, if they have an order.
func order(a, b any) (int, error) {
	a, b = widen(a), widen(b)
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			return cmp.Compare(x, y), nil
		}
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			return cmp.Compare(x, y), nil
		}
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return cmp.Compare(x, y), nil
		}
	case time.Time:
		if y, ok := b.(time.Time); ok {
			return x.Compare(y), nil
		}
	case time.Duration:
		if y, ok := b.(time.Duration); ok {
			return cmp.Compare(x, y), nil
		}
	}
	return 0, fmt.Errorf("%w: %s and %s have no order", ErrEvaluation, kind(a), kind(b))
}

// compute applies an arithmetic operator to two values that are there.
func compute(op string, a, b any) (any, error) {
	a, b = widen(a), widen(b)
	if op == "+" {
		_, text1 := a.(string)
		_, text2 := b.(string)
		if text1 || text2 {
			x, ok1 := text(a)
			y, ok2 := text(b)
			if ok1 && ok2 {
				return join(x, y)
			}
		}
	}
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			return computeInt(op, x, y)
		}
	}
	x, ok1 := number(a)
	y, ok2 := number(b)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("%w: %s %s %s", ErrEvaluation, kind(a), op, kind(b))
	}
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "/":
		return x / y, nil
	}
	return math.Mod(x, y), nil
}

// join adds a string to another. A few statements that each double a string would otherwise fill the memory.
func join(x, y string) (any, error) {
	if len(x)+len(y) > maxText {
		return nil, fmt.Errorf("%w: a string of %d bytes is longer than any that a message has room for", ErrEvaluation, len(x)+len(y))
	}
	return x + y, nil
}

func computeInt(op string, x, y int64) (any, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	}
	if y == 0 {
		return nil, fmt.Errorf("%w: division by zero", ErrEvaluation)
	}
	if op == "/" {
		return x / y, nil
	}
	return x % y, nil
}

// text writes a value as a string, if it has such a form.
func text(v any) (string, bool) {
	switch v := widen(v).(type) {
	case string:
		return v, true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'G', -1, 64), true
	case bool:
		if v {
			return "True", true
		}
		return "False", true
	case GUID:
		return v.String(), true
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano), true
	}
	return "", false
}

// adopt brings a new value of a property into the type of the old one, if both are numbers and it fits.
func adopt(old, v any) any {
	switch n := widen(v).(type) {
	case int64:
		switch old.(type) {
		case int32:
			if int64(int32(n)) == n {
				return int32(n)
			}
		case int16:
			if int64(int16(n)) == n {
				return int16(n)
			}
		case int8:
			if int64(int8(n)) == n {
				return int8(n)
			}
		case uint64:
			if n >= 0 {
				return uint64(n)
			}
		case uint32:
			if int64(uint32(n)) == n {
				return uint32(n)
			}
		case uint16:
			if int64(uint16(n)) == n {
				return uint16(n)
			}
		case uint8:
			if int64(uint8(n)) == n {
				return uint8(n)
			}
		case float64:
			return float64(n)
		case float32:
			return float32(n)
		}
		return n
	case float64:
		if _, ok := old.(float32); ok && float64(float32(n)) == n {
			return float32(n)
		}
		return n
	}
	return v
}

func kind(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a number"
	case bool:
		return "a boolean"
	case time.Time:
		return "a time"
	case time.Duration:
		return "a duration"
	case GUID:
		return "a GUID"
	}
	return fmt.Sprintf("a %T", v)
}

// like matches a string with a pattern of %, any string, and _, any character; escape takes their meaning away from
// them. A pattern that ends in the middle of an escape matches nothing.
func like(s, pattern []rune, escape rune, escapes bool) bool {
	at, p := 0, 0
	retryAt, retryPattern := -1, -1 // where to go on when the last % has to take one character more
	for at < len(s) {
		step, ok := 0, false
		if p < len(pattern) {
			switch c := pattern[p]; {
			case escapes && c == escape:
				ok, step = p+1 < len(pattern) && pattern[p+1] == s[at], 2
			case c == '%':
				p++
				retryAt, retryPattern = at, p
				continue
			default:
				ok, step = c == '_' || c == s[at], 1
			}
		}
		switch {
		case ok:
			at, p = at+1, p+step
		case retryAt < 0:
			return false
		default:
			retryAt++
			at, p = retryAt, retryPattern
		}
	}
	for p < len(pattern) && pattern[p] == '%' && (!escapes || escape != '%') {
		p++
	}
	return p == len(pattern)
}
