package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"oneeffect/emulator/control"
)

// The document about the emulator is held to the emulator: what it names exists, what exists is named, and what it says
// to type is taken.
const documentPath = "../docs/emulator.md"

// document reads the document, and its fenced blocks of a language.
func document(t *testing.T, language string) (text string, blocks []string) {
	t.Helper()
	read, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	text = string(read)
	for _, found := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, found[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no %s", documentPath, language)
	}
	return text, blocks
}

// spans are the pieces of inline code.
func spans(text string) []string {
	text = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
	var all []string
	for _, found := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	return all
}

func TestTheDocumentNamesEveryFlagAndNoOther(t *testing.T) {
	text, commands := document(t, "sh")
	var help bytes.Buffer
	if _, err := parse([]string{"-h"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	flagName := regexp.MustCompile(`(?:^|\s)-([a-z][a-z0-9-]*)`)
	for _, found := range flagName.FindAllStringSubmatch(help.String(), -1) {
		named[found[1]] = true
	}
	// Flags of the emulator stand alone or behind its name; those of other programs behind theirs.
	mentions := spans(text)
	for _, block := range commands {
		mentions = append(mentions, strings.Split(strings.ReplaceAll(block, "\\\n", " "), "\n")...)
	}
	for _, mention := range mentions {
		_, arguments, ours := strings.Cut(mention, "go run ./emulator ")
		if !ours && !strings.HasPrefix(mention, "-") {
			continue
		}
		if !ours {
			arguments = mention
		}
		for _, found := range flagName.FindAllStringSubmatch(arguments, -1) {
			if !named[found[1]] {
				t.Errorf("%q: the emulator has no flag -%s", mention, found[1])
			}
		}
	}
	for name := range named {
		if !strings.Contains(text, "\n| `-"+name+"` |") {
			t.Errorf("the table of flags lacks -%s", name)
		}
	}
}

func TestTheDocumentNamesEverySwitchOperationAndFault(t *testing.T) {
	text, _ := document(t, "sh")
	said := spans(text)
	hub := control.New()
	for _, s := range hub.Switches() {
		if row := fmt.Sprintf("\n| `%s` | %s |\n", s.Name, s.Says); !strings.Contains(text, row) {
			t.Errorf("the table of switches lacks %s", strings.TrimSpace(row))
		}
	}
	// The refusal of what does not exist names all that does.
	names := regexp.MustCompile(`there are ([a-z, -]+)`)
	for _, service := range []string{"servicebus", "cosmos", "downstream"} {
		_, err := hub.Arm(control.Rule{Do: "drop", Match: control.Match{Service: service, Operation: "?"}})
		found := names.FindStringSubmatch(fmt.Sprint(err))
		if found == nil {
			t.Fatalf("the refusal names no operations: %v", err)
		}
		for name := range strings.SplitSeq(found[1], ", ") {
			if !slices.Contains(said, name) {
				t.Errorf("the operation %s of %s is not named", name, service)
			}
		}
	}
	for kind := control.Drop; kind.String() != "unknown"; kind++ {
		if !slices.Contains(said, kind.String()) {
			t.Errorf("the fault %s is not named", kind)
		}
	}
	lines, err := os.ReadFile("control/event.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`(?m)^//\t.*$`).FindAllString(string(lines), -1)
	if len(kinds) == 0 {
		t.Error("the comment on events has no table of kinds")
	}
	for _, kind := range regexp.MustCompile(`[a-z]+(-[a-z]+)*[,\n ]`).FindAllString(regexp.MustCompile(`\w+:|\([^)]*\)|//`).ReplaceAllString(strings.Join(kinds, "\n")+"\n", ""), -1) {
		if kind = strings.Trim(kind, ", \n"); !slices.Contains(said, kind) {
			t.Errorf("events of kind %s are not named", kind)
		}
	}
}

// Every fault of the two services in the document is one that a test plays with the real client, and the other way round.
func TestTheDocumentHasAnExampleOfEveryFaultThatIsTried(t *testing.T) {
	_, blocks := document(t, "sh")
	for _, service := range []string{"servicebus", "cosmos"} {
		text, err := os.ReadFile(service + "/testdata/faults.json")
		if err != nil {
			t.Fatal(err)
		}
		var tried []struct {
			Name string
			Rule control.Rule
		}
		if err := json.Unmarshal(text, &tried); err != nil {
			t.Fatal(err)
		}
		inWords := func(r control.Rule) string {
			r.Name = ""
			written, _ := json.Marshal(r)
			return string(written)
		}
		inDocument := make(map[string]bool)
		for _, c := range curls(t, blocks) {
			var r control.Rule
			if c.isRule() && json.Unmarshal([]byte(c.body), &r) == nil && r.Match.Service == service {
				inDocument[inWords(r)] = true
			}
		}
		inTest := make(map[string]bool)
		for _, f := range tried {
			inTest[inWords(f.Rule)] = true
			if !inDocument[inWords(f.Rule)] {
				t.Errorf("there is no example of %s: %s", f.Name, inWords(f.Rule))
			}
		}
		for rule := range inDocument {
			if !inTest[rule] {
				t.Errorf("no test plays the example %s", rule)
			}
		}
	}
}

// A block of Go begins with the file that it is from, and stands in it word for word.
func TestEveryGoBlockOfTheDocumentIsTestedCode(t *testing.T) {
	_, blocks := document(t, "go")
	for _, block := range blocks {
		first, code, _ := strings.Cut(block, "\n")
		path, ok := strings.CutPrefix(first, "// ")
		file, err := os.ReadFile(filepath.Join("..", path))
		if !ok || err != nil {
			t.Errorf("a block begins with %q, want the file that it is from: %v", first, err)
			continue
		}
		if !strings.Contains(string(file), strings.TrimSpace(code)) {
			t.Errorf("the block is not in %s:\n%s", path, code)
		}
	}
}

func TestEveryCountOfTheDocumentIsTrue(t *testing.T) {
	text, _ := document(t, "sh")
	for _, suite := range []string{"azservicebus", "azcosmos"} {
		read, err := os.ReadFile("conformance/testdata/" + suite + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		n := len(regexp.MustCompile(`(?m)^[^#\s]`).FindAll(read, -1))
		if row := fmt.Sprintf("| `%s` | %d |", suite, n); !strings.Contains(text, row) {
			t.Errorf("the document lacks %q, which %s.txt says", row, suite)
		}
	}
	checks := 0
	scripts, err := filepath.Glob("conformance/js/*.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		read, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		checks += len(regexp.MustCompile(`(?m)^check\(`).FindAll(read, -1))
	}
	if row := fmt.Sprintf("| `second` | %d |", checks); !strings.Contains(text, row) {
		t.Errorf("the document lacks %q, which the scripts say", row)
	}
}

func TestEveryLinkOfTheDocumentLeadsSomewhere(t *testing.T) {
	text, _ := document(t, "sh")
	headings := make(map[string]bool)
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		headings["#"+strings.ReplaceAll(plain, " ", "-")] = true
	}
	links := regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(text, -1)
	if len(links) == 0 {
		t.Error("the document has no links")
	}
	for _, link := range links {
		target := link[1]
		switch {
		case strings.HasPrefix(target, "https://"):
		case strings.HasPrefix(target, "#"):
			if !headings[target] {
				t.Errorf("there is no heading %s", target)
			}
		default:
			if _, err := os.Stat(filepath.Join("../docs", target)); err != nil {
				t.Errorf("%s leads nowhere: %v", target, err)
			}
		}
	}
}
