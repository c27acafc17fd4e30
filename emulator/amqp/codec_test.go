package amqp

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// encodings of every constructor (1.6), written down from the specification. The first of a value is its narrowest.
var encodings = []struct {
	name  string
	value any
	hex   []string
}{
	{"null", nil, []string{"40"}},
	{"true", true, []string{"41", "56 01"}},
	{"false", false, []string{"42", "56 00"}},
	{"ubyte", uint8(0xfe), []string{"50 fe"}},
	{"ushort", uint16(0xfedc), []string{"60 fedc"}},
	{"uint 0", uint32(0), []string{"43", "52 00", "70 00000000"}},
	{"uint 255", uint32(255), []string{"52 ff", "70 000000ff"}},
	{"uint 256", uint32(256), []string{"70 00000100"}},
	{"uint max", uint32(math.MaxUint32), []string{"70 ffffffff"}},
	{"ulong 0", uint64(0), []string{"44", "53 00", "80 0000000000000000"}},
	{"ulong 255", uint64(255), []string{"53 ff", "80 00000000000000ff"}},
	{"ulong 256", uint64(256), []string{"80 0000000000000100"}},
	{"ulong max", uint64(math.MaxUint64), []string{"80 ffffffffffffffff"}},
	{"byte", int8(-2), []string{"51 fe"}},
	{"short", int16(-292), []string{"61 fedc"}},
	{"int -1", int32(-1), []string{"54 ff", "71 ffffffff"}},
	{"int 127", int32(127), []string{"54 7f", "71 0000007f"}},
	{"int 128", int32(128), []string{"71 00000080"}},
	{"int -129", int32(-129), []string{"71 ffffff7f"}},
	{"long -128", int64(-128), []string{"55 80", "81 ffffffffffffff80"}},
	{"long 128", int64(128), []string{"81 0000000000000080"}},
	{"long min", int64(math.MinInt64), []string{"81 8000000000000000"}},
	{"float", float32(1.5), []string{"72 3fc00000"}},
	{"double", -2.25, []string{"82 c002000000000000"}},
	{"decimal32", Decimal32{1, 2, 3, 4}, []string{"74 01020304"}},
	{"decimal64", Decimal64{1, 2, 3, 4, 5, 6, 7, 8}, []string{"84 0102030405060708"}},
	{"decimal128", Decimal128{15: 9}, []string{"94 00000000000000000000000000000009"}},
	{"char", Char('ß'), []string{"73 000000df"}},
	{"timestamp", time.UnixMilli(1_700_000_000_123).UTC(), []string{"83 0000018bcfe5687b"}},
	{"timestamp before 1970", time.UnixMilli(-1).UTC(), []string{"83 ffffffffffffffff"}},
	{"timestamp of the year 10000", time.UnixMilli(253_402_300_800_000).UTC(), []string{"83 0000e677d21fdc00"}},
	{"uuid", UUID{0xf8, 0x1d, 0x4f, 0xae, 0x7d, 0xec, 0x11, 0xd0, 0xa7, 0x65, 0, 0xa0, 0xc9, 0x1e, 0x6b, 0xf6}, []string{"98 f81d4fae7dec11d0a76500a0c91e6bf6"}},
	{"binary", []byte{1, 2}, []string{"a0 02 0102", "b0 00000002 0102"}},
	{"no binary", []byte{}, []string{"a0 00", "b0 00000000"}},
	{"string", "ö", []string{"a1 02 c3b6", "b1 00000002 c3b6"}},
	{"symbol", Symbol("ab"), []string{"a3 02 6162", "b3 00000002 6162"}},
	{"empty list", List{}, []string{"45", "c0 01 00", "d0 00000004 00000000"}},
	{"list", List{true, "a", nil}, []string{"c0 06 03 41 a10161 40", "d0 00000009 00000003 41 a10161 40"}},
	{"empty map", Map{}, []string{"c1 01 00", "d1 00000004 00000000"}},
	{"map", Map{{Symbol("b"), int32(1)}, {"a", List{}}}, []string{
		"c1 0a 04 a30162 5401 a10161 45", "d1 0000000d 00000004 a30162 5401 a10161 45"}},
	{"array of long", Array{Of: codeLong, Items: []any{int64(1), int64(-1)}}, []string{
		"e0 12 02 81 0000000000000001 ffffffffffffffff", "f0 00000015 00000002 81 0000000000000001 ffffffffffffffff"}},
	{"array of smalllong", Array{Of: codeSmallLong, Items: []any{int64(1), int64(-1)}}, []string{"e0 04 02 55 01ff"}},
	{"array of uuid", ArrayOf(UUID{15: 1}), []string{"e0 12 01 98 00000000000000000000000000000001"}},
	{"array of timestamp", ArrayOf(time.UnixMilli(1).UTC()), []string{"e0 0a 01 83 0000000000000001"}},
	{"array of symbol", ArrayOf(Symbol("a"), Symbol("bc")), []string{"e0 07 02 a3 0161 026263"}},
	{"array of boolean", ArrayOf(true, false), []string{"e0 04 02 56 0100"}},
	{"array of nothing", Array{Of: codeString8, Items: []any{}}, []string{"e0 02 00 a1"}},
	{"array of nulls", Array{Of: codeNull, Items: []any{nil, nil, nil}}, []string{"e0 02 03 40"}},
	{"array of lists", Array{Of: codeList8, Items: []any{List{true}, List{}}}, []string{"e0 07 02 c0 020141 0100"}},
	{"array of wide lists", Array{Of: codeList32, Items: []any{List{true}}}, []string{"e0 0b 01 d0 00000005 00000001 41"}},
	{"array of maps", Array{Of: codeMap8, Items: []any{Map{{"a", true}}}}, []string{"e0 08 01 c1 0502 a10161 41"}},
	{"array of arrays", Array{Of: codeArray8, Items: []any{Array{Of: codeUbyte, Items: []any{uint8(7)}}}}, []string{"e0 06 01 e0 030150 07"}},
	{"array of described", Array{Of: codeUbyte, Descriptor: uint64(5), Items: []any{uint8(7)}}, []string{"e0 06 01 00 5305 50 07"}},
	{"described", Described{uint64(0x24), List{}}, []string{"00 5324 45"}},
	{"described twice", Described{Symbol("a"), Described{uint64(1), "b"}}, []string{"00 a30161 00 5301 a10162"}},
}

