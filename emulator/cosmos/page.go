package cosmos

import (
	"iter"
	"slices"
	"time"
)

// page is one page of results.
type page struct {
	results  [][]byte
	bytes    int
	examined int
	units    float64 // what it takes to read what was examined
	next     continuation
}

// add puts in a result, or reports that the page is too full for it.
func (p *page) add(text []byte) bool {
	if len(p.results) > 0 && p.bytes+len(text) > maxPage {
		return false
	}
	p.results = append(p.results, text)
	p.bytes += len(text)
	return true
}

// evaluation is one page in the making.
type evaluation struct {
	*selection
	work     *work
	examined int
	units    float64
	needs    []string // the members of an item that it looks at
	partial  bool     // false: it may look at all of them
}

// page evaluates the query over a snapshot, from where the last page ended.
func (s *selection) page(all items, size int, at continuation, now time.Time) (page, *failure) {
	if len(s.from) == 0 {
		all = nothing // one row, whatever there is
	}
	e := &evaluation{selection: s, work: newWork(now)}
	e.needs, e.partial = s.needs()
	var p page
	switch {
	case len(s.aggregates) > 0 || len(s.groupBy) > 0:
		p = e.skipping(e.groups(all), size, at)
	case s.skips():
		p = e.skipping(e.rowsOf(all), size, at)
	case len(s.orderBy) > 0:
		p = e.ordered(all, size, at)
	default:
		p = e.scanned(all, size, at)
	}
	p.examined, p.units = e.examined, e.units
	return p, e.work.spent()
}

// skips reports whether a page begins with skipping what the pages before it had, which needs no more than to count it.
func (s *selection) skips() bool {
	return len(s.aggregates) > 0 || len(s.groupBy) > 0 || s.distinct || s.offset >= 0 || !s.plain()
}

// nothing is the one item that a query without FROM is evaluated over.
func nothing(after uint64) iter.Seq[*document] {
	return func(yield func(*document) bool) {
		if after == 0 {
			yield(&document{ordinal: 1, text: []byte("{}")})
		}
	}
}

// plain reports whether an item has at most one row.
func (s *selection) plain() bool {
	return len(s.from) == 0 || len(s.from) == 1 && !s.from[0].iterate && s.from[0].query == nil
}

// over gives the rows of one item.
func (s *evaluation) over(d *document) iter.Seq[row] {
	s.examined++
	s.units += readUnits * bySize(len(d.text))
	s.work.item(s.selection)
	if s.partial {
		return s.rows(row{document: stored(d.text).only(s.needs), work: s.work})
	}
	return s.rows(row{document: d.body(), work: s.work})
}

// scanned examines items in the order they were made until the page is full. A
// full page goes on even if nothing is left: a scan learns that only by looking,
// so the last page may be empty.
func (s *evaluation) scanned(all items, size int, at continuation) page {
	p := page{next: at}
	p.next.more = false
	for d := range all(at.ordinal) {
		if s.top >= 0 && p.next.taken >= s.top {
			return p
		}
		if len(p.results) == size {
			p.next.more = true
			return p
		}
		for r := range s.over(d) {
			if text, ok := s.text(d, r); ok {
				if !p.add(text) {
					p.next.more = true
					return p
				}
				p.next.taken++
			}
		}
		p.next.ordinal = d.ordinal
	}
	p.next.more = len(p.results) == size && (s.top < 0 || p.next.taken < s.top) && len(s.from) > 0
	return p
}

// sortable is a row with what it is ordered by.
type sortable struct {
	row  row
	keys []value
	item *document
}

// sorted filters all rows and puts them in order. Items that are equal under
// the keys stay in the order they were made.
func (s *evaluation) sorted(all items) []sortable {
	var list []sortable
	for d := range all(0) {
		for r := range s.over(d) {
			one := sortable{row: r, item: d}
			for _, o := range s.orderBy {
				one.keys = append(one.keys, eval(o.by, r))
			}
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b sortable) int { return s.compare(a.keys, b.keys) })
	return list
}

func (s *selection) compare(a, b []value) int {
	for i, o := range s.orderBy {
		c := order(a[i], b[i])
		if o.descending {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// ordered delivers in order, from behind the last one delivered.
func (s *evaluation) ordered(all items, size int, at continuation) page {
	p := page{next: at}
	p.next.more = false
	for _, one := range s.sorted(all) {
		if at.taken > 0 {
			c := s.compare(one.keys, at.keys)
			if c < 0 || c == 0 && one.item.ordinal <= at.ordinal {
				continue
			}
		}
		text, ok := s.text(one.item, one.row)
		if !ok {
			continue
		}
		if s.top >= 0 && p.next.taken >= s.top {
			return p
		}
		if len(p.results) == size || !p.add(text) {
			p.next.more = true
			return p
		}
		p.next.taken++
		p.next.ordinal, p.next.keys = one.item.ordinal, one.keys
	}
	return p
}

// groups gives a row for each group of rows.
func (s *evaluation) groups(all items) iter.Seq[row] {
	return func(yield func(row) bool) {
		found := newGroups(s.selection)
		for d := range all(0) {
			for r := range s.over(d) {
				found.take(r)
			}
		}
		found.rows(s.work)(yield)
	}
}

// rowsOf gives the rows of all items, in their order.
func (s *evaluation) rowsOf(all items) iter.Seq[row] {
	return func(yield func(row) bool) {
		if len(s.orderBy) > 0 {
			for _, one := range s.sorted(all) {
				if !yield(one.row) {
					return
				}
			}
			return
		}
		for d := range all(0) {
			for r := range s.over(d) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// skipping makes results of rows and skips those of the pages before.
func (s *evaluation) skipping(rows iter.Seq[row], size int, at continuation) page {
	p := page{next: at}
	p.next.more = false
	p.next.taken = 0
	seen := distinct{}
	skipped := 0
	for r := range rows {
		v, ok := s.project(r)
		if !ok || s.distinct && !seen.add(s.work, v) {
			continue
		}
		if s.offset >= 0 && skipped < s.offset {
			skipped++
			continue
		}
		if s.top >= 0 && p.next.taken >= s.top || s.offset >= 0 && p.next.taken >= s.limit {
			return p
		}
		if p.next.taken < at.taken {
			p.next.taken++
			continue
		}
		text, ok := s.work.text(v)
		if !ok {
			return p
		}
		if len(p.results) == size || !p.add(text) {
			p.next.more = true
			return p
		}
		p.next.taken++
	}
	return p
}

// text is what a row of an item is sent as. That of a whole item is there already.
func (s *selection) text(d *document, r row) ([]byte, bool) {
	if s.star && s.from[0].path == nil && s.from[0].query == nil {
		return d.text, true
	}
	v, ok := s.project(r)
	if !ok {
		return nil, false
	}
	return r.work.text(v)
}
