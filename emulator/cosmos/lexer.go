package cosmos

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// tokenKind tells the words of the query language apart.
type tokenKind int

const (
	endOfQuery tokenKind = iota
	nameToken
	keywordToken // text in upper case
	stringToken  // text unquoted
	numberToken
	parameterToken // text with its @
	symbolToken
)

type token struct {
	kind       tokenKind
	text       string
	start, end int // bytes of the query, for the error message
}

// keywords are reserved: none of them names a property behind a dot, as in the
// service, where c.value is a syntax error and c["value"] is the remedy.
var keywords = map[string]bool{
	"AND": true, "ARRAY": true, "AS": true, "ASC": true, "BETWEEN": true, "BY": true, "DESC": true,
	"DISTINCT": true, "ESCAPE": true, "EXISTS": true, "FROM": true, "GROUP": true, "IN": true, "JOIN": true,
	"LIKE": true, "LIMIT": true, "NOT": true, "OFFSET": true, "OR": true, "ORDER": true, "SELECT": true,
	"TOP": true, "VALUE": true, "WHERE": true, "HAVING": true,
}

// literals are keywords too, but in lower case only.
var literals = map[string]value{"true": true, "false": false, "null": nil, "undefined": undefined{}}

// syntaxError is a query that cannot be understood or that asks for what this
// emulator does not do. It becomes a 400 in the service's shape.
type syntaxError struct {
	start, end int
	code       string
	message    string
}

func (e *syntaxError) Error() string { return e.message }

const (
	codeSyntax      = "SC1001"
	codeUnresolved  = "SC2001"
	codeUnsupported = "SC9999" // ours: the service has the feature, the emulator has not
)

// lex cuts a query into tokens.
func lex(query string) ([]token, error) {
	var tokens []token
	for i := 0; i < len(query); {
		c := query[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
		case strings.HasPrefix(query[i:], "--"):
			if n := strings.IndexByte(query[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(query)
			}
		default:
			t, err := lexOne(query, i)
			if err != nil {
				return nil, err
			}
			tokens = append(tokens, t)
			i = t.end
		}
	}
	return append(tokens, token{endOfQuery, "end of query", len(query), len(query)}), nil
}

func lexOne(query string, i int) (token, error) {
	c := query[i]
	switch {
	case isNameStart(c):
		end := i
		for end < len(query) && isNamePart(query[end]) {
			end++
		}
		word := query[i:end]
		if upper := strings.ToUpper(word); keywords[upper] {
			return token{keywordToken, upper, i, end}, nil
		}
		return token{nameToken, word, i, end}, nil
	case c == '@':
		end := i + 1
		for end < len(query) && isNamePart(query[end]) {
			end++
		}
		if end == i+1 {
			return token{}, near(query, i, i+1)
		}
		return token{parameterToken, query[i:end], i, end}, nil
	case c == '\'' || c == '"':
		return lexString(query, i)
	case c >= '0' && c <= '9', c == '.' && i+1 < len(query) && isDigit(query[i+1]):
		return lexNumber(query, i)
	}
	for _, symbol := range []string{"!=", "<>", "<=", ">=", "??", "||"} {
		if strings.HasPrefix(query[i:], symbol) {
			return token{symbolToken, symbol, i, i + len(symbol)}, nil
		}
	}
	if strings.IndexByte("()[]{}.,:?*+-/%=<>&|^~", c) >= 0 {
		return token{symbolToken, string(c), i, i + 1}, nil
	}
	_, size := utf8.DecodeRuneInString(query[i:])
	return token{}, near(query, i, i+size)
}

func lexString(query string, i int) (token, error) {
	quote := query[i]
	for end := i + 1; end < len(query); end++ {
		switch query[end] {
		case '\\':
			end++
		case quote:
			text, err := unquote(query[i+1 : end])
			if err != nil {
				return token{}, &syntaxError{i, end + 1, codeSyntax, err.Error()}
			}
			return token{stringToken, text, i, end + 1}, nil
		}
	}
	return token{}, &syntaxError{i, len(query), codeSyntax, "Syntax error, unterminated string literal."}
}

// unquote understands what JSON does, and the escaped single quote.
func unquote(inner string) (string, error) {
	if strings.IndexByte(inner, '\\') < 0 {
		if !utf8.ValidString(inner) {
			return "", fmt.Errorf("Syntax error, the string literal is not valid UTF-8.") //nolint:staticcheck // the service's wording
		}
		return inner, nil
	}
	var quoted strings.Builder
	quoted.WriteByte('"')
	for i := 0; i < len(inner); i++ {
		switch {
		case inner[i] == '\\' && i+1 < len(inner):
			if inner[i+1] != '\'' {
				quoted.WriteByte('\\')
			}
			i++
			quoted.WriteByte(inner[i])
		case inner[i] == '"':
			quoted.WriteString(`\"`)
		case inner[i] < ' ':
			fmt.Fprintf(&quoted, `\u%04x`, inner[i])
		default:
			quoted.WriteByte(inner[i])
		}
	}
	quoted.WriteByte('"')
	text, err := jsontext.AppendUnquote(nil, quoted.String())
	if err != nil {
		return "", fmt.Errorf("Syntax error, invalid string literal '%s'.", inner) //nolint:staticcheck // the service's wording
	}
	return string(text), nil
}

func lexNumber(query string, i int) (token, error) {
	end := i
	for end < len(query) && (isNamePart(query[end]) || query[end] == '.' ||
		(query[end] == '+' || query[end] == '-') && (query[end-1] == 'e' || query[end-1] == 'E')) {
		end++
	}
	text := query[i:end]
	if strings.ContainsAny(text, "_xXpPiInN") {
		return token{}, near(query, i, end)
	}
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return token{}, near(query, i, end)
	}
	return token{numberToken, text, i, end}, nil
}

func isNameStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isNamePart(c byte) bool { return isNameStart(c) || isDigit(c) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func near(query string, start, end int) *syntaxError {
	return &syntaxError{start, end, codeSyntax,
		fmt.Sprintf("Syntax error, incorrect syntax near '%s'.", strings.ToValidUTF8(query[start:end], "?"))}
}
