package cosmos

import (
	"iter"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Whatever it is given, the parser ends, does not panic, and either refuses with
// a place inside the text or gives a query that can be evaluated over any item.
func FuzzParseQuery(f *testing.F) {
	for _, seed := range []string{
		`SELECT * FROM c`,
		`SELECT * FROM root r WHERE r.id = @id`,
		`select value c.id from c where c.parent = 'parent1' order by c.id`,
		`SELECT TOP 5 c.id, c["a b"].x AS y, 1 + 2 FROM c WHERE c.n BETWEEN 1 AND 2.5e3 AND NOT IS_DEFINED(c.z)`,
		`SELECT DISTINCT VALUE x FROM c JOIN x IN c.l WHERE x LIKE '[a-z]%_!%' ESCAPE '!' OFFSET 1 LIMIT 2`,
		`SELECT COUNT(1) AS n, AVG(c.n ?? 0) FROM c WHERE c.id IN ('a', "b", null, true, {"a": [1, -2]})`,
		`SELECT VALUE (c.a ? c.b || 'x' : ARRAY_CONTAINS(c.l, {k: 1}, true)) FROM c -- comment`,
		`SELECT * FROM c WHERE ((((~c.n & 1 | 2 ^ 3) % 4 != 0))) ORDER BY c.a DESC, c.b ASC`,
		`from c where c.n = 1`,
		`SELECT c.s, COUNT(1) AS n, COUNTIF(c.b) m, MIN(c.n) FROM c JOIN x IN c.l GROUP BY c.s, LOWER(x.k) OFFSET 0 LIMIT 3`,
		`SELECT VALUE ARRAY(SELECT DISTINCT VALUE x FROM x IN c.l WHERE EXISTS(SELECT VALUE y FROM y IN c.l WHERE y = x)) FROM c`,
		`SELECT TOP @n d.k FROM (SELECT VALUE c FROM c) AS d JOIN (SELECT COUNT(1) AS k FROM x IN d.l) AS t ORDER BY d.n DESC`,
		`SELECT 1 AS one, (SELECT VALUE 2), [DateTimeAdd('mm', 1, '2026-01-31'), REPLICATE('x', 3), RegexMatch('a', '^a', 'i')]`,
		`SELECT VALUE SetUnion(ARRAY_CONCAT(c.l, c.l), ObjectToArray(c.o)) FROM c ORDER BY c.o.x ASC`,
		"SELECT * FROM c WHERE c.s = 'it\\'s \\u00e9'",
		"SELECT 'unterminated", "SELECT @", "--", "", "\xff", "SELECT * FROM c WHERE " + strings.Repeat("NOT ", 300) + "true",
	} {
		f.Add(seed)
	}
	text := []byte(`{"id":"a","n":1,"s":"text","l":[1,{"k":1}],"o":{"x":null},"b":true}`)
	item, err := parseObject(text)
	if err != nil {
		f.Fatal(err)
	}
	documents := allOf(&document{id: "a", ordinal: 1, text: text}, &document{id: "b", ordinal: 2, text: []byte("{}")})
	f.Fuzz(func(t *testing.T, text string) {
		if condition, err := parseCondition(text); err == nil {
			(&patchDocument{condition: condition}).holds(item)
		}
		query, err := parseQuery(text, map[string]value{"@id": "a", "@n": integerOf(2)})
		if err != nil {
			refusal, ok := err.(*syntaxError) //nolint:errorlint // the parser returns it unwrapped
			if !ok || refusal.start < 0 || refusal.end > len(text) || refusal.start > refusal.end || refusal.message == "" {
				t.Fatalf("refusal %#v of %q", err, text)
			}
			if utf8.ValidString(text) && !utf8.ValidString(refusal.message) {
				t.Fatalf("the refusal of %q is not text: %q", text, refusal.message)
			}
			return
		}
		query.confinement(keyDefinition{paths: [][]string{{"id"}}})
		_ = query.indexed(settings{})
		if plan, refusal := (querySpec{text: text, selection: query}).plan(keyDefinition{paths: [][]string{{"id"}}, version: 2}, nil); refusal == nil {
			rewritten := plan.members[1].value.(*object).text("rewrittenQuery")
			if _, err := parseQuery(strings.ReplaceAll(rewritten, orderFilter, "true"), map[string]value{"@id": "a", "@n": integerOf(2)}); rewritten != "" && err != nil {
				t.Fatalf("%q is rewritten to %q: %v", text, rewritten, err)
			}
		}
		at := continuation{bound: "x"}
		for range 100 {
			page, refusal := query.page(documents, 1, at, time.Now())
			if refusal != nil {
				return
			}
			if !page.next.more {
				return
			}
			at = page.next
		}
		t.Fatalf("%q has more than 100 pages of two items", text)
	})
}

func FuzzParseContinuation(f *testing.F) {
	f.Add("")
	f.Add("eyJiIjoieCJ9")
	spec := querySpec{text: "SELECT * FROM c ORDER BY c.n"}
	spec.selection, _ = parseQuery(spec.text, nil)
	at, _ := parseContinuation("", "rid", spec, "")
	at.more, at.ordinal, at.taken, at.keys = true, 7, 3, []value{undefined{}}
	f.Add(at.token())
	at.keys = nil // as no page of this query has made it
	f.Add(at.token())
	f.Fuzz(func(t *testing.T, token string) {
		at, refusal := parseContinuation(token, "rid", spec, "")
		if refusal == nil {
			_, _ = spec.selection.page(allOf(&document{ordinal: 1, text: []byte("{}")}), 1, at, time.Now())
		}
	})
}

// allOf are some documents in the order of their ordinals, as a query ranges over them.
func allOf(documents ...*document) items {
	all := newSequence(byAge)
	for _, d := range documents {
		all.put(d)
	}
	return func(after uint64) iter.Seq[*document] { return all.from(&document{ordinal: after + 1}) }
}
