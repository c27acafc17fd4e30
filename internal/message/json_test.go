package message_test

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"testing"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

func TestCanonicalFormIsTheOneOfRFC8785(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{
			"§3.2.2 and §3.2.3: primitive values and sorted members",
			`{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		{
			"§3.2.3: members are sorted by UTF-16 code units, not by code points",
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		},
		{"members of inner objects are sorted too", `[{"b":{"d":1,"c":2},"a":[{"z":1,"y":2}]}]`, `[{"a":[{"y":2,"z":1}],"b":{"c":2,"d":1}}]`},
		{"elements keep their order", ` [ 3 , 1 , 2 ] `, `[3,1,2]`},
		{"a scalar is a JSON text", " \"a\"\n", `"a"`},
		{"an empty object", "{ }", `{}`},
		{"what HTML would escape stays", `"<&>\u003c"`, `"<&><"`},
		{"control characters have one spelling each", `"\u0008\u0009\u000a\u000c\u000d\u001f\u007f"`, "\"\\b\\t\\n\\f\\r\\u001f\u007f\""},
		{"characters are not normalised", `"e\u0301"`, "\"e\u0301\""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := message.Canonical([]byte(test.text))
			if err != nil || string(got) != test.want {
				t.Errorf("Canonical(%s)\n got %s, %v\nwant %s", test.text, got, err, test.want)
			}
		})
	}
}

func TestCanonicalFormIsByteForByteTheOneOfRFC8785(t *testing.T) { // §3.2.4
	const want = "7b226c69746572616c73223a5b6e756c6c2c747275652c66616c73655d2c226e756d62657273223a5b3333333333333333332e333333333333332c31652b33302c342e352c302e3030322c31652d32375d2c22737472696e67223a22e282ac245c75303030665c6e4127425c225c5c5c5c5c222f227d"
	got, err := message.Canonical([]byte(`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`))
	if err != nil || hex.EncodeToString(got) != want {
		t.Errorf("got %x, %v\nwant %s", got, err, want)
	}
}

// Appendix B of RFC 8785: the bits of a float64 and what stands for them. Whole
// numbers between 2^53 and 1e21 are ours to refuse, so they stand in
// TestNumbersThatTwoReadersCouldReadDifferentlyAreRefused.
func TestCanonicalNumbersAreTheOnesOfRFC8785(t *testing.T) {
	for _, test := range []struct {
		bits uint64
		want string
	}{
		{0x0000000000000000, "0"},
		{0x8000000000000000, "0"}, // minus zero
		{0x0000000000000001, "5e-324"},
		{0x8000000000000001, "-5e-324"},
		{0x7fefffffffffffff, "1.7976931348623157e+308"},
		{0xffefffffffffffff, "-1.7976931348623157e+308"},
		{0x4340000000000000, "9007199254740992"},
		{0xc340000000000000, "-9007199254740992"},
		{0x44b52d02c7e14af5, "9.999999999999997e+22"},
		{0x44b52d02c7e14af6, "1e+23"},
		{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
		{0x444b1ae4d6e2ef50, "1e+21"},
		{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
		{0x3eb0c6f7a0b5ed8d, "0.000001"},
		{0x41b3de4355555553, "333333333.3333332"},
		{0x41b3de4355555554, "333333333.33333325"},
		{0x41b3de4355555555, "333333333.3333333"},
		{0x41b3de4355555556, "333333333.3333334"},
		{0x41b3de4355555557, "333333333.33333343"},
		{0xbecbf647612f3696, "-0.0000033333333333333333"},
		{0x43143ff3c1cb0959, "1424953923781206.2"},
	} {
		value := math.Float64frombits(test.bits)
		literal := strconv.FormatFloat(value, 'e', 40, 64) // another spelling of the same float64
		got, err := message.Canonical([]byte(literal))
		if err != nil || string(got) != test.want {
			t.Errorf("Canonical(%s) = %s, %v, want %s", literal, got, err, test.want)
		}
	}
}

func TestNumbersThatTwoReadersCouldReadDifferentlyAreRefused(t *testing.T) { // M3
	const beyond = "the integer %s is beyond 2^53: send it as a string"
	const outOfRange = "the number %s is out of range"
	for _, test := range []struct{ literal, refusal string }{
		{"999999999999999", ""}, // fifteen digits: exact whatever they are
		{"-99999999999999.9", ""},
		{"9007199254740991", ""},
		{"9007199254740992", ""}, // 2^53 itself
		{"-9007199254740992", ""},
		{"9007199254740993", beyond}, // as a float64 it would be 2^53
		{"-9007199254740993", beyond},
		{"9007199254740994", beyond},
		{"9223372036854775807", beyond},
		{"-9223372036854775809", beyond},
		{"12345678901234567890123456789012345678901234567890", beyond},
		{"9007199254740992.0", ""},
		{"9007199254740994.0", beyond}, // its canonical form would be an integer beyond 2^53
		{"1e16", beyond},
		{"-1E+20", beyond},
		{"9.99999999999999999e20", ""}, // as a float64 it is 1e21
		{"1e21", ""},                   // canonical form 1e+21
		{"-6.02214076e23", ""},
		{"1.5", ""},
		{"-0", ""},
		{"0e999", ""},
		{"1e308", ""},
		{"1e309", outOfRange},
		{"1e400", outOfRange},
		{"-1e400", outOfRange},
	} {
		refusal := strings.ReplaceAll(test.refusal, "%s", test.literal)
		for _, place := range []struct{ before, after, pointer string }{
			{"", "", ""},
			{`{"a":[0,{"b/c":`, `}]}`, "/a/1/b~1c"},
			{`{"\\":"\"","a\"":[true,`, `]}`, `/a"/1`}, // strings that a careless reader ends too early or too late
		} {
			text := place.before + test.literal + place.after
			canonical, err := message.Canonical([]byte(text))
			var decoded any
			errDecode := message.Decode([]byte(text), &decoded)
			if refusal == "" {
				if err != nil || errDecode != nil {
					t.Errorf("%s: Canonical: %v, Decode: %v, want both to take it", text, err, errDecode)
				}
				if again, err := message.Canonical(canonical); err != nil || string(again) != string(canonical) {
					t.Errorf("%s: its canonical form %s has the canonical form %s, %v", text, canonical, again, err)
				}
				continue
			}
			want := "at " + strconv.Quote(place.pointer) + ": " + refusal
			if err == nil || err.Error() != want || errDecode == nil || errDecode.Error() != want {
				t.Errorf("%s: Canonical: %v, Decode: %v, want %s", text, err, errDecode, want)
			}
		}
	}
}

