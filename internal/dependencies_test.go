package internal_test

import (
	"os"
	"strings"
	"testing"
)

// The record of the dependencies is held to go.mod in both directions, so that
// it cannot grow old: what is required directly stands in it at its exact
// version, and what stands in it is required.
func TestTheRecordOfTheDependenciesIsTrue(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile("../docs/adr/0004-dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]string{} // module → version
	for line := range strings.Lines(string(record)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.HasPrefix(cells[1], " `") {
			module, version, _ := strings.Cut(strings.TrimSpace(cells[1]), " ")
			recorded[strings.Trim(module, "`")] = version
		}
	}
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") {
			continue
		}
		direct := len(fields) == 2 // an indirect requirement has a comment behind its version
		version, named := recorded[fields[0]]
		if named && version != fields[1] || !named && direct {
			t.Errorf("docs/adr/0004-dependencies.md says %q of %s, and go.mod requires %s", version, fields[0], fields[1])
		}
		delete(recorded, fields[0])
	}
	for module := range recorded {
		t.Errorf("docs/adr/0004-dependencies.md names %s, which go.mod does not require: drop its row", module)
	}
}
