package message

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// What is made here without the library is what the library makes, and what nearly
// all texts are is made here: otherwise the first half would show nothing.
func TestThePlainFormIsTheLibrarys(t *testing.T) { // C7
	for text, here := range map[string]bool{
		`{"name":"Ada","address":{"zip":"SW1Y 4JH","city":"London"},"tags":["b","a"],"limit":2500.50,"n":7,"x":null,"y":true,"z":false}`: true,
		" { \"b\" : [ ] ,\n\t\"a\" : { } ,\r\"a b\":1,\"a!\":2,\"ab\":3} ":                                                               true,
		`{"a1":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":1,"k":2,"l":3,"m":4,"a":5}`:                                         true,
		`[1,-1,10,100.00,1.05,-2.50,123456789012345,1234567890.12345]`:                                                                   true,
		`""`: true, `7`: true, ` "~ !" `: true, `[[],[[]],{}]`: true, `{"":1}`: true, `-5`: true, `[0,0]`: true, `0 `: true,

		`-0`: false, `0-1`: false, `0e1`: false, `0.5`: false, `01`: false, `1e3`: false, `1.`: false, `.5`: false, `-`: false, `1.2.3`: false, `1-1`: false, `1234567890123456`: false,
		`"é"`: false, `"\n"`: false, "\"\x7f\"": false, "\"\x00\"": false, `"a`: false, `{"a":1,"a":2}`: false, `{"b":1,"a":1,"b":2}`: false,
		`[1,]`: false, `[,1]`: false, `[1 2]`: false, `{"a":1,}`: false, `{"a"}`: false, `{a:1}`: false, `{"a":}`: false, `tru`: false, `{}{}`: false, `1 2`: false,
		``: false, ` `: false, `[`: false, `{`: false, `{"a":1`: false, `]`: false, "[1]\x00": false,
	} {
		form, ok := plainForm([]byte(text))
		if ok != here {
			t.Errorf("%q: %q, %t, want %t", text, form, ok, here)
		}
		library := jsontext.Value(text)
		if err := library.Canonicalize(); ok && (err != nil || !bytes.Equal(form, library)) {
			t.Errorf("%q: %s, and the library has %s, %v", text, form, library, err)
		}
	}
}

// FuzzPlainForm: so it is whatever the text.
func FuzzPlainForm(f *testing.F) {
	for _, seed := range []string{`{"b":[1,2.50],"a":{"d":null,"c":true}}`, `[-1,100.00,1e3]`, `{"a b":1,"a":2,"a!":3}`, `[1,]`, `{"a":1,"a":2}`, `1.0000000000000`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		form, ok := plainForm(text)
		library := jsontext.Value(bytes.Clone(text))
		if err := library.Canonicalize(); ok && (err != nil || !bytes.Equal(form, library)) {
			t.Fatalf("%q: %q, and the library has %q, %v", text, form, library, err)
		}
	})
}
