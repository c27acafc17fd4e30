package cosmos

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"oneeffect/emulator/control"
)

// store is everything the account holds, in memory. Its one lock is held for the
// length of a decision and its write, never over a rule, a body or an answer.
// What it hands out (documents, definitions) is immutable and may be read
// without the lock.
//
// Whatever changes it goes through a few methods: overlay.commit and forget for
// items, and put… and drop… below for the rest. That is where what outlives the
// process is written, under the same lock.
type store struct {
	mu        lock
	kept      keeper // nil: in memory alone
	databases map[string]*database
	offers    map[string]*offer // by rid in lower case, which is how they are addressed
	serial    uint32            // of databases, containers and offers
	stamps    uint64            // of etags

	off func(rule string) bool // whether a rule of the account is switched off, see control
	hub *control.Hub           // whose clock and lags count

	committed func(container string, versions []Version) // Options.Committed

	scratch []byte // in which items are written before it is known how long they are
}

// database is a name for containers.
type database struct {
	id, rid    string
	serial     uint32
	body       *object // with system properties
	etag       string
	containers map[string]*container
}

// container holds items, and the rules they are kept by.
type container struct {
	id, rid  string
	serial   uint32
	database *database
	body     *object // the definition, with system properties
	etag     string
	settings settings
	entity   string   // its name in rules
	replica  *replica // nil unless it lags
	kept     keeper   // the store's
	bucket   string   // there

	lsn      uint64 // of the newest commit
	ordinals uint64 // items made so far
	held
}

func newStore(kept keeper, off func(rule string) bool) *store {
	return &store{mu: lock{kept: kept}, kept: kept, off: off, databases: map[string]*database{}, offers: map[string]*offer{}}
}

// newContainer makes an empty one that nobody sees yet.
func (s *store) newContainer(id string, serial uint32, d *database) *container {
	return &container{
		id: id, entity: strings.ToLower(id), rid: ridOf(databaseBytes(d.serial), containerBytes(serial)), serial: serial, database: d,
		kept: s.kept, bucket: fmt.Sprintf("items %08x", serial), held: nothingHeld(),
	}
}

// nextSerial numbers databases, containers and offers, so that a resource made
// anew under an old name has another _rid. The caller holds the lock.
func (s *store) nextSerial() uint32 {
	s.serial++
	return s.serial
}

// nextETag makes one that no resource has had before. The caller holds the lock.
func (s *store) nextETag(ts int64) string {
	s.stamps++
	b := append(make([]byte, 0, 48), '"')
	b = append(appendHex(b, s.stamps, 8), '-')
	b = append(appendHex(b, rand.N(uint64(1)<<16), 4), '-')
	b = append(appendHex(b, s.stamps>>32&0xffff, 4), "-0000-"...)
	b = appendHex(appendHex(b, uint64(uint32(ts)), 8), rand.N(uint64(1)<<16), 4)
	return string(append(b, '"'))
}

// appendHex writes a number with zeros in front, so that it has some digits at least.
func appendHex(b []byte, n uint64, digits int) []byte {
	for digits--; digits > 0 && n>>(4*digits) == 0; digits-- {
		b = append(b, '0')
	}
	return strconv.AppendUint(b, n, 16)
}

// ridOf encodes a resource id, which the service builds from its parents' ids.
func ridOf(parts ...[]byte) string {
	joined := make([]byte, 0, 16)
	for _, part := range parts {
		joined = append(joined, part...)
	}
	text := base64.StdEncoding.AppendEncode(make([]byte, 0, 24), joined)
	for i, c := range text {
		if c == '/' {
			text[i] = '-'
		}
	}
	return string(text)
}

func databaseBytes(serial uint32) []byte {
	return binary.BigEndian.AppendUint32(nil, serial|0x10000000)
}

func containerBytes(serial uint32) []byte {
	return binary.BigEndian.AppendUint32(nil, serial|0x80000000)
}

// putDatabase adds a database. The caller holds the lock, here and below.
func (s *store) putDatabase(d *database) {
	s.databases[d.id] = d
	s.write(resourceKey(kindDatabase, d.serial), appendValue(nil, d.body))
}

// dropDatabase takes out a database and all that is in it.
func (s *store) dropDatabase(d *database) {
	for _, k := range d.containers {
		s.dropContainer(k)
	}
	s.dropOffers(d.rid)
	delete(s.databases, d.id)
	s.erase(resourceKey(kindDatabase, d.serial))
}

// putContainer adds a container to its database, or gives it a new definition.
func (s *store) putContainer(k *container, set settings, body *object, etag string) {
	k.settings, k.body, k.etag = set, body, etag
	k.database.containers[k.id] = k
	s.write(resourceKey(kindContainer, k.serial), appendValue(appendNumbers(nil, uint64(k.database.serial)), body))
}

func (s *store) dropContainer(k *container) {
	s.dropOffers(k.rid)
	delete(k.database.containers, k.id)
	s.erase(resourceKey(kindContainer, k.serial))
	k.eraseAll()
}

// putOffer adds an offer, or changes its content.
func (s *store) putOffer(o *offer, body *object, etag string) {
	o.body, o.etag = body, etag
	s.offers[o.rid] = o
	s.write(resourceKey(kindOffer, o.serial), appendValue(nil, body))
}

func (s *store) dropOffers(owner string) {
	for rid, o := range s.offers {
		if o.owner == owner {
			delete(s.offers, rid)
			s.erase(resourceKey(kindOffer, o.serial))
		}
	}
}

// find gives a container, or the refusal that names what is missing. The caller
// holds the lock.
func (s *store) find(t target) (*container, *failure) {
	d, ok := s.databases[t.database]
	if !ok {
		return nil, noDatabase(t.database)
	}
	c, ok := d.containers[t.container]
	if !ok {
		return nil, noContainer(t.database, t.container)
	}
	return c, nil
}

// sessionToken says how far a client has seen this container.
func (c *container) sessionToken() string { return "0:-1#" + strconv.FormatUint(c.lsn, 10) }
