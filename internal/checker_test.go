package internal_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "oneeffect/"

// source is one Go file, as far as the architecture is concerned.
type source struct {
	path    string // slash-separated, from the root of the module
	imports []string
	asks    []string // what it uses of net/http to ask instead of to serve
}

func (s source) pkg() string { return path.Dir(s.path) }
func (s source) test() bool  { return strings.HasSuffix(s.path, "_test.go") }

// scan parses every Go file of the module, without building anything and
// whatever its build constraints are. Nested modules are not part of it.
func scan(root fs.FS) ([]source, error) {
	var files []source
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != ".":
			base := entry.Name()
			if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
				return fs.SkipDir
			}
			if _, err := fs.Stat(root, name+"/go.mod"); err == nil {
				return fs.SkipDir
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case strings.HasSuffix(name, ".go"):
			file, err := read(root, name)
			if err != nil {
				return fmt.Errorf("parse %s: %w", name, err)
			}
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

func read(root fs.FS, name string) (source, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return source{}, err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, text, parser.ImportsOnly)
	if err != nil {
		return source{}, err
	}
	file := source{path: name}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		file.imports = append(file.imports, imported)
		if imported != "net/http" {
			continue
		}
		local := "http"
		if spec.Name != nil {
			local = spec.Name.Name
		}
		whole, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			return source{}, err
		}
		file.asks = asksOver(whole, local)
	}
	return file, nil
}

// asksOver lists the client side of net/http that a file uses.
func asksOver(file *ast.File, http string) (asks []string) {
	client := []string{"Client", "DefaultClient", "DefaultTransport", "Get", "Head", "NewRequest", "NewRequestWithContext", "Post", "PostForm", "RoundTripper", "Transport"}
	ast.Inspect(file, func(n ast.Node) bool {
		if use, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := use.X.(*ast.Ident); ok && of.Name == http && slices.Contains(client, use.Sel.Name) {
				asks = append(asks, "http."+use.Sel.Name)
			}
		}
		return true
	})
	slices.Sort(asks)
	return slices.Compact(asks)
}

// check holds every import against the architecture.
func check(files []source) (violations []string) {
	for _, file := range files {
		own, known := ringOf(file.pkg())
		if !known {
			continue // checkRows says so
		}
		for _, imported := range file.imports {
			if rule := refuse(file, own, imported); rule != "" {
				violations = append(violations, fmt.Sprintf("%s may not import %s (%s): %s",
					file.pkg(), strings.TrimPrefix(imported, module), file.path, rule))
			}
		}
		if own == "story" && !file.test() && len(file.asks) > 0 {
			violations = append(violations, fmt.Sprintf("%s may not use %s (%s): the story imports net/http to serve, and asks through its ports",
				file.pkg(), strings.Join(file.asks, ", "), file.path))
		}
	}
	return violations
}

// refuse says why a file of a ring may not import something; "" means it may.
func refuse(file source, own, imported string) (rule string) {
	pkg, ours := strings.CutPrefix(imported, module)
	first, _, _ := strings.Cut(imported, "/")
	switch {
	case ours:
		return refuseOwn(file, own, pkg)
	case strings.Contains(first, "."):
		return refuseLibrary(file, own, imported)
	case !file.test() && slices.Contains(rings[own].not, imported):
		return rings[own].rule
	}
	return ""
}

func refuseOwn(file source, own, imported string) string {
	other, known := ringOf(imported)
	switch {
	case !known:
		return "it has no row in the architecture"
	case file.test() && strings.HasPrefix(own, "emulator"):
		if strings.HasPrefix(other, "emulator") {
			return ""
		}
		return rings["emulator"].rule
	case file.test() && other != "command" && other != "tests":
		return ""
	case imported == file.pkg(), slices.Contains(rings[own].may, other):
		return ""
	}
	return rings[own].rule
}

func refuseLibrary(file source, own, imported string) string {
	found := -1
	for i, library := range libraries {
		if within(imported, library.path) && (found < 0 || len(library.path) > len(libraries[found].path)) {
			found = i
		}
	}
	switch {
	case found < 0:
		return "no row of libraries names it: say in docs/adr/0004-dependencies.md why it is worth having, then add one"
	case file.test(), slices.Contains(libraries[found].by, own), slices.Contains(libraries[found].by, file.pkg()):
		return ""
	}
	return libraries[found].rule
}

func within(imported, library string) bool {
	return imported == library || strings.HasPrefix(imported, library+"/")
}

