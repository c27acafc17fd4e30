package cosmos

import (
	"strings"
	"testing"
)

func TestAPlanIsMadeOfTheQuerysParts(t *testing.T) {
	pk := keyDefinition{paths: [][]string{{"pk"}}, version: 2}
	for _, test := range []struct{ sql, want string }{
		{"SELECT * FROM c WHERE c.n > 1", `"rewrittenQuery":""`},
		{"SELECT * FROM c ORDER BY c.n -- newest first\n DESC",
			`"orderBy":["Descending"],"orderByExpressions":["c.n"],…"rewrittenQuery":"SELECT c._rid, [{\"item\": c.n}] AS orderByItems, c AS payload\nFROM c\nWHERE ({documentdb-formattableorderbyquery-filter})\nORDER BY c.n DESC"`},
		{"SELECT TOP 3 c.a, c.b + 1 AS s FROM c WHERE c.n = @n ORDER BY c.n, c.m DESC",
			`"top":3,…"rewrittenQuery":"SELECT TOP 3 c._rid, [{\"item\": c.n}, {\"item\": c.m}] AS orderByItems, {\"a\": c.a, \"s\": c.b + 1} AS payload\nFROM c\nWHERE (c.n = @n) AND ({documentdb-formattableorderbyquery-filter})\nORDER BY c.n ASC, c.m DESC"`},
		{"SELECT VALUE c.a FROM c ORDER BY c.n OFFSET 2 LIMIT 3", `"offset":2,"limit":3,…c.a AS payload\nFROM c\nWHERE (IS_DEFINED(c.a)) AND ({documentdb-formattableorderbyquery-filter})\nORDER BY c.n ASC\nOFFSET 0 LIMIT 5"`},
		{"SELECT DISTINCT c.a FROM c", `"distinctType":"Unordered",…"rewrittenQuery":"SELECT DISTINCT VALUE {\"a\": c.a}\nFROM c"`},
		{"SELECT DISTINCT TOP 2 VALUE c.a FROM c ORDER BY c.a", `"distinctType":"Ordered",…"rewrittenQuery":"SELECT c._rid, [{\"item\": c.a}] AS orderByItems, c.a AS payload`},
		{"SELECT VALUE COUNT(1) FROM c", `"aggregates":["Count"],…"rewrittenQuery":"SELECT VALUE [{\"item\": COUNT(1)}]\nFROM c","hasSelectValue":true`},
		{"SELECT VALUE AVG(c.n) FROM c", `"aggregates":["Average"],…SELECT VALUE [{\"item\": {\"sum\": SUM(c.n), \"count\": COUNT(c.n)}}]`},
		{"SELECT VALUE MIN(c.n) FROM c", `SELECT VALUE [{\"item\": MIN(c.n), \"item2\": {\"min\": MIN(c.n), \"count\": COUNT(c.n)}}]`},
		{"SELECT COUNT(1) AS n FROM c", `"aggregates":[],"groupByAliasToAggregateType":{"n":"Count"},"rewrittenQuery":"SELECT {\"n\": {\"item\": COUNT(1)}} AS payload\nFROM c"`},
		{"SELECT c.a, SUM(c.n) s FROM c JOIN x IN c.l GROUP BY c.a OFFSET 0 LIMIT 9",
			`"groupByExpressions":["c.a"],"groupByAliases":["a","s"],…{"a":null,"s":"Sum"},"rewrittenQuery":"SELECT [{\"item\": c.a}] AS groupByItems, {\"a\": c.a, \"s\": {\"item\": SUM(c.n)}} AS payload\nFROM c JOIN x IN c.l\nGROUP BY c.a"`},
		{"SELECT * FROM c WHERE c.pk = 'a'", `"queryRanges":[{"min":"3A5381E1114EB8D3FCC90795045B49B7"`},
		{"SELECT * FROM c", `"queryRanges":[{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}]`},
		{"SELECT COUNT(1) + 1 AS n FROM c", "Compositions of aggregates"},
		{"SELECT DISTINCT c.a FROM c ORDER BY c.b", "DISTINCT has to be ordered"},
		{"SELECT DISTINCT VALUE COUNT(1) FROM c", "both DISTINCT and aggregates"},
		{"SELECT VALUE 1 FROM (SELECT c.n FROM c) ORDER BY c.n", "could not be resolved"},
	} {
		spec := querySpec{text: test.sql, parameters: map[string]value{"@n": integerOf(1)}}
		var got string
		var err error
		if spec.selection, err = parseQuery(spec.text, spec.parameters); err != nil {
			got = err.Error()
		} else if plan, f := spec.plan(pk, nil); f != nil {
			got = f.message
		} else {
			got = textOf(plan)
			rewritten := plan.members[1].value.(*object).text("rewrittenQuery")
			if _, err := parseQuery(strings.ReplaceAll(rewritten, orderFilter, "true"), spec.parameters); rewritten != "" && err != nil {
				t.Errorf("%s is rewritten to what is no query: %v in %s", test.sql, err, rewritten)
			}
		}
		rest := got
		for part := range strings.SplitSeq(test.want, "…") {
			_, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("%s: %s\nis not in %s", test.sql, part, got)
			}
			rest = after
		}
	}
}

func TestAPlanIsForWhoUnderstandsIt(t *testing.T) {
	for sql, features := range map[string]string{
		"SELECT * FROM c ORDER BY c.a":                      "OrderBy",
		"SELECT * FROM c ORDER BY c.a, c.b":                 "OrderBy, MultipleOrderBy",
		"SELECT TOP 1 VALUE c.a FROM c":                     "Top",
		"SELECT DISTINCT VALUE c.a FROM c OFFSET 0 LIMIT 1": "Distinct,OffsetAndLimit",
		"SELECT COUNT(1) AS n, COUNTIF(c.a) AS m FROM c":    "Aggregate,NonValueAggregate,MultipleAggregates,CountIf",
		"SELECT c.a FROM c GROUP BY c.a":                    "GroupBy",
	} {
		s, err := parseQuery(sql, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f := s.understood(features); f != nil {
			t.Errorf("%s by a client that understands %s: %v", sql, features, f)
		}
		for name := range strings.SplitSeq(features, ",") {
			f := s.understood(strings.ReplaceAll(features, name, ""))
			if f == nil || !strings.Contains(f.message, "does not support") {
				t.Errorf("%s by a client that does not understand %s: %v", sql, name, f)
			}
		}
	}
}

// The keys are those that @azure/cosmos 4.9.3 computes.
func TestEffectiveKeysAreTheServices(t *testing.T) {
	for _, test := range []struct {
		component value
		want      string
	}{
		{"", "32E9366E637A71B4E710384B2F4970A0"},
		{"a", "3A5381E1114EB8D3FCC90795045B49B7"},
		{"Größe 😀 and more than sixteen bytes", "37141EDFBA43A164CD44D90C2D47D5BE"},
		{"0123456789abc", "3B20FC7FB45AD69CF85FFEA0EE21BB55"},
		{integerOf(0), "155B95BEDAC4B1E9EC1CDC9BB0DDDE58"},
		{numberOf(-1.5), "151793206780805FF6E1DCAE6C787B6A"},
		{true, "0E711127C5B5A8E4726AC6DD306A3E59"},
		{false, "2FE1BE91E90A3439635E0E9E37361EF2"},
		{nil, "378867E4430E67857ACE5C908374FE16"},
		{undefined{}, "11622DAA78F835834610ABE56EFF5CB5"},
	} {
		if got := effectiveOf(test.component); got != test.want {
			t.Errorf("%v: got %s, want %s", test.component, got, test.want)
		}
	}
}
