package message

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns the RFC 8785 form of a JSON text, refusing what has none.
func Canonical(text []byte) ([]byte, error) {
	if err := checkNumbers(text); err != nil {
		return nil, err
	}
	if form, ok := plainForm(text); ok {
		return form, nil
	}
	canonical := jsontext.Value(bytes.Clone(text))
	if err := canonical.Canonicalize(); err != nil {
		return nil, cmp.Or(walk(text), fmt.Errorf("canonical form: %w", err))
	}
	return canonical, nil
}

// plainForm is the canonical form of a text that is plain all through.
func plainForm(text []byte) (form []byte, ok bool) {
	p := plain{rest: text, form: make([]byte, 0, len(text))}
	if !p.value(0) || p.peek() != 0 || len(p.rest) > 0 {
		return nil, false
	}
	return p.form, true
}

// plain makes the canonical form of what nearly all texts are: ASCII without escapes,
// numbers of few digits. It is the text itself without its whitespace, members in the
// order of their bytes, fractions without zeros at their end. Whatever else there is,
// a text that is no JSON too, it leaves to the library.
type plain struct{ rest, form []byte }

// plainDepth is how many levels plain goes down.
const plainDepth = 32

// value takes one value, or says that it does not.
func (p *plain) value(depth int) bool {
	switch c := p.peek(); {
	case depth > plainDepth:
		return false
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return p.quoted()
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(p.rest, []byte(word)) {
			return p.take(len(word))
		}
	}
	return false
}

// peek is the next byte that is no whitespace, and zero at the end.
func (p *plain) peek() byte {
	for len(p.rest) > 0 {
		switch c := p.rest[0]; c {
		case ' ', '\n', '\t', '\r':
			p.rest = p.rest[1:]
		default:
			return c
		}
	}
	return 0
}

// take takes n bytes as they are.
func (p *plain) take(n int) bool {
	p.form, p.rest = append(p.form, p.rest[:n]...), p.rest[n:]
	return true
}

func (p *plain) quoted() bool {
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			return p.take(i + 1)
		case c < ' ' || c > '~' || c == '\\':
			return false
		}
	}
	return false
}

// number takes zero, and one that begins with another digit and has no exponent. With
// so few digits it is the shortest text of its float64, but for zeros at the end of a
// fraction, and its size is one that is written without an exponent.
func (p *plain) number() bool {
	if p.rest[0] == '0' && (len(p.rest) == 1 || bytes.IndexByte([]byte("0123456789.eE"), p.rest[1]) < 0) {
		return p.take(1)
	}
	end, kept, digits, point := 0, 0, 0, false
	for ; end < len(p.rest); end++ {
		c := p.rest[end]
		switch {
		case c == '-' && end == 0:
			continue
		case '0' <= c && c <= '9' && (c != '0' || digits > 0):
			if digits++; !point || c != '0' {
				kept = end + 1
			}
			continue
		case c == '.' && digits > 0 && !point:
			point = true
			continue
		case c == '0', c == '.', c == 'e', c == 'E', c == '-':
			return false
		}
		break
	}
	if digits == 0 || digits > plainDigits || p.rest[end-1] == '.' {
		return false
	}
	p.take(kept)
	p.rest = p.rest[end-kept:]
	return true
}

func (p *plain) array(depth int) bool {
	p.take(1)
	if p.peek() == ']' {
		return p.take(1)
	}
	for p.value(depth + 1) {
		switch p.peek() {
		case ',':
			p.take(1)
		case ']':
			return p.take(1)
		default:
			return false
		}
	}
	return false
}

// part is a member in a form: its name begins at from, and ends before colon.
type part struct{ from, colon, to int }

func (p *plain) object(depth int) bool {
	p.take(1)
	if p.peek() == '}' {
		return p.take(1)
	}
	var room [12]part // more are rare
	parts := room[:0]
	for p.peek() == '"' {
		m := part{from: len(p.form)}
		if !p.quoted() || p.peek() != ':' {
			return false
		}
		m.colon = len(p.form)
		p.take(1)
		if !p.value(depth + 1) {
			return false
		}
		m.to = len(p.form)
		parts = append(parts, m)
		switch p.peek() {
		case ',':
			p.take(1)
		case '}':
			return p.sort(parts) && p.take(1)
		default:
			return false
		}
	}
	return false
}

// sort brings the members of the object that has just been read into their order.
func (p *plain) sort(parts []part) bool {
	begin := parts[0].from
	before := p.form[begin:]
	name := func(m part) []byte { return before[m.from-begin+1 : m.colon-begin-1] }
	order := func(a, b part) int { return bytes.Compare(name(a), name(b)) }
	if !slices.IsSortedFunc(parts, order) {
		slices.SortFunc(parts, order)
		before = bytes.Clone(before) // where they stand until they are moved; no more than them, since there may be many objects
		p.form = p.form[:begin]
		for i, m := range parts {
			if i > 0 {
				p.form = append(p.form, ',')
			}
			p.form = append(p.form, before[m.from-begin:m.to-begin]...)
		}
	}
	for i := 1; i < len(parts); i++ {
		if bytes.Equal(name(parts[i-1]), name(parts[i])) {
			return false // twice: the library says where
		}
	}
	return true
}
