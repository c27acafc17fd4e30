// Package bicep reads Bicep files as far as their values can be compared with those
// of other files: declarations, literals, and variables put in for their names. It
// is no compiler and checks no types.
package bicep

import (
	"fmt"
	"strings"
)

// Node is an expression.
type Node struct {
	Kind  string // string number bool null array object name call choice other
	Text  string // of a string, number, bool or name; the function of a call; of others nothing
	Keys  []string
	Nodes []*Node // members of an object, items, arguments; of a choice: condition, then, else
	Line  int
}

// Declaration is a resource or a module.
type Declaration struct {
	Module   bool
	Symbol   string
	Type     string // of a resource, without its version; a module's file
	Version  string
	Existing bool
	Body     *Node
	Line     int
}

// File is what a file declares.
type File struct {
	Name         string
	Parameters   map[string]*Node // their defaults; nil for none
	Variables    map[string]*Node
	Outputs      map[string]*Node
	Declarations []Declaration
}

// Parse reads a file. It reads what this repository's files are written in; what it
// does not know is an error and never passed over.
func Parse(name, text string) (*File, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &parser{tokens: tokens}
	f := &File{Name: name, Parameters: map[string]*Node{}, Variables: map[string]*Node{}, Outputs: map[string]*Node{}}
	for p.skip(); p.peek().kind != end && p.err == nil; p.skip() {
		p.statement(f)
	}
	if p.err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, p.tokens[min(p.at, len(p.tokens))-1].line, p.err)
	}
	return f, nil
}

type parser struct {
	tokens []token
	at     int
	err    error
}

func (p *parser) peek() token { return p.tokens[min(p.at, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.peek()
	p.at++
	return t
}

func (p *parser) skip() {
	for p.peek().kind == newline {
		p.at++
	}
}

func (p *parser) is(text string) bool {
	t := p.peek()
	return t.kind == mark && t.text == text || t.kind == word && t.text == text
}

func (p *parser) take(text string) bool {
	if p.is(text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) want(text string) {
	if !p.take(text) && p.err == nil {
		p.err = fmt.Errorf("%q where %q should be", p.peek().text, text)
	}
}

func (p *parser) statement(f *File) {
	switch t := p.next(); t.text {
	case "@":
		p.expression()
	case "targetScope":
		p.want("=")
		p.expression()
	case "param":
		name := p.next().text
		p.typed()
		f.Parameters[name] = nil
		if p.take("=") {
			f.Parameters[name] = p.expression()
		}
	case "var":
		name := p.next().text
		p.want("=")
		f.Variables[name] = p.expression()
	case "output":
		name := p.next().text
		p.typed()
		p.want("=")
		f.Outputs[name] = p.expression()
	case "resource", "module":
		d := Declaration{Module: t.text == "module", Symbol: p.next().text, Type: p.next().text, Line: t.line}
		if !d.Module {
			d.Type, d.Version, _ = strings.Cut(d.Type, "@")
		}
		d.Existing = p.take("existing")
		p.want("=")
		if p.take("if") {
			p.primary()
		}
		d.Body = p.expression()
		f.Declarations = append(f.Declarations, d)
	default:
		p.err = fmt.Errorf("a statement that begins with %q is not known here", t.text)
	}
}

// typed passes over a type: a name, perhaps of a list.
func (p *parser) typed() {
	p.next()
	if p.take("[") {
		p.want("]")
	}
}

func (p *parser) expression() *Node {
	left := p.unary()
	for p.err == nil && p.peek().kind == mark {
		switch p.peek().text {
		case "==", "!=", "&&", "||", ">", "<", ">=", "<=", "+", "-", "*", "??":
			p.next()
			left = &Node{Kind: "other", Nodes: []*Node{left, p.unary()}, Line: left.Line}
			continue
		}
		break
	}
	if p.err == nil && p.take("?") {
		then := p.expression()
		p.want(":")
		left = &Node{Kind: "choice", Nodes: []*Node{left, then, p.expression()}, Line: left.Line}
	}
	return left
}

func (p *parser) unary() *Node {
	if t := p.peek(); p.take("!") {
		return &Node{Kind: "other", Nodes: []*Node{p.unary()}, Line: t.line}
	} else if p.take("-") {
		n := p.primary()
		n.Text = "-" + n.Text
		return n
	}
	return p.primary()
}

func (p *parser) primary() *Node {
	t := p.next()
	n := &Node{Line: t.line, Text: t.text}
	switch {
	case t.kind == quoted:
		n.Kind = "string"
	case t.kind == word && t.text[0] >= '0' && t.text[0] <= '9':
		n.Kind = "number"
	case t.text == "true" || t.text == "false":
		n.Kind = "bool"
	case t.text == "null":
		n.Kind = "null"
	case t.kind == word:
		n.Kind = "name"
	case t.text == "{":
		n.Kind, n.Text = "object", ""
		p.list("}", func() {
			n.Keys = append(n.Keys, p.next().text)
			p.want(":")
			n.Nodes = append(n.Nodes, p.expression())
		})
	case t.text == "[":
		n.Kind, n.Text = "array", ""
		p.list("]", func() { n.Nodes = append(n.Nodes, p.expression()) })
	case t.text == "(":
		p.skip()
		n = p.expression()
		p.skip()
		p.want(")")
	default:
		if p.err == nil {
			p.err = fmt.Errorf("%q where an expression should be", t.text)
		}
		return n
	}
	return p.behind(n)
}

// behind reads what may stand behind a value: members, elements, arguments.
func (p *parser) behind(n *Node) *Node {
	for p.err == nil {
		switch {
		case p.is("!") && p.tokens[p.at+1].text == ".":
			p.next()
		case p.take("."):
			if n.Kind != "name" {
				p.next()
				n = &Node{Kind: "other", Nodes: []*Node{n}, Line: n.Line}
				continue
			}
			n = &Node{Kind: "name", Text: n.Text + "." + p.next().text, Line: n.Line}
		case n.Kind == "name" && p.take("("):
			call := &Node{Kind: "call", Text: n.Text, Line: n.Line}
			p.list(")", func() { call.Nodes = append(call.Nodes, p.expression()) })
			n = call
		case n.Kind == "name" && p.take("["):
			p.expression()
			p.want("]")
			n = &Node{Kind: "other", Line: n.Line}
		default:
			return n
		}
	}
	return n
}

// list reads items up to a bracket, between commas or on lines of their own.
func (p *parser) list(closing string, item func()) {
	for p.skip(); p.err == nil && !p.take(closing); p.skip() {
		if p.peek().kind == end {
			p.err = fmt.Errorf("the file ends where %q should be", closing)
			return
		}
		item()
		p.take(",")
	}
}
