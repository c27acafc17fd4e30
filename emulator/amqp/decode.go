package amqp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// Limits of what is decoded.
const (
	maxDepth     = 32    // of nested compounds and descriptors
	maxZeroWidth = 4_096 // elements of an array whose elements take no bytes
)

// Decode decodes the first value of the input and returns what follows it. The value keeps no part of the input.
func Decode(b []byte) (v any, rest []byte, err error) {
	d := decoder{b: b, end: len(b)}
	v, err = d.value(0)
	if err != nil {
		return nil, nil, err
	}
	return v, b[d.off:], nil
}

// decoder reads values from b[off:end]. Compounds narrow end for their elements, so nothing reads past what holds it.
type decoder struct {
	b   []byte
	off int
	end int
}

func (d *decoder) fail(err error) error { return &DecodeError{At: d.off, Err: err} }

func (d *decoder) malformed(format string, args ...any) error {
	return d.fail(fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...)))
}

// take returns the next n bytes.
func (d *decoder) take(n int) ([]byte, error) {
	if n > d.end-d.off {
		return nil, d.fail(ErrTruncated)
	}
	b := d.b[d.off : d.off+n : d.off+n]
	d.off += n
	return b, nil
}

func (d *decoder) code() (Code, error) {
	b, err := d.take(1)
	if err != nil {
		return 0, err
	}
	return Code(b[0]), nil
}

// size reads a size or a count in the width of a constructor. It is at most what the input still holds,
// except for counts, which the caller has to hold against the size.
func (d *decoder) size(c Code) (int, error) {
	if layout := c >> 4; layout == 0xa || layout == 0xc || layout == 0xe {
		b, err := d.take(1)
		if err != nil {
			return 0, err
		}
		return int(b[0]), nil
	}
	b, err := d.take(4)
	if err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(b)
	if n > math.MaxInt32 {
		return 0, d.fail(ErrTruncated)
	}
	return int(n), nil
}

// value decodes one value with its constructor.
func (d *decoder) value(depth int) (any, error) {
	c, err := d.code()
	if err != nil {
		return nil, err
	}
	if c != codeDescribed {
		return d.data(c, depth)
	}
	if depth >= maxDepth {
		return nil, d.fail(ErrTooDeep)
	}
	descriptor, err := d.value(depth + 1)
	if err != nil {
		return nil, err
	}
	v, err := d.value(depth + 1)
	if err != nil {
		return nil, err
	}
	return Described{Descriptor: descriptor, Value: v}, nil
}

// data decodes the data of one value whose constructor has been read.
func (d *decoder) data(c Code, depth int) (any, error) {
	switch c >> 4 {
	case 0x4:
		return d.zeroWidth(c)
	case 0x5, 0x6, 0x7, 0x8, 0x9:
		return d.fixed(c)
	case 0xa, 0xb:
		return d.variable(c)
	case 0xc, 0xd, 0xe, 0xf:
		if depth >= maxDepth {
			return nil, d.fail(ErrTooDeep)
		}
		return d.compound(c, depth+1)
	}
	return nil, d.malformed("unknown constructor 0x%02x", byte(c))
}

func (d *decoder) zeroWidth(c Code) (any, error) {
	switch c {
	case codeNull:
		return nil, nil
	case codeTrue:
		return true, nil
	case codeFalse:
		return false, nil
	case codeUint0:
		return uint32(0), nil
	case codeUlong0:
		return uint64(0), nil
	case codeList0:
		return List{}, nil
	}
	return nil, d.malformed("unknown constructor 0x%02x", byte(c))
}

func (d *decoder) fixed(c Code) (any, error) {
	width := 1 << ((c >> 4) - 5)
	b, err := d.take(width)
	if err != nil {
		return nil, err
	}
	switch c {
	case codeUbyte:
		return b[0], nil
	case codeByte:
		return int8(b[0]), nil
	case codeSmallUint:
		return uint32(b[0]), nil
	case codeSmallUlong:
		return uint64(b[0]), nil
	case codeSmallInt:
		return int32(int8(b[0])), nil
	case codeSmallLong:
		return int64(int8(b[0])), nil
	case codeBoolean:
		if b[0] > 1 {
			return nil, d.malformed("boolean of value %d", b[0])
		}
		return b[0] == 1, nil
	case codeUshort:
		return binary.BigEndian.Uint16(b), nil
	case codeShort:
		return int16(binary.BigEndian.Uint16(b)), nil
	case codeUint:
		return binary.BigEndian.Uint32(b), nil
	case codeInt:
		return int32(binary.BigEndian.Uint32(b)), nil
	case codeFloat:
		return math.Float32frombits(binary.BigEndian.Uint32(b)), nil
	case codeChar:
		return Char(binary.BigEndian.Uint32(b)), nil
	case codeDecimal32:
		return Decimal32(b), nil
	case codeUlong:
		return binary.BigEndian.Uint64(b), nil
	case codeLong:
		return int64(binary.BigEndian.Uint64(b)), nil
	case codeDouble:
		return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
	case codeTimestamp:
		return time.UnixMilli(int64(binary.BigEndian.Uint64(b))).UTC(), nil
	case codeDecimal64:
		return Decimal64(b), nil
	case codeDecimal128:
		return Decimal128(b), nil
	case codeUUID:
		return UUID(b), nil
	}
	return nil, d.malformed("unknown constructor 0x%02x", byte(c))
}

