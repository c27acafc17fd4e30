package docs_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module       = "oneeffect/"
	architecture = "docs/architecture.md"
)

// graph is which package imports which, tests left out.
type graph map[string]map[string]bool

// importGraph reads the imports of the packages under some folders.
func importGraph(t *testing.T, folders ...string) graph {
	t.Helper()
	g := graph{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".."):
				return fs.SkipDir
			case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			return g.read(filepath.ToSlash(rel))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range g { // what is pictured elsewhere is left out
		maps.DeleteFunc(to, func(other string, _ bool) bool { return g[other] == nil || other == from })
	}
	return g
}

func (g graph) read(name string) error {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
	if err != nil {
		return err
	}
	pkg := path.Dir(name)
	if g[pkg] == nil {
		g[pkg] = map[string]bool{}
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if own, ok := strings.CutPrefix(imported, module); ok {
			g[pkg][own] = true
		}
	}
	return nil
}

// reaches says that one package leads to another by way of a third.
func (g graph) reaches(from, to string) bool {
	seen := map[string]bool{}
	var visit func(string) bool
	visit = func(at string) bool {
		for next := range g[at] {
			if at == from && next == to || seen[next] {
				continue
			}
			seen[next] = true
			if next == to || visit(next) {
				return true
			}
		}
		return false
	}
	return visit(from)
}

// reduced is the graph without the imports that other imports imply: the picture
// would be none with them.
func (g graph) reduced() graph {
	less := graph{}
	for from, to := range g {
		less[from] = map[string]bool{}
		for other := range to {
			if !g.reaches(from, other) {
				less[from][other] = true
			}
		}
	}
	return less
}

// alone says that a package imports none of the picture and none imports it: one
// that has only tests, or starts the others as processes.
func (g graph) alone(pkg string) bool {
	for _, to := range g {
		if to[pkg] {
			return false
		}
	}
	return len(g[pkg]) == 0
}

// group is a frame of the picture with the packages that stand in it.
type group struct {
	title string
	has   func(pkg string) bool
}

func in(names ...string) func(string) bool {
	return func(pkg string) bool { return slices.Contains(names, pkg) }
}

var product = []group{
	{"commands", func(pkg string) bool { return strings.HasPrefix(pkg, "cmd/") }},
	{"story", in("internal/worker", "internal/orchestrator", "internal/projector")},
	{"guards", in("internal/claim", "internal/execution", "internal/receipt")},
	{"adapters", in("internal/servicebus", "internal/cosmos", "internal/downstream")},
	{"what travels", in("internal/message")},
	{"beside", func(pkg string) bool { return strings.HasPrefix(pkg, "internal/") }},
}

var witness = []group{
	{"emulator", func(string) bool { return true }},
}

// picture draws a graph as a flow chart.
func (g graph) picture(groups []group) string {
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart TD\n")
	ids := map[string]string{}
	left := slices.DeleteFunc(slices.Sorted(maps.Keys(g)), g.alone)
	for i, frame := range groups {
		var rest []string
		fmt.Fprintf(&b, "    subgraph g%d[%q]\n", i, frame.title)
		for _, pkg := range left {
			if !frame.has(pkg) {
				rest = append(rest, pkg)
				continue
			}
			ids[pkg] = strings.NewReplacer("/", "_", "-", "_").Replace(pkg)
			fmt.Fprintf(&b, "        %s[%q]\n", ids[pkg], strings.TrimPrefix(strings.TrimPrefix(pkg, "internal/"), "emulator/"))
		}
		b.WriteString("    end\n")
		left = rest
	}
	less := g.reduced()
	for _, from := range slices.Sorted(maps.Keys(less)) {
		for _, to := range slices.Sorted(maps.Keys(less[from])) {
			fmt.Fprintf(&b, "    %s --> %s\n", ids[from], ids[to])
		}
	}
	return b.String() + "```\n"
}

func TestTheArchitectureIsPicturedAsItIs(t *testing.T) {
	for name, g := range map[string]struct {
		graph  graph
		groups []group
	}{
		"product":   {importGraph(t, "cmd", "internal"), product},
		"emulators": {importGraph(t, "emulator"), witness},
	} {
		if len(g.graph) < 10 {
			t.Fatalf("%s: found %d packages", name, len(g.graph))
		}
		between(t, architecture, "<!-- begin: "+name+", made by: go test ./docs -rewrite -->\n", "\n<!-- end: "+name+" -->", g.graph.picture(g.groups))
	}
}

func TestAnImportThatOthersImplyIsNotDrawn(t *testing.T) {
	g := graph{"a": {"b": true, "c": true}, "b": {"c": true}, "c": {}}
	drawn := g.picture([]group{{"all", func(string) bool { return true }}})
	for edge, want := range map[string]bool{"a --> b": true, "b --> c": true, "a --> c": false} {
		if strings.Contains(drawn, edge) != want {
			t.Errorf("%s is drawn: %t, want %t, in\n%s", edge, !want, want, drawn)
		}
	}
}
