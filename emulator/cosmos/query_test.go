package cosmos_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// fill makes items 0, 1, 2, … of the given partitions in turn, as a scan across
// partitions meets them.
func fill(t *testing.T, c *azcosmos.ContainerClient, partitions, each int) {
	t.Helper()
	for i := range each {
		for p := range partitions {
			key := fmt.Sprint(p + 1)
			must2(c.CreateItem(t.Context(), pk(key), fmt.Appendf(nil, `{"id":"%d","pk":%q,"n":%d}`, i+p*each, key, i), nil))(t)
		}
	}
}

func TestAQuerySelectsWhatIsTrue(t *testing.T) {
	w := newWorld(t)
	c := w.container("items", "/pk")
	for _, item := range []string{
		`{"id":"a","pk":"p","n":1,"s":"alpha","b":true,"l":[1,"x",{"k":1,"j":2}],"o":{"i":5,"value":9},"status":"OPEN"}`,
		`{"id":"b","pk":"p","n":2.5,"s":"beta","b":false,"l":[],"o":{"i":6}}`,
		`{"id":"c","pk":"p","n":null,"s":"it's \"c\"","o":null}`,
		`{"id":"d","pk":"p","n":"1"}`,
	} {
		must2(c.CreateItem(t.Context(), pk("p"), []byte(item), nil))(t)
	}
	for where, want := range map[string]string{
		`true`:                                  "a b c d",
		`c.n = 1`:                               "a",
		`1 = c.n`:                               "a",
		`c.n = 1.0`:                             "a",
		`c.n = '1'`:                             "d",
		`c.n > 1`:                               "b",
		`c.n >= 1`:                              "a b", // neither null nor text compares with a number
		`c.n < 100 OR c.n > '0'`:                "a b d",
		`c.n <= null`:                           "c",
		`c.n != 1`:                              "b c d",
		`c.n <> 1`:                              "b c d",
		`c.b`:                                   "a",
		`c.n`:                                   "", // not a boolean, not true
		`c.b = true`:                            "a",
		`NOT c.b`:                               "b", // undefined stays undefined
		`NOT (c.b = true)`:                      "b",
		`NOT IS_DEFINED(c.b)`:                   "c d",
		`c.missing = c.missing`:                 "",
		`c.missing != 1`:                        "",
		`NOT (c.missing = 1)`:                   "",
		`c.missing = undefined`:                 "",
		`c.missing = 1 OR c.id = 'a'`:           "a",
		`c.missing = 1 AND c.id = 'a'`:          "",
		`NOT (c.missing = 1 AND c.id = 'x')`:    "a b c d", // false wins over undefined
		`c.o.i = 5`:                             "a",
		`c.o["i"] = 5`:                          "a",
		`c["o"].i = 6`:                          "b",
		`c.o["value"] = 9`:                      "a",
		`c.l[0] = 1`:                            "a",
		`c.l[1] = "x"`:                          "a",
		`c.l[9] = 1`:                            "",
		`c.l = []`:                              "b",
		`c.o = {"i": 6}`:                        "b",
		`c.o = {i: 6}`:                          "b",
		`c.id IN ('a', 'd', 5)`:                 "a d",
		`c.id NOT IN ('a', 'd')`:                "b c",
		`c.missing NOT IN ('a')`:                "",
		`c.n IN (1, null)`:                      "a c",
		`c.n BETWEEN 1 AND 2`:                   "a",
		`c.n NOT BETWEEN 1 AND 2`:               "b",
		`c.s BETWEEN 'a' AND 'b'`:               "a",
		`IS_NULL(c.n)`:                          "c",
		`NOT IS_NULL(c.n)`:                      "a b d",
		`NOT IS_NULL(c.missing)`:                "a b c d",
		`IS_NUMBER(c.n)`:                        "a b",
		`is_string(c.n)`:                        "d",
		`IS_ARRAY(c.l) AND NOT IS_OBJECT(c.l)`:  "a b",
		`IS_BOOL(c.b)`:                          "a b",
		`IS_PRIMITIVE(c.o)`:                     "c",
		`STARTSWITH(c.s, 'al')`:                 "a",
		`STARTSWITH(c.s, 'AL')`:                 "",
		`STARTSWITH(c.s, 'AL', true)`:           "a",
		`NOT STARTSWITH(c.s, 'al')`:             "b c",
		`ENDSWITH(c.s, 'ta')`:                   "b",
		`CONTAINS(c.s, 'et')`:                   "b",
		`CONTAINS(c.s, 'ET', true)`:             "b",
		`c.s LIKE 'a%a'`:                        "a",
		`c.s LIKE '_eta'`:                       "b",
		`c.s LIKE '[ab]%'`:                      "a b",
		`c.s LIKE '[^ab]%'`:                     "c",
		`c.s NOT LIKE '%a'`:                     "c",
		`c.s LIKE '!_%' ESCAPE '!'`:             "",
		`c.s = 'it\'s "c"'`:                     "c",
		`c.s = "it's \"c\""`:                    "c",
		`ARRAY_CONTAINS(c.l, 'x')`:              "a",
		`ARRAY_CONTAINS(c.l, {"k":1})`:          "",
		`ARRAY_CONTAINS(c.l, {"k":1}, true)`:    "a",
		`NOT ARRAY_CONTAINS(c.l, 'x')`:          "b",
		`ARRAY_LENGTH(c.l) = 3`:                 "a",
		`LENGTH(c.s) = 4`:                       "b",
		`LOWER(UPPER(c.s)) = c.s`:               "a b c",
		`CONCAT(c.id, '-', c.s) = 'a-alpha'`:    "a",
		`c.id || '!' = 'a!'`:                    "a",
		`SUBSTRING(c.s, 1, 2) = 'et'`:           "b",
		`INDEX_OF(c.s, 'ta') = 2`:               "b",
		`c.n + 1 = 2`:                           "a",
		`c.n * 2 - 1 = 4`:                       "b",
		`c.n / 0 = 1`:                           "",
		`-c.n = -1`:                             "a",
		`ABS(-c.n) = 1 AND FLOOR(2.5) = 2`:      "a",
		`(c.n ?? 7) = 7`:                        "",
		`(c.missing ?? 7) = 7`:                  "a b c d",
		`(c.b ? 'yes' : 'no') = 'yes'`:          "a",
		`c.n = 1 AND c.b OR c.id = 'd'`:         "a d",
		`c.n = 1 AND (c.missing OR c.id = 'a')`: "a",
		`c.id = 'a' -- and so on` + "\n":        "a",
		`c._ts > 0 AND IS_DEFINED(c._etag)`:     "a b c d",
	} {
		results, _, err := query(t, c, "SELECT VALUE c.id FROM c WHERE "+where, pk("p"), nil)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		if got := strings.ReplaceAll(strings.Join(results, " "), `"`, ""); got != want {
			t.Errorf("%s: got %q, want %q", where, got, want)
		}
	}
}

