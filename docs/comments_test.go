package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever runs go doc finds a sentence for every package and every exported thing;
// a package's begins as those of the standard library do.
func TestEverythingExportedIsDocumented(t *testing.T) {
	packages := map[string]bool{} // and whether one of its files says what it is
	eachGoFile(t, func(name string) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := path.Dir(name)
		said := strings.Join(strings.Fields(file.Doc.Text()), " ")
		packages[pkg] = packages[pkg] || strings.HasPrefix(said, "Package "+file.Name.Name+" ") || strings.HasPrefix(said, "Command "+path.Base(pkg)+" ")
		for _, missing := range undocumented(file) {
			t.Errorf("%s: %s has no comment", set.Position(missing.Pos()), missing.Name)
		}
		return nil
	})
	if len(packages) < 40 {
		t.Errorf("found %d packages", len(packages))
	}
	for pkg, documented := range packages {
		if !documented {
			t.Errorf("%s: no file says what the package is: // Package …", pkg)
		}
	}
}

// undocumented are the exported functions, methods of exported types and types that
// no comment introduces. A group of constants, or an interface that a method fulfils,
// may speak for it.
func undocumented(file *ast.File) (missing []*ast.Ident) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			of, _, method := strings.Cut(named(d), ".")
			if d.Name.IsExported() && d.Doc == nil && (!method || ast.IsExported(of) && !spokenFor[d.Name.Name]) {
				missing = append(missing, d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok && spec.Name.IsExported() {
					said := d.Doc.Text() + spec.Doc.Text()
					if said == "" && spec.Comment == nil {
						missing = append(missing, spec.Name)
					}
				}
			}
		}
	}
	return missing
}

// spokenFor are methods whose meaning an interface fixes.
var spokenFor = map[string]bool{"String": true, "Error": true, "Unwrap": true, "Is": true, "Close": true}

func TestWhatIsNotDocumentedIsFound(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package x\nfunc A() {}\n// B is.\nfunc B() {}\ntype C int\nfunc (C) String() string { return \"\" }\nfunc (C) D() {}\n", parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range undocumented(file) {
		names = append(names, m.Name)
	}
	if got := strings.Join(names, " "); got != "A C D" {
		t.Errorf("found %q, want A C D", got)
	}
}
