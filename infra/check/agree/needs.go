package agree

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// need is a right that a process uses, as its wiring shows it.
type need struct {
	what string // receive, send or write
	at   string // an entity, topic/subscription, or a container
}

func (n need) String() string { return n.what + " " + n.at }

// needs reads cmd/: who makes which senders and receivers, and who opens which
// stores.
func (w *world) needs(process string) ([]need, error) {
	names, err := w.constants()
	if err != nil {
		return nil, err
	}
	found := map[need]bool{}
	for name, content := range w.tree {
		if path.Dir(name) != "cmd/"+process || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				called(n, names, found)
			case *ast.CompositeLit:
				if selected(n.Type, "servicebus") == "Receiver" {
					receives(n, names, found)
				}
			}
			return true
		})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("cmd/%s wires neither broker nor store: the way it does is not known here", process)
	}
	all := make([]need, 0, len(found))
	for n := range found {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b need) int { return strings.Compare(a.String(), b.String()) })
	return all, nil
}

func called(call *ast.CallExpr, names map[string]string, found map[need]bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	switch {
	case method.Sel.Name == "Sender" && len(call.Args) == 1:
		found[need{"send", names[selected(call.Args[0], "message")]}] = true
	case method.Sel.Name == "DeadLetters" && len(call.Args) == 1:
		found[need{"receive", names[selected(call.Args[0], "message")]}] = true
	case len(call.Args) == 0:
		if of, ok := method.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Cosmos" && method.Sel.Name != "Close" {
			found[need{"write", strings.ToLower(method.Sel.Name)}] = true
		}
	}
}

func receives(receiver *ast.CompositeLit, names map[string]string, found map[need]bool) {
	field := map[string]string{}
	for _, element := range receiver.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				field[key.Name] = names[selected(pair.Value, "message")]
			}
		}
	}
	if queue := field["Queue"]; queue != "" {
		found[need{"receive", queue}] = true
		found[need{"send", queue}] = true // delayed copies
	} else {
		found[need{"receive", field["Topic"] + "/" + field["Subscription"]}] = true
	}
}

// selected is the name after a package's: Tasks of message.Tasks.
func selected(n ast.Expr, from string) string {
	if s, ok := n.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok && x.Name == from {
			return s.Sel.Name
		}
	}
	return ""
}

// constants are the names of package message that stand for texts.
func (w *world) constants() (map[string]string, error) {
	names := map[string]string{}
	for name, content := range w.tree {
		if path.Dir(name) != "internal/message" || strings.HasSuffix(name, "_test.go") || !strings.HasSuffix(name, ".go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != len(spec.Names) {
				return true
			}
			for i, value := range spec.Values {
				if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					names[spec.Names[i].Name], _ = strconv.Unquote(literal.Value)
				}
			}
			return true
		})
	}
	return names, nil
}
