package cosmos

import (
	"iter"
	"slices"
)

// items are what a query ranges over, in the order they were made, from behind
// an ordinal. They are those of one moment, and are read without the lock.
type items func(after uint64) iter.Seq[*document]

// ordinalOf gives the ordinal of the nth item, 0 if there are not so many.
func (all items) ordinalOf(n int) uint64 {
	for d := range all(0) {
		if n--; n == 0 {
			return d.ordinal
		}
	}
	return 0
}

// indexAt is the size of a container or logical partition from which a filter is
// looked up in an index; fewer items are looked at one by one.
const indexAt = 64

// scope gives the live items of one logical partition, or of all with nil, that
// the index leaves: all that have what the query's filter demands of the indexed
// paths. Which items these are follows from the filter and the indexing policy
// alone, not from how they are found, and so does what the query is charged for.
// The caller holds the lock; the items may be read without it.
func (c *container) scope(key partitionKey, now clock, demanded []bound) items {
	demanded = slices.DeleteFunc(demanded, func(b bound) bool { return !c.settings.indexes(b.path) })
	confined, set := "", c.settings
	base := c.inOrder
	if key != nil {
		confined = key.canonical()
		if base = c.partitions[confined]; base == nil {
			return func(uint64) iter.Seq[*document] { return func(func(*document) bool) {} }
		}
	}
	find := c.cheapest(base, demanded)
	return func(after uint64) iter.Seq[*document] {
		return func(yield func(*document) bool) {
			for d := range find(after) {
				if key != nil && d.partition != confined || set.expired(d, now) {
					continue
				}
				if admitted(d, demanded) && !yield(d) {
					return
				}
			}
		}
	}
}

func admitted(d *document, demanded []bound) bool {
	return !slices.ContainsFunc(demanded, func(b bound) bool { return !b.admits(d) })
}

// cheapest chooses between looking at all items and asking one of the indexes,
// which may give too many.
func (c *container) cheapest(base *sequence[*document], demanded []bound) items {
	least := base.length
	var by *index
	var chosen bound
	for _, b := range demanded {
		if least < indexAt {
			break
		}
		x := c.indexOf(b.path)
		if x == nil {
			continue
		}
		cost := x.count(b)
		if !b.exact() {
			cost *= sorting
		}
		if cost < least {
			least, by, chosen = cost, x, b
		}
	}
	if by == nil {
		all := base.snapshot()
		return func(after uint64) iter.Seq[*document] { return all.from(&document{ordinal: after + 1}) }
	}
	entries := by.entries.snapshot()
	return func(after uint64) iter.Seq[*document] { return chosen.find(entries, after) }
}

// sorting is what an item costs that an index does not give in the order of age.
const sorting = 4

func (b bound) find(entries *sequence[indexEntry], after uint64) iter.Seq[*document] {
	if b.exact() {
		return b.runs[0].in(entries, after)
	}
	var found []*document
	for _, r := range b.runs {
		for d := range r.in(entries, 0) {
			if d.ordinal > after {
				found = append(found, d)
			}
		}
	}
	slices.SortFunc(found, byAge)
	return slices.Values(slices.Compact(found)) // runs may overlap
}

// indexOf gives the index of a path and makes it if it is not there, nil if there
// are too many. The caller holds the lock.
func (c *container) indexOf(path []string) *index {
	name := joinPath(path)
	x := c.indexes[name]
	if x == nil && len(c.indexes) < maxIndexes {
		x = newIndex(path)
		for d := range c.inOrder.from(&document{}) {
			x.add(d)
		}
		if c.indexes == nil {
			c.indexes = map[string]*index{}
		}
		c.indexes[name] = x
	}
	return x
}
