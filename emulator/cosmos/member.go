package cosmos

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// stored is the text of an item as appendValue has written it: JSON without blanks,
// in which no object has a name twice. What is asked for is found by skipping the
// rest, which takes a tenth of what a tree of it would. A text that is not such a
// one ends in a panic.
type stored []byte

// at gives what follow gives of the tree.
func (t stored) at(path []string) value {
	for _, name := range path {
		if t = t.member(name); t == nil {
			return undefined{}
		}
	}
	return t.value()
}

// member gives the text of a member, nil if this is no object that has it.
func (t stored) member(name string) stored {
	for named, text := range t.members {
		if spells(named, name) {
			return text
		}
	}
	return nil
}

// only gives the object without the members that are not among the names.
func (t stored) only(names []string) *object {
	o := &object{members: make([]member, 0, len(names))}
	for named, text := range t.members {
		if len(o.members) == len(names) {
			break
		}
		i := slices.IndexFunc(names, func(name string) bool { return spells(named, name) })
		if i >= 0 {
			o.members = append(o.members, member{names[i], text.value()})
		}
	}
	return o
}

// members gives the names, in their quotes, and values of an object in their order,
// and of anything else nothing.
func (t stored) members(yield func(named, text stored) bool) {
	if t[0] != '{' {
		return
	}
	for i := 1; t[i] != '}'; {
		colon := t.skipString(i)
		end := t.skip(colon + 1)
		if !yield(t[i:colon], t[colon+1:end]) {
			return
		}
		if i = end; t[i] == ',' {
			i++
		}
	}
}

// spells reports whether a string in its quotes is a text.
func spells(quoted stored, text string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == text
	}
	b, err := jsontext.AppendUnquote(nil, quoted)
	return err == nil && string(b) == text
}

// skip gives the place behind the value that begins at one.
func (t stored) skip(i int) int {
	for depth := 0; ; i++ {
		switch t[i] {
		case '"':
			i = t.skipString(i) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':':
			continue
		default:
			for t[i+1] != ',' && t[i+1] != '}' && t[i+1] != ']' { // a number or a word
				i++
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// skipString gives the place behind the string that begins at one.
func (t stored) skipString(i int) int {
	for {
		quote := bytes.IndexByte(t[i+1:], '"')
		if quote < 0 {
			panic("a stored document is not what was stored: a string has no end")
		}
		i += 1 + quote
		escapes := 0
		for t[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

func (t stored) value() value {
	v, err := parseValue(t)
	if err != nil {
		panic("a stored document is not what was stored: " + err.Error()) // appendValue has written it
	}
	return v
}

// needs gives the members of an item that a query looks at where it has no more than
// one row for it and sends it whole or not at all. Of other queries nobody knows.
func (s *selection) needs() (names []string, known bool) {
	whole := s.star && (s.distinct || s.offset >= 0 || len(s.groupBy) > 0)
	if whole || !s.plain() || len(s.from) == 0 || s.from[0].path != nil {
		return nil, false
	}
	known = true
	look := func(e expression) bool {
		switch e := e.(type) {
		case access:
			if alias, path, ok := pathOf(e); ok && alias == s.from[0].alias {
				if !slices.Contains(names, path[0]) {
					names = append(names, path[0])
				}
				return false
			}
		case variable, subquery:
			known = false
		}
		return known
	}
	walk(s.where, look)
	for _, c := range s.columns {
		walk(c.of, look)
	}
	for _, g := range s.groupBy {
		walk(g.by, look)
	}
	for _, o := range s.orderBy {
		walk(o.by, look)
	}
	return names, known
}
