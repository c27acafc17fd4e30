package bicep

import (
	"strconv"
	"strings"
)

// Resolve puts in for names what they stand for in this file, joins lists, and goes
// the way of a choice on which something is given: what is empty is a deployment
// that has only begun.
func (f *File) Resolve(n *Node) *Node {
	for range 20 {
		switch {
		case n == nil:
			return nil
		case n.Kind == "name" && f.Variables[n.Text] != nil:
			n = f.Variables[n.Text]
		case n.Kind == "choice" && n.Nodes[0].Kind == "call" && n.Nodes[0].Text == "empty":
			n = n.Nodes[2]
		case n.Kind == "call" && n.Text == "concat":
			joined := &Node{Kind: "array", Line: n.Line}
			for _, part := range n.Nodes {
				joined.Nodes = append(joined.Nodes, f.Resolve(part).Nodes...)
			}
			return joined
		default:
			return n
		}
	}
	return n
}

// At is what stands at a path of members of a node; nil if nothing does. A number
// in the path is the place in a list.
func (f *File) At(n *Node, path ...string) *Node {
	n = f.Resolve(n)
	for _, step := range path {
		if n == nil {
			return nil
		}
		var found *Node
		if i, err := strconv.Atoi(step); err == nil && n.Kind == "array" && i < len(n.Nodes) {
			found = n.Nodes[i]
		}
		for i, key := range n.Keys {
			if key == step {
				found = n.Nodes[i]
			}
		}
		n = f.Resolve(found)
	}
	return n
}

// Text is the text at a path: of a literal as it is, of a name the name.
func (f *File) Text(n *Node, path ...string) string {
	if found := f.At(n, path...); found != nil {
		return found.Text
	}
	return ""
}

// Items are those of a list at a path.
func (f *File) Items(n *Node, path ...string) []*Node {
	if found := f.At(n, path...); found != nil && found.Kind == "array" {
		return found.Nodes
	}
	return nil
}

// Resources are those of a type, whatever the case of its letters.
func (f *File) Resources(kind string) []Declaration {
	var found []Declaration
	for _, d := range f.Declarations {
		if !d.Module && !d.Existing && strings.EqualFold(d.Type, kind) {
			found = append(found, d)
		}
	}
	return found
}

// Symbol is the declaration of a name.
func (f *File) Symbol(name string) *Declaration {
	for i, d := range f.Declarations {
		if d.Symbol == name {
			return &f.Declarations[i]
		}
	}
	return nil
}

// Walk visits every expression of a file.
func (f *File) Walk(visit func(*Node)) {
	var walk func(*Node)
	walk = func(n *Node) {
		if n == nil {
			return
		}
		visit(n)
		for _, inner := range n.Nodes {
			walk(inner)
		}
	}
	for _, named := range []map[string]*Node{f.Parameters, f.Variables, f.Outputs} {
		for _, n := range named {
			walk(n)
		}
	}
	for _, d := range f.Declarations {
		walk(d.Body)
	}
}
