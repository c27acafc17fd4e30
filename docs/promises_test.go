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
	"strings"
	"testing"
)

const promisesPage = "docs/promises.md"

// promise is a numbered sentence of a package's documentation.
type promise struct {
	pkg, number, says string
}

// carrier is a test with the numbers that it carries: in the comment above it, or
// in its code.
type carrier struct {
	file, name string
	above      bool // the number stands at the test itself and not at one of its cases
}

// tree is the code, as far as promises are concerned.
type tree struct {
	promises []promise
	carriers map[string][]carrier // by package and number
}

var (
	numbered = regexp.MustCompile(`(?m)^\t([A-Z][0-9]{1,2}) {2,}(\S.*(?:\n\t {4,}\S.*)*)`)
	number   = regexp.MustCompile(`\b[A-Z][0-9]{1,2}\b`)
)

func readTree(t *testing.T) tree {
	t.Helper()
	all := tree{carriers: map[string][]carrier{}}
	eachGoFile(t, all.read)
	return all
}

func (all *tree) read(name string) error {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(name, "_test.go") {
		for _, found := range numbered.FindAllStringSubmatch(file.Doc.Text(), -1) {
			all.promises = append(all.promises, promise{path.Dir(name), found[1], strings.Join(strings.Fields(found[2]), " ")})
		}
		return nil
	}
	lines := strings.Split(string(text), "\n")
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		begins, ends := set.Position(f.Pos()).Line, set.Position(f.End()).Line
		at := f.Doc.Text() + lines[begins-1]
		within := at + strings.Join(lines[begins-1:ends], "\n")
		for _, n := range slices.Compact(slices.Sorted(slices.Values(number.FindAllString(within, -1)))) {
			key := path.Dir(name) + " " + n
			all.carriers[key] = append(all.carriers[key], carrier{name, f.Name.Name, regexp.MustCompile(`\b` + n + `\b`).MatchString(at)})
		}
	}
	return nil
}

// of are the tests that carry a promise: in its package, or in the one around it,
// whose tests see the inner one from outside.
func (all tree) of(p promise) []carrier {
	return slices.Concat(all.carriers[p.pkg+" "+p.number], all.carriers[path.Dir(p.pkg)+" "+p.number])
}

// first are the tests that are told of a promise: three at most, and first those
// that are about nothing but a few of them.
func (all tree) first(p promise) []carrier {
	found := all.of(p)
	slices.SortStableFunc(found, func(a, b carrier) int {
		switch {
		case a.above && !b.above:
			return -1
		case b.above && !a.above:
			return 1
		}
		return 0
	})
	return found[:min(3, len(found))]
}

func (p promise) row(by []carrier) string {
	var tests []string
	for _, c := range by {
		tests = append(tests, fmt.Sprintf("[`%s`](../%s)", c.name, c.file))
	}
	return fmt.Sprintf("| %s | %s | %s |\n", p.number, strings.ReplaceAll(p.says, "|", `\|`), strings.Join(tests, "<br>"))
}

var listed = regexp.MustCompile("\\[`(\\w+)`\\]\\(\\.\\./([^)]+)\\)")

// Every promise in the documentation of a package stands on the page, in the same
// words, with a test that carries its number. Tests may be added
// without a word on the page; one that is named there has to be there.
func TestEveryPromiseIsListedWithATestThatCarriesIt(t *testing.T) {
	all := readTree(t)
	if len(all.promises) < 100 {
		t.Fatalf("found %d promises", len(all.promises))
	}
	file := filepath.Join(root, promisesPage)
	if *rewrite {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(text), "\n## ")
		if err := os.WriteFile(file, []byte(strings.TrimRight(head, "\n")+"\n"+all.page()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(s, "\n")
		sections[title] = body
	}
	for _, p := range all.promises {
		body, ok := sections[p.pkg]
		begin, _, _ := strings.Cut(p.row(nil), "|  |\n")
		at := strings.Index(body, begin)
		if !ok || at < 0 {
			t.Errorf("%s of %s is not on the page in these words (go test ./docs -rewrite): %s", p.number, p.pkg, p.says)
			continue
		}
		row, _, _ := strings.Cut(body[at:], "\n")
		tests := listed.FindAllStringSubmatch(row[len(begin):], -1)
		if len(tests) == 0 {
			t.Errorf("%s of %s has no test that carries its number", p.number, p.pkg)
		}
		for _, named := range tests {
			carries := func(c carrier) bool { return c.name == named[1] && c.file == named[2] }
			if !slices.ContainsFunc(all.of(p), carries) {
				t.Errorf("%s of %s: %s in %s does not carry it (go test ./docs -rewrite)", p.number, p.pkg, named[1], named[2])
			}
		}
	}
	if rows := strings.Count(string(text), "\n| ") - len(sections); rows != len(all.promises) { // less the heads of the tables
		t.Errorf("the page has %d rows for %d promises: go test ./docs -rewrite", rows, len(all.promises))
	}
}

// page is what follows the head of the page: the product first, then what it runs on.
func (all tree) page() string {
	var b strings.Builder
	var order []string
	for _, p := range all.promises {
		if !slices.Contains(order, p.pkg) {
			order = append(order, p.pkg)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return rank(a) - rank(b) })
	for _, pkg := range order {
		fmt.Fprintf(&b, "\n## %s\n\n| | promise | held by, among others |\n|---|---|---|\n", pkg)
		for _, p := range all.promises {
			if p.pkg == pkg {
				b.WriteString(p.row(all.first(p)))
			}
		}
	}
	return b.String()
}

func rank(pkg string) int {
	for i, first := range []string{"internal/claim", "internal/execution", "internal/receipt", "internal/message", "internal/worker", "internal/orchestrator", "internal/projector", "internal/", "cmd/"} {
		if strings.HasPrefix(pkg, first) {
			return i
		}
	}
	return 100
}
