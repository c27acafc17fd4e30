package amqp

import (
	"encoding/hex"
	"fmt"
	"math"
	"time"
)

// The Go type of each AMQP type, in both directions:
//
//	null       nil              char       Char
//	boolean    bool             timestamp  time.Time (milliseconds, UTC)
//	ubyte      uint8            uuid       UUID
//	ushort     uint16           binary     []byte
//	uint       uint32           string     string
//	ulong      uint64           symbol     Symbol
//	byte       int8             list       List
//	short      int16            map        Map
//	int        int32            array      Array
//	long       int64            described  Described
//	float      float32          decimal32, decimal64, decimal128  Decimal32, Decimal64, Decimal128
//	double     float64
//
// A Raw stands for any of them: one encoded value, kept as it came.

// Symbol is a symbolic value from a constrained domain, ASCII.
type Symbol string

// Char is a single Unicode character.
type Char rune

// UUID is a universally unique identifier in the byte order of RFC 4122.
type UUID [16]byte

// String returns the usual form, 8-4-4-4-12 lower-case hexadecimal digits.
func (u UUID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], u[0:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:36], u[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// Decimal32, Decimal64 and Decimal128 are IEEE 754-2008 decimals, carried but not computed with.
type (
	Decimal32  [4]byte
	Decimal64  [8]byte
	Decimal128 [16]byte
)

// List is a sequence of values of any types.
type List []any

// Map is a map whose entries keep their order, as the specification asks.
// The values of a section's map ([Section.Map]) are Raw until they are set.
type Map []Entry

// Entry is one key and its value.
type Entry struct {
	Key   any
	Value any
}

// Get returns the value of the first entry with this key; a Raw value is
// decoded on the way. A value that does not decode counts as absent.
// Keys compare with their type: Symbol("a") is not "a".
func (m Map) Get(key any) (value any, ok bool) {
	i := m.index(key)
	if i < 0 {
		return nil, false
	}
	raw, isRaw := m[i].Value.(Raw)
	if !isRaw {
		return m[i].Value, true
	}
	v, err := raw.Decode()
	return v, err == nil
}

// Set replaces the value of a key, in its place, or appends the entry.
func (m *Map) Set(key, value any) {
	if i := m.index(key); i >= 0 {
		(*m)[i].Value = value
		return
	}
	*m = append(*m, Entry{key, value})
}

// Delete removes every entry with this key.
func (m *Map) Delete(key any) {
	kept := (*m)[:0:0]
	for _, e := range *m {
		if !sameKey(e.Key, key) {
			kept = append(kept, e)
		}
	}
	*m = kept
}

func (m Map) index(key any) int {
	for i := range m {
		if sameKey(m[i].Key, key) {
			return i
		}
	}
	return -1
}

// sameKey compares scalar keys. Keys of uncomparable types (binary, compound) equal nothing.
func sameKey(a, b any) bool {
	switch a := a.(type) {
	case Symbol:
		b, ok := b.(Symbol)
		return ok && a == b
	case string:
		b, ok := b.(string)
		return ok && a == b
	case []byte, List, Map, Array, Described, Raw:
		return false
	}
	switch b.(type) {
	case []byte, List, Map, Array, Described, Raw:
		return false
	}
	return a == b
}

// Described is a value with a descriptor (a uint64 or a Symbol) that refines its type.
type Described struct {
	Descriptor any
	Value      any
}

// Array is a sequence of values that share one constructor.
type Array struct {
	Of         Code // constructor of the elements
	Descriptor any  // of the elements, nil if they are not described
	Items      []any
}

// ArrayOf makes an array of a scalar type, with a constructor that fits every item.
func ArrayOf[T Scalar](items ...T) Array {
	var zero T
	a := Array{Of: widest(zero), Items: make([]any, len(items))}
	for i, v := range items {
		a.Of = max(a.Of, widest(v)) // the wider form has the higher code
		a.Items[i] = v
	}
	return a
}

// Scalar is what ArrayOf takes.
type Scalar interface {
	bool | uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64 | float32 | float64 |
		Char | time.Time | UUID | []byte | string | Symbol
}

// Slice returns the items of an array or a list if they all are of type T.
// Clients differ in which of the two they send.
func Slice[T any](v any) ([]T, bool) {
	var items []any
	switch v := v.(type) {
	case Array:
		items = v.Items
	case List:
		items = v
	default:
		return nil, false
	}
	out := make([]T, len(items))
	for i, item := range items {
		t, ok := item.(T)
		if !ok {
			return nil, false
		}
		out[i] = t
	}
	return out, true
}

// Integer returns the number in any of the eight integer types, if it fits an int64.
func Integer(v any) (int64, bool) {
	switch v := v.(type) {
	case uint8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// Raw is one encoded value, constructor included. Encoding it writes it as it is.
type Raw []byte

// Decode decodes the value; bytes after it are an error.
func (r Raw) Decode() (any, error) {
	v, rest, err := Decode(r)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, &DecodeError{At: len(r) - len(rest), Err: fmt.Errorf("%w: %d bytes after the value", ErrMalformed, len(rest))}
	}
	return v, nil
}

// Optional is a field that may be null, which is not the same as its zero value.
type Optional[T any] struct {
	Value T
	Set   bool
}

// Some is an optional field that is set.
func Some[T any](v T) Optional[T] { return Optional[T]{v, true} }

// Or returns the value, or the default if it is null.
func (o Optional[T]) Or(absent T) T {
	if o.Set {
		return o.Value
	}
	return absent
}
