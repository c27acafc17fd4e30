package docs_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"oneeffect/internal/downstream"
)

// heldBy says which test builds or plays the blocks that are no business of this
// package: its file, and words in it that would go with the test.
var heldBy = map[string]map[string][2]string{
	"go": {
		"README.md":        {"cmd/orchestrator/docs_test.go", "playTheReadme"},
		"docs/emulator.md": {"emulator/docs_test.go", `document(t, "go")`},
	},
	"text":  {"docs/guarantees.md": {"cmd/local/figures_test.go", "```text"}},
	"kusto": {"docs/tracing.md": {"cmd/otelcheck/docs_test.go", "kusto"}},
	"yaml":  {"README.md": {"cmd/orchestrator/docs_test.go", `block("yaml")`}},
}

func TestEveryBlockIsWhatItsLanguageSays(t *testing.T) {
	for _, p := range pages(t) {
		for i, b := range p.blocks() {
			if err := b.check(p.name); err != nil {
				t.Errorf("%s, block %d (%q): %v\n%s", p.name, i+1, b.language, err, b.text)
			}
		}
	}
}

func (b block) check(name string) error {
	if by, ok := heldBy[b.language][name]; ok {
		text, err := os.ReadFile(filepath.Join(root, by[0]))
		if err == nil && !strings.Contains(string(text), by[1]) {
			err = fmt.Errorf("%s does not hold it: there is no %s", by[0], by[1])
		}
		if err == nil && b.language == "yaml" {
			_, err = downstream.ReadHandlers(strings.NewReader(b.text), func(string) string { return "https://crm.example" })
		}
		return err
	}
	switch b.language {
	case "sh":
		shell := exec.Command("bash", "-n")
		shell.Stdin = strings.NewReader(b.text)
		if out, err := shell.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	case "json":
		for l := range strings.Lines(b.text) {
			if !json.Valid([]byte(l)) && !json.Valid([]byte(b.text)) {
				return fmt.Errorf("no JSON: %s", l)
			}
		}
		return nil
	case "mermaid":
		if !strings.HasPrefix(b.text, "sequenceDiagram\n") && !strings.HasPrefix(b.text, "flowchart ") {
			return fmt.Errorf("no diagram that is known here")
		}
		return nil
	case "": // what a program says
		return nil
	}
	return fmt.Errorf("nothing holds a block of this language on this page: say in heldBy what does")
}

// The drawing has fourteen arrows, and so has the picture of it.
func TestThePictureHasFourteenArrows(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var numbers []string
	for _, found := range regexp.MustCompile(`(?m)^    (?:\w+--?>>\w+|Note over \w+): (\d+)\. `).FindAllSubmatch(text, -1) {
		numbers = append(numbers, string(found[1]))
	}
	for n := range 14 {
		if len(numbers) != 14 || numbers[n] != strconv.Itoa(n+1) {
			t.Fatalf("the arrows are %v, want 1 to 14", numbers)
		}
	}
}

