package cosmos

import "iter"

// group is the rows that are alike under GROUP BY, or without it all rows.
type group struct {
	first  row
	totals []total
}

// groups accumulates rows, in the order in which their groups are met.
type groups struct {
	*selection
	byKey   map[string]*group
	ordered []*group
}

func newGroups(s *selection) *groups {
	g := &groups{selection: s, byKey: map[string]*group{}}
	if len(s.groupBy) == 0 {
		g.of("") // there is one group even if there is no row
	}
	return g
}

func (g *groups) of(key string) *group {
	if g.byKey[key] == nil {
		g.byKey[key] = &group{totals: make([]total, len(g.aggregates))}
		g.ordered = append(g.ordered, g.byKey[key])
	}
	return g.byKey[key]
}

func (g *groups) take(r row) {
	var key []byte
	for _, by := range g.groupBy {
		v := eval(by.by, r)
		if !r.work.weigh(v) {
			return
		}
		key = append(appendCanonical(key, v), 0) // no text has a NUL: strings are escaped
	}
	one := g.of(string(key))
	if one.first.work == nil {
		one.first = r
	}
	for i, a := range g.aggregates {
		one.totals[i].take(eval(a.of, r))
	}
}

// rows gives one row for each group, in which its aggregates have their results.
func (g *groups) rows(w *work) iter.Seq[row] {
	return func(yield func(row) bool) {
		for _, one := range g.ordered {
			r := one.first
			r.work = w
			r.totals = make([]value, len(one.totals))
			for i, a := range g.aggregates {
				r.totals[i] = one.totals[i].result(a.name)
			}
			if !yield(r) {
				return
			}
		}
	}
}

// total accumulates one aggregate.
type total struct {
	count      int64
	trues      int64
	sum        float64
	least      value
	most       value
	notNumbers bool
	notScalars bool
}

func (t *total) take(v value) {
	if isUndefined(v) {
		return
	}
	if t.count == 0 {
		t.least, t.most = v, v
	}
	t.count++
	switch v := v.(type) {
	case number:
		t.sum += v.f
	case bool:
		t.notNumbers = true
		if v {
			t.trues++
		}
	case []any, *object:
		t.notNumbers, t.notScalars = true, true
		return
	default:
		t.notNumbers = true
	}
	if order(v, t.least) < 0 {
		t.least = v
	}
	if order(v, t.most) > 0 {
		t.most = v
	}
}

func (t *total) result(name string) value {
	switch {
	case name == "COUNT":
		return integerOf(t.count)
	case name == "COUNTIF":
		return integerOf(t.trues)
	case t.count == 0 && name == "SUM":
		return integerOf(0)
	case t.count == 0:
		return undefined{}
	case name == "MIN" || name == "MAX":
		if t.notScalars {
			return undefined{}
		}
		if name == "MIN" {
			return t.least
		}
		return t.most
	case t.notNumbers:
		return undefined{}
	case name == "SUM":
		return numberOf(t.sum)
	}
	return numberOf(t.sum / float64(t.count))
}