func TestAQueryProjects(t *testing.T) {
	w := newWorld(t)
	c := w.container("items", "/pk")
	must2(c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"a","pk":"p","n":2,"o":{"x":1,"y":2},"l":[{"v":1},{"v":2}]}`), nil))(t)
	must2(c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"b","pk":"p","n":1,"big":12345678901234567890}`), nil))(t)
	for sql, want := range map[string]string{
		`SELECT c.id, c.n FROM c`:                                         `{"id":"a","n":2} {"id":"b","n":1}`,
		`select c.o.x from c`:                                             `{"x":1} {}`,
		`SELECT c.o.x AS left, c.o.y right FROM c`:                        `{"left":1,"right":2} {}`,
		`SELECT c["o"]["x"], c.n + 1 FROM c`:                              `{"x":1,"$2":3} {"$2":2}`,
		`SELECT VALUE c.n FROM items AS c`:                                `2 1`,
		`SELECT VALUE c.o FROM c`:                                         `{"x":1,"y":2}`,
		`SELECT VALUE {"id": c.id, "sum": c.o.x + c.o.y} FROM c`:          `{"id":"a","sum":3} {"id":"b"}`,
		`SELECT VALUE [c.id, c.missing, null] FROM c`:                     `["a",null] ["b",null]`,
		`SELECT VALUE c.big FROM c`:                                       `12345678901234567890`,
		`SELECT VALUE x.v FROM c JOIN x IN c.l`:                           `1 2`,
		`SELECT VALUE x.v FROM x IN c.l WHERE x.v > 1`:                    `2`,
		`SELECT VALUE o.y FROM c.o`:                                       `2`,
		`SELECT TOP 1 VALUE c.id FROM c`:                                  `"a"`,
		`SELECT TOP 0 VALUE c.id FROM c`:                                  ``,
		`SELECT VALUE c.id FROM c ORDER BY c.n`:                           `"b" "a"`,
		`SELECT VALUE c.id FROM c ORDER BY c.n DESC`:                      `"a" "b"`,
		`SELECT VALUE c.id FROM c ORDER BY c.id OFFSET 1 LIMIT 5`:         `"b"`,
		`SELECT VALUE COUNT(1) FROM c`:                                    `2`,
		`SELECT VALUE COUNT(c.o) FROM c`:                                  `1`,
		`SELECT COUNT(1) AS n, MAX(c.n) AS most, AVG(c.n) AS mean FROM c`: `{"n":2,"most":2,"mean":1.5}`,
		`SELECT VALUE SUM(c.n) FROM c WHERE c.n > 100`:                    `0`,
		`SELECT VALUE MIN(c.n) FROM c WHERE c.n > 100`:                    ``,
		`SELECT VALUE SUM(c.id) FROM c`:                                   ``,
		`SELECT DISTINCT VALUE c.pk FROM c`:                               `"p"`,
	} {
		results, _, err := query(t, c, sql, pk("p"), nil)
		if got := strings.Join(results, " "); err != nil || got != want {
			t.Errorf("%s: got %s (%v), want %s", sql, got, err, want)
		}
	}
}