func ringOf(pkg string) (string, bool) {
	i := slices.IndexFunc(architecture, func(r row) bool { return r.pkg == pkg })
	if i < 0 {
		return "", false
	}
	return architecture[i].ring, true
}

// checkRows holds the rows against the packages that stand in the tree.
func checkRows(files []source, rows []row) (violations []string) {
	stands := map[string]bool{}
	for _, file := range files {
		hasRow := slices.ContainsFunc(rows, func(r row) bool { return r.pkg == file.pkg() })
		if !hasRow && !stands[file.pkg()] {
			violations = append(violations, file.pkg()+" has no row in the architecture: give it a ring")
		}
		stands[file.pkg()] = true
	}
	for _, r := range rows {
		switch {
		case stands[r.pkg] && r.toCome:
			violations = append(violations, r.pkg+" stands: its row says it is still to come")
		case !stands[r.pkg] && !r.toCome:
			violations = append(violations, r.pkg+" has a row in the architecture and does not exist: mark it to come, or drop the row")
		}
	}
	return violations
}

func TestTheCheckerFindsWhatItIsThereToFind(t *testing.T) {
	for name, tc := range map[string]struct {
		path, code string
		want       string // part of the one violation; "" means there is none
	}{
		"the story reaches for an adapter": {
			"internal/worker/a.go", `import "oneeffect/internal/cosmos"`,
			"internal/worker may not import internal/cosmos (internal/worker/a.go): the story knows guards and messages only",
		},
		"one part of the story reaches for another": {
			"internal/worker/a.go", `import "oneeffect/internal/orchestrator"`, "the story knows guards",
		},
		"the story uses its guard": {"internal/worker/a.go", `import "oneeffect/internal/claim"`, ""},
		"the story asks over HTTP": {
			"internal/orchestrator/a.go", `import web "net/http"; var _ = web.DefaultClient`,
			"internal/orchestrator may not use http.DefaultClient",
		},
		"the story serves":         {"internal/orchestrator/a.go", `import "net/http"; var _ http.Handler = http.NewServeMux()`, ""},
		"a test of the story asks": {"internal/orchestrator/a_test.go", `import "net/http"; var _ = http.DefaultClient`, ""},
		"a guard reaches for a guard": {
			"internal/claim/a.go", `import "oneeffect/internal/execution"`, "a guard decides purely",
		},
		"a guard logs": {"internal/claim/a.go", `import "log/slog"`, "internal/claim may not import log/slog"},
		"a guard traces": {
			"internal/claim/a.go", `import "go.opentelemetry.io/otel/trace"`, "guards and messages are not traced",
		},
		"the leaf knows somebody": {"internal/message/a.go", `import "oneeffect/internal/claim"`, "message is the leaf"},
		"an adapter reaches for an adapter": {
			"internal/cosmos/a.go", `import "oneeffect/internal/downstream"`, "never another adapter",
		},
		"an adapter uses another's SDK": {
			"internal/cosmos/a.go", `import "` + azure + `messaging/azservicebus"`, "internal/servicebus alone speaks to the broker",
		},
		"an adapter uses a package within its SDK": {
			"internal/servicebus/a.go", `import "` + azure + `messaging/azservicebus/admin"`, "",
		},
		"the story sees an SDK type": {
			"internal/worker/a.go", `import "` + azure + `azcore"`, "SDK types end in commands and adapters",
		},
		"telemetry uses the tracing bridge":        {"internal/telemetry/a.go", `import "` + azure + `azcore/tracing"`, ""},
		"telemetry uses the rest of the SDK":       {"internal/telemetry/a.go", `import "` + azure + `azcore/policy"`, "SDK types end"},
		"the story sets telemetry up":              {"internal/worker/a.go", `import "go.opentelemetry.io/otel/sdk/trace"`, "telemetry alone sets"},
		"the story reads a flag":                   {"internal/worker/a.go", `import "flag"`, "internal/worker may not import flag"},
		"product code runs on the emulator":        {"internal/cosmos/a.go", `import "oneeffect/emulator/cosmos"`, "an adapter knows"},
		"a test of the product runs on it":         {"internal/cosmos/a_test.go", `import "oneeffect/emulator/cosmos"`, ""},
		"a command links the emulator":             {"cmd/local/a.go", `import "oneeffect/emulator/control"`, "never the emulator"},
		"a command wires the story":                {"cmd/worker/a.go", `import "oneeffect/internal/worker"`, ""},
		"a command wires the simulator":            {"cmd/worker/a.go", `import "oneeffect/internal/sim"`, "a command wires"},
		"the simulator is linked":                  {"internal/sim/a.go", `import "oneeffect/internal/worker"`, "has only tests"},
		"the simulator tests the story":            {"internal/sim/a_test.go", `import "oneeffect/internal/worker"; import "oneeffect/emulator/control"`, ""},
		"a test of the story uses the simulator":   {"internal/worker/a_test.go", `import "oneeffect/internal/sim"`, "the story knows"},
		"the envelope is read by the oracle":       {"internal/message/a.go", `import "github.com/cloudevents/sdk-go/v2/event"`, "an oracle for its tests"},
		"the emulator shares code":                 {"emulator/cosmos/a.go", `import "oneeffect/internal/message"`, "independent witness"},
		"the emulator shares code in a test":       {"emulator/cosmos/a_test.go", `import "oneeffect/internal/message"`, "independent witness"},
		"the emulator uses the SDK":                {"emulator/cosmos/a.go", `import "` + azure + `data/azcosmos"`, "internal/cosmos alone"},
		"the emulator uses the client's codec":     {"emulator/amqp/a.go", `import "github.com/Azure/go-amqp"`, "a codec of its own"},
		"a test of the emulator uses the SDK":      {"emulator/cosmos/a_test.go", `import "` + azure + `data/azcosmos"`, ""},
		"the AMQP layer learns of Service Bus":     {"emulator/amqp/a.go", `import "oneeffect/emulator/servicebus"`, "stands alone"},
		"a library that nobody argued for":         {"internal/worker/a_test.go", `import "github.com/stretchr/testify/assert"`, "0004-dependencies"},
		"a library whose name begins as another's": {"internal/downstream/a.go", `import "go.yaml.in/yaml/v4extra"`, "0004-dependencies"},
		"an import behind a build constraint":      {"internal/worker/a.go", "//go:build never\n\npackage x; import \"oneeffect/internal/cosmos\"", "the story knows"},
	} {
		t.Run(name, func(t *testing.T) {
			code := tc.code
			if !strings.Contains(code, "package x") {
				code = "package x; " + code
			}
			files, err := scan(fstest.MapFS{tc.path: {Data: []byte(code)}})
			if err != nil {
				t.Fatal(err)
			}
			got := check(files)
			switch {
			case tc.want == "" && len(got) > 0:
				t.Errorf("refused: %q", got)
			case tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)):
				t.Errorf("said %q, want one violation with %q", got, tc.want)
			}
		})
	}
}

