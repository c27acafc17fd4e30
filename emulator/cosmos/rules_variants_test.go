package cosmos_test

import (
	"os"
	"testing"

	"oneeffect/emulator/control"
)

// brokenRule is the environment variable that names the switch with which every world of this process begins.
const brokenRule = "COSMOS_BROKEN_RULE"

// breakRule turns off the rule that this process is to be without, if there is one.
func breakRule(t *testing.T, hub *control.Hub) {
	t.Helper()
	if name := os.Getenv(brokenRule); name != "" {
		if err := hub.Switch(name, true); err != nil {
			t.Fatal(err)
		}
	}
}
