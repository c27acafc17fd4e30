package cosmos

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
)

// index finds the items that have a value at a path. It is made when a query
// first asks for the path, and kept up to date by every commit from then on.
type index struct {
	path    []string
	entries *sequence[indexEntry]
}

// indexEntry is an item at the place of its value, and among equal values at that
// of its age.
type indexEntry struct {
	key  indexKey
	item *document
}

func (a indexEntry) compare(b indexEntry) int {
	if c := a.key.compare(b.key); c != 0 {
		return c
	}
	return byAge(a.item, b.item)
}

// maxIndexes bounds the indexes of one container; queries beyond it scan.
const maxIndexes = 32

func newIndex(path []string) *index {
	return &index{path, newSequence(indexEntry.compare)}
}

func (x *index) add(d *document) {
	if key, ok := keyAt(d, x.path); ok {
		x.entries.put(indexEntry{key, d})
	}
}

func (x *index) remove(d *document) {
	if key, ok := keyAt(d, x.path); ok {
		x.entries.drop(indexEntry{key, d})
	}
}

// indexKey is a value as an index orders it. Equal values have equal keys; very
// large integers that are not equal may too, since the key has a double.
type indexKey struct {
	rank   int // of the value's type, as in an order
	number float64
	text   string
}

func (k indexKey) compare(o indexKey) int {
	if k.rank != o.rank {
		return k.rank - o.rank
	}
	if k.number != o.number {
		return cmp.Compare(k.number, o.number)
	}
	return strings.Compare(k.text, o.text)
}

// keyOf gives the key of a value that an index holds: not of arrays, objects and
// what is undefined.
func keyOf(v value) (indexKey, bool) {
	key := indexKey{rank: rank(v)}
	switch v := v.(type) {
	case nil, bool:
	case number:
		key.number = v.f
	case string:
		key.text = v
	default:
		return key, false
	}
	return key, true
}

// keyAt gives the key of a document's value at a path. The time of its last write is
// not looked for in its text, where it comes last.
func keyAt(d *document, path []string) (indexKey, bool) {
	if path[0] == "_ts" && len(path) == 1 {
		return keyOf(number{f: float64(d.ts)})
	}
	return keyOf(d.at(path))
}

// run is a range of keys of one type, both ends included.
type run struct{ low, high indexKey }

func (r run) holds(k indexKey) bool { return r.low.compare(k) <= 0 && k.compare(r.high) <= 0 }

// bound is what a filter demands of the value at one path: nothing that the
// filter holds for has a key outside of its runs. The filter itself may demand
// more.
type bound struct {
	path []string
	runs []run
}

func (b bound) admits(d *document) bool {
	key, ok := keyAt(d, b.path)
	return ok && slices.ContainsFunc(b.runs, func(r run) bool { return r.holds(key) })
}

// exact reports whether the bound is one value.
func (b bound) exact() bool { return len(b.runs) == 1 && b.runs[0].low == b.runs[0].high }

// bounds finds what a query's filter demands of its items.
func (s *selection) bounds() []bound {
	if s.where == nil || len(s.from) == 0 || s.from[0].path != nil || s.from[0].query != nil {
		return nil
	}
	return bounds(s.where, s.from[0].alias)
}

// bounds finds what a filter demands of the items named by an alias.
func bounds(filter expression, alias string) []bound {
	switch e := filter.(type) {
	case infix:
		switch e.operator {
		case "AND":
			return append(bounds(e.left, alias), bounds(e.right, alias)...)
		case "OR":
			return eitherBound(bounds(e.left, alias), bounds(e.right, alias))
		}
		if b, ok := boundBy(e.operator, e.left, e.right, alias); ok {
			return []bound{b}
		}
		if b, ok := boundBy(mirrored[e.operator], e.right, e.left, alias); ok {
			return []bound{b}
		}
	case between:
		if low, ok := boundBy(">=", e.of, e.low, alias); ok {
			if high, ok := boundBy("<=", e.of, e.high, alias); ok {
				return []bound{{low.path, []run{{low.runs[0].low, high.runs[0].high}}}}
			}
		}
	case membership:
		var all bound
		for _, one := range e.list {
			b, ok := boundBy("=", e.of, one, alias)
			if !ok {
				return nil
			}
			all = bound{b.path, append(all.runs, b.runs...)}
		}
		return []bound{all}
	case invocation:
		if e.name == "IS_NULL" {
			if b, ok := boundBy("=", e.arguments[0], literal{nil}, alias); ok {
				return []bound{b}
			}
		}
	}
	return nil
}

// eitherBound is what is demanded by one side of an OR or by the other.
func eitherBound(left, right []bound) []bound {
	var both []bound
	for _, l := range left {
		for _, r := range right {
			if slices.Equal(l.path, r.path) {
				both = append(both, bound{l.path, append(l.runs, r.runs...)})
				break
			}
		}
	}
	return both
}

var mirrored = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// boundBy reads a comparison of a path with a literal. Ends are always taken as
// included: keys are coarser than values, and the filter is evaluated anyhow.
func boundBy(operator string, of, with expression, alias string) (bound, bool) {
	name, path, ok := pathOf(of)
	l, isLiteral := with.(literal)
	if !ok || !isLiteral || name != alias || len(path) == 0 {
		return bound{}, false
	}
	key, ok := keyOf(l.v)
	if !ok {
		return bound{}, false
	}
	r := run{key, key}
	switch operator {
	case "=":
	case "<", "<=":
		if r.low, ok = least(l.v); !ok {
			return bound{}, false
		}
	case ">", ">=":
		if r.high, ok = greatest(l.v); !ok {
			return bound{}, false
		}
	default:
		return bound{}, false
	}
	return bound{path, []run{r}}, true
}

// least is the smallest key of what compares with a value.
func least(v value) (indexKey, bool) {
	switch v.(type) {
	case number:
		return indexKey{rank: rank(v), number: math.Inf(-1)}, true
	case string:
		return indexKey{rank: rank(v)}, true
	}
	return indexKey{}, false
}

// greatest is a key that nothing that compares with a value is greater than.
func greatest(v value) (indexKey, bool) {
	switch v.(type) {
	case number:
		return indexKey{rank: rank(v), number: math.Inf(1)}, true
	case string:
		return indexKey{rank: rank(v) + 1, number: math.Inf(-1)}, true // no text is the last one
	}
	return indexKey{}, false
}

// in gives the items within a run in its order; those of the run's first value
// from behind an ordinal.
func (r run) in(entries *sequence[indexEntry], after uint64) iter.Seq[*document] {
	return func(yield func(*document) bool) {
		for e := range entries.from(indexEntry{r.low, &document{ordinal: after + 1}}) {
			if e.key.compare(r.high) > 0 || !yield(e.item) {
				return
			}
		}
	}
}

// count is how many items there are in the bound's runs.
func (x *index) count(b bound) int {
	n := 0
	for _, r := range b.runs {
		end := x.entries.before(indexEntry{r.high, &document{ordinal: math.MaxUint64}})
		n += max(0, end-x.entries.before(indexEntry{r.low, &document{}}))
	}
	return n
}