func TestEveryConstructorIsDecoded(t *testing.T) {
	for _, c := range encodings {
		for _, h := range c.hex {
			b := unhex(h)
			got, rest, err := Decode(append(b, 0xaa))
			if err != nil || !reflect.DeepEqual(got, c.value) || !bytes.Equal(rest, []byte{0xaa}) {
				t.Errorf("%s: % x decodes to %#v, rest % x, %v", c.name, b, got, rest, err)
			}
			raw, err := (&decoder{b: b, end: len(b)}).raw(0)
			if err != nil || !bytes.Equal(raw, b) {
				t.Errorf("%s: % x is skipped as % x, %v", c.name, b, raw, err)
			}
		}
	}
}

func TestEveryValueIsEncodedInItsNarrowestForm(t *testing.T) {
	for _, c := range encodings {
		got, err := Append([]byte{0xaa}, c.value)
		if want := append([]byte{0xaa}, unhex(c.hex[0])...); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: encodes to % x, %v, want % x", c.name, got, err, want)
		}
	}
}

func TestValuesGrowIntoTheWideForms(t *testing.T) {
	long := strings.Repeat("a", 256)
	many := make(List, 256)
	for i := range many {
		many[i] = true
	}
	pairs := make(Map, 128)
	for i := range pairs {
		pairs[i] = Entry{int32(i), nil}
	}
	for _, c := range []struct {
		name  string
		value any
		code  Code
	}{
		{"binary", []byte(long), codeBinary32},
		{"string", long, codeString32},
		{"symbol", Symbol(long), codeSymbol32},
		{"a string that just fits", long[:255], codeString8},
		{"a list of many values", many, codeList32},
		{"a list that just fits", many[:254], codeList8},
		{"a list of many bytes", List{long}, codeList32},
		{"map", pairs, codeMap32},
		{"array", ArrayOf(long, "b"), codeArray32},
		{"array of nulls", Array{Of: codeNull, Items: make([]any, 256)}, codeArray32},
	} {
		b, err := Append(nil, c.value)
		if err != nil || Code(b[0]) != c.code {
			t.Errorf("%s: constructor 0x%02x, %v, want 0x%02x", c.name, b[0], err, byte(c.code))
			continue
		}
		got, rest, err := Decode(b)
		if err != nil || len(rest) > 0 || !reflect.DeepEqual(got, c.value) {
			t.Errorf("%s: decodes to something else, %v", c.name, err)
		}
	}
}

