package cosmos

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// plain reads the JSON that programs mostly send and all that is stored, without
// making anything but the tree: strings without escapes are parts of the text. What
// it does not take it leaves to the decoder that says what is wrong: objects of many
// members, and whatever is not JSON.
type plain struct {
	text string
	at   int
}

// mostPlain is how many members are compared with one another to find two of one
// name.
const mostPlain = 32

// parsePlain gives the same as parseValue, or nothing.
func parsePlain(data []byte) (v value, ok bool) {
	p := plain{text: string(data)}
	if !utf8.ValidString(p.text) {
		return nil, false
	}
	v, ok = p.value(0)
	p.blanks()
	return v, ok && p.at == len(p.text)
}

func (p *plain) blanks() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\n' || p.text[p.at] == '\r' || p.text[p.at] == '\t') {
		p.at++
	}
}

// next skips blanks and reports whether a character comes, which it takes.
func (p *plain) next(c byte) bool {
	p.blanks()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *plain) value(depth int) (value, bool) {
	p.blanks()
	if p.at == len(p.text) || depth > maxNesting {
		return nil, false
	}
	switch c := p.text[p.at]; c {
	case '{':
		return p.object(depth + 1)
	case '[':
		return p.array(depth + 1)
	case '"':
		text, ok := p.string()
		return text, ok
	case 't':
		return true, p.word("true")
	case 'f':
		return false, p.word("false")
	case 'n':
		return nil, p.word("null")
	}
	return p.number()
}

func (p *plain) word(word string) bool {
	ok := strings.HasPrefix(p.text[p.at:], word)
	p.at += len(word)
	return ok
}

func (p *plain) string() (text string, ok bool) {
	start, escapes := p.at, false
	for i := start + 1; i < len(p.text); i++ {
		if i += clean(p.text[i:]); i == len(p.text) {
			break
		}
		switch c := p.text[i]; {
		case c == '"' && !escapes:
			p.at = i + 1
			return p.text[start+1 : i], true
		case c == '"':
			p.at = i + 1
			b, err := jsontext.AppendUnquote(nil, p.text[start:p.at])
			return string(b), err == nil
		case c == '\\':
			escapes = true
			i++ // which does not end the string
		case c < ' ':
			return "", false
		}
	}
	return "", false
}

// clean counts the bytes that a text begins with and that JSON has in a string as
// they are: of ASCII, and no quotes, backslashes or control characters. It looks at
// eight at once; a bit of a byte's own is then set that is not such a one.
func clean(text string) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(text); i += 8 {
		t := text[i : i+8]
		w := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
			uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		if (w|(w-each*' ')|((w^each*'"')-each)|((w^each*'\\')-each))&high != 0 {
			break
		}
	}
	for ; i < len(text); i++ {
		if c := text[i]; c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

func (p *plain) object(depth int) (value, bool) {
	o := &object{}
	if p.at++; p.next('}') {
		return o, depth <= maxNesting
	}
	if depth == 1 {
		o.members = make([]member, 0, 8) // so many an item has mostly, if not more
	}
	for len(o.members) < mostPlain {
		if p.blanks(); p.at == len(p.text) || p.text[p.at] != '"' {
			return nil, false
		}
		name, ok := p.string()
		if !ok || !p.next(':') {
			return nil, false
		}
		if _, twice := o.get(name); twice {
			return nil, false
		}
		v, ok := p.value(depth)
		if !ok {
			return nil, false
		}
		o.members = append(o.members, member{name, v})
		if p.next('}') {
			return o, depth <= maxNesting
		}
		if !p.next(',') {
			return nil, false
		}
	}
	return nil, false
}

func (p *plain) array(depth int) (value, bool) {
	list := []any{}
	if p.at++; p.next(']') {
		return list, depth <= maxNesting
	}
	for {
		v, ok := p.value(depth)
		if !ok {
			return nil, false
		}
		list = append(list, v)
		if p.next(']') {
			return list, depth <= maxNesting
		}
		if !p.next(',') {
			return nil, false
		}
	}
}

func (p *plain) number() (value, bool) {
	start := p.at
	p.sign("-")
	switch first := p.at; {
	case !p.digits(): // which JSON wants, and no zero in front of others
		return nil, false
	case p.text[first] == '0' && p.at > first+1:
		return nil, false
	}
	if p.sign(".") && !p.digits() {
		return nil, false
	}
	if p.sign("eE") {
		p.sign("+-")
		if !p.digits() {
			return nil, false
		}
	}
	text := p.text[start:p.at]
	f, err := strconv.ParseFloat(text, 64)
	return number{text, f}, err == nil
}

// sign takes one of some characters if it is there.
func (p *plain) sign(of string) bool {
	if p.at < len(p.text) && strings.IndexByte(of, p.text[p.at]) >= 0 {
		p.at++
		return true
	}
	return false
}

func (p *plain) digits() bool {
	start := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	return p.at > start
}
