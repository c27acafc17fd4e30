package cosmos

import (
	"fmt"
	"strings"
)

const (
	maxQueryText  = 512 << 10
	maxQueryDepth = 128
)

// parser is a recursive descent over the tokens of one query. Parameters are
// put in as literals while it parses, so that everything behind it sees values.
type parser struct {
	text       string
	tokens     []token
	at         int
	depth      int
	parameters map[string]value
	condition  bool             // of a patch
	used       map[string]token // where each name was first used
	level
}

// level is what the parser has to know of the SELECT that it is in.
type level struct {
	nested      bool // a subquery
	root        bool // FROM names the container: of the query itself, and of a subquery in its FROM
	inSelect    bool
	inAggregate bool
	aggregates  []*aggregate
}

func newParser(text string, parameters map[string]value) (*parser, error) {
	if len(text) > maxQueryText {
		return nil, &syntaxError{0, 0, codeSyntax, "The SQL query text exceeded the maximum limit of 512 KB."}
	}
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	return &parser{text: text, tokens: tokens, parameters: parameters, used: map[string]token{}}, nil
}

// deeper is called where the grammar calls itself, and its undoing deferred.
func (p *parser) deeper() error {
	p.depth++
	if p.depth > maxQueryDepth {
		return &syntaxError{p.peek().start, p.peek().end, codeSyntax, fmt.Sprintf("The query is nested deeper than %d.", maxQueryDepth)}
	}
	return nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

// next takes the next token; the end of the query stays where it is.
func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != endOfQuery {
		p.at++
	}
	return t
}

func (p *parser) isSymbol(symbol string) bool {
	t := p.peek()
	return t.kind == symbolToken && t.text == symbol
}

func (p *parser) take(symbol string) bool {
	if p.isSymbol(symbol) {
		p.at++
		return true
	}
	return false
}

func (p *parser) isWord(keyword string) bool {
	t := p.peek()
	return t.kind == keywordToken && t.text == keyword
}

func (p *parser) takeWord(keyword string) bool {
	if p.isWord(keyword) {
		p.at++
		return true
	}
	return false
}

func (p *parser) unexpected() error {
	t := p.peek()
	if t.kind == endOfQuery {
		return &syntaxError{t.start, t.end, codeSyntax, "Syntax error, unexpected end of query."}
	}
	return near(p.text, t.start, t.end)
}

func (p *parser) unbound(t token) error {
	return &syntaxError{t.start, t.end, "SC2010", fmt.Sprintf("Parameter '%s' has no value among the query's parameters.", t.text)}
}

func (p *parser) unsupported(what string) error {
	t := p.peek()
	return &syntaxError{t.start, t.end, codeUnsupported,
		fmt.Sprintf("This emulator does not support %s near '%s'.", what, strings.TrimSpace(p.text[t.start:t.end]))}
}
