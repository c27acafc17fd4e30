package amqp

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Append appends the encoded value in its narrowest form. A Go value of a type that types.go does not list is an error.
func Append(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, byte(codeNull)), nil
	case Raw:
		return append(dst, v...), nil
	case bool:
		return appendBool(dst, v), nil
	case uint32:
		return appendUint(dst, v), nil
	case uint64:
		return appendUlong(dst, v), nil
	case int32:
		if v == int32(int8(v)) {
			return append(dst, byte(codeSmallInt), byte(v)), nil
		}
	case int64:
		if v == int64(int8(v)) {
			return append(dst, byte(codeSmallLong), byte(v)), nil
		}
	case string:
		return appendString(dst, v), nil
	case Symbol:
		return appendSymbol(dst, v), nil
	case []byte:
		return appendBinary(dst, v), nil
	case List:
		return appendList(dst, v)
	case Map:
		return appendMapValue(dst, v)
	case Array:
		return appendArray(dst, v)
	case Described:
		dst, err := Append(append(dst, byte(codeDescribed)), v.Descriptor)
		if err != nil {
			return nil, err
		}
		return Append(dst, v.Value)
	}
	c := widest(v)
	if c == codeNull {
		return nil, fmt.Errorf("encode %T: no AMQP type", v)
	}
	return appendData(append(dst, byte(c)), c, v)
}

// widest is the widest constructor of a scalar, for variable ones the widest this value needs. codeNull: not a scalar.
func widest(v any) Code {
	switch v := v.(type) {
	case bool:
		return codeBoolean
	case uint8:
		return codeUbyte
	case uint16:
		return codeUshort
	case uint32:
		return codeUint
	case uint64:
		return codeUlong
	case int8:
		return codeByte
	case int16:
		return codeShort
	case int32:
		return codeInt
	case int64:
		return codeLong
	case float32:
		return codeFloat
	case float64:
		return codeDouble
	case Char:
		return codeChar
	case Decimal32:
		return codeDecimal32
	case Decimal64:
		return codeDecimal64
	case Decimal128:
		return codeDecimal128
	case time.Time:
		return codeTimestamp
	case UUID:
		return codeUUID
	case []byte:
		return widened(codeBinary8, len(v))
	case string:
		return widened(codeString8, len(v))
	case Symbol:
		return widened(codeSymbol8, len(v))
	}
	return codeNull
}

func widened(c Code, n int) Code {
	if n > math.MaxUint8 {
		return c + wide
	}
	return c
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, byte(codeTrue))
	}
	return append(dst, byte(codeFalse))
}

func appendUint(dst []byte, v uint32) []byte {
	switch {
	case v == 0:
		return append(dst, byte(codeUint0))
	case v <= math.MaxUint8:
		return append(dst, byte(codeSmallUint), byte(v))
	}
	return binary.BigEndian.AppendUint32(append(dst, byte(codeUint)), v)
}

