package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	link = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	line = regexp.MustCompile(`^L(\d+)$`)
)

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	all := pages(t)
	anchorsOf := map[string][]string{}
	for _, p := range all {
		anchorsOf[p.name] = anchors(p)
	}
	places := 0
	for _, p := range all {
		text := p.text
		for _, found := range link.FindAllStringSubmatch(p.prose(), -1) {
			said, target := found[1], found[2]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			name := p.name
			if file != "" {
				name = path.Join(path.Dir(p.name), file)
			}
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: [%s](%s) leads to nothing", p.name, said, target)
				continue
			}
			switch number := line.FindStringSubmatch(anchor); {
			case number != nil:
				places++
				is, err := place(name, strings.Trim(said, "`"))
				if err != nil {
					t.Errorf("%s: [%s](%s): %v", p.name, said, target, err)
				} else if here := strconv.Itoa(is); here != number[1] && *rewrite {
					text = strings.ReplaceAll(text, found[0], fmt.Sprintf("[%s](%s#L%d)", said, file, is))
				} else if here != number[1] {
					t.Errorf("%s: [%s](%s) is at line %d now: go test ./docs -rewrite", p.name, said, target, is)
				}
			case anchor != "" && strings.HasSuffix(name, ".md") && !slices.Contains(anchorsOf[name], anchor):
				t.Errorf("%s: [%s](%s): there is no such heading", p.name, said, target)
			}
		}
		if text != p.text {
			if err := os.WriteFile(filepath.Join(root, p.name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if places < 14 {
		t.Errorf("%d links name a line of the code, and the walkthrough alone has an arrow for each of fourteen", places)
	}
}

// anchors are what a page's headings are called in an address.
func anchors(p page) (all []string) {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, h := range regexp.MustCompile(`(?m)^#{1,6} (.*)$`).FindAllStringSubmatch(p.prose(), -1) {
		all = append(all, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return all
}

// place finds what a link says at a file's line: a declaration (Name, or Type.Name),
// or else a piece of code that stands in one line only.
func place(file, says string) (int, error) {
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return 0, err
	}
	if strings.HasSuffix(file, ".go") {
		if at, err := declaration(text, says); at > 0 || err != nil {
			return at, err
		}
	}
	var at []int
	for i, l := range strings.Split(string(text), "\n") {
		if strings.Contains(l, says) {
			at = append(at, i+1)
		}
	}
	if len(at) != 1 {
		return 0, fmt.Errorf("%q is in %d lines of %s, want one", says, len(at), file)
	}
	return at[0], nil
}

// declaration is the line at which a name is declared in a file; 0 if it is not.
func declaration(text []byte, name string) (int, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if named(d) == name {
				return set.Position(d.Name.Pos()).Line, nil
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				var names []*ast.Ident
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = []*ast.Ident{spec.Name}
				case *ast.ValueSpec:
					names = spec.Names
				}
				for _, n := range names {
					if n.Name == name {
						return set.Position(n.Pos()).Line, nil
					}
				}
			}
		}
	}
	return 0, nil
}

// named is a function's name, a method's behind its type's.
func named(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) != 1 {
		return d.Name.Name
	}
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if of, ok := of.(*ast.Ident); ok {
		return of.Name + "." + d.Name.Name
	}
	return d.Name.Name
}

func TestAPlaceThatMovedIsFound(t *testing.T) {
	code := []byte("package x\n\nfunc (w *T[K]) Do() {\n\tcall()\n}\n\ntype T[K any] struct{}\n\nvar a, b = 1, 2\n")
	for name, want := range map[string]int{"T.Do": 3, "T": 7, "b": 9, "Do": 0, "call": 0} {
		if got, err := declaration(code, name); err != nil || got != want {
			t.Errorf("%s is at %d (%v), want %d", name, got, err, want)
		}
	}
	want, err := place("docs/links_test.go", "func "+"declaration(")
	if at, err2 := place("docs/links_test.go", "declaration"); err != nil || err2 != nil || at != want {
		t.Errorf("a declaration is at %d (%v), and its code at %d (%v)", at, err2, want, err)
	}
	if _, err := place("docs/links_test.go", "no such "+"words"); err == nil {
		t.Error("words that are nowhere are found")
	}
}
