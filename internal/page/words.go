package page

import (
	"html/template"
	"strings"
	"time"

	"oneeffect/internal/diagram"
	"oneeffect/internal/execution"
)

// functions are what templates can call.
var functions = template.FuncMap{
	"stamp": func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format("2006-01-02 15:04:05")
	},
	"machine": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"class":   func(s execution.Status) string { return strings.ToLower(string(s)) },
	"sentence": func(d diagram.Diagram, a diagram.Arrow) string {
		text := diagram.Sentence(d, a)
		if !a.At.IsZero() {
			text = a.At.UTC().Format("15:04:05.000") + " " + text
		}
		return text
	},
	"done": func(action string) string {
		return map[string]string{"cancel": "It is cancelled.", "replay": "Another run has begun.", "resolve": "It is resolved: closed as applied, without a call."}[action]
	},
}
