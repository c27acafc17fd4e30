package cosmos

import (
	"iter"
	"slices"
	"strings"
)

// rows gives a row for each combination of what FROM binds over the given one,
// of those that the filter holds for.
func (s *selection) rows(r row) iter.Seq[row] {
	return func(yield func(row) bool) { s.bind(r, 0, yield) }
}

// bind binds the sources from the given one on, and reports whether to go on.
func (s *selection) bind(r row, from int, yield func(row) bool) bool {
	if from == len(s.from) {
		if s.where != nil && eval(s.where, r) != true {
			return r.work.steps >= 0
		}
		return yield(r)
	}
	src := s.from[from]
	return src.each(r, func(v value) bool {
		r.work.rows--
		return r.work.rows >= 0 && s.bind(r.with(src.alias, v), from+1, yield)
	})
}

// each visits the values that a source stands for, and reports whether to go on.
func (src source) each(r row, visit func(value) bool) bool {
	if src.query != nil {
		for v := range src.query.results(r) {
			if !src.eachOf(v, visit) {
				return false
			}
		}
		return true
	}
	if src.path == nil {
		return visit(r.document)
	}
	return src.eachOf(eval(src.path, r), visit)
}

func (src source) eachOf(v value, visit func(value) bool) bool {
	if !src.iterate {
		return isUndefined(v) || visit(v)
	}
	list, _ := v.([]any)
	for _, e := range list {
		if !visit(e) {
			return false
		}
	}
	return true
}

// results gives what a subquery selects over one row.
func (s *selection) results(r row) iter.Seq[value] {
	return func(yield func(value) bool) {
		rows := s.rows(r)
		if len(s.aggregates) > 0 {
			all := newGroups(s)
			for one := range rows {
				all.take(one)
			}
			rows = all.rows(r.work)
		}
		seen := distinct{}
		for one := range rows {
			v, ok := s.project(one)
			if ok && (!s.distinct || seen.add(r.work, v)) && !yield(v) {
				return
			}
		}
	}
}

// project makes a row a result. SELECT VALUE of what is undefined is none.
func (s *selection) project(r row) (value, bool) {
	switch {
	case s.star:
		return r.lookup(s.from[0].alias), true
	case s.value:
		v := eval(s.columns[0].of, r)
		return v, !isUndefined(v)
	}
	return evalColumns(s.columns, r), true
}

// distinct is the results that have been seen.
type distinct map[string]bool

// add reports whether a result is new.
func (d distinct) add(w *work, v value) bool {
	if !w.weigh(v) {
		return false
	}
	text := string(appendCanonical(nil, v))
	if d[text] {
		return false
	}
	d[text] = true
	return true
}

// appendCanonical makes equal values equal texts.
func appendCanonical(b []byte, v value) []byte {
	switch v := v.(type) {
	case number:
		return appendValue(b, numberOf(v.f))
	case []any:
		b = append(b, '[')
		for _, e := range v {
			b = append(appendCanonical(b, e), ',')
		}
		return append(b, ']')
	case *object:
		members := slices.Clone(v.members)
		slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
		b = append(b, '{')
		for _, m := range members {
			b = append(appendText(b, m.name), ':')
			b = append(appendCanonical(b, m.value), ',')
		}
		return append(b, '}')
	}
	return appendValue(b, v)
}
