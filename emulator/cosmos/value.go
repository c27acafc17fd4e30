package cosmos

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A value is one JSON value: nil, bool, number, string, []any or *object.
// The query engine adds one that JSON does not have: undefined.
//
// Values are immutable once they are part of a stored document. Whoever changes
// one copies the path from the root to the change and shares the rest, so a
// query may read a snapshot while the next write is being made.
type value = any

// undefined is what a path yields that leads nowhere. It is not null: it compares
// with nothing, not even with itself.
type undefined struct{}

// number keeps the text it was written with, so that a number that is only
// stored comes back exactly as it was sent; comparisons use the double.
type number struct {
	text string
	f    float64
}

// object keeps its members in the order they were written in.
type object struct {
	members []member
}

type member struct {
	name  string
	value value
}

// maxNesting is the deepest nesting the service stores.
const maxNesting = 128

func numberOf(f float64) value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return undefined{} // JSON has no word for it
	}
	switch {
	case f == 0:
		return number{"0", 0} // of either sign
	case f == math.Trunc(f) && math.Abs(f) < 1e21:
		return number{strconv.FormatFloat(f, 'f', -1, 64), f}
	}
	return number{strconv.FormatFloat(f, 'g', -1, 64), f}
}

func integerOf(n int64) number { return number{strconv.FormatInt(n, 10), float64(n)} }

// integer gives the number as an int64 if it is one, written without a fraction
// or exponent or not.
func (n number) integer() (int64, bool) {
	if i, err := strconv.ParseInt(n.text, 10, 64); err == nil {
		return i, true
	}
	if n.f == math.Trunc(n.f) && math.Abs(n.f) < 1<<53 {
		return int64(n.f), true
	}
	return 0, false
}

func (o *object) get(name string) (value, bool) {
	for i := range o.members {
		if o.members[i].name == name {
			return o.members[i].value, true
		}
	}
	return nil, false
}

// with returns a copy of the object in which name has the value; a new member
// goes to the end.
func (o *object) with(name string, v value) *object {
	c := &object{members: slices.Clone(o.members)}
	c.set(name, v)
	return c
}

// without returns a copy of the object that lacks the name.
func (o *object) without(name string) *object {
	c := &object{members: slices.Clone(o.members)}
	c.members = slices.DeleteFunc(c.members, func(m member) bool { return m.name == name })
	return c
}

// set changes an object that nobody else has seen yet.
func (o *object) set(name string, v value) {
	for i := range o.members {
		if o.members[i].name == name {
			o.members[i].value = v
			return
		}
	}
	o.members = append(o.members, member{name, v})
}

// text gives the member if it is a string.
func (o *object) text(name string) string {
	v, _ := o.get(name)
	s, _ := v.(string)
	return s
}

// parseValue reads exactly one JSON value: strict UTF-8, no duplicate names,
// nothing behind it, nested no deeper than the service stores.
func parseValue(data []byte) (value, error) {
	if v, ok := parsePlain(data); ok {
		return v, nil
	}
	return parseThoroughly(data)
}

func parseThoroughly(data []byte) (value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	v, err := readValue(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something behind the JSON value")
	}
	return v, nil
}

// parseObject is parseValue for the bodies that must be an object.
func parseObject(data []byte) (*object, error) {
	v, err := parseValue(data)
	if err != nil {
		return nil, err
	}
	o, ok := v.(*object)
	if !ok {
		return nil, fmt.Errorf("the body is %s, want an object", kindName(v))
	}
	return o, nil
}

func readValue(d *jsontext.Decoder) (value, error) {
	token, err := d.ReadToken()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the JSON value is missing")
		}
		return nil, err
	}
	switch token.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		return token.String(), nil
	case '0':
		return readNumber(token.String())
	}
	if d.StackDepth() > maxNesting {
		return nil, fmt.Errorf("the JSON value is nested deeper than %d", maxNesting)
	}
	if token.Kind() == '[' {
		list := []any{}
		for d.PeekKind() != ']' {
			v, err := readValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.ReadToken()
		return list, err
	}
	o := &object{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		text := name.String() // before the next read, which reuses the buffer
		v, err := readValue(d)
		if err != nil {
			return nil, err
		}
		o.members = append(o.members, member{text, v})
	}
	_, err = d.ReadToken()
	return o, err
}