func (d *decoder) variable(c Code) (any, error) {
	n, err := d.size(c)
	if err != nil {
		return nil, err
	}
	b, err := d.take(n)
	if err != nil {
		return nil, err
	}
	switch c {
	case codeBinary8, codeBinary32:
		return bytes.Clone(b), nil
	case codeString8, codeString32:
		if !utf8.Valid(b) {
			return nil, d.malformed("string is not UTF-8")
		}
		return string(b), nil
	case codeSymbol8, codeSymbol32:
		if !ascii(b) {
			return nil, d.malformed("symbol is not ASCII")
		}
		return Symbol(b), nil
	}
	return nil, d.malformed("unknown constructor 0x%02x", byte(c))
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// enter reads size and count of a compound and narrows the decoder to it; leave undoes that.
func (d *decoder) enter(c Code) (count, outer int, err error) {
	size, err := d.size(c)
	if err != nil {
		return 0, 0, err
	}
	if size > d.end-d.off {
		return 0, 0, d.fail(ErrTruncated)
	}
	outer, d.end = d.end, d.off+size
	count, err = d.size(c)
	return count, outer, err
}

func (d *decoder) leave(outer int) error {
	if d.off != d.end {
		return d.malformed("%d bytes after the last element", d.end-d.off)
	}
	d.end = outer
	return nil
}

func (d *decoder) compound(c Code, depth int) (any, error) {
	count, outer, err := d.enter(c)
	if err != nil {
		return nil, err
	}
	var v any
	switch c {
	case codeList8, codeList32:
		v, err = d.list(count, depth)
	case codeMap8, codeMap32:
		v, err = d.mapping(count, depth, false)
	case codeArray8, codeArray32:
		v, err = d.array(count, depth)
	default:
		err = d.malformed("unknown constructor 0x%02x", byte(c))
	}
	if err != nil {
		return nil, err
	}
	return v, d.leave(outer)
}

func (d *decoder) list(count, depth int) (List, error) {
	if count > d.end-d.off {
		return nil, d.fail(ErrTooMany)
	}
	list := make(List, 0, min(count, 16))
	for range count {
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// mapping decodes the entries of a map; with raw, the values are skipped over and kept as views of the input.
func (d *decoder) mapping(count, depth int, raw bool) (Map, error) {
	if count%2 != 0 {
		return nil, d.malformed("a map of %d elements", count)
	}
	if count > d.end-d.off {
		return nil, d.fail(ErrTooMany)
	}
	m := make(Map, 0, min(count/2, 16))
	for range count / 2 {
		key, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		var v any
		if raw {
			v, err = d.raw(depth)
		} else {
			v, err = d.value(depth)
		}
		if err != nil {
			return nil, err
		}
		m = append(m, Entry{key, v})
	}
	return m, nil
}

func (d *decoder) array(count, depth int) (Array, error) {
	var a Array
	c, err := d.code()
	if err != nil {
		return a, err
	}
	if c == codeDescribed {
		if a.Descriptor, err = d.value(depth); err != nil {
			return a, err
		}
		if c, err = d.code(); err != nil {
			return a, err
		}
	}
	a.Of = c
	switch layout := c >> 4; {
	case layout < zeroWidthLayout:
		return a, d.malformed("unknown constructor 0x%02x of elements", byte(c))
	case layout == zeroWidthLayout && count > maxZeroWidth:
		return a, d.fail(ErrTooMany)
	case layout > zeroWidthLayout && count > d.end-d.off:
		return a, d.fail(ErrTooMany)
	}
	a.Items = make([]any, 0, min(count, 16))
	for range count {
		v, err := d.data(c, depth)
		if err != nil {
			return a, err
		}
		a.Items = append(a.Items, v)
	}
	return a, nil
}

// raw skips one value and returns its encoding, a view of the input. Of compounds only the extent is looked at.
func (d *decoder) raw(depth int) (Raw, error) {
	start := d.off
	if err := d.skip(depth); err != nil {
		return nil, err
	}
	return Raw(d.b[start:d.off:d.off]), nil
}

func (d *decoder) skip(depth int) error {
	c, err := d.code()
	if err != nil {
		return err
	}
	n := 0
	switch layout := c >> 4; {
	case c == codeDescribed:
		if depth >= maxDepth {
			return d.fail(ErrTooDeep)
		}
		if err := d.skip(depth + 1); err != nil {
			return err
		}
		return d.skip(depth + 1)
	case layout < zeroWidthLayout:
		return d.malformed("unknown constructor 0x%02x", byte(c))
	case layout == zeroWidthLayout:
	case layout < 0xa:
		n = 1 << (layout - 5)
	default:
		if n, err = d.size(c); err != nil {
			return err
		}
	}
	_, err = d.take(n)
	return err
}
