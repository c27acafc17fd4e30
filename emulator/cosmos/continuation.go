package cosmos

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
)

// continuation is where a query goes on: opaque to clients, bound to the
// container and the query it came from. It says how far a scan or an order has
// come, not how many results to skip, so that writes between two pages neither
// repeat nor hide what they do not touch; only DISTINCT, OFFSET and JOIN count.
type continuation struct {
	bound   string // container and query
	more    bool   // false: the query has ended
	ordinal uint64 // of the last item examined, or delivered under an order
	keys    []value
	taken   int // results so far
}

// token writes the continuation for a header, "" at the end.
func (c continuation) token() string {
	if !c.more {
		return ""
	}
	o := &object{}
	o.set("b", c.bound)
	o.set("o", integerOf(int64(c.ordinal)))
	o.set("n", integerOf(int64(c.taken)))
	var keys []any
	for _, k := range c.keys {
		keys = append(keys, []any{k}) // an undefined one becomes an empty list
	}
	if keys != nil {
		o.set("k", keys)
	}
	return base64.StdEncoding.EncodeToString(appendValue(nil, o))
}

func parseContinuation(token, rid string, spec querySpec, key string) (continuation, *failure) {
	hash := sha256.New()
	for _, part := range []string{rid, spec.bound(), key} {
		hash.Write([]byte(part))
		hash.Write([]byte{0})
	}
	for _, name := range slices.Sorted(maps.Keys(spec.parameters)) {
		hash.Write(appendValue([]byte(name), spec.parameters[name]))
	}
	at := continuation{bound: hex.EncodeToString(hash.Sum(nil)[:12])}
	if token == "" {
		return at, nil
	}
	invalid := badRequest("The continuation token is invalid, or belongs to another query or container.")
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return at, invalid
	}
	o, err := parseObject(text)
	if err != nil || o.text("b") != at.bound {
		return at, invalid
	}
	ordinal, _ := o.get("o")
	taken, _ := o.get("n")
	n, ok := wholeNumber(ordinal)
	m, ok2 := wholeNumber(taken)
	if !ok || !ok2 {
		return at, invalid
	}
	at.ordinal, at.taken = uint64(n), int(m)
	keys, _ := o.get("k")
	list, _ := keys.([]any)
	for _, k := range list {
		one, _ := k.([]any)
		if len(one) == 0 {
			at.keys = append(at.keys, undefined{})
		} else {
			at.keys = append(at.keys, one[0])
		}
	}
	if at.taken > 0 && !spec.selection.skips() && len(at.keys) != len(spec.selection.orderBy) {
		return at, invalid
	}
	return at, nil
}

// bound is what of a query's text a continuation is bound to: all of it. But a
// client that puts together the order of several partitions goes on with another
// filter, which leaves out what it has had already.
func (q querySpec) bound() string {
	tokens, err := lex(q.text)
	if !q.ranged || q.selection == nil || len(q.selection.orderBy) == 0 || err != nil {
		return q.text
	}
	at := q.selection.whereAt
	if at.end == 0 {
		return q.text
	}
	return q.text[:tokens[at.start].start] + q.text[tokens[at.end-1].end:]
}
