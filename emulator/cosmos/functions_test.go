package cosmos

import (
	"os"
	"strings"
	"testing"
)

func TestEveryFunctionIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/emulator.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range functions {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/emulator.md does not name %s", name)
		}
	}
}
