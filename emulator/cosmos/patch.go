package cosmos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const maxPatchOperations = 10

// patchDocument is a partial update: operations that all apply, in their order,
// or none of them.
type patchDocument struct {
	condition  *selection // nil: none
	operations []patchOperation
}

type patchOperation struct {
	op    string
	path  []string
	from  []string // move
	value value
}

// parsePatch reads the body of a PATCH request.
func parsePatch(text []byte) (*patchDocument, *failure) {
	v, err := parseValue(text)
	if err != nil {
		return nil, badRequest("The patch is not a JSON object: %s.", err)
	}
	o, f := patchOf(v)
	if f != nil {
		return nil, f
	}
	return readPatch(o)
}

// patchOf takes a patch that is an array for its operations.
func patchOf(v value) (*object, *failure) {
	switch v := v.(type) {
	case *object:
		return v, nil
	case []any:
		return &object{members: []member{{"operations", v}}}, nil
	}
	return nil, badRequest("The patch is not a JSON object: it is %s.", kindName(v))
}

func readPatch(o *object) (*patchDocument, *failure) {
	p := &patchDocument{}
	var list []any
	for _, m := range o.members {
		switch m.name {
		case "condition":
			text, ok := m.value.(string)
			if !ok {
				return nil, badRequest("The condition of the patch is %s, want a string.", kindName(m.value))
			}
			condition, err := parseCondition(text)
			if err != nil {
				return nil, queryFailure(err)
			}
			p.condition = condition
		case "operations":
			list, _ = m.value.([]any)
		default:
			return nil, badRequest("The patch has a member %q, which means nothing.", m.name)
		}
	}
	if len(list) == 0 {
		return nil, badRequest("The patch has no operations.")
	}
	for i, v := range list {
		op, err := readPatchOperation(v)
		if err != nil {
			return nil, badRequest("For Operation(%d): %s.", i+1, err)
		}
		p.operations = append(p.operations, op)
	}
	return p, nil
}

func readPatchOperation(v value) (patchOperation, error) {
	o, ok := v.(*object)
	if !ok {
		return patchOperation{}, fmt.Errorf("it is %s, want an object", kindName(v))
	}
	var op patchOperation
	hasValue := false
	for _, m := range o.members {
		text, isText := m.value.(string)
		var err error
		switch {
		case m.name == "value":
			op.value, hasValue = m.value, true
		case !isText:
			err = fmt.Errorf("its %s is %s, want a string", m.name, kindName(m.value))
		case m.name == "op":
			op.op = strings.ToLower(text)
		case m.name == "path":
			op.path, err = parsePointer(text)
		case m.name == "from":
			op.from, err = parsePointer(text)
		default:
			err = fmt.Errorf("it has a member %q, which means nothing", m.name)
		}
		if err != nil {
			return op, err
		}
	}
	if op.path == nil {
		return op, fmt.Errorf("it has no path")
	}
	switch op.op {
	case "add", "set", "replace", "remove": // a missing value is null
	case "incr":
		if _, ok := op.value.(number); !ok || !hasValue {
			return op, fmt.Errorf("the value of an increment must be a number")
		}
	case "move":
		if op.from == nil {
			return op, fmt.Errorf("a move needs from")
		}
		if len(op.path) > len(op.from) && slices.Equal(op.path[:len(op.from)], op.from) {
			return op, fmt.Errorf("a move cannot go into itself")
		}
	default:
		return op, fmt.Errorf("the operation %q is not one of add, set, replace, remove, incr and move", op.op)
	}
	for _, path := range [][]string{op.path, op.from} {
		if len(path) > 0 && (path[0] == "id" || slices.Contains(systemProperties, path[0])) {
			return op, fmt.Errorf("the property %q cannot be patched", path[0])
		}
	}
	return op, nil
}

