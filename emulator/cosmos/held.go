package cosmos

// held is the items of a container, in all the orders they are asked for in. It
// changes under the store's lock.
type held struct {
	items      map[itemName]*document
	partitions map[string]*sequence[*document] // by age
	inOrder    *sequence[*document]            // by age
	changed    *sequence[*document]            // by change
	indexes    map[string]*index               // by path
	swept      uint64                          // ordinal of the item that sweep looked at last
}

// itemName is what an item is found by.
type itemName struct{ partition, id string }

func nothingHeld() held {
	return held{
		items: map[itemName]*document{}, partitions: map[string]*sequence[*document]{},
		inOrder: newSequence(byAge), changed: newSequence(byChange),
	}
}

// clock is the hub's time in seconds, and what of time to live is counted.
type clock struct {
	seconds int64
	expiry  bool // false: nothing expires
	own     bool // items may have a time to live of their own
	never   bool // which may be -1
}

// live gives an item unless it has expired; an expired one is forgotten on the
// way. The caller holds the lock, here and below.
func (c *container) live(partition, id string, now clock) *document {
	d := c.items[itemName{partition, id}]
	if d != nil && c.settings.expired(d, now) {
		c.forget(d)
		return nil
	}
	return d
}

// keep puts a version that nobody has seen yet in the place of the one before it.
func (c *container) keep(d *document) {
	c.share(d)
	c.place(d)
	c.write(d)
}

// forget takes an item out.
func (c *container) forget(d *document) {
	c.remove(d)
	c.erase(d)
}

// share has all items of a logical partition name it by one text.
func (h *held) share(d *document) {
	if partition := h.partitions[d.partition]; partition != nil {
		first, _ := partition.first() // an empty one is not there
		d.partition = first.partition
	}
}

// place puts a version where it can be found. It does not change it: others may be
// reading it, if this is a replica.
func (h *held) place(d *document) {
	partition := h.partitions[d.partition]
	if partition == nil {
		partition = newSequence(byAge)
		h.partitions[d.partition] = partition
	}
	name := itemName{d.partition, d.id}
	if before := h.items[name]; before != nil {
		h.changed.drop(before)
		for _, x := range h.indexes {
			x.remove(before)
		}
	}
	h.items[name] = d
	partition.put(d)
	h.inOrder.put(d)
	h.changed.put(d)
	for _, x := range h.indexes {
		x.add(d)
	}
}

func (h *held) remove(d *document) {
	delete(h.items, itemName{d.partition, d.id})
	partition := h.partitions[d.partition]
	if partition.drop(d); partition.length == 0 {
		delete(h.partitions, d.partition)
	}
	h.inOrder.drop(d)
	h.changed.drop(d)
	for _, x := range h.indexes {
		x.remove(d)
	}
}

// sweptAtOnce is how many items one commit looks at to find what has expired and
// nobody has asked for since.
const sweptAtOnce = 2

// sweep forgets a few expired items, other ones each time: a container whose items
// expire does not grow without end.
func (c *container) sweep(now clock) {
	if c.settings.ttl == 0 || !now.expiry {
		return
	}
	var expired []*document
	looked := 0
	for d := range c.inOrder.from(&document{ordinal: c.swept + 1}) {
		if c.settings.expired(d, now) {
			expired = append(expired, d)
		}
		c.swept = d.ordinal
		if looked++; looked == sweptAtOnce {
			break
		}
	}
	if looked < sweptAtOnce {
		c.swept = 0
	}
	for _, d := range expired {
		c.forget(d)
	}
}
