package cosmos

import (
	"cmp"
	"sync/atomic"
	"weak"
)

// document is one version of one item. It is immutable. What it keeps is its
// text: the tree is made from it when somebody asks, and kept for no longer than
// the collector leaves it, so that a million items take little more than their
// texts. What is asked of a few paths is found in the text.
type document struct {
	id        string
	partition string // canonical key
	ordinal   uint64 // kept over replacements; part of the rid
	etag      string
	ts        int64  // seconds
	ttl       int64  // the item's own, 0 if it has none
	lsn       uint64 // of the commit that made this version
	place     int    // within that commit
	indexed   int    // paths of it that the container indexes
	text      []byte // as it is sent

	tree atomic.Pointer[weak.Pointer[object]]
}

// body is the document's tree, which is kept for whoever asks next.
func (d *document) body() *object {
	if tree := d.tree.Load(); tree != nil {
		if o := tree.Value(); o != nil {
			return o
		}
	}
	o, err := parseObject(d.text)
	if err != nil {
		panic("a stored document is not what was stored: " + err.Error()) // appendValue has written it
	}
	kept := weak.Make(o)
	d.tree.Store(&kept)
	return o
}

// at gives the value at a path, without a tree.
func (d *document) at(path []string) value { return stored(d.text).at(path) }

// byAge orders items as they were made, which is the order of an unordered scan.
func byAge(a, b *document) int { return cmp.Compare(a.ordinal, b.ordinal) }

// byChange orders items as they were changed, which is that of the change feed.
func byChange(a, b *document) int {
	return cmp.Or(cmp.Compare(a.lsn, b.lsn), cmp.Compare(a.place, b.place))
}
