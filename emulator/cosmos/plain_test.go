package cosmos

import (
	"reflect"
	"strings"
	"testing"
)

// The two readers agree on everything that the quick one takes, and it takes what
// programs mostly send.
func FuzzPlainJSONIsReadAsAnyOther(f *testing.F) {
	for text, plain := range map[string]bool{
		`{"id":"a","n":-1.50e+3,"l":[1,"é",{"k":null}],"o":{},"e":[],"t":true,"f":false}`: true,
		" [ 1 , 2 ]\n": true, `"text"`: true, `0`: true, `-0.0`: true, `9007199254740993`: true,
		strings.Repeat("[", 128) + strings.Repeat("]", 128): true, strings.Repeat("[", 129) + strings.Repeat("]", 129): false,
		`{"a":1,"a":2}`: false, `"\u0061\"\\"`: true, `"\ud83d\ude00"`: true, `"\ud83d"`: false, `"\x"`: false, `"\"`: false, `01`: false, `1.`: false, `-`: false, `1e`: false, `1e999`: false, `nul`: false,
		`{"a" 1}`: false, `{"a":1,}`: false, `[1,]`: false, `{}{}`: false, "": false, "\"\xff\"": false, "\"\n\"": false, `+1`: false, `.5`: false,
	} {
		if _, ok := parsePlain([]byte(text)); ok != plain {
			f.Errorf("%s is plain: %v, want %v", text, ok, plain)
		}
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := parsePlain(text)
		if !ok {
			return
		}
		want, err := parseThoroughly(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %v, want %v (%v)", text, got, want, err)
		}
		if again, ok := parsePlain(appendValue(nil, got)); ok && !reflect.DeepEqual(again, got) {
			t.Errorf("%q is written as %s", text, appendValue(nil, got))
		}
	})
}