// Every command of ours that a page names, in its shell blocks or in its prose, is
// one that there is, with flags that it has.
func TestEveryCommandExists(t *testing.T) {
	repo := readRepository(t)
	found := 0
	for _, p := range pages(t) {
		if strings.HasPrefix(p.name, "docs/adr/") {
			continue // what was decided then
		}
		var lines []string
		for _, b := range p.blocks() {
			if b.language == "sh" {
				lines = append(lines, strings.Split(strings.ReplaceAll(b.text, "\\\n", " "), "\n")...)
			}
		}
		for _, span := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(p.prose(), -1) {
			lines = append(lines, span[1])
		}
		for _, l := range lines {
			ours, err := repo.command(l)
			if err != nil {
				t.Errorf("%s: %s: %v", p.name, strings.TrimSpace(l), err)
			}
			if ours {
				found++
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d commands of ours", found)
	}
}

func TestACommandThatDoesNotExistIsFound(t *testing.T) {
	repo := readRepository(t)
	for line, wrong := range map[string]string{
		"make demo":                  "",
		"make demo KEEP=1":           "",
		"KEEP=1 make demo # stay":    "",
		"make dome":                  "target dome",
		"make demo STAY=1":           "variable STAY",
		"bin/local crash -cells 'x'": "",
		"bin/local crush":            "crush",
		"bin/local crash -cell x":    "flag cell",
		"bin/lokal up":               "cmd/lokal",
		"go test ./docs -rewrite":    "",
		"go test ./doks":             "doks",
		"curl http://127.0.0.1":      "",
	} {
		if _, err := repo.command(line); (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %q", line, err, wrong)
		}
	}
}

// repository is what commands can be held to.
type repository struct {
	targets  []string
	makefile string              // and the scripts that it runs
	words    map[string][]string // of each program: the strings in its code
}

func readRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{words: map[string][]string{}}
	scripts, err := filepath.Glob(filepath.Join(root, ".ci", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range append([]string{filepath.Join(root, "Makefile")}, scripts...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r.makefile += string(text)
		if i == 0 {
			for _, found := range regexp.MustCompile(`(?m)^([a-z0-9-]+):[^=]`).FindAllSubmatch(text, -1) {
				r.targets = append(r.targets, string(found[1]))
			}
		}
	}
	programs, err := filepath.Glob(filepath.Join(root, "cmd", "*"))
	if err != nil {
		t.Fatal(err)
	}
	shared := literals(t, filepath.Join(root, "cmd", "internal", "process"))
	shared = append(shared, literals(t, filepath.Join(root, "cmd", "internal", "access"))...)
	shared = append(shared, literals(t, filepath.Join(root, "measure"))...)
	for _, folder := range append(programs, filepath.Join(root, "emulator")) {
		r.words[filepath.Base(folder)] = append(literals(t, folder), shared...)
	}
	return r
}

// literals are the strings in the code of a folder.
func literals(t *testing.T, folder string) (all []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				if s, err := strconv.Unquote(text.Value); err == nil {
					all = append(all, s)
				}
			}
			return true
		})
	}
	return all
}

var assignment = regexp.MustCompile(`^([A-Z][A-Z0-9_]*)=`)

// command holds a line to what there is. Lines of other programs are none of ours.
func (r *repository) command(line string) (ours bool, err error) {
	line, _, _ = strings.Cut(line, " #")
	words := strings.Fields(line)
	var before []string
	for len(words) > 0 && assignment.MatchString(words[0]) {
		before, words = append(before, words[0]), words[1:]
	}
	switch {
	case len(words) == 0:
		return false, nil
	case words[0] == "make":
		return true, r.target(append(before, words[1:]...))
	case strings.HasPrefix(words[0], "bin/") && words[0] != "bin/":
		return true, r.program(strings.TrimPrefix(words[0], "bin/"), words[1:])
	case words[0] == "go" && len(words) > 2 && (words[1] == "run" || words[1] == "test" || words[1] == "build"):
		for _, w := range words[2:] {
			if folder, ok := strings.CutPrefix(w, "./"); ok && folder != "..." {
				if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
					return true, err
				}
			}
		}
		return true, nil
	}
	return false, nil
}

func (r *repository) target(words []string) error {
	for _, w := range words {
		if variable := assignment.FindStringSubmatch(w); variable != nil {
			if !regexp.MustCompile(`\b` + variable[1] + `\b`).MatchString(r.makefile + strings.Join(r.words["local"], " ") + " REPORTS OTEL_EXPORTER_OTLP_ENDPOINT ") {
				return fmt.Errorf("nobody reads the variable %s", variable[1])
			}
		} else if !slices.Contains(r.targets, w) && regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(w) {
			return fmt.Errorf("the Makefile has no target %s", w)
		}
	}
	return nil
}

func (r *repository) program(name string, words []string) error {
	known, ok := r.words[name]
	if !ok {
		return fmt.Errorf("there is no cmd/%s", name)
	}
	if len(words) > 0 && regexp.MustCompile(`^[a-z-]+$`).MatchString(words[0]) && !strings.HasPrefix(words[0], "-") {
		if !slices.ContainsFunc(known, func(s string) bool { first, _, _ := strings.Cut(s, " "); return first == words[0] }) {
			return fmt.Errorf("%s has no %s", name, words[0])
		}
	}
	for _, w := range words {
		given := regexp.MustCompile(`^--?([a-z][a-z0-9-]*)`).FindStringSubmatch(w)
		if given != nil && !slices.Contains(known, given[1]) {
			return fmt.Errorf("%s has no flag %s", name, given[1])
		}
	}
	return nil
}
