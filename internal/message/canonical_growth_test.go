package message

import (
	"bytes"
	"runtime"
	"testing"
)

// A text of many objects whose members are to be sorted takes memory like its length, not like its square.
func TestTheCanonicalFormOfManyObjectsTakesMemoryLikeTheirText(t *testing.T) {
	const object = `{"sku":"SKU-4711","quantity":3}`
	text := append([]byte(`[`+object), bytes.Repeat([]byte(`,`+object), 2000)...)
	text = append(text, ']')
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	form, err := Canonical(text)
	runtime.ReadMemStats(&after)
	if err != nil || len(form) != len(text) || !bytes.Contains(form, []byte(`{"quantity":3,"sku":"SKU-4711"}]`)) {
		t.Fatalf("of %d bytes the form has %d, %v", len(text), len(form), err)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 20*uint64(len(text)) {
		t.Errorf("%d bytes of text took %d bytes of memory", len(text), taken)
	}
}
