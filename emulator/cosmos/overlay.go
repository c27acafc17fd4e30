package cosmos

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
)

// overlay is a change in the making to one logical partition: reads see what
// has been written in it over what is stored, and nobody else sees any of it
// until commit. Every write is one, a batch of many operations and a single
// operation alike. It lives and dies under the store's lock.
type overlay struct {
	store     *store
	container *container
	partition string
	now       clock
	ignore    bool // If-Match is switched off
	unchecked bool // what a write needs is not looked at

	lsn     uint64
	written []changed // in the order in which the items were first written
}

// begin opens an overlay. The caller holds the lock until after commit.
func (s *store) begin(c *container, key partitionKey, now clock) *overlay {
	return &overlay{
		store: s, container: c, partition: key.canonical(), now: now,
		lsn: c.lsn + 1,
	}
}

// find gives the item as this overlay sees it, nil if there is none.
func (o *overlay) find(id string) *document {
	if c := o.own(id); c != nil && !o.store.off("cosmos.batch-own-view") {
		return c.now
	}
	return o.container.live(o.partition, id, o.now)
}

// systemProperties are the service's to set, whatever a client sends.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}

// mostScratch is how much is kept to write items in.
const mostScratch = 64 << 10

// put writes a new version of an item; old is the version it takes the place
// of, or nil.
func (o *overlay) put(old *document, id string, body *object) (*document, *failure) {
	d := &document{id: strings.Clone(id), partition: o.partition, ts: o.now.seconds, lsn: o.lsn, etag: o.store.nextETag(o.now.seconds)}
	if old != nil {
		d.ordinal = old.ordinal
		if o.store.off("cosmos.new-etag") {
			d.etag = old.etag
		}
		if o.store.off("cosmos.timestamp") {
			d.ts = old.ts
		}
	} else {
		o.container.ordinals++
		d.ordinal = o.container.ordinals
	}
	d.ttl = ownTTL(body)
	rid := o.container.itemRID(d.ordinal)
	stored := &object{members: make([]member, 0, len(body.members)+5)}
	for _, m := range body.members {
		if !slices.Contains(systemProperties, m.name) {
			stored.members = append(stored.members, m)
		}
	}
	d.indexed = o.container.settings.indexedPaths(stored)
	stored.members = append(stored.members,
		member{"_rid", rid},
		member{"_self", o.container.self() + "docs/" + rid + "/"},
		member{"_etag", d.etag},
		member{"_attachments", "attachments/"},
		member{"_ts", integerOf(d.ts)})
	written := appendValue(o.store.scratch[:0], stored)
	d.text = slices.Clone(written) // kept for long: no larger than it is
	if cap(written) <= mostScratch {
		o.store.scratch = written
	}
	if len(d.text) > maxItem && !o.store.off("cosmos.size-limit") {
		return nil, refuse(http.StatusRequestEntityTooLarge, "Request size is too large: an item of %d bytes, want at most %d.", len(d.text), maxItem)
	}
	if err := o.unique(d); err != nil {
		return nil, err
	}
	o.write(id, d)
	return d, nil
}

// ownTTL is the item's own time to live, 0 if it has none.
func ownTTL(body *object) int64 {
	v, _ := body.get("ttl")
	ttl, _ := wholeNumber(v) // validItem has looked at it
	return ttl
}

func (o *overlay) remove(d *document) { o.write(d.id, nil) }

func (o *overlay) write(id string, d *document) {
	if c := o.own(id); c != nil {
		c.now = d
		return
	}
	o.written = append(o.written, changed{o.partition, id, d})
}

// own is what has been written of an item, nil if nothing has. A batch is short, so
// they are looked through.
func (o *overlay) own(id string) *changed {
	for i := range o.written {
		if o.written[i].id == id {
			return &o.written[i]
		}
	}
	return nil
}

// unique holds the container's unique keys, which are unique within a logical
// partition.
func (o *overlay) unique(d *document) *failure {
	if o.store.off("cosmos.unique-keys") {
		return nil
	}
	for _, paths := range o.container.settings.uniqueKeys {
		mine := uniqueValue(d, paths)
		clash := func(other *document) bool {
			return other != nil && other.id != d.id && equal(uniqueValue(other, paths), mine)
		}
		if others := o.container.partitions[o.partition]; others != nil {
			for other := range others.from(&document{}) {
				if o.own(other.id) == nil && !o.container.settings.expired(other, o.now) && clash(other) {
					return refuse(http.StatusConflict, "Unique index constraint violation.")
				}
			}
		}
		for _, other := range o.written {
			if clash(other.now) {
				return refuse(http.StatusConflict, "Unique index constraint violation.")
			}
		}
	}
	return nil
}

// uniqueValue collects the values of a unique key; what is missing counts as
// null, so two items that lack it clash.
func uniqueValue(d *document, paths [][]string) value {
	list := make([]any, len(paths))
	for i, path := range paths {
		if v := d.at(path); !isUndefined(v) {
			list[i] = v
		}
	}
	return list
}

// commit makes everything written visible at once, under one lsn. An overlay
// that is dropped instead leaves nothing.
func (o *overlay) commit() {
	if len(o.written) == 0 {
		return
	}
	o.store.fork(o.container)
	o.tell()
	for place, c := range o.written {
		before := o.container.live(o.partition, c.id, o.now)
		if before != nil && (c.now == nil || before.ordinal != c.now.ordinal) {
			o.container.forget(before)
		}
		if c.now != nil {
			c.now.place = place
			o.container.keep(c.now)
		}
	}
	o.container.lsn = o.lsn
	if o.container.replica != nil {
		o.container.replica.follow(commit{o.lsn, o.store.hub.Now(), o.written})
	}
	o.container.sweep(o.now)
	o.container.writeCounters(o.store.stamps)
}

// tell tells the witness, if there is one.
func (o *overlay) tell() {
	if o.store.committed == nil {
		return
	}
	versions := make([]Version, len(o.written))
	for place, c := range o.written {
		versions[place].ID = c.id
		if c.now != nil {
			versions[place].Text = c.now.text
		}
	}
	o.store.committed(o.container.id, versions)
}

func (c *container) self() string {
	return "dbs/" + c.database.rid + "/colls/" + c.rid + "/"
}

func (c *container) itemRID(ordinal uint64) string {
	return ridOf(databaseBytes(c.database.serial), containerBytes(c.serial), binary.BigEndian.AppendUint64(nil, ordinal))
}