func TestAQueryTakesParameters(t *testing.T) {
	w := newWorld(t)
	c := w.container("items", "/pk")
	fill(t, c, 1, 5)
	results, _, err := query(t, c, "SELECT TOP @top VALUE c.id FROM c WHERE c.n >= @least AND c.id != @not ORDER BY c.n", pk("1"), &azcosmos.QueryOptions{
		QueryParameters: []azcosmos.QueryParameter{{Name: "@top", Value: 2}, {Name: "@least", Value: 1}, {Name: "@not", Value: "2' OR true"}},
	})
	if fmt.Sprint(results) != `["1" "2"]` || err != nil {
		t.Errorf("%v (%v)", results, err)
	}
	_, _, err = query(t, c, "SELECT * FROM c WHERE c.n = @n", pk("1"), nil)
	wantStatus(t, err, http.StatusBadRequest)
}

func TestAnOrderIsByTypeFirst(t *testing.T) {
	w := newWorld(t)
	c := w.container("items", "/pk")
	for i, v := range []string{`"n":"b"`, `"n":2`, `"x":1`, `"n":true`, `"n":null`, `"n":"a"`, `"n":1.5`, `"n":false`} {
		must2(c.CreateItem(t.Context(), pk("p"), fmt.Appendf(nil, `{"id":"%d","pk":"p",%s}`, i, v), nil))(t)
	}
	for sql, want := range map[string]string{
		"SELECT VALUE c.id FROM c ORDER BY c.n":      `"2" "4" "7" "3" "6" "1" "5" "0"`,
		"SELECT VALUE c.id FROM c ORDER BY c.n DESC": `"0" "5" "1" "6" "3" "7" "4" "2"`,
	} {
		for _, size := range []int32{0, 1, 3} {
			results, _, err := query(t, c, sql, pk("p"), &azcosmos.QueryOptions{PageSizeHint: size})
			if got := strings.Join(results, " "); got != want || err != nil {
				t.Errorf("%s by %d: got %s (%v), want %s", sql, size, got, err, want)
			}
		}
	}
}

