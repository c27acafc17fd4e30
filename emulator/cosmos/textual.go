package cosmos

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The functions of texts. A character is a code point.

// textTest makes a test of two texts whose third argument, if true, ignores case.
func textTest(is func(a, b string) bool) function {
	return function{least: 2, most: 3, apply: func(w *work, a []value) value {
		x, ok := a[0].(string)
		y, ok2 := a[1].(string)
		if !ok || !ok2 || !w.spendText(len(x)) {
			return undefined{}
		}
		if len(a) == 3 {
			fold, ok := a[2].(bool)
			if !ok {
				return undefined{}
			}
			if fold && !w.spendText(len(y)) {
				return undefined{}
			}
			if fold {
				x, y = strings.ToLower(x), strings.ToLower(y)
			}
		}
		return is(x, y)
	}}
}

// onText makes a function of a text, whose result is no longer than a few times
// the text.
func onText(f func(string) value) function {
	return function{least: 1, most: 1, apply: func(w *work, a []value) value {
		if s, ok := a[0].(string); ok && w.spendText(4*len(s)) {
			return f(s)
		}
		return undefined{}
	}}
}

// trims makes a function that takes away blanks, or the characters of a second
// argument.
func trims(blanks func(string) string, these func(s, cutset string) string) function {
	return function{least: 1, most: 2, apply: func(w *work, a []value) value {
		s, ok := a[0].(string)
		if !ok || !w.spendText(len(s)) {
			return undefined{}
		}
		if len(a) == 1 {
			return blanks(s)
		}
		cutset, ok := a[1].(string)
		if !ok || !w.spend(len(cutset)+len(s)*(len(cutset)/1024)) { // each character is looked for in the set
			return undefined{}
		}
		return these(s, cutset)
	}}
}

func trimLeft(s string) string { return strings.TrimLeftFunc(s, unicode.IsSpace) }

func trimRight(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }

func reversed(s string) value {
	runes := []rune(s)
	slices.Reverse(runes)
	return string(runes)
}

// parsed is the JSON value in a text, if it is of the type wanted.
func parsed[T any](s string) value {
	v, err := parseValue([]byte(s))
	if err != nil {
		return undefined{}
	}
	if _, ok := v.(T); !ok {
		return undefined{}
	}
	return v
}

func parsedNull(s string) value {
	if strings.TrimSpace(s) == "null" {
		return nil
	}
	return undefined{}
}

func concat(w *work, a []value) value {
	size := 0
	for _, v := range a {
		s, ok := v.(string)
		if !ok {
			return undefined{}
		}
		size += len(s)
	}
	if !w.spendText(size) {
		return undefined{}
	}
	var all strings.Builder
	all.Grow(size)
	for _, v := range a {
		all.WriteString(v.(string))
	}
	return all.String()
}

func substring(w *work, a []value) value {
	s, ok := a[0].(string)
	start, ok2 := wholeNumber(a[1])
	length, ok3 := wholeNumber(a[2])
	if !ok || !ok2 || !ok3 || !w.spendText(4*len(s)) {
		return undefined{}
	}
	runes := []rune(s)
	start = min(max(start, 0), int64(len(runes)))
	length = min(max(length, 0), int64(len(runes))-start)
	return string(runes[start : start+length])
}

// part makes a function that cuts some characters off a text.
func part(cut func([]rune, int64) []rune) function {
	return function{least: 2, most: 2, apply: func(w *work, a []value) value {
		s, ok := a[0].(string)
		n, ok2 := wholeNumber(a[1])
		if !ok || !ok2 || !w.spendText(4*len(s)) {
			return undefined{}
		}
		runes := []rune(s)
		return string(cut(runes, min(max(n, 0), int64(len(runes)))))
	}}
}

// finds makes a function that says at which character a text is in another, from one on if a third argument says so.
func finds(index func(s, text string) int) function {
	return function{least: 2, most: 3, apply: func(w *work, a []value) value {
		s, ok := a[0].(string)
		text, ok2 := a[1].(string)
		if !ok || !ok2 || !w.spendText(16*len(s)) {
			return undefined{}
		}
		from := int64(0)
		if len(a) == 3 {
			runes := []rune(s)
			if from, ok = wholeNumber(a[2]); !ok || from < 0 || from > int64(len(runes)) {
				return undefined{}
			}
			s = string(runes[from:])
		}
		i := index(s, text)
		if i < 0 {
			return integerOf(-1)
		}
		return integerOf(from + int64(utf8.RuneCountInString(s[:i])))
	}}
}

