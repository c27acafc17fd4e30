package agree

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// object is a manifest, or a part of one.
type object map[string]any

func parseObjects(rendered []byte) ([]object, error) {
	var all []object
	for _, document := range bytes.Split(rendered, []byte("\n---\n")) {
		var o object
		if err := yaml.Unmarshal(document, &o); err != nil {
			return nil, err
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
	return all, nil
}

// at is what stands at a path; nil if nothing does. A number is the place in a list.
func at(v any, path ...string) any {
	for _, step := range path {
		switch x := v.(type) {
		case object:
			v = x[step]
		case map[string]any:
			v = x[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// text is what stands at a path, as text; empty if nothing does.
func text(v any, path ...string) string {
	switch x := at(v, path...).(type) {
	case nil:
		return ""
	case string:
		return x
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	default:
		return fmt.Sprint(x)
	}
}

func items(v any, path ...string) []any {
	all, _ := at(v, path...).([]any)
	return all
}

// find are the objects of a kind.
func find(all []object, kind string) []object {
	var found []object
	for _, o := range all {
		if text(o, "kind") == kind {
			found = append(found, o)
		}
	}
	return found
}

// named is the object of a kind and a name; nil if there is none. Generated names
// have a hash behind them.
func named(all []object, kind, name string) object {
	for _, o := range find(all, kind) {
		if n := text(o, "metadata", "name"); n == name || strings.HasPrefix(n, name+"-") {
			return o
		}
	}
	return nil
}
