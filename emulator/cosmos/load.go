package cosmos

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"oneeffect/emulator/disk"
)

// loading is the reading of what was kept.
type loading struct {
	store     *store
	databases map[uint32]*database
	buckets   map[string]*container
}

// restored makes a store of what was kept.
func restored(kept keeper, off func(rule string) bool) (*store, error) {
	l := &loading{
		store:     newStore(kept, off),
		databases: map[uint32]*database{}, buckets: map[string]*container{},
	}
	err := kept.Load(func(bucket string, key, value []byte) error {
		if err := l.record(bucket, key, value); err != nil {
			return fmt.Errorf("%w: %s, %q: %w; use the emulator that wrote it, or delete the folder to start afresh", disk.ErrData, bucket, key, err)
		}
		return nil
	})
	return l.store, err
}

// record takes in one record. Neither key nor value is valid any more when it returns.
func (l *loading) record(bucket string, key, value []byte) error {
	if bucket == bucketAccount {
		return l.resource(key, value)
	}
	k := l.buckets[bucket]
	switch {
	case k == nil:
		return fmt.Errorf("%w: it belongs to nothing", errRecord)
	case bytes.Equal(key, countersKey):
		var stamps uint64
		if _, err := readNumbers(value, &k.lsn, &k.ordinals, &stamps); err != nil {
			return err
		}
		l.store.stamps = max(l.store.stamps, stamps)
		return nil
	case len(key) == 8:
		return k.restore(binary.BigEndian.Uint64(key), value)
	}
	return errRecord
}

// resource takes in something of the account.
func (l *loading) resource(key, value []byte) error {
	if bytes.Equal(key, []byte{kindNumbers}) {
		var serial, stamps uint64
		_, err := readNumbers(value, &serial, &stamps)
		l.store.serial, l.store.stamps = uint32(serial), stamps
		return err
	}
	if len(key) != 5 {
		return errRecord
	}
	serial := binary.BigEndian.Uint32(key[1:])
	var owner uint64
	if key[0] == kindContainer {
		var err error
		if value, err = readNumbers(value, &owner); err != nil {
			return err
		}
	}
	body, err := parseObject(value)
	if err != nil {
		return err
	}
	switch key[0] {
	case kindDatabase:
		d := &database{
			id: body.text("id"), rid: ridOf(databaseBytes(serial)), serial: serial,
			body: body, etag: body.text("_etag"), containers: map[string]*container{},
		}
		l.databases[serial], l.store.databases[d.id] = d, d
		return nil
	case kindContainer:
		return l.container(serial, uint32(owner), body)
	case kindOffer:
		o := &offer{serial: serial, rid: body.text("id"), owner: body.text("offerResourceId"), etag: body.text("_etag"), body: body}
		l.store.offers[o.rid] = o
		return nil
	}
	return errRecord
}

func (l *loading) container(serial, owner uint32, body *object) error {
	d := l.databases[owner]
	if d == nil {
		return fmt.Errorf("%w: its database is not there", errRecord)
	}
	set, refusal := readSettings(body)
	if refusal != nil {
		return refusal
	}
	k := l.store.newContainer(body.text("id"), serial, d)
	k.settings, k.body, k.etag = set, body, body.text("_etag")
	d.containers[k.id], l.buckets[k.bucket] = k, k
	return nil
}

// restore puts an item back in its place.
func (c *container) restore(ordinal uint64, value []byte) error {
	d := &document{ordinal: ordinal}
	var place, ts, ttl, indexed uint64
	var lengths [3]uint64
	rest, err := readNumbers(value, &d.lsn, &place, &ts, &ttl, &indexed, &lengths[0], &lengths[1], &lengths[2])
	if err != nil {
		return err
	}
	d.place, d.ts, d.ttl, d.indexed = int(place), int64(ts), int64(ttl)-1, int(indexed)
	for i, into := range []*string{&d.partition, &d.id, &d.etag} {
		if lengths[i] > uint64(len(rest)) {
			return errRecord
		}
		*into, rest = string(rest[:lengths[i]]), rest[lengths[i]:]
	}
	d.text = bytes.Clone(rest)
	c.share(d)
	c.place(d)
	return nil
}