// nesting is how deep arrays and objects lie in one another.
func nesting(v value) int {
	deepest := -1
	switch v := v.(type) {
	case []any:
		deepest = 0
		for _, e := range v {
			deepest = max(deepest, nesting(e))
		}
	case *object:
		deepest = 0
		for _, m := range v.members {
			deepest = max(deepest, nesting(m.value))
		}
	}
	return deepest + 1
}

func readNumber(text string) (value, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %s does not fit a double", text)
	}
	return number{text, f}, nil
}

// appendValue writes the value as JSON without blanks. What is undefined has no
// text: members and elements that are undefined are left out.
func appendValue(b []byte, v value) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case number:
		return append(b, v.text...)
	case string:
		return appendText(b, v)
	case []any:
		b = append(b, '[')
		first := true
		for _, e := range v {
			if _, gone := e.(undefined); gone {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = appendValue(b, e)
		}
		return append(b, ']')
	case *object:
		b = append(b, '{')
		first := true
		for _, m := range v.members {
			if _, gone := m.value.(undefined); gone {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(appendText(b, m.name), ':')
			b = appendValue(b, m.value)
		}
		return append(b, '}')
	}
	return b
}

func appendText(b []byte, s string) []byte {
	if clean(s) == len(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	// Every string here came out of a strict decoder or is valid text of ours, and
	// AppendQuote replaces what is not, so its error carries no news.
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

func textOf(v value) string { return string(appendValue(nil, v)) }

func kindName(v value) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	case *object:
		return "an object"
	}
	return "undefined"
}

// rank orders values of different types as ORDER BY does.
func rank(v value) int {
	switch v := v.(type) {
	case undefined:
		return 0
	case nil:
		return 1
	case bool:
		if v {
			return 3
		}
		return 2
	case number:
		return 4
	case string:
		return 5
	case []any:
		return 6
	}
	return 7
}

// order is the total order of ORDER BY: by type, then within the type.
func order(a, b value) int {
	if ra, rb := rank(a), rank(b); ra != rb {
		return ra - rb
	}
	switch a := a.(type) {
	case number:
		return orderNumbers(a, b.(number))
	case string:
		return strings.Compare(a, b.(string))
	case []any, *object:
		return strings.Compare(textOf(a), textOf(b))
	}
	return 0
}

// orderNumbers compares doubles, which all numbers are, however they are written.
func orderNumbers(a, b number) int { return cmp.Compare(a.f, b.f) }

// equal is deep equality; members are compared whatever their order.
func equal(a, b value) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case bool:
		c, ok := b.(bool)
		return ok && a == c
	case number:
		c, ok := b.(number)
		return ok && orderNumbers(a, c) == 0
	case string:
		c, ok := b.(string)
		return ok && a == c
	case []any:
		c, ok := b.([]any)
		return ok && slices.EqualFunc(a, c, equal)
	case *object:
		c, ok := b.(*object)
		if !ok || len(a.members) != len(c.members) {
			return false
		}
		return equalMembers(a, c)
	}
	return false
}

// equalMembers compares two objects of as many members. Mostly they are written
// in the same order; if they are not, large ones are not searched for each name.
func equalMembers(a, b *object) bool {
	var byName map[string]value
	for i, m := range a.members {
		v, found := b.members[i].value, b.members[i].name == m.name
		switch {
		case found:
		case len(b.members) <= 16:
			v, found = b.get(m.name)
		default:
			if byName == nil {
				byName = make(map[string]value, len(b.members))
				for _, n := range b.members {
					byName[n.name] = n.value
				}
			}
			v, found = byName[m.name]
		}
		if !found || !equal(m.value, v) {
			return false
		}
	}
	return true
}