func TestTextsThatTwoReadersCouldReadDifferentlyAreRefused(t *testing.T) { // M3
	for _, test := range []struct{ name, text, reason string }{
		{"nothing", "", "unexpected EOF"},
		{"only blanks", " \t\r\n", "unexpected EOF"},
		{"half a text", `{"a":`, "unexpected EOF"},
		{"a duplicate name", `{"a":1,"a":1}`, `duplicate object member name "a"`},
		{"a duplicate name, spelled differently", `{"a":1,"\u0061":1}`, "duplicate object member name"},
		{"a duplicate name further down", `[{"x":{"b":1,"c":2,"b":3}}]`, `duplicate object member name "b"`},
		{"a second text", `{}{}`, "after top-level value"},
		{"a second text after a line feed", "1\n2", "after top-level value"},
		{"trailing bytes", `{} x`, "invalid character 'x'"},
		{"a byte that is no UTF-8", "\"a\xff\"", "invalid UTF-8"},
		{"UTF-8 in more bytes than it needs", "\"\xc0\xaf\"", "invalid UTF-8"},
		{"half a surrogate pair", `"\ud800"`, "invalid surrogate pair"},
		{"the halves in the wrong order", `"\udc00\ud800"`, "invalid surrogate pair"},
		{"a byte order mark", "\ufeff{}", "invalid character"},
		{"a trailing comma", `[1,]`, "invalid character"},
		{"a comment", `{/* */}`, "invalid character"},
		{"a leading zero", `[01]`, "invalid character"},
		{"a leading plus", `[+1]`, "invalid character"},
		{"not a number", `[NaN]`, "invalid character"},
		{"a control character in a string", "\"a\nb\"", "invalid character"},
		{"deeper than anybody reads", strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), "exceeded max depth"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := message.Canonical([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.reason) {
				t.Errorf("Canonical = %s, %v, want a refusal that says %q", got, err, test.reason)
			}
			var decoded jsontext.Value
			if err := message.Decode([]byte(test.text), &decoded); err == nil || !strings.Contains(err.Error(), test.reason) {
				t.Errorf("Decode = %v, want a refusal that says %q", err, test.reason)
			}
		})
	}
}

func TestCanonicalLeavesItsArgumentAsItWas(t *testing.T) {
	const text = `{ "b" : 1.0, "a" : 2 }`
	given := []byte(text)
	if _, err := message.Canonical(given); err != nil {
		t.Fatal(err)
	}
	if string(given) != text {
		t.Errorf("the argument became %s", given)
	}
}
