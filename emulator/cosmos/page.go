package cosmos

import (
	"slices"
	"strings"
)

// page is one page of results.
type page struct {
	results  [][]byte
	bytes    int
	examined int
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

// maxRows bounds what the JOINs of one page may multiply to.
const maxRows = 1 << 20

// evaluation is one page in the making.
type evaluation struct {
	*selection
	rowsLeft int // below 0: there were more than maxRows
}

// page evaluates the query over a snapshot, from where the last page ended.
func (s *selection) page(all items, size int, at continuation) (page, *failure) {
	e := &evaluation{s, maxRows}
	var p page
	switch {
	case len(s.aggregates) > 0:
		p = e.aggregated(all)
	case s.distinct || s.offset >= 0 || len(s.from) > 1 || s.from[0].iterate:
		p = e.counted(all, size, at)
	case len(s.orderBy) > 0:
		p = e.ordered(all, size, at)
	default:
		p = e.scanned(all, size, at)
	}
	if e.rowsLeft < 0 {
		return page{}, badRequest("The JOINs of the query make more than the %d rows that this emulator looks at.", maxRows)
	}
	return p, nil
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
		p.examined++
		for _, r := range s.rows(d) {
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
	p.next.more = len(p.results) == size && (s.top < 0 || p.next.taken < s.top)
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
func (s *evaluation) sorted(all items) (list []sortable, examined int) {
	for d := range all(0) {
		examined++
		for _, r := range s.rows(d) {
			one := sortable{row: r, item: d}
			for _, o := range s.orderBy {
				one.keys = append(one.keys, eval(o.by, r))
			}
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b sortable) int { return s.compare(a.keys, b.keys) })
	return list, examined
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
	list, examined := s.sorted(all)
	p := page{next: at, examined: examined}
	p.next.more = false
	for _, one := range list {
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

// counted makes all results and skips those of the pages before.
func (s *evaluation) counted(all items, size int, at continuation) page {
	list, examined := s.sorted(all)
	p := page{next: at, examined: examined}
	p.next.more = false
	p.next.taken = 0
	seen := map[string]bool{}
	skipped := 0
	for _, one := range list {
		v, ok := s.project(one.row)
		if !ok {
			continue
		}
		if s.distinct {
			text := canonicalText(v)
			if seen[text] {
				continue
			}
			seen[text] = true
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
		if len(p.results) == size || !p.add(appendValue(nil, v)) {
			p.next.more = true
			return p
		}
		p.next.taken++
	}
	return p
}

// canonicalText makes equal values equal texts.
func canonicalText(v value) string {
	switch v := v.(type) {
	case number:
		return textOf(numberOf(v.f))
	case []any:
		text := "["
		for _, e := range v {
			text += canonicalText(e) + ","
		}
		return text + "]"
	case *object:
		members := slices.Clone(v.members)
		slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
		text := "{"
		for _, m := range members {
			text += textOf(m.name) + ":" + canonicalText(m.value) + ","
		}
		return text + "}"
	}
	return textOf(v)
}

// rows binds the names of FROM to what they stand for in one item, and keeps
// what the filter holds for.
func (s *evaluation) rows(d *document) []row {
	list := []row{{}}
	for i, src := range s.from {
		var next []row
		for _, r := range list {
			for _, v := range src.values(d, r, i == 0) {
				if s.rowsLeft--; s.rowsLeft < 0 {
					return nil
				}
				next = append(next, r.with(src.alias, v))
			}
		}
		list = next
	}
	return slices.DeleteFunc(list, func(r row) bool {
		return s.where != nil && eval(s.where, r) != true
	})
}

func (src source) values(d *document, r row, first bool) []value {
	if src.path == nil {
		return []value{d.body()}
	}
	if first {
		r = row{}.with(documentName, d.body())
	}
	v := eval(src.path, r)
	if isUndefined(v) {
		return nil
	}
	if !src.iterate {
		return []value{v}
	}
	list, _ := v.([]any)
	return list
}

// text is what a row of an item is sent as. That of a whole item is there already.
func (s *selection) text(d *document, r row) ([]byte, bool) {
	if s.star && s.from[0].path == nil {
		return d.text, true
	}
	v, ok := s.project(r)
	return appendValue(nil, v), ok
}

// project makes a row a result. SELECT VALUE of what is undefined is none.
func (s *selection) project(r row) (value, bool) {
	switch {
	case s.star:
		return r.values[0], true
	case s.value:
		v := eval(s.columns[0].of, r)
		return v, !isUndefined(v)
	}
	return evalColumns(s.columns, r), true
}