func TestARowAndAPackageAreMissedWhenTheyAreMissing(t *testing.T) {
	rows := []row{{pkg: "is"}, {pkg: "has/come", toCome: true}, {pkg: "is/to/come", toCome: true}, {pkg: "has/gone"}}
	got := checkRows([]source{{path: "is/a.go"}, {path: "has/come/a.go"}, {path: "util/a.go"}, {path: "util/b.go"}}, rows)
	want := []string{
		"util has no row in the architecture: give it a ring",
		"has/come stands: its row says it is still to come",
		"has/gone has a row in the architecture and does not exist: mark it to come, or drop the row",
	}
	if !slices.Equal(got, want) {
		t.Errorf("said %q\nwant %q", got, want)
	}
}

func TestNestedModulesAndTestdataAreNotPartOfTheTree(t *testing.T) {
	files, err := scan(fstest.MapFS{
		"a.go":                   {Data: []byte("package x")},
		"web/go.mod":             {Data: []byte("module web")},
		"web/b.go":               {Data: []byte("package x")},
		"emulator/testdata/c.go": {Data: []byte("not Go at all")},
		".local/d.go":            {Data: []byte("package x")},
	})
	if err != nil || len(files) != 1 || files[0].path != "a.go" {
		t.Errorf("found %v (%v), want a.go alone", files, err)
	}
}

func TestEveryRingIsNamedWhereItIsUsed(t *testing.T) {
	known := func(name string) bool {
		_, isRing := rings[name]
		_, isPackage := ringOf(name)
		return isRing || isPackage
	}
	for name, r := range rings {
		for _, may := range r.may {
			if !known(may) {
				t.Errorf("ring %s may import %q, which is neither a ring nor a package", name, may)
			}
		}
	}
	for _, row := range architecture {
		if _, ok := rings[row.ring]; !ok {
			t.Errorf("%s is in ring %q, which does not exist", row.pkg, row.ring)
		}
	}
	for _, library := range libraries {
		for _, by := range library.by {
			if !known(by) {
				t.Errorf("%s may be imported by %q, which is neither a ring nor a package", library.path, by)
			}
		}
	}
}