// parsePointer reads a JSON pointer (RFC 6901), which must lead below the root.
func parsePointer(text string) ([]string, error) {
	if !strings.HasPrefix(text, "/") || text == "/" {
		return nil, fmt.Errorf("the path %q does not lead from the root to a member", text)
	}
	path := strings.Split(text[1:], "/")
	for i, name := range path {
		path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	return path, nil
}

// holds reports whether the item meets the condition; what is undefined does not,
// nor what takes more steps than any query may.
func (p *patchDocument) holds(item *object) bool {
	if p.condition == nil || p.condition.where == nil {
		return true
	}
	r := row{work: newWork(time.Time{})}.with(p.condition.from[0].alias, item)
	return eval(p.condition.where, r) == true
}

// apply returns the changed item; the given one stays as it is. With a failure it
// returns what the operations before the failing one made of it.
func (p *patchDocument) apply(item *object) (*object, *failure) {
	var current value = item
	for i, op := range p.operations {
		next, err := op.apply(current)
		if err != nil {
			return current.(*object), badRequest("For Operation(%d): %s.", i+1, err)
		}
		current = next
	}
	return current.(*object), nil
}

func (op patchOperation) apply(root value) (value, error) {
	switch op.op {
	case "remove":
		return change(root, op.path, removeStep)
	case "move":
		moved, err := valueAt(root, op.from)
		if err != nil {
			return nil, err
		}
		if root, err = change(root, op.from, removeStep); err != nil {
			return nil, err
		}
		return change(root, op.path, addStep(moved))
	case "add":
		return change(root, op.path, addStep(op.value))
	case "set":
		return change(root, op.path, setStep(op.value))
	case "replace":
		return change(root, op.path, replaceStep(op.value))
	}
	return change(root, op.path, incrementStep(op.value.(number)))
}

// change copies the way from the root to the parent of what the path names, and
// has last change a copy of that parent.
func change(v value, path []string, last func(parent value, name string) (value, error)) (value, error) {
	if len(path) == 1 {
		return last(v, path[0])
	}
	switch v := v.(type) {
	case *object:
		below, ok := v.get(path[0])
		if !ok {
			return nil, fmt.Errorf("the path leads over %q, which does not exist", path[0])
		}
		changed, err := change(below, path[1:], last)
		if err != nil {
			return nil, err
		}
		return v.with(path[0], changed), nil
	case []any:
		i, err := elementIndex(path[0], len(v)-1)
		if err != nil {
			return nil, err
		}
		changed, err := change(v[i], path[1:], last)
		if err != nil {
			return nil, err
		}
		copied := slices.Clone(v)
		copied[i] = changed
		return copied, nil
	}
	return nil, fmt.Errorf("the path leads through %s at %q", kindName(v), path[0])
}

func valueAt(v value, path []string) (value, error) {
	for _, name := range path {
		switch of := v.(type) {
		case *object:
			below, ok := of.get(name)
			if !ok {
				return nil, fmt.Errorf("the path %q does not exist", "/"+strings.Join(path, "/"))
			}
			v = below
		case []any:
			i, err := elementIndex(name, len(of)-1)
			if err != nil {
				return nil, err
			}
			v = of[i]
		default:
			return nil, fmt.Errorf("the path leads through %s at %q", kindName(v), name)
		}
	}
	return v, nil
}

// elementIndex reads an index of an array that is at most last.
func elementIndex(text string, last int) (int, error) {
	i, err := strconv.ParseUint(text, 10, 31)
	if err != nil || text != strconv.FormatUint(i, 10) {
		return 0, fmt.Errorf("%q is not an index of an array", text)
	}
	if int(i) > last {
		return 0, fmt.Errorf("the index %s is beyond the end of the array", text)
	}
	return int(i), nil
}

func removeStep(parent value, name string) (value, error) {
	switch parent := parent.(type) {
	case *object:
		if _, ok := parent.get(name); !ok {
			return nil, fmt.Errorf("the member %q to remove does not exist", name)
		}
		return parent.without(name), nil
	case []any:
		i, err := elementIndex(name, len(parent)-1)
		if err != nil {
			return nil, err
		}
		return slices.Delete(slices.Clone(parent), i, i+1), nil
	}
	return nil, fmt.Errorf("%s has no %q to remove", kindName(parent), name)
}

// addStep puts in a member, taking the place of one that exists, or inserts an
// element; "-" is behind the last one.
func addStep(v value) func(value, string) (value, error) {
	return func(parent value, name string) (value, error) {
		switch parent := parent.(type) {
		case *object:
			return parent.with(name, v), nil
		case []any:
			i := len(parent)
			if name != "-" {
				var err error
				if i, err = elementIndex(name, len(parent)); err != nil {
					return nil, err
				}
			}
			return slices.Insert(slices.Clone(parent), i, v), nil
		}
		return nil, fmt.Errorf("nothing can be added to %s", kindName(parent))
	}
}

// setStep puts in a member, or takes the place of an element that exists.
func setStep(v value) func(value, string) (value, error) {
	return func(parent value, name string) (value, error) {
		if o, ok := parent.(*object); ok {
			return o.with(name, v), nil
		}
		return replaceStep(v)(parent, name)
	}
}

func replaceStep(v value) func(value, string) (value, error) {
	return func(parent value, name string) (value, error) {
		switch parent := parent.(type) {
		case *object:
			if _, ok := parent.get(name); !ok {
				return nil, fmt.Errorf("the member %q to replace does not exist", name)
			}
			return parent.with(name, v), nil
		case []any:
			i, err := elementIndex(name, len(parent)-1)
			if err != nil {
				return nil, err
			}
			copied := slices.Clone(parent)
			copied[i] = v
			return copied, nil
		}
		return nil, fmt.Errorf("%s has no %q to replace", kindName(parent), name)
	}
}

// incrementStep adds to a number, or makes one where a member is missing.
func incrementStep(by number) func(value, string) (value, error) {
	return func(parent value, name string) (value, error) {
		if o, ok := parent.(*object); ok {
			if _, exists := o.get(name); !exists {
				return o.with(name, by), nil
			}
		}
		old, err := valueAt(parent, []string{name})
		if err != nil {
			return nil, err
		}
		n, ok := old.(number)
		if !ok {
			return nil, fmt.Errorf("%q is %s and cannot be incremented", name, kindName(old))
		}
		result := sum(n, by)
		if isUndefined(result) {
			return nil, fmt.Errorf("the increment of %q does not fit a number", name)
		}
		return replaceStep(result)(parent, name)
	}
}

// valueAt gives the text that the patch puts at a path, "" if it puts none there.
func (p *patchDocument) valueAt(path string) string {
	text := ""
	for _, op := range p.operations {
		if "/"+strings.Join(op.path, "/") == path {
			text, _ = op.value.(string)
		}
	}
	return text
}

// sum adds exactly where both are integers and the result fits one.
func sum(a, b number) value {
	i, err := strconv.ParseInt(a.text, 10, 64)
	j, err2 := strconv.ParseInt(b.text, 10, 64)
	if err == nil && err2 == nil {
		if s := i + j; (s > i) == (j > 0) {
			return integerOf(s)
		}
	}
	return numberOf(a.f + b.f)
}
