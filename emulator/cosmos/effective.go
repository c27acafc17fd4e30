package cosmos

import (
	"encoding/binary"
	"encoding/hex"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Effective partition keys: where the service puts a logical partition among its
// physical ones. They are hashes in hexadecimal, from "" to "FF". This emulator
// has one physical partition, but clients are told ranges in these terms and ask
// for ranges in them.

const (
	firstEffective = ""
	lastEffective  = "FF"
)

// effective gives the effective key of the first components of a key, and whether
// this emulator knows it: keys of version 1 are hashed in another way.
func (d keyDefinition) effective(key partitionKey) (string, bool) {
	if d.version != 2 {
		return "", false
	}
	var text strings.Builder
	for _, c := range key {
		text.WriteString(effectiveOf(c))
	}
	return text.String(), true
}

// effectiveOf hashes one component, writes the hash with its last byte first and
// leaves the two highest bits out, so that nothing is beyond "FF".
func effectiveOf(component value) string {
	low, high := murmur3(hashed(component))
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], low)
	binary.LittleEndian.PutUint64(b[8:], high)
	slices.Reverse(b[:])
	b[0] &= 0x3f
	return strings.ToUpper(hex.EncodeToString(b[:]))
}

// hashed is a component as it is hashed: a byte for its type, then its value.
func hashed(component value) []byte {
	switch v := component.(type) {
	case nil:
		return []byte{1}
	case bool:
		if v {
			return []byte{3}
		}
		return []byte{2}
	case number:
		return binary.LittleEndian.AppendUint64([]byte{5}, math.Float64bits(v.f))
	case string:
		return append(append([]byte{8}, v...), 0xff)
	}
	return []byte{0} // undefined
}

// murmur3 is MurmurHash3, the variant of 128 bits for 64-bit machines, with seed 0.
func murmur3(data []byte) (h1, h2 uint64) {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	size := uint64(len(data))
	mixed1 := func(k uint64) uint64 { return bits.RotateLeft64(k*c1, 31) * c2 }
	mixed2 := func(k uint64) uint64 { return bits.RotateLeft64(k*c2, 33) * c1 }
	for ; len(data) >= 16; data = data[16:] {
		h1 ^= mixed1(binary.LittleEndian.Uint64(data))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= mixed2(binary.LittleEndian.Uint64(data[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	var tail [16]byte
	copy(tail[:], data)
	h1 ^= mixed1(binary.LittleEndian.Uint64(tail[:]))
	h2 ^= mixed2(binary.LittleEndian.Uint64(tail[8:]))
	h1 ^= size
	h2 ^= size
	h1 += h2
	h2 += h1
	h1, h2 = avalanche(h1), avalanche(h2)
	h1 += h2
	h2 += h1
	return h1, h2
}

func avalanche(k uint64) uint64 {
	k = (k ^ k>>33) * 0xff51afd7ed558ccd
	k = (k ^ k>>33) * 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}

// effectiveRange is the part of a container between two effective keys.
type effectiveRange struct{ min, max string }

// effectiveRange reads the headers by which a client asks for one; nil is all.
func (c *call) effectiveRange(d keyDefinition) (*effectiveRange, *failure) {
	r := effectiveRange{c.header("X-Ms-Start-Epk"), c.header("X-Ms-End-Epk")}
	switch {
	case r.min == "" && r.max == "", r.min == firstEffective && r.max == lastEffective:
		return nil, nil
	case d.version != 2:
		return nil, notImplemented("a range of effective partition keys (x-ms-start-epk, x-ms-end-epk) of a container whose partition key is of version 1")
	case r.max == "" || r.max < r.min:
		return nil, badRequest("The range of effective partition keys from %q to %q is none.", r.min, r.max)
	}
	return &r, nil
}

// holds reports whether an item is in the range.
func (r *effectiveRange) holds(d keyDefinition, item *object) bool {
	key, f := d.of(item)
	if f != nil {
		return false
	}
	text, _ := d.effective(key)
	return r.min <= text && text < r.max
}

// only gives those of some items that are in the range; nil is all.
func (r *effectiveRange) only(d keyDefinition, all iter.Seq[*document]) iter.Seq[*document] {
	if r == nil {
		return all
	}
	return func(yield func(*document) bool) {
		for one := range all {
			if r.holds(d, one.body()) && !yield(one) {
				return
			}
		}
	}
}

func (all items) within(r *effectiveRange, d keyDefinition) items {
	return func(after uint64) iter.Seq[*document] { return r.only(d, all(after)) }
}
