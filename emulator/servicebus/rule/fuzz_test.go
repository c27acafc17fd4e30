package rule_test

import (
	"errors"
	"testing"

	"oneeffect/emulator/servicebus/rule"
)

// FuzzParse gives the parser whatever comes: it must say where it stops, and what it takes must not fail otherwise than
// by an error that says so.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "1=1", "color = 'blue' AND quantity > 9.5E-1 OR NOT EXISTS(missing)", "sys.Label LIKE 'a!%' ESCAPE '!'",
		"[a]]b] IN (1, -2, +3, @p) AND \"q\"\"uoted\" IS NOT NULL", "((((1)+1)*2)/0)%3 < 4", "p(p('a')) NOT LIKE newid()",
		"SET a = 1; REMOVE sys.Label SET [b] = a + 'x'", "'", "[", "@", "1e", "a.b.c = 1", "NOT NOT NOT a NOT IN (b)", "\x00\xff = 1", "ÄÖ = 'ü'",
	} {
		f.Add(seed)
	}
	parameters := map[string]any{"@p": 1, "@q": "text"}
	f.Fuzz(func(t *testing.T, expression string) {
		filter, err := rule.ParseFilter(expression, parameters)
		inPlace(t, expression, err)
		if err == nil {
			if _, err := filter.Match(order()); err != nil && !errors.Is(err, rule.ErrEvaluation) {
				t.Errorf("%q: %v", expression, err)
			}
		}
		action, err := rule.ParseAction(expression, parameters)
		inPlace(t, expression, err)
		if err == nil {
			_ = action.Apply(order()) // it may fail, and must return
		}
	})
}

func inPlace(t *testing.T, expression string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	syntax, ok := errors.AsType[*rule.SyntaxError](err)
	if !ok || syntax.At < 1 || syntax.At > len([]rune(expression))+1 {
		t.Errorf("%q: %v (%T)", expression, err, err)
	}
}
