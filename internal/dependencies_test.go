package internal_test

import (
	"os"
	"strings"
	"testing"
)

// The record of the dependencies is held to go.mod, so that it cannot grow old:
// every module that is required directly stands in it, at its exact version.
func TestEveryDirectDependencyIsArguedForAtItsVersion(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile("../docs/adr/0004-dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || !strings.HasPrefix(fields[1], "v") {
			continue // an indirect requirement has a comment behind its version
		}
		if want := "`" + fields[0] + "` " + fields[1] + " "; !strings.Contains(string(record), want) {
			t.Errorf("docs/adr/0004-dependencies.md does not say %s", want)
		}
	}
}