func appendUlong(dst []byte, v uint64) []byte {
	switch {
	case v == 0:
		return append(dst, byte(codeUlong0))
	case v <= math.MaxUint8:
		return append(dst, byte(codeSmallUlong), byte(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, byte(codeUlong)), v)
}

func appendString(dst []byte, v string) []byte {
	c := widened(codeString8, len(v))
	return append(appendSize(append(dst, byte(c)), c, len(v)), v...)
}

func appendSymbol(dst []byte, v Symbol) []byte {
	c := widened(codeSymbol8, len(v))
	return append(appendSize(append(dst, byte(c)), c, len(v)), v...)
}

func appendBinary(dst, v []byte) []byte {
	c := widened(codeBinary8, len(v))
	return append(appendSize(append(dst, byte(c)), c, len(v)), v...)
}

// appendSize appends a size or count in the width of a variable, compound or array constructor.
func appendSize(dst []byte, c Code, n int) []byte {
	if c>>4&1 == 0 {
		return append(dst, byte(n))
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

// begin appends the head of a compound or array in its 8-bit form, with size
// and count left open; end fills them in, and makes room for the 32-bit form if it takes that.
func begin(dst []byte, c Code) (out []byte, mark int) {
	return append(dst, byte(c), 0, 0), len(dst)
}

func end(dst []byte, mark, count int) []byte {
	const head8, head32 = 3, 9
	n := len(dst) - mark - head8
	if n < math.MaxUint8 && count <= math.MaxUint8 {
		dst[mark+1], dst[mark+2] = byte(n+1), byte(count)
		return dst
	}
	dst = append(dst, make([]byte, head32-head8)...)
	copy(dst[mark+head32:], dst[mark+head8:mark+head8+n])
	dst[mark] += byte(wide)
	binary.BigEndian.PutUint32(dst[mark+1:], uint32(n+4))
	binary.BigEndian.PutUint32(dst[mark+5:], uint32(count))
	return dst
}

func appendList(dst []byte, list List) ([]byte, error) {
	if len(list) == 0 {
		return append(dst, byte(codeList0)), nil
	}
	dst, mark := begin(dst, codeList8)
	for _, v := range list {
		var err error
		if dst, err = Append(dst, v); err != nil {
			return nil, err
		}
	}
	return end(dst, mark, len(list)), nil
}

func appendMapValue(dst []byte, m Map) ([]byte, error) {
	dst, mark := begin(dst, codeMap8)
	for _, e := range m {
		var err error
		if dst, err = Append(dst, e.Key); err != nil {
			return nil, err
		}
		if dst, err = Append(dst, e.Value); err != nil {
			return nil, fmt.Errorf("%v: %w", e.Key, err)
		}
	}
	return end(dst, mark, 2*len(m)), nil
}

func appendArray(dst []byte, a Array) ([]byte, error) {
	if a.Of>>4 < zeroWidthLayout {
		return nil, fits(a.Of, a, false)
	}
	dst, mark := begin(dst, codeArray8)
	var err error
	if a.Descriptor != nil {
		if dst, err = Append(append(dst, byte(codeDescribed)), a.Descriptor); err != nil {
			return nil, err
		}
	}
	dst = append(dst, byte(a.Of))
	for _, v := range a.Items {
		if dst, err = appendData(dst, a.Of, v); err != nil {
			return nil, err
		}
	}
	return end(dst, mark, len(a.Items)), nil
}

// appendData appends a value without its constructor, in the form of the constructor given.
func appendData(dst []byte, c Code, v any) ([]byte, error) {
	switch c >> 4 {
	case 0x4:
		return dst, fits(c, v, zeroWidthFits(c, v))
	case 0xa, 0xb:
		return appendVariable(dst, c, v)
	case 0xc, 0xd, 0xe, 0xf:
		return appendElement(dst, c, v)
	}
	n, ok := bits(c, v)
	switch {
	case c == codeUUID:
		id, ok := v.(UUID)
		return append(dst, id[:]...), fits(c, v, ok)
	case c == codeDecimal128:
		dec, ok := v.(Decimal128)
		return append(dst, dec[:]...), fits(c, v, ok)
	case !ok:
		return nil, fits(c, v, false)
	case c>>4 == 0x5:
		return append(dst, byte(n)), nil
	case c>>4 == 0x6:
		return binary.BigEndian.AppendUint16(dst, uint16(n)), nil
	case c>>4 == 0x7:
		return binary.BigEndian.AppendUint32(dst, uint32(n)), nil
	}
	return binary.BigEndian.AppendUint64(dst, n), nil
}

func fits(c Code, v any, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("encode %T with constructor 0x%02x: %w", v, byte(c), ErrMalformed)
}

func zeroWidthFits(c Code, v any) bool {
	switch c {
	case codeNull:
		return v == nil
	case codeTrue:
		return v == true
	case codeFalse:
		return v == false
	case codeUint0:
		return v == uint32(0)
	case codeUlong0:
		return v == uint64(0)
	case codeList0:
		list, ok := v.(List)
		return ok && len(list) == 0
	}
	return false
}

// bits returns a scalar of up to 8 bytes in the form of its constructor, if it fits.
func bits(c Code, v any) (n uint64, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			n = 1
		}
		return n, c == codeBoolean
	case uint8:
		return uint64(v), c == codeUbyte
	case uint16:
		return uint64(v), c == codeUshort
	case uint32:
		return uint64(v), c == codeUint || c == codeSmallUint && v <= math.MaxUint8
	case uint64:
		return v, c == codeUlong || c == codeSmallUlong && v <= math.MaxUint8
	case int8:
		return uint64(v), c == codeByte
	case int16:
		return uint64(v), c == codeShort
	case int32:
		return uint64(v), c == codeInt || c == codeSmallInt && v == int32(int8(v))
	case int64:
		return uint64(v), c == codeLong || c == codeSmallLong && v == int64(int8(v))
	case float32:
		return uint64(math.Float32bits(v)), c == codeFloat
	case float64:
		return math.Float64bits(v), c == codeDouble
	case Char:
		return uint64(uint32(v)), c == codeChar
	case time.Time:
		return uint64(v.UnixMilli()), c == codeTimestamp
	case Decimal32:
		return uint64(binary.BigEndian.Uint32(v[:])), c == codeDecimal32
	case Decimal64:
		return binary.BigEndian.Uint64(v[:]), c == codeDecimal64
	}
	return 0, false
}

func appendVariable(dst []byte, c Code, v any) ([]byte, error) {
	var s string
	ok := false
	switch v := v.(type) {
	case []byte:
		s, ok = string(v), c == codeBinary8 || c == codeBinary32
	case string:
		s, ok = v, c == codeString8 || c == codeString32
	case Symbol:
		s, ok = string(v), c == codeSymbol8 || c == codeSymbol32
	}
	if !ok || c>>4 == 0xa && len(s) > math.MaxUint8 {
		return nil, fits(c, v, false)
	}
	return append(appendSize(dst, c, len(s)), s...), nil
}

// appendElement appends a compound or array as an element of an array: it is
// encoded by itself, and written again in the form its neighbours have.
func appendElement(dst []byte, c Code, v any) ([]byte, error) {
	count, ok := 0, false
	switch v := v.(type) {
	case List:
		count, ok = len(v), c == codeList8 || c == codeList32
	case Map:
		count, ok = 2*len(v), c == codeMap8 || c == codeMap32
	case Array:
		count, ok = len(v.Items), c == codeArray8 || c == codeArray32
	}
	if !ok {
		return nil, fits(c, v, false)
	}
	whole, err := Append(nil, v)
	if err != nil {
		return nil, err
	}
	var content []byte
	switch layout := Code(whole[0]) >> 4; {
	case layout == zeroWidthLayout:
	case layout&1 == 0:
		content = whole[3:]
	default:
		content = whole[9:]
	}
	width := 1
	if c>>4&1 == 1 {
		width = 4
	}
	size := width + len(content)
	if width == 1 && (size > math.MaxUint8 || count > math.MaxUint8) {
		return nil, fits(c, v, false)
	}
	return append(appendSize(appendSize(dst, c, size), c, count), content...), nil
}