func TestBrokenInputIsATypedError(t *testing.T) { // A1
	nested := func(n int, s string) string { return strings.Repeat(s, n) + "40" }
	for _, c := range []struct {
		name, hex string
		want      error
	}{
		{"nothing", "", ErrTruncated},
		{"an unknown constructor", "01", ErrMalformed},
		{"an unknown constructor without data", "46", ErrMalformed},
		{"an unknown fixed constructor", "57 00", ErrMalformed},
		{"an unknown variable constructor", "a2 00", ErrMalformed},
		{"an unknown compound constructor", "c2 01 00", ErrMalformed},
		{"a ulong cut off", "80 00000000000000", ErrTruncated},
		{"a string cut off", "a1 05 6162", ErrTruncated},
		{"a string of 4 GB", "b1 ffffffff 6162", ErrTruncated},
		{"a string of 2 GB", "b1 7fffffff 6162", ErrTruncated},
		{"a string that is not UTF-8", "a1 01 ff", ErrMalformed},
		{"a symbol that is not ASCII", "a3 02 c3b6", ErrMalformed},
		{"a boolean of 2", "56 02", ErrMalformed},
		{"a list longer than the input", "c0 05 01 40", ErrTruncated},
		{"a list with more elements than bytes", "c0 02 05 40", ErrTooMany},
		{"a list of a billion elements", "d0 00000005 3b9aca00 40", ErrTooMany},
		{"a list with bytes after the last element", "c0 03 01 40 40", ErrMalformed},
		{"an element that reads past its list", "c0 03 01 a105 6162636465", ErrTruncated},
		{"a list without room for its count", "d0 00000002 0000", ErrTruncated},
		{"a map of odd length", "c1 02 01 40", ErrMalformed},
		{"an array of a billion nulls", "f0 00000005 3b9aca00 40", ErrTooMany},
		{"an array of a billion longs", "f0 0000000d 3b9aca00 81 0000000000000000", ErrTooMany},
		{"an array without constructor", "e0 01 00", ErrTruncated},
		{"lists that each end behind the one around them", strings.Repeat("d0 000000ff 00000001 ", 40), ErrTruncated},
		{"descriptors nested too deeply", nested(200, "00 40 "), ErrTooDeep},
		{"descriptors of descriptors nested too deeply", nested(200, "00 "), ErrTooDeep},
	} {
		_, _, err := Decode(unhex(c.hex))
		if e, ok := errors.AsType[*DecodeError](err); !ok || !errors.Is(e, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestNestingHasALimit(t *testing.T) { // A1, A7
	nest := func(n int) []byte {
		var v any = List{true}
		for range n {
			v = List{v}
		}
		b, err := Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if _, _, err := Decode(nest(maxDepth - 1)); err != nil {
		t.Errorf("%d lists: %v", maxDepth, err)
	}
	if _, _, err := Decode(nest(maxDepth)); !errors.Is(err, ErrTooDeep) {
		t.Errorf("%d lists: %v", maxDepth+1, err)
	}
}

func TestAValueWithoutAnAMQPTypeIsAnError(t *testing.T) {
	for _, v := range []any{
		1, uint(1), struct{}{}, []string{"a"}, map[string]any{}, List{1}, Map{{1, true}}, Map{{"a", 1}},
		Described{1, true}, Described{uint64(1), 1}, Array{}, Array{Of: codeUint, Items: []any{"a"}},
		Array{Of: codeSmallUint, Items: []any{uint32(256)}}, Array{Of: codeString8, Items: []any{strings.Repeat("a", 256)}},
		Array{Of: codeTrue, Items: []any{false}}, Array{Of: codeList0, Items: []any{List{true}}}, Array{Of: codeUUID, Items: []any{true}},
		Array{Of: codeList8, Items: []any{List{strings.Repeat("a", 250), "abc"}}}, Array{Of: codeMap8, Items: []any{List{}}},
	} {
		if b, err := Append(nil, v); err == nil {
			t.Errorf("%#v encodes to % x", v, b)
		}
	}
}

func TestRawValuesAreWrittenAsTheyCame(t *testing.T) {
	raw := Raw(unhex("71 00000001")) // an int in its wide form
	got, err := Append(nil, Map{{"a", raw}})
	if want := unhex("c1 09 02 a10161 71 00000001"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("encodes to % x, %v", got, err)
	}
	if v, err := raw.Decode(); err != nil || v != int32(1) {
		t.Errorf("decodes to %v, %v", v, err)
	}
	if _, err := append(raw, 0).Decode(); !errors.Is(err, ErrMalformed) {
		t.Errorf("with a byte too many: %v", err)
	}
}

func TestMapsAreFoundByKeysOfTheirType(t *testing.T) {
	m := Map{{Symbol("a"), int32(1)}, {"a", int32(2)}, {uint64(7), int32(3)}, {[]byte("a"), int32(4)}, {"raw", Raw{0x54, 5}}, {"bad", Raw{0x54}}}
	for key, want := range map[any]any{Symbol("a"): int32(1), "a": int32(2), uint64(7): int32(3), "raw": int32(5), uint32(7): nil, "bad": nil} {
		if got, ok := m.Get(key); got != want || ok != (want != nil) {
			t.Errorf("%T %v: %v, %v", key, key, got, ok)
		}
	}
	if _, ok := m.Get([]byte("a")); ok {
		t.Error("a binary key was found")
	}
	m.Set("a", "two")
	m.Set("new", true)
	m.Delete(Symbol("a"))
	if got, _ := m.Get("a"); len(m) != 6 || m[0].Value != "two" || got != "two" || m[5].Key != "new" {
		t.Errorf("%v", m)
	}
}

func TestSlicesAndIntegersAreTakenInAnyForm(t *testing.T) {
	for _, v := range []any{ArrayOf(int64(1), int64(2)), List{int64(1), int64(2)}} {
		if got, ok := Slice[int64](v); !ok || !slices.Equal(got, []int64{1, 2}) {
			t.Errorf("%#v: %v, %v", v, got, ok)
		}
		if _, ok := Slice[string](v); ok {
			t.Errorf("%#v is no slice of strings", v)
		}
	}
	if _, ok := Slice[int64](int64(1)); ok {
		t.Error("a number is no slice")
	}
	for _, v := range []any{uint8(9), uint16(9), uint32(9), uint64(9), int8(9), int16(9), int32(9), int64(9)} {
		if n, ok := Integer(v); n != 9 || !ok {
			t.Errorf("%T: %d, %v", v, n, ok)
		}
	}
	for _, v := range []any{uint64(math.MaxUint64), "9", 9.0, nil} {
		if _, ok := Integer(v); ok {
			t.Errorf("%T %v is no integer", v, v)
		}
	}
	if id := (UUID{0x12, 0x34, 15: 0xff}).String(); id != "12340000-0000-0000-0000-0000000000ff" {
		t.Error(id)
	}
}