func TestAnOrderNeedsItsIndex(t *testing.T) {
	w := newWorld(t)
	c := w.containerWith(azcosmos.ContainerProperties{
		ID: "items", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
		IndexingPolicy: &azcosmos.IndexingPolicy{
			Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
			IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}},
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/payload/*"}},
			CompositeIndexes: [][]azcosmos.CompositeIndex{{
				{Path: "/a", Order: azcosmos.CompositeIndexAscending}, {Path: "/b", Order: azcosmos.CompositeIndexDescending},
			}},
		},
	})
	for i := range 4 {
		must2(c.CreateItem(t.Context(), pk("p"), fmt.Appendf(nil, `{"id":"%d","pk":"p","a":%d,"b":%d}`, i, i/2, i%2), nil))(t)
	}
	for orderBy, want := range map[string]string{
		"c.a, c.b DESC":        `"1" "0" "3" "2"`,
		"c.a DESC, c.b":        `"2" "3" "0" "1"`,
		"c.a, c.b":             "composite",
		"c.b DESC, c.a":        "composite",
		"c.payload.x":          "excluded",
		"c.payload":            "excluded",
		"c.a + 1":              "document path",
		"LOWER(c.a)":           "document path",
		"c":                    "document path",
		"c.a, c.payload.x ASC": "excluded",
	} {
		results, _, err := query(t, c, "SELECT VALUE c.id FROM c ORDER BY "+orderBy, pk("p"), nil)
		if strings.HasPrefix(want, `"`) {
			if got := strings.Join(results, " "); got != want || err != nil {
				t.Errorf("ORDER BY %s: got %s (%v), want %s", orderBy, got, err, want)
			}
		} else if status(err) != 400 || !strings.Contains(err.Error(), want) {
			t.Errorf("ORDER BY %s: got %v, want 400 with %q", orderBy, err, want)
		}
	}
}

func TestWhatIsNotUnderstoodIsRefusedByName(t *testing.T) { // V7
	w := newWorld(t)
	c := w.container("items", "/pk")
	for sql, says := range map[string]string{
		`SELECT`:                                                                                "unexpected end",
		`SELEC * FROM c`:                                                                        "near 'SELEC'",
		`SELECT * FROM`:                                                                         "unexpected end",
		`SELECT *`:                                                                              "FROM clause is omitted",
		`SELECT * FROM c WHERE`:                                                                 "unexpected end",
		`SELECT * FROM c WHERE c.n = `:                                                          "unexpected end",
		`SELECT * FROM c WHERE c.n == 1`:                                                        "near '='",
		`SELECT * FROM c WHERE c.value = 1`:                                                     "near 'value'",
		`SELECT * FROM c WHERE c.n = 'open`:                                                     "unterminated",
		`SELECT * FROM c WHERE c.n = 1 1`:                                                       "near '1'",
		`SELECT * FROM c WHERE d.n = 1`:                                                         "'d' could not be resolved",
		`SELECT * FROM c WHERE c.n = NULL`:                                                      "'NULL' could not be resolved",
		`SELECT * FROM root r WHERE root.n = 1`:                                                 "'root' could not be resolved",
		`SELECT * FROM c WHERE NOT c.n = 1`:                                                     "write NOT",
		`SELECT * FROM c WHERE FROBNICATE(c.n)`:                                                 "FROBNICATE",
		`SELECT * FROM c WHERE udf.f(c.n)`:                                                      "user-defined functions",
		`SELECT * FROM c WHERE CONTAINS(c.n)`:                                                   "requires 2 to 3",
		`SELECT * FROM c WHERE COUNT(1) > 1`:                                                    "only valid in the select list",
		`SELECT c.id, COUNT(1) FROM c`:                                                          "not contained in either an aggregate",
		`SELECT c.id FROM c GROUP BY c.pk`:                                                      "not contained in either an aggregate",
		`SELECT * FROM c GROUP BY c.pk`:                                                         "not valid together with GROUP BY",
		`SELECT c.pk FROM c GROUP BY c.pk ORDER BY c.pk`:                                        "'ORDER BY' is not supported in presence of GROUP BY",
		`SELECT c.pk FROM c GROUP BY COUNT(1)`:                                                  "only valid in the select list",
		`SELECT c.pk FROM c GROUP BY (SELECT VALUE 1)`:                                          "cannot have a subquery",
		`SELECT c.pk FROM c GROUP c.pk`:                                                         "near 'c'",
		`SELECT c.pk FROM c GROUP BY c.pk HAVING COUNT(1) > 1`:                                  "near 'HAVING'",
		`SELECT * FROM c JOIN x IN c.l`:                                                         "single input set",
		`SELECT * FROM c WHERE EXISTS(SELECT VALUE d.n)`:                                        "'d' could not be resolved",
		`SELECT * FROM c WHERE EXISTS(SELECT VALUE 1`:                                           "unexpected end",
		`SELECT * FROM c WHERE c.n IN (SELECT VALUE 1)`:                                         "as the list of IN",
		`SELECT * FROM (SELECT DISTINCT VALUE c FROM c) AS d`:                                   "over all items",
		`SELECT VALUE COUNT(1) FROM (SELECT COUNT(1) FROM c) AS d`:                              "over all items",
		`SELECT VALUE (SELECT VALUE x FROM x IN c.l) FROM c`:                                    "Cardinality of a scalar subquery",
		`SELECT ARRAY(SELECT TOP 1 VALUE x FROM x IN c.l) FROM c`:                               "'TOP' is not supported in subqueries",
		`SELECT ARRAY(SELECT VALUE x.n FROM x IN c.l OFFSET 1 LIMIT 1) FROM c`:                  "'OFFSET LIMIT' is not supported in subqueries",
		`SELECT ARRAY(SELECT x.k FROM x IN c.l GROUP BY x.k) FROM c`:                            "does not support GROUP BY in a subquery",
		`SELECT c.n FROM c WHERE c.n = {a: 1, a: 2}`:                                            "more than once in an object",
		`SELECT * FROM c ORDER BY RANK FullTextScore(c.s, 'x')`:                                 "ORDER BY RANK",
		`SELECT VALUE c.id FROM c JOIN x IN c.l ORDER BY x.k`:                                   "Order-by over correlated collections",
		`SELECT * FROM c WHERE RegexMatch(c.s, '(')`:                                            "regular expression",
		`SELECT * FROM c WHERE RegexMatch(c.s, 'a', 'x')`:                                       "modifiers",
		`SELECT * FROM c WHERE ST_DISTANCE(c.a, c.b) < 1`:                                       "ST_DISTANCE",
		`SELECT * FROM c WHERE c.s LIKE 'a' ESCAPE 'ab'`:                                        "near ''ab''",
		`SELECT * FROM c WHERE c.s = 'a\q'`:                                                     "invalid string literal",
		`SELECT * FROM c WHERE c.n = @missing`:                                                  "'@missing' has no value",
		`SELECT TOP @missing * FROM c`:                                                          "'@missing' has no value",
		`SELECT TOP -1 * FROM c`:                                                                "not a non-negative integer",
		`SELECT * FROM c OFFSET 1`:                                                              "unexpected end",
		`SELECT * FROM c ORDER BY c.n NULLS FIRST`:                                              "near 'NULLS'",
		`SELECT c.a, c.a FROM c`:                                                                "more than once",
		`SELECT * FROM c WHERE c.n = #`:                                                         "near '#'",
		`SELECT * FROM c; DROP`:                                                                 "near ';'",
		`SELECT VALUE 1 FROM c` + strings.Repeat(" JOIN x IN c.l", 11):                          "more than 10 JOINs",
		`DELETE FROM c`:                                                                         "near 'DELETE'",
		`SELECT * FROM c WHERE ` + strings.Repeat("(", 500) + "true" + strings.Repeat(")", 500): "nested deeper",
	} {
		_, _, err := query(t, c, sql, pk("p"), nil)
		if status(err) != http.StatusBadRequest || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want 400 with %q", sql, err, says)
		}
	}
}

func TestTheGatewayServesNoMoreThanFiltersAcrossPartitions(t *testing.T) { // V7
	w := newWorld(t)
	c := w.container("items", "/pk")
	fill(t, c, 2, 3)
	for sql, served := range map[string]bool{
		"SELECT * FROM c":                                                          true,
		"SELECT c.id FROM c WHERE c.n > 0":                                         true,
		"SELECT VALUE c.id FROM c WHERE c.pk IN ('1', '2')":                        true,
		"SELECT * FROM c ORDER BY c.id":                                            false,
		"SELECT TOP 1 * FROM c":                                                    false,
		"SELECT DISTINCT c.pk FROM c":                                              false,
		"SELECT VALUE COUNT(1) FROM c":                                             false,
		"SELECT * FROM c OFFSET 0 LIMIT 1":                                         false,
		"SELECT * FROM c WHERE c.pk = '1' ORDER BY c.id":                           true,
		"SELECT * FROM c WHERE '1' = c.pk AND c.n > 0 ORDER BY c.id":               true,
		"SELECT * FROM c WHERE c.pk IN ('1') ORDER BY c.id":                        true,
		"SELECT * FROM c WHERE c.pk = -1 ORDER BY c.id":                            true,
		"SELECT * FROM c WHERE c.pk = -'1' ORDER BY c.id":                          false,
		"SELECT VALUE COUNT(1) FROM c WHERE c.n > 0 AND (c.pk = '1')":              true,
		"SELECT * FROM c WHERE c.pk = '1' OR c.n > 0 ORDER BY c.id":                false,
		"SELECT * FROM c WHERE c.pk = '1' OR c.pk = '1' ORDER BY c.id":             false,
		"SELECT * FROM c WHERE c.pk > '1' ORDER BY c.id":                           false,
		"SELECT * FROM c WHERE NOT (c.pk = '1') ORDER BY c.id":                     false,
		"SELECT * FROM c WHERE c.pk = c.id ORDER BY c.id":                          false,
		"SELECT VALUE COUNT(1) FROM c WHERE c.other.pk = '1'":                      false,
		"SELECT VALUE COUNT(1) FROM c JOIN x IN c.l WHERE x.pk = '1'":              false,
		"SELECT VALUE COUNT(1) FROM c WHERE IS_NULL(c.pk) AND c.n BETWEEN 0 AND 1": true,
	} {
		_, _, err := query(t, c, sql, azcosmos.NewPartitionKey(), nil)
		switch {
		case served && err != nil:
			t.Errorf("%s: %v", sql, err)
		case !served && (status(err) != 400 || !strings.Contains(err.Error(), "cross partition query can not be directly served by the gateway") || !strings.Contains(err.Error(), "BadRequest")):
			t.Errorf("%s: got %v, want the gateway's refusal", sql, err)
		}
		if _, _, err := query(t, c, sql, pk("1"), nil); err != nil {
			t.Errorf("%s in one partition: %v", sql, err)
		}
	}
	no := false
	_, _, err := query(t, c, "SELECT * FROM c", azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{EnableCrossPartitionQuery: &no})
	if status(err) != 400 || !strings.Contains(err.Error(), "Cross partition query is required but disabled") {
		t.Errorf("with crossing disabled: %v", err)
	}
	if _, _, err := query(t, c, "SELECT * FROM c WHERE c.pk = '1'", azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{EnableCrossPartitionQuery: &no}); err != nil {
		t.Errorf("confined with crossing disabled: %v", err)
	}
}

func TestPagesAreAsManyAsTheServicesAre(t *testing.T) {
	w := newWorld(t)
	c := w.container("items", "/pk")
	fill(t, c, 2, 10)
	one, all := pk("1"), azcosmos.NewPartitionKey()
	for _, test := range []struct {
		sql            string
		key            azcosmos.PartitionKey
		size           int32
		results, pages int
	}{
		{"SELECT * FROM c", all, 5, 20, 5}, // a scan learns that it has ended on an empty page
		{"SELECT * FROM c", all, 6, 20, 4},
		{"SELECT * FROM c", all, 0, 20, 1},
		{"SELECT * FROM c", all, -1, 20, 1},
		{"SELECT * FROM c", one, 5, 10, 3},
		{"SELECT * FROM c WHERE c.n < 4", one, 5, 4, 1},
		{"SELECT * FROM c WHERE c.n < 5", one, 5, 5, 2},
		{"SELECT * FROM c ORDER BY c.n", one, 5, 10, 2}, // an order knows
		{"SELECT * FROM c ORDER BY c.n DESC", one, 4, 10, 3},
		{"SELECT TOP 5 * FROM c", one, 5, 5, 1},
		{"SELECT TOP 7 * FROM c ORDER BY c.n", one, 5, 7, 2},
		{"SELECT * FROM c OFFSET 1 LIMIT 7", one, 5, 7, 2},
		{"SELECT DISTINCT VALUE c.n % 3 FROM c", one, 2, 3, 2},
		{"SELECT * FROM c WHERE c.n > 100", all, 5, 0, 1},
	} {
		results, pages, err := query(t, c, test.sql, test.key, &azcosmos.QueryOptions{PageSizeHint: test.size})
		if err != nil || len(results) != test.results || pages != test.pages {
			t.Errorf("%s by %d: %d results on %d pages (%v), want %d on %d", test.sql, test.size, len(results), pages, err, test.results, test.pages)
		}
		slices.Sort(results)
		if len(slices.Compact(results)) != test.results {
			t.Errorf("%s by %d: results came twice", test.sql, test.size)
		}
	}
}

func TestAContinuationGoesOnWhereItWasWhateverIsWrittenBetween(t *testing.T) {
	for _, sql := range []string{"SELECT VALUE c.id FROM c", "SELECT VALUE c.id FROM c ORDER BY c.n"} {
		w := newWorld(t)
		c := w.container("items", "/pk")
		fill(t, c, 1, 6)
		pager := c.NewQueryItemsPager(sql, pk("1"), &azcosmos.QueryOptions{PageSizeHint: 3})
		first := must2(pager.NextPage(t.Context()))(t)
		must2(c.DeleteItem(t.Context(), pk("1"), "0", nil))(t)
		must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"new","pk":"1","n":-1}`), nil))(t)
		got := []string{}
		for _, item := range first.Items {
			got = append(got, string(item))
		}
		for pager.More() {
			page := must2(pager.NextPage(t.Context()))(t)
			for _, item := range page.Items {
				got = append(got, string(item))
			}
		}
		want := `["0" "1" "2" "3" "4" "5" "new"]`
		if strings.Contains(sql, "ORDER") {
			want = `["0" "1" "2" "3" "4" "5"]` // it came in before where the order has come
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", sql, got, want)
		}
		token := first.ContinuationToken
		for other, sql := range map[string]string{"another query": sql + " ", "no token at all": sql} {
			o := &azcosmos.QueryOptions{PageSizeHint: 3, ContinuationToken: token}
			if other == "no token at all" {
				nonsense := "nonsense"
				o.ContinuationToken = &nonsense
			}
			if _, _, err := query(t, c, sql, pk("1"), o); status(err) != 400 || !strings.Contains(err.Error(), "continuation token") {
				t.Errorf("%s: %v", other, err)
			}
		}
	}
}

func TestManyItemsAreReadTogether(t *testing.T) {
	w := newWorld(t)
	c := w.container("items", "/pk")
	fill(t, c, 3, 4)
	var want []azcosmos.ItemIdentity
	for _, one := range []struct{ id, key string }{{"0", "1"}, {"5", "2"}, {"11", "3"}, {"none", "3"}} {
		want = append(want, azcosmos.ItemIdentity{ID: one.id, PartitionKey: pk(one.key)})
	}
	response := must2(c.ReadManyItems(t.Context(), want, nil))(t)
	var got []string
	for _, item := range response.Items {
		got = append(got, decode(t, item)["id"].(string))
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"0", "11", "5"}) || response.RequestCharge <= 0 {
		t.Errorf("items %q for %v", got, response.RequestCharge)
	}
}
