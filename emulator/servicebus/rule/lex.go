package rule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	// MaxExpression is the longest filter or action, in characters.
	MaxExpression = 1024
	// MaxStatements is how many statements an action may have.
	MaxStatements = 32
)

// SyntaxError is what is wrong with an expression, and where.
type SyntaxError struct {
	At   int // the character, from 1
	What string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("character %d: %s", e.At, e.What) }

type tokenKind int

const (
	end       tokenKind = iota
	symbol              // an operator or a bracket, in text
	keyword             // in upper case, in text
	name                // an identifier, in text
	quoted              // an identifier in brackets or double quotes, in text
	parameter           // with its @, in text
	constant            // a string or a number, in value
)

type token struct {
	kind  tokenKind
	text  string
	value any
	at    int // the character, from 1
}

func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

func (t token) String() string {
	switch t.kind {
	case end:
		return "the end"
	case constant:
		return fmt.Sprintf("the constant %v", t.value)
	case quoted:
		return fmt.Sprintf("the name %q", t.text)
	}
	return strconv.Quote(t.text)
}

var keywords = []string{"NOT", "AND", "OR", "IS", "NULL", "IN", "LIKE", "ESCAPE", "EXISTS", "TRUE", "FALSE", "SET", "REMOVE"}

// symbols, the longer ones first.
var symbols = []string{"<>", "!=", ">=", "<=", "=", ">", "<", "+", "-", "*", "/", "%", "(", ")", ",", ".", ";"}

// lex takes an expression apart.
func lex(expression string) ([]token, error) {
	l := lexer{rest: []rune(expression)}
	if n := len(l.rest); n > MaxExpression {
		return nil, &SyntaxError{MaxExpression + 1, fmt.Sprintf("an expression has at most %d characters, this one %d", MaxExpression, n)}
	}
	var tokens []token
	for {
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		if t.kind == end {
			return tokens, nil
		}
	}
}

type lexer struct {
	rest []rune
	at   int // how many characters have been read
}

func (l *lexer) peek() rune {
	if len(l.rest) == 0 {
		return 0
	}
	return l.rest[0]
}

func (l *lexer) take(n int) string {
	taken := string(l.rest[:n])
	l.rest, l.at = l.rest[n:], l.at+n
	return taken
}

// while takes the characters that fit.
func (l *lexer) while(fits func(rune) bool) string {
	n := slices.IndexFunc(l.rest, func(r rune) bool { return !fits(r) })
	if n < 0 {
		n = len(l.rest)
	}
	return l.take(n)
}

func (l *lexer) next() (token, error) {
	l.while(unicode.IsSpace)
	t := token{at: l.at + 1}
	switch c := l.peek(); {
	case len(l.rest) == 0:
		return t, nil
	case c == '\'':
		s, err := l.enclosed('\'', "string")
		t.kind, t.value = constant, s
		return t, err
	case c == '"' || c == '[':
		closing := c
		if c == '[' {
			closing = ']'
		}
		s, err := l.enclosed(closing, "name")
		if err == nil && s == "" {
			err = &SyntaxError{t.at, "a name must not be empty"}
		}
		t.kind, t.text = quoted, s
		return t, err
	case c == '@':
		t.kind, t.text = parameter, l.take(1)+l.while(inName)
		if t.text == "@" {
			return t, &SyntaxError{t.at, "a parameter needs a name after @"}
		}
		return t, nil
	case unicode.IsLetter(c):
		t.kind, t.text = name, l.while(inName)
		if upper := strings.ToUpper(t.text); slices.Contains(keywords, upper) {
			t.kind, t.text = keyword, upper
		}
		return t, nil
	case c >= '0' && c <= '9':
		var err error
		t.kind = constant
		t.value, err = l.number()
		return t, err
	}
	for _, s := range symbols {
		if strings.HasPrefix(string(l.rest[:min(2, len(l.rest))]), s) {
			t.kind, t.text = symbol, l.take(len(s))
			return t, nil
		}
	}
	return t, &SyntaxError{t.at, fmt.Sprintf("%q has no meaning here", string(l.peek()))}
}

func inName(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// enclosed reads up to the closing character; twice that character stands for itself.
func (l *lexer) enclosed(closing rune, what string) (string, error) {
	opened := l.at + 1
	l.take(1)
	var b strings.Builder
	for len(l.rest) > 0 {
		c := []rune(l.take(1))[0]
		if c != closing {
			b.WriteRune(c)
			continue
		}
		if l.peek() != closing {
			return b.String(), nil
		}
		l.take(1)
		b.WriteRune(closing)
	}
	return "", &SyntaxError{opened, "the " + what + " that begins here does not end"}
}

// number reads an integer, or with a point or an exponent a float.
func (l *lexer) number() (any, error) {
	at := l.at + 1
	digits := func() string { return l.while(func(r rune) bool { return r >= '0' && r <= '9' }) }
	written, whole := digits(), true
	if l.peek() == '.' && len(l.rest) > 1 && l.rest[1] >= '0' && l.rest[1] <= '9' {
		written += l.take(1) + digits()
		whole = false
	}
	if c := l.peek(); c == 'E' || c == 'e' {
		written += l.take(1)
		if c := l.peek(); c == '+' || c == '-' {
			written += l.take(1)
		}
		written += digits()
		whole = false
	}
	if inName(l.peek()) {
		return nil, &SyntaxError{at, fmt.Sprintf("a number cannot be followed by %q", string(l.peek()))}
	}
	if whole {
		n, err := strconv.ParseInt(written, 10, 64)
		if err != nil {
			return nil, &SyntaxError{at, "the integer " + written + " is larger than any of 64 bits"}
		}
		return n, nil
	}
	n, err := strconv.ParseFloat(written, 64)
	if err != nil {
		return nil, &SyntaxError{at, "the number " + written + " cannot be read"}
	}
	return n, nil
}
