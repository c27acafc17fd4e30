package broken

import (
	"errors"
	"testing"
)

func TestAVariantIsCaughtByAnAssertionAndByNothingElse(t *testing.T) {
	red := errors.New("exit status 1")
	for name, test := range map[string]struct {
		out    string
		err    error
		caught bool
	}{
		"an assertion":         {"    a_test.go:7: got 1, want 2\n--- FAIL: TestA (0.00s)\n", red, true},
		"one of a subtest":     {"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\n        a_test.go:7: got 1\n", red, true},
		"it passes":            {"--- PASS: TestA (0.00s)\n", nil, false},
		"it passes, and talks": {"    a_test.go:7: by the way\n--- PASS: TestA (0.00s)\n", nil, false},
		"a panic":              {"    a_test.go:7: got 1\n--- FAIL: TestA (0.00s)\npanic: oh\n", red, false},
		"a race":               {"WARNING: DATA RACE\n    a_test.go:7: got 1\n--- FAIL: TestA (0.00s)\n", red, false},
		"another test":         {"    a_test.go:7: got 1\n--- FAIL: TestAB (0.00s)\n", red, false},
		"no word":              {"--- FAIL: TestA (0.00s)\n", red, false},
	} {
		if how, caught := verdict(test.out, test.err, "TestA"); caught != test.caught {
			t.Errorf("%s: caught %v: %s", name, caught, how)
		}
	}
}
