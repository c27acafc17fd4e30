package servicebus

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"oneeffect/emulator/servicebus/atom"
	"oneeffect/emulator/servicebus/broker"
)

// rule reads one rule of a subscription, and compiles it.
func (w *walk) rule(n node) broker.Rule {
	d := &atom.Rule{}
	var name string
	var filterNode, actionNode node
	w.members(n, members{
		"Name": func(n node) {
			if name = w.text(n); name == "" || !nestedName.MatchString(name) {
				w.mistake(n, "must hold only letters, digits and _ - . $, is %q", name)
			}
			d.Name = &name
		},
		"Properties": func(n node) {
			var kind string
			found := make(map[string]*atom.Filter)
			w.members(n, members{
				"FilterType": func(n node) {
					w.oneOf(n, "Correlation", "Sql")
					kind, _ = n.value.(string)
				},
				"CorrelationFilter": func(n node) { found["Correlation"], filterNode = w.correlation(n), n },
				"SqlFilter": func(n node) {
					found["Sql"], filterNode = &atom.Filter{Type: atom.SQLFilter, SQLExpression: w.expression(n)}, n
				},
				"Action": func(n node) {
					d.Action, actionNode = &atom.Action{Type: atom.SQLAction, SQLExpression: w.expression(n)}, n
				},
			}, "FilterType")
			d.Filter = found[kind]
			switch {
			case d.Filter == nil && (kind == "Correlation" || kind == "Sql"):
				w.mistake(n, "lacks %sFilter, which its FilterType asks for", kind)
			case len(found) > 1:
				w.mistake(n, "must have one filter, and has both")
			}
		},
	}, "Name", "Properties")
	return w.compile(d, filterNode, actionNode)
}

// compile makes a rule of what has been read. What is wrong with an expression is said at its place in the document.
func (w *walk) compile(d *atom.Rule, filterNode, actionNode node) broker.Rule {
	for _, part := range []struct {
		node node
		read func() error
	}{
		{filterNode, func() error {
			if d.Filter == nil || d.Filter.Type == atom.SQLFilter && d.Filter.SQLExpression == nil {
				return nil // said already
			}
			_, err := filterOf(d.Filter)
			return err
		}},
		{actionNode, func() error {
			if d.Action == nil || d.Action.SQLExpression == nil {
				return nil
			}
			_, err := actionOf(d.Action)
			return err
		}},
	} {
		if err := part.read(); err != nil {
			w.mistake(part.node, "%w", err)
		}
	}
	return (&examination{}).rule("", d)
}

// expression reads an object that holds nothing but an SQL expression.
func (w *walk) expression(n node) (expression *string) {
	w.members(n, members{"SqlExpression": func(n node) {
		if _, ok := n.value.(string); ok {
			expression = new(w.text(n))
		} else {
			w.text(n)
		}
	}}, "SqlExpression")
	return expression
}

func (w *walk) correlation(n node) *atom.Filter {
	f := &atom.Filter{Type: atom.CorrelationFilter}
	into := func(p **string) func(node) { return func(n node) { *p = new(w.text(n)) } }
	w.members(n, members{
		"ContentType":      into(&f.ContentType),
		"CorrelationId":    into(&f.CorrelationID),
		"Label":            into(&f.Label),
		"MessageId":        into(&f.MessageID),
		"ReplyTo":          into(&f.ReplyTo),
		"ReplyToSessionId": into(&f.ReplyToSessionID),
		"SessionId":        into(&f.SessionID),
		"To":               into(&f.To),
		"Properties": func(n node) {
			object, ok := n.value.(map[string]any)
			if !ok || len(object) == 0 {
				w.mistake(n, "must be an object with at least one property")
				return
			}
			f.Properties = &atom.Parameters{}
			for _, name := range slices.Sorted(maps.Keys(object)) {
				v := w.parameter(node{path: n.path + "." + name, value: object[name]})
				f.Properties.List = append(f.Properties.List, atom.Parameter{Key: name, Value: v})
			}
		},
	})
	return f
}

// parameter reads a value to compare with. Whole numbers are integers.
func (w *walk) parameter(n node) atom.Value {
	switch v := n.value.(type) {
	case string:
		return atom.Value{Type: "string", Text: v}
	case bool:
		return atom.Value{Type: "boolean", Text: strconv.FormatBool(v)}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return atom.Value{Type: "long", Text: strconv.FormatInt(int64(v), 10)}
		}
		return atom.Value{Type: "double", Text: strconv.FormatFloat(v, 'g', -1, 64)}
	}
	w.mistake(n, "must be a string, a number or a boolean, is %s", kind(n.value))
	return atom.Value{Type: "string", Text: fmt.Sprint(n.value)}
}
