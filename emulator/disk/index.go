package disk

import (
	"maps"
	"slices"
)

// index knows the place of every value.
type index struct {
	buckets map[string]*bucket
	live    int64 // what all values take in the log
}

type bucket struct {
	places map[string]place
	live   int64
}

// place is where a value is. Small, since there is one of it for every key.
type place struct {
	segment, offset, size uint32
}

// overhead is about what a record takes beyond its fields.
const overhead = 8

func newIndex() index { return index{buckets: make(map[string]*bucket)} }

// put notes the place of a value.
func (x *index) put(name, key []byte, p place) {
	b := x.buckets[string(name)]
	if b == nil {
		b = &bucket{places: make(map[string]place)}
		x.buckets[string(name)] = b
	}
	grown := int64(p.size)
	if old, ok := b.places[string(key)]; ok {
		grown -= int64(old.size)
	} else {
		grown += int64(len(name) + len(key) + overhead)
	}
	b.places[string(key)] = p
	b.live += grown
	x.live += grown
}

func (x *index) delete(name, key []byte) {
	b := x.buckets[string(name)]
	if b == nil {
		return
	}
	old, ok := b.places[string(key)]
	if !ok {
		return
	}
	delete(b.places, string(key))
	shrunk := int64(len(name) + len(key) + overhead + int(old.size))
	b.live -= shrunk
	x.live -= shrunk
	if len(b.places) == 0 {
		delete(x.buckets, string(name))
	}
}

func (x *index) drop(name []byte) {
	if b := x.buckets[string(name)]; b != nil {
		x.live -= b.live
		delete(x.buckets, string(name))
	}
}

// has reports whether a value is at a place.
func (x *index) has(name, key []byte, at place) bool {
	b := x.buckets[string(name)]
	return b != nil && b.places[string(key)] == at
}

// each visits all places in order.
func (x *index) each(visit func(bucket, key string, p place) error) error {
	for _, name := range slices.Sorted(maps.Keys(x.buckets)) {
		places := x.buckets[name].places
		keys := make([]string, 0, len(places))
		for key := range places {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if err := visit(name, key, places[key]); err != nil {
				return err
			}
		}
	}
	return nil
}
