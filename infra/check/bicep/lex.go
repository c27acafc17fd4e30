package bicep

import (
	"fmt"
	"strings"
	"unicode"
)

type kind int

const (
	word    kind = iota // identifier, keyword or number
	quoted              // string; Text is what stands between the quotes
	mark                // operator or bracket
	newline             // one or more
	end
)

type token struct {
	kind kind
	text string
	line int
}

// lex splits a file. Comments are dropped; a string keeps its interpolations as
// they are written.
func lex(text string) ([]token, error) {
	var tokens []token
	line := 1
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			if n := len(tokens); n > 0 && tokens[n-1].kind != newline {
				tokens = append(tokens, token{newline, "", line})
			}
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(text[i:], "//"):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case strings.HasPrefix(text[i:], "/*"):
			n := strings.Index(text[i:], "*/")
			if n < 0 {
				return nil, fmt.Errorf("line %d: a comment has no end", line)
			}
			line += strings.Count(text[i:i+n], "\n")
			i += n + 2
		case strings.HasPrefix(text[i:], "'''"):
			n := strings.Index(text[i+3:], "'''")
			if n < 0 {
				return nil, fmt.Errorf("line %d: a string has no end", line)
			}
			tokens = append(tokens, token{quoted, strings.TrimPrefix(text[i+3:i+3+n], "\n"), line})
			line += strings.Count(text[i:i+3+n], "\n")
			i += n + 6
		case c == '\'':
			n, err := closing(text[i:])
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
			tokens = append(tokens, token{quoted, unescape(text[i+1 : i+n]), line})
			i += n + 1
		case c == '_' || unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)):
			n := i
			for n < len(text) && (text[n] == '_' || unicode.IsLetter(rune(text[n])) || unicode.IsDigit(rune(text[n]))) {
				n++
			}
			tokens = append(tokens, token{word, text[i:n], line})
			i = n
		default:
			n := 1
			if i+1 < len(text) {
				switch text[i : i+2] {
				case "==", "!=", "&&", "||", ">=", "<=", "??", "=>":
					n = 2
				}
			}
			tokens = append(tokens, token{mark, text[i : i+n], line})
			i += n
		}
	}
	return append(tokens, token{newline, "", line}, token{end, "", line}), nil
}

// closing is where a string ends that begins at text[0]; interpolations may have
// strings of their own.
func closing(text string) (int, error) {
	depth := 0
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			return 0, fmt.Errorf("a string has no end")
		case c == '\\':
			i++
		case strings.HasPrefix(text[i:], "${"):
			depth++
			i++
		case depth > 0 && c == '\'':
			n, err := closing(text[i:])
			if err != nil {
				return 0, err
			}
			i += n
		case depth > 0 && c == '}':
			depth--
		case depth == 0 && c == '\'':
			return i, nil
		}
	}
	return 0, fmt.Errorf("a string has no end")
}

var escapes = strings.NewReplacer(`\'`, "'", `\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r")

func unescape(text string) string { return escapes.Replace(text) }
