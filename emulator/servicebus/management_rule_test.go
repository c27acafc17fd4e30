package servicebus_test

import (
	"slices"
	"strings"
	"testing"
)

func TestRulesAreChangedOverAMQP(t *testing.T) { // B10
	inBubble(t, func(t *testing.T, w *world) {
		p := w.plain()
		p.authorize()
		const audit = "task-events/Subscriptions/audit/$management"
		for _, row := range []struct {
			operation string
			body      map[string]any
			status    int32
			text      string
		}{
			{"add-rule", map[string]any{"rule-name": "sql", "rule-description": map[string]any{
				"sql-filter": map[string]any{"expression": "n = 2"}, "sql-rule-action": map[string]any{"expression": "SET seen = true"},
			}}, 200, "OK"},
			{"add-rule", map[string]any{"rule-name": "correlated", "rule-description": map[string]any{
				"correlation-filter": map[string]any{"label": "s", "correlation-id": nil, "properties": map[string]any{"n": int64(1)}},
			}}, 200, "OK"},
			{"add-rule", map[string]any{"rule-name": "SQL", "rule-description": map[string]any{"true-filter": map[string]any{}}}, 409, "exists"},
			{"add-rule", map[string]any{"rule-name": "bad", "rule-description": map[string]any{
				"sql-filter": map[string]any{"expression": "n = = 2"},
			}}, 400, "the filter of rule"},
			{"add-rule", map[string]any{"rule-name": "empty", "rule-description": map[string]any{}}, 400, "it has no filter"},
			{"add-rule", map[string]any{"rule-name": "none"}, 400, "rule-description"},
			{"remove-rule", map[string]any{"rule-name": "$Default"}, 200, "OK"},
			{"remove-rule", map[string]any{"rule-name": "$Default"}, 404, "not found"},
			{"enumerate-rules", map[string]any{"top": int32(10), "skip": int32(0)}, 200, "OK"},
			{"enumerate-rules", map[string]any{"top": int32(10), "skip": int32(2)}, 204, "No rules."},
		} {
			status, text := p.request(audit, row.body, map[string]any{"operation": "com.microsoft:" + row.operation})
			if status != row.status || !strings.Contains(text, row.text) {
				t.Errorf("%s %v: %d %s, want %d %s", row.operation, row.body, status, text, row.status, row.text)
			}
		}
		s := w.sender(w.client("sender"), "task-events")
		for id, n := range map[string]int64{"one": 1, "two": 2, "three": 3} {
			m := message(id)
			m.Subject, m.ApplicationProperties = new("s"), map[string]any{"n": n}
			w.must(s.SendMessage(w.ctx, m, nil))
		}
		r, err := w.client("worker-1").NewReceiverForSubscription("task-events", "audit", nil)
		w.must(err)
		var got []string
		for range 2 {
			m := w.receive(r)
			got = append(got, m.MessageID)
			if seen := m.ApplicationProperties["seen"]; (seen == true) != (m.MessageID == "two") {
				t.Errorf("%s has seen %v", m.MessageID, seen)
			}
		}
		slices.Sort(got)
		if want := []string{"one", "two"}; !slices.Equal(got, want) {
			t.Errorf("the rules let through %q, want %q", got, want)
		}
		w.receiveNothing(r)
	})
}
