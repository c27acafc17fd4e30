package cosmos

import (
	"math"
	"slices"
)

// Request units, by a model: the service does not publish its formula. What it
// publishes holds here: reading an item of 1 KB is 1, of 100 KB 10; writing one of
// 1 KB is about 5, of 100 KB about 50, and more with every indexed property;
// replacing is twice what inserting the same would be; a query that returns a
// thousand items of 1 KB is 1000; with strong consistency or bounded staleness
// reading is twice as much. Between and beyond, the charge rises evenly with every
// kilobyte begun. What an indexed path adds, and what a query is charged that finds
// nothing, is not published, and chosen here. The charge is the same every time, so
// that a budget can be tested.
const (
	readUnits  = 1.0
	writeUnits = 5.0
	perKB      = 1.0 / 11 // of either, for every kilobyte but the first: 99 of them make it ten times as much

	indexedUnits = 0.04 // of a write, for every path indexed
	queryUnits   = 2.3  // of a page at least
)

func bySize(bytes int) float64 {
	return 1 + perKB*math.Max(0, math.Ceil(float64(bytes)/1024)-1)
}

func readCharge(bytes int) float64 { return cents(readUnits * bySize(bytes)) }

// writeCharge is that of taking old's place by new; either may be nil.
func writeCharge(old, new *document) float64 {
	charge := 0.0
	for _, d := range []*document{old, new} {
		if d != nil {
			charge += writeUnits*bySize(len(d.text)) + indexedUnits*float64(d.indexed)
		}
	}
	return cents(charge)
}

// queryCharge is that of one page: what it takes to read every item that the index
// leaves to be looked at, as a point read would.
func queryCharge(units float64) float64 { return cents(max(queryUnits, units)) }

// consistent is what a request is charged when the consistency it asks for is
// counted in: to read from two replicas is twice as much as from one.
func (s *Server) consistent(c *call, charge float64) float64 {
	switch c.op.Operation {
	case "read", "query", "change-feed":
	default:
		return charge
	}
	if level := s.consistency(c); level == "Strong" || level == "BoundedStaleness" {
		return cents(2 * charge)
	}
	return charge
}

// indexedPaths counts the values of an item that the container's policy indexes,
// each element of an array by itself. The service's own properties are not counted.
func (s settings) indexedPaths(item *object) int {
	if s.unindexed {
		return 0
	}
	n := 0
	path := make([]string, 0, 8)
	for _, m := range item.members {
		if !slices.Contains(systemProperties, m.name) {
			n += s.indexedBelow(m.value, append(path, m.name))
		}
	}
	return n
}

func (s settings) indexedBelow(v value, path []string) int {
	n := 0
	switch v := v.(type) {
	case *object:
		for _, m := range v.members {
			n += s.indexedBelow(m.value, append(path, m.name))
		}
	case []any:
		for _, e := range v {
			n += s.indexedBelow(e, append(path, "[]"))
		}
	default:
		if s.indexes(path) {
			n = 1
		}
	}
	return n
}

func cents(f float64) float64 { return math.Round(f*100) / 100 }