func replace(w *work, a []value) value {
	s, ok := a[0].(string)
	from, ok2 := a[1].(string)
	to, ok3 := a[2].(string)
	if !ok || !ok2 || !ok3 || !w.spendText(len(s)) {
		return undefined{}
	}
	if from == "" {
		return s
	}
	if !w.spendText(strings.Count(s, from) * max(len(to)-len(from), 0)) {
		return undefined{}
	}
	return strings.ReplaceAll(s, from, to)
}

// maxReplicated is the longest text that REPLICATE makes, in characters.
const maxReplicated = 10_000

func replicate(w *work, a []value) value {
	s, ok := a[0].(string)
	n, ok2 := wholeNumber(a[1])
	if !ok || !ok2 || n < 0 || n > maxReplicated || !w.spendText(4*len(s)) {
		return undefined{}
	}
	if int64(len([]rune(s)))*n > maxReplicated || !w.spendText(len(s)*int(n)) {
		return undefined{}
	}
	return strings.Repeat(s, int(n))
}

func join(w *work, a []value) value {
	list, ok := a[0].([]any)
	separator, ok2 := a[1].(string)
	if !ok || !ok2 || !w.weigh(list) || !w.spendText(len(separator)*len(list)) {
		return undefined{}
	}
	texts := make([]string, len(list))
	for i, e := range list {
		if texts[i], ok = e.(string); !ok {
			return undefined{}
		}
	}
	return strings.Join(texts, separator)
}

func split(w *work, a []value) value {
	s, ok := a[0].(string)
	separator, ok2 := a[1].(string)
	if !ok || !ok2 || !w.spend(len(s)) {
		return undefined{}
	}
	if separator == "" {
		return []any{s}
	}
	list := []any{}
	for one := range strings.SplitSeq(s, separator) {
		list = append(list, one)
	}
	return list
}

func toString(w *work, a []value) value {
	switch v := a[0].(type) {
	case undefined:
		return v
	case string:
		return v
	}
	if !w.weigh(a[0]) || !w.fits(a[0]) {
		return undefined{}
	}
	return textOf(a[0])
}

// maxPattern bounds what compiling a regular expression costs.
const maxPattern = 1000

// pattern makes a regular expression of RegexMatch's arguments. Its language is
// that of package regexp: no backward reference and no look-around.
func pattern(text, modifiers string) (*regexp.Regexp, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("The regular expression is longer than the %d bytes that this emulator takes.", maxPattern) //nolint:staticcheck // as the service's messages are
	}
	if strings.Trim(modifiers, "ims") != "" {
		return nil, errors.New("This emulator has the modifiers i, m and s of a regular expression, and no other.") //nolint:staticcheck // as the service's messages are
	}
	if modifiers != "" {
		text = "(?" + modifiers + ")" + text
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("The regular expression is not one that this emulator takes: %w.", err) //nolint:staticcheck // as the service's messages are
	}
	return compiled, nil
}

// checkPattern refuses a pattern that is known before any item is.
func checkPattern(arguments []expression) error {
	texts := []string{"", "", ""}
	for i, e := range arguments[1:] {
		l, ok := e.(literal)
		if !ok {
			return nil
		}
		if texts[i], ok = l.v.(string); !ok {
			return nil
		}
	}
	_, err := pattern(texts[0], texts[1])
	return err
}

func regexMatch(w *work, a []value) value {
	s, ok := a[0].(string)
	text, ok2 := a[1].(string)
	modifiers := ""
	if len(a) == 3 {
		var ok3 bool
		if modifiers, ok3 = a[2].(string); !ok3 {
			return undefined{}
		}
	}
	// A match looks at each character with each part of the pattern, at most.
	if !ok || !ok2 || !w.spend(100+10*len(text)+len(s)*max(len(text)/16, 1)) {
		return undefined{}
	}
	compiled, err := pattern(text, modifiers)
	if err != nil {
		return undefined{}
	}
	return compiled.MatchString(s)
}
