package cosmos

import "slices"

// The functions of arrays and objects.

// arrayContains looks for an element; with a third argument that is true, an
// object also matches an element that has at least its members.
func arrayContains(w *work, a []value) value {
	list, ok := a[0].([]any)
	if !ok || isUndefined(a[1]) || !w.weigh(list) || !w.weigh(a[1]) {
		return undefined{}
	}
	partial := len(a) == 3 && a[2] == true
	for _, e := range list {
		if equal(e, a[1]) || partial && includes(w, e, a[1]) {
			return true
		}
	}
	return false
}

func includes(w *work, whole, part value) bool {
	x, ok := whole.(*object)
	p, ok2 := part.(*object)
	if !ok || !ok2 || !w.spend(len(x.members)*len(p.members)) {
		return false
	}
	for _, m := range p.members {
		v, found := x.get(m.name)
		if !found || !equal(v, m.value) && !includes(w, v, m.value) {
			return false
		}
	}
	return true
}

// containsMany looks for the arguments behind the first: whether one is there, or else whether all are.
func containsMany(one bool) func(*work, []value) value {
	return func(w *work, a []value) value {
		for _, sought := range a[1:] {
			found := arrayContains(w, []value{a[0], sought})
			if isUndefined(found) {
				return found
			}
			if found == one {
				return one
			}
		}
		return !one
	}
}

func arrayConcat(w *work, a []value) value {
	all := []any{}
	for _, v := range a {
		list, ok := v.([]any)
		if !ok || !w.spend(len(list)) {
			return undefined{}
		}
		all = append(all, list...)
	}
	return all
}

// arraySlice takes elements from a place on, counted from the end if it is
// negative, and as many as a third argument says.
func arraySlice(w *work, a []value) value {
	list, ok := a[0].([]any)
	start, ok2 := wholeNumber(a[1])
	if !ok || !ok2 || !w.spend(len(list)) {
		return undefined{}
	}
	size := int64(len(list))
	if start < 0 {
		start += size
	}
	start = min(max(start, 0), size)
	length := size - start
	if len(a) == 3 {
		n, ok := wholeNumber(a[2])
		if !ok {
			return undefined{}
		}
		length = min(max(n, 0), length)
	}
	return slices.Clone(list[start : start+length])
}

// choose gives the argument whose place the first one names, from 1 on.
func choose(_ *work, a []value) value {
	if i, ok := wholeNumber(a[0]); ok && i >= 1 && i < int64(len(a)) {
		return a[i]
	}
	return undefined{}
}

// objectToArray makes an object of each member, with its name and its value under
// the names that the further arguments give, or k and v.
func objectToArray(w *work, a []value) value {
	o, ok := a[0].(*object)
	if !ok || !w.spend(4*len(o.members)) {
		return undefined{}
	}
	names := []string{"k", "v"}
	for i, v := range a[1:] {
		if names[i], ok = v.(string); !ok {
			return undefined{}
		}
	}
	list := make([]any, len(o.members))
	for i, m := range o.members {
		pair := &object{}
		pair.set(names[0], m.name)
		pair.set(names[1], m.value)
		list[i] = pair
	}
	return list
}

func setIntersect(w *work, a []value) value {
	x, ok := a[0].([]any)
	y, ok2 := a[1].([]any)
	if !ok || !ok2 {
		return undefined{}
	}
	in, seen := distinct{}, distinct{}
	for _, e := range y {
		in.add(w, e)
	}
	all := []any{}
	for _, e := range x {
		if !in.add(w, e) && seen.add(w, e) {
			all = append(all, e)
		}
	}
	return all
}

func setUnion(w *work, a []value) value {
	x, ok := a[0].([]any)
	y, ok2 := a[1].([]any)
	if !ok || !ok2 {
		return undefined{}
	}
	seen := distinct{}
	all := []any{}
	for _, list := range [][]any{x, y} {
		for _, e := range list {
			if seen.add(w, e) {
				all = append(all, e)
			}
		}
	}
	return all
}
