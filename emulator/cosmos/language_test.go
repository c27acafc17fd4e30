package cosmos_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// one evaluates an expression over an item that has the given properties.
func one(t *testing.T, c *azcosmos.ContainerClient, expression string) string {
	t.Helper()
	results, _, err := query(t, c, "SELECT VALUE "+expression+" FROM c WHERE c.id = 'one'", pk("p"), nil)
	if err != nil {
		return err.Error()
	}
	return strings.Join(results, " ")
}

// An expression that is undefined selects nothing.
func TestAnExpressionHasAValueOrNone(t *testing.T) {
	w := newWorld(t)
	c := w.container("items", "/pk")
	must2(c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"one","pk":"p","n":3,"f":2.5,"s":"Größe","t":"  x  ","b":true,"z":null,
		"l":[1,2,3,2],"tags":["a","b"],"o":{"x":1,"y":{"k":2}},"big":9007199254740993,"when":"2026-11-30T21:30:15.1234567Z"}`), nil))(t)
	for _, test := range []struct{ expression, want string }{
		// What is undefined, in every operator.
		{`c.u`, ``}, {`-c.u`, ``}, {`+c.u`, ``}, {`~c.u`, ``}, {`NOT c.u`, ``}, {`c.u + 1`, ``}, {`1 - c.u`, ``},
		{`c.u * 2`, ``}, {`2 / c.u`, ``}, {`c.u % 2`, ``}, {`c.u || 'a'`, ``}, {`c.u & 1`, ``}, {`c.u | 1`, ``}, {`1 ^ c.u`, ``},
		{`c.u = 1`, ``}, {`c.u != 1`, ``}, {`c.u = c.u`, ``}, {`c.u < 1`, ``}, {`1 >= c.u`, ``}, {`c.u = undefined`, ``},
		{`c.u IN (1, 2)`, ``}, {`1 IN (c.u, 1)`, `true`}, {`1 IN (c.u, 2)`, ``}, {`c.u BETWEEN 1 AND 2`, ``}, {`1 BETWEEN c.u AND 2`, ``},
		{`5 BETWEEN c.u AND 2`, `false`}, {`c.u LIKE 'a'`, ``}, {`'a' LIKE c.u`, ``}, {`c.u ?? 1`, `1`}, {`1 ?? c.u`, `1`}, {`c.z ?? 1`, `null`},
		{`c.u ? 1 : 2`, `2`}, {`c.z ? 1 : 2`, `2`}, {`true ? c.u : 2`, ``}, {`[1, c.u, 2]`, `[1,2]`}, {`{a: c.u, b: 1}`, `{"b":1}`},
		{`c.u AND true`, ``}, {`c.u AND false`, `false`}, {`false AND c.u`, `false`}, {`c.u OR true`, `true`}, {`true OR c.u`, `true`}, {`c.u OR false`, ``},
		{`c.n AND true`, ``}, {`c.n OR true`, `true`}, {`NOT c.n`, ``}, {`c.u[0]`, ``}, {`c.l["x"]`, ``}, {`c.s.x`, ``}, {`c.o[1]`, ``},
		{`ARRAY_CONTAINS(c.u, 1)`, ``}, {`CONCAT('a', c.u)`, ``}, {`IS_DEFINED(c.u)`, `false`}, {`IS_NULL(c.u)`, `false`}, {`LOWER(c.n)`, ``},
		{`ABS('1')`, ``}, {`ARRAY_LENGTH(c.s)`, ``}, {`STARTSWITH(c.s, c.u)`, ``}, {`COUNT(c.u)`, `0`}, {`SUM(c.u)`, `0`}, {`AVG(c.u)`, ``}, {`MIN(c.u)`, ``},

		// Values of different types, and of composite ones.
		{`1 = '1'`, `false`}, {`1 != '1'`, `true`}, {`null = null`, `true`}, {`null = c.z`, `true`}, {`null < 1`, ``}, {`true > false`, `true`},
		{`'a' < 'b'`, `true`}, {`'B' < 'a'`, `true`}, {`c.l = [1, 2, 3, 2]`, `true`}, {`c.l = [1, 2]`, `false`}, {`c.l < [2]`, ``},
		{`c.o = {y: {k: 2}, x: 1}`, `true`}, {`c.o.y = {k: 2.0}`, `true`}, {`c.o = c.l`, `false`}, {`{} = {}`, `true`},

		// Numbers are doubles.
		{`0.1 + 0.2`, `0.30000000000000004`}, {`1 / 3`, `0.3333333333333333`}, {`1 / 0`, ``}, {`0 / 0`, ``}, {`7 % 4`, `3`}, {`-7 % 4`, `-3`}, {`5.5 % 2`, `1.5`},
		{`9007199254740993 = 9007199254740992`, `true`}, {`c.big = 9007199254740992`, `true`}, {`9007199254740992 + 1`, `9007199254740992`}, {`1e308 * 10`, ``},
		{`1.0`, `1`}, {`-0`, `0`}, {`.5`, `0.5`}, {`1E3`, `1000`}, {`2 + 3 * 4`, `14`}, {`(2 + 3) * 4`, `20`}, {`2 - 3 - 4`, `-5`}, {`- - 3`, `3`}, {`-c.n`, `-3`},
		{`6 & 3`, `2`}, {`6 | 3`, `7`}, {`6 ^ 3`, `5`}, {`~6`, `-7`}, {`1.5 & 1`, ``}, {`1 + 2 | 4`, `7`}, {`1 < 2 AND 2 < 3`, `true`},

		// Texts and their escapes.
		{`"a\"b"`, `"a\"b"`}, {`'a\'b'`, `"a'b"`}, {`'a"b'`, `"a\"b"`}, {`'\u00e9\n\\\/'`, `"é\n\\/"`}, {`'\ud83d\ude00'`, `"😀"`}, {`'a' || "b" || 'c'`, `"abc"`},
		{`LENGTH(c.s)`, `5`}, {`UPPER('größe')`, `"GRÖßE"`}, {`LEFT(c.s, 3)`, `"Grö"`}, {`RIGHT(c.s, 2)`, `"ße"`}, {`LEFT(c.s, -1)`, `""`}, {`RIGHT(c.s, 99)`, `"Größe"`},
		{`SUBSTRING(c.s, 1, 3)`, `"röß"`}, {`SUBSTRING(c.s, 9, 3)`, `""`}, {`INDEX_OF(c.s, 'ß')`, `3`}, {`INDEX_OF('abab', 'b', 2)`, `3`}, {`INDEX_OF(c.s, 'q')`, `-1`},
		{`LASTINDEXOF('abab', 'a')`, `2`}, {`TRIM(c.t)`, `"x"`}, {`LTRIM(c.t)`, `"x  "`}, {`RTRIM(c.t)`, `"  x"`}, {`TRIM('xxaxx', 'x')`, `"a"`}, {`REVERSE(c.s)`, `"eßörG"`},
		{`REPLACE('aXbX', 'X', '--')`, `"a--b--"`}, {`REPLACE('ab', '', 'x')`, `"ab"`}, {`REPLICATE('ab', 3)`, `"ababab"`}, {`REPLICATE('ab', -1)`, ``}, {`REPLICATE('ab', 6000)`, ``},
		{`StringJoin(c.tags, '-')`, `"a-b"`}, {`StringJoin(c.l, '-')`, ``}, {`StringSplit('a,b,,c', ',')`, `["a","b","","c"]`},
		{`ToString(1.5)`, `"1.5"`}, {`ToString(c.tags)`, `"[\"a\",\"b\"]"`}, {`ToString('a')`, `"a"`}, {`ToString(null)`, `"null"`}, {`ToString(c.u)`, ``},
		{`StringToNumber(' 1.5 ')`, `1.5`}, {`StringToNumber('x')`, ``}, {`StringToBoolean('true')`, `true`}, {`StringToBoolean('TRUE')`, ``}, {`StringToNull('null')`, `null`},
		{`StringToArray('[1, {"a": 2}]')`, `[1,{"a":2}]`}, {`StringToObject('{"a": 2}').a`, `2`}, {`StringToObject('[]')`, ``}, {`STRINGEQUALS('Ab', 'aB', true)`, `true`},
		{`RegexMatch('abcd', 'ABC', 'i')`, `true`}, {`RegexMatch('abcd', '^b')`, `false`}, {`RegexMatch(c.n, 'a')`, ``},

		// LIKE.
		{`'abc' LIKE 'a%'`, `true`}, {`'abc' LIKE '%b%'`, `true`}, {`'abc' LIKE 'a_'`, `false`}, {`'abc' LIKE '___'`, `true`}, {`'a%c' LIKE 'a!%c' ESCAPE '!'`, `true`},
		{`'abc' LIKE 'a!%c' ESCAPE '!'`, `false`}, {`'a!c' LIKE 'a!!c' ESCAPE '!'`, `true`}, {`'b' LIKE '[a-c]'`, `true`}, {`'d' LIKE '[^a-c]'`, `true`}, {`'d' NOT LIKE '[a-c]'`, `true`},
		{`'a%' LIKE 'a[%]'`, `true`}, {`'Abc' LIKE 'a%'`, `false`}, {`c.n LIKE '3'`, ``}, {`'größe' LIKE 'gr__e'`, `true`},

		// Functions of numbers.
		{`ROUND(2.5)`, `3`}, {`ROUND(-2.5)`, `-3`}, {`ROUND(2.345, 2)`, `2.35`}, {`CEILING(2.1)`, `3`}, {`FLOOR(-2.1)`, `-3`}, {`TRUNC(-2.9)`, `-2`}, {`SIGN(-3)`, `-1`}, {`SQUARE(3)`, `9`},
		{`SQRT(-1)`, ``}, {`SQRT(9)`, `3`}, {`POWER(2, 10)`, `1024`}, {`LOG(1)`, `0`}, {`LOG(8, 2)`, `3`}, {`LOG10(1000)`, `3`}, {`EXP(0)`, `1`}, {`PI()`, `3.141592653589793`},
		{`DEGREES(PI())`, `180`}, {`RADIANS(180)`, `3.141592653589793`}, {`SIN(0) + COS(0) + TAN(0)`, `1`}, {`ATN2(0, 1) + ASIN(0) + ATAN(0) + ACOS(1)`, `0`}, {`RAND() < 1`, `true`},
		{`NumberBin(37, 10)`, `30`}, {`NumberBin(37, 0)`, ``}, {`IntAdd(20, 22)`, `42`}, {`IntDiv(7, 2)`, `3`}, {`IntDiv(7, 0)`, ``}, {`IntMod(7, 4)`, `3`}, {`IntMul(6, 7)`, `42`}, {`IntSub(1, 2)`, `-1`},
		{`IntBitAnd(6, 3) + IntBitOr(6, 3) + IntBitXor(6, 3)`, `14`}, {`IntBitLeftShift(1, 4)`, `16`}, {`IntBitRightShift(16, 4)`, `1`}, {`IntBitNot(0)`, `-1`}, {`IntAdd(1.5, 1)`, ``},

		// Functions of types, arrays and objects.
		{`IS_INTEGER(3.0)`, `true`}, {`IS_INTEGER(c.f)`, `false`}, {`IS_FINITE_NUMBER(c.f)`, `true`}, {`IIF(c.b, 1, 2)`, `1`}, {`IIF(c.z, 1, 2)`, `2`},
		{`ARRAY_CONCAT(c.l, c.tags)`, `[1,2,3,2,"a","b"]`}, {`ARRAY_CONCAT(c.l, 1)`, ``}, {`ARRAY_SLICE(c.l, 1)`, `[2,3,2]`}, {`ARRAY_SLICE(c.l, -2, 1)`, `[3]`}, {`ARRAY_SLICE(c.l, 9)`, `[]`},
		{`ARRAY_CONTAINS_ANY(c.l, 9, 3)`, `true`}, {`ARRAY_CONTAINS_ALL(c.l, 9, 3)`, `false`}, {`ARRAY_CONTAINS_ALL(c.l, 1, 3)`, `true`}, {`ARRAY_CONTAINS([c.o], {y: {k: 2}}, true)`, `true`},
		{`CHOOSE(2, 'a', 'b')`, `"b"`}, {`CHOOSE(3, 'a', 'b')`, ``}, {`ObjectToArray(c.o.y)`, `[{"k":"k","v":2}]`}, {`ObjectToArray(c.o.y, 'name', 'is')`, `[{"name":"k","is":2}]`},
		{`SetIntersect(c.l, [2, 3, 4])`, `[2,3]`}, {`SetUnion(c.l, [4, 1])`, `[1,2,3,4]`},

		// Functions of times.
		{`DateTimePart('yyyy', c.when) + DateTimePart('mm', c.when) + DateTimePart('dd', c.when)`, `2067`}, {`DateTimePart('hh', c.when)`, `21`}, {`DateTimePart('ns', c.when)`, `123456700`},
		{`DateTimeAdd('mm', 3, '2026-11-30T00:00:00.0000000Z')`, `"2027-02-28T00:00:00.0000000Z"`}, {`DateTimeAdd('ss', -16, c.when)`, `"2026-11-30T21:29:59.1234567Z"`}, {`DateTimeAdd('week', 1, c.when)`, ``},
		{`DateTimeDiff('yyyy', '2026-12-31T23:59:59Z', '2027-01-01T00:00:00Z')`, `1`}, {`DateTimeDiff('hh', c.when, '2026-11-30T23:00:00Z')`, `2`}, {`DateTimeDiff('dd', c.when, '2026-11-29')`, `-1`},
		{`DateTimeFromParts(2026, 2, 29)`, ``}, {`DateTimeFromParts(2028, 2, 29, 1, 2, 3, 4)`, `"2028-02-29T01:02:03.0000004Z"`}, {`DateTimeToTimestamp('1970-01-01T00:00:01Z')`, `1000`},
		{`TimestampToDateTime(1000)`, `"1970-01-01T00:00:01.0000000Z"`}, {`TicksToDateTime(DateTimeToTicks(c.when)) = c.when`, `true`}, {`DateTimeToTimestamp('yesterday')`, ``},
		{`ABS(GetCurrentTimestamp() - c._ts * 1000) < 100000`, `true`}, {`DateTimeToTicks(GetCurrentDateTime()) = GetCurrentTicks()`, `true`},

		// Subqueries.
		{`(SELECT VALUE 1)`, `1`}, {`(SELECT 1 AS a)`, `{"a":1}`}, {`(SELECT VALUE c.n + 1)`, `4`}, {`(SELECT VALUE c.u)`, ``}, {`(SELECT VALUE COUNT(1) FROM x IN c.l)`, `4`},
		{`(SELECT VALUE SUM(x) FROM x IN c.l WHERE x > 1)`, `7`}, {`(SELECT COUNT(1) AS n, MAX(x) AS m FROM x IN c.l)`, `{"n":4,"m":3}`}, {`(SELECT VALUE o.x FROM o IN [c.o] WHERE false).x`, `400`},
		{`ARRAY(SELECT VALUE x * 2 FROM x IN c.l WHERE x != 2)`, `[2,6]`}, {`ARRAY(SELECT DISTINCT VALUE x FROM x IN c.l)`, `[1,2,3]`}, {`ARRAY(SELECT VALUE x FROM x IN c.u)`, `[]`},
		{`ARRAY(SELECT x, y FROM x IN c.tags JOIN y IN c.tags WHERE x != y)`, `[{"x":"a","y":"b"},{"x":"b","y":"a"}]`}, {`ARRAY(SELECT VALUE s FROM s IN (SELECT VALUE c.tags))`, `["a","b"]`},
		{`EXISTS(SELECT VALUE x FROM x IN c.l WHERE x = 3)`, `true`}, {`EXISTS(SELECT VALUE x FROM x IN c.l WHERE x = 4)`, `false`}, {`EXISTS(SELECT VALUE c.u)`, `false`}, {`NOT EXISTS(SELECT VALUE c.u)`, `true`},
		{`ARRAY(SELECT VALUE EXISTS(SELECT VALUE y FROM y IN c.l WHERE y > x) FROM x IN c.l)`, `[true,true,false,true]`}, {`ARRAY(SELECT VALUE c.k FROM c IN [{k: 1}])[0]`, `400`},
	} {
		got := one(t, c, test.expression)
		if test.want == "400" {
			if !strings.Contains(got, "400 Bad Request") {
				t.Errorf("%s: got %s, want a refusal", test.expression, got)
			}
		} else if got != test.want {
			t.Errorf("%s: got %s, want %s", test.expression, got, test.want)
		}
	}
}

func TestAQueryMakesRows(t *testing.T) {
	w := newWorld(t)
	c := w.container("items", "/pk")
	for _, item := range []string{
		`{"id":"a","pk":"p","n":1,"city":"Rom","l":[{"v":1},{"v":2}],"m":["x"]}`,
		`{"id":"b","pk":"p","n":2,"city":"Ulm","l":[],"m":["x","y"]}`,
		`{"id":"c","pk":"p","n":3,"city":"Rom","l":[{"v":2}]}`,
		`{"id":"d","pk":"p","n":"x","m":"no array"}`,
	} {
		must2(c.CreateItem(t.Context(), pk("p"), []byte(item), nil))(t)
	}
	for _, test := range []struct{ sql, want string }{
		{`SELECT 1`, `{"$1":1}`}, {`SELECT VALUE 1 + 1`, `2`}, {`SELECT VALUE 1 WHERE false`, ``}, {`SELECT VALUE COUNT(1)`, `1`},
		{`SELECT c.id, x.v FROM c JOIN x IN c.l`, `{"id":"a","v":1} {"id":"a","v":2} {"id":"c","v":2}`},
		{`SELECT VALUE [c.id, x.v, y] FROM c JOIN x IN c.l JOIN y IN c.m`, `["a",1,"x"] ["a",2,"x"]`},
		{`SELECT VALUE x.v FROM x IN c.l`, `1 2 2`}, {`SELECT DISTINCT VALUE x.v FROM x IN c.l`, `1 2`}, {`SELECT VALUE x FROM c.city x`, `"Rom" "Ulm" "Rom"`},
		{`SELECT VALUE city FROM c.city`, `"Rom" "Ulm" "Rom"`}, {`SELECT VALUE x FROM c.l[0] AS x`, `{"v":1} {"v":2}`},
		{`SELECT VALUE [c.id, t.v] FROM c JOIN (SELECT VALUE x FROM x IN c.l WHERE x.v > 1) AS t`, `["a",2] ["c",2]`},
		{`SELECT c.id, t FROM c JOIN (SELECT COUNT(1) AS n FROM x IN c.l) AS t WHERE t.n > 0`, `{"id":"a","t":{"n":2}} {"id":"c","t":{"n":1}}`},
		{`SELECT VALUE d.id FROM (SELECT c.id, c.n FROM c WHERE c.n > 1) AS d`, `"b" "c"`}, {`SELECT VALUE d FROM d IN (SELECT VALUE c.m FROM c)`, `"x" "x" "y"`},
		{`SELECT DISTINCT c.city FROM c`, `{"city":"Rom"} {"city":"Ulm"} {}`}, {`SELECT DISTINCT VALUE c.city FROM c`, `"Rom" "Ulm"`}, {`SELECT DISTINCT TOP 1 VALUE c.city FROM c`, `"Rom"`},
		{`SELECT TOP 2 VALUE c.id FROM c`, `"a" "b"`}, {`SELECT TOP 0 * FROM c`, ``}, {`SELECT VALUE c.id FROM c ORDER BY c.id DESC OFFSET 1 LIMIT 2`, `"c" "b"`}, {`SELECT * FROM c OFFSET 9 LIMIT 1`, ``},
		{`SELECT VALUE c.id FROM c ORDER BY c.n DESC`, `"d" "c" "b" "a"`}, {`SELECT VALUE c.id FROM c ORDER BY c.city`, `"d" "a" "c" "b"`},

		{`SELECT c.city, COUNT(1) AS n FROM c GROUP BY c.city`, `{"city":"Rom","n":2} {"city":"Ulm","n":1} {"n":1}`}, {`SELECT VALUE c.city FROM c GROUP BY c.city`, `"Rom" "Ulm"`},
		{`SELECT VALUE COUNT(1) FROM c GROUP BY c.city`, `2 1 1`}, {`SELECT c.city, SUM(c.n) s, AVG(c.n) a, MIN(c.n) l, MAX(c.n) m FROM c WHERE c.city = 'Rom' GROUP BY c.city`, `{"city":"Rom","s":4,"a":2,"l":1,"m":3}`},
		{`SELECT UPPER(c.city) AS u, COUNT(1) AS n FROM c GROUP BY UPPER(c.city)`, `{"u":"ROM","n":2} {"u":"ULM","n":1} {"n":1}`}, {`SELECT COUNT(1) AS n FROM c GROUP BY c.city OFFSET 1 LIMIT 1`, `{"n":1}`},
		{`SELECT c.city, x.v, COUNT(1) AS n FROM c JOIN x IN c.l GROUP BY c.city, x.v`, `{"city":"Rom","v":1,"n":1} {"city":"Rom","v":2,"n":2}`}, {`SELECT TOP 1 c.city FROM c GROUP BY c.city`, `{"city":"Rom"}`},
		{`SELECT COUNT(1) AS n FROM c WHERE false GROUP BY c.city`, ``}, {`SELECT COUNT(1) AS n, SUM(c.n) AS s FROM c WHERE false`, `{"n":0,"s":0}`}, {`SELECT c.city || '!' AS t FROM c GROUP BY c.city`, `{"t":"Rom!"} {"t":"Ulm!"} {}`},

		{`SELECT VALUE COUNT(1) FROM c`, `4`}, {`SELECT VALUE COUNT(c.l) FROM c`, `3`}, {`SELECT VALUE COUNTIF(c.n > 1) FROM c`, `2`}, {`SELECT VALUE SUM(c.n) FROM c`, ``}, {`SELECT VALUE AVG(c.n) FROM c WHERE IS_NUMBER(c.n)`, `2`},
		{`SELECT VALUE MIN(c.n) FROM c`, `1`}, {`SELECT VALUE MAX(c.n) FROM c`, `"x"`}, {`SELECT VALUE MAX(c.l) FROM c`, ``}, {`SELECT COUNT(1) + 1 AS m FROM c`, `{"m":5}`}, {`SELECT VALUE {"n": COUNT(1)} FROM c`, `{"n":4}`},
	} {
		for _, size := range []int32{0, 1} {
			results, _, err := query(t, c, test.sql, pk("p"), &azcosmos.QueryOptions{PageSizeHint: size})
			got := strings.Join(results, " ")
			if test.want == "400" {
				if status(err) != 400 {
					t.Errorf("%s: got %v, want a refusal", test.sql, err)
				}
			} else if got != test.want || err != nil {
				t.Errorf("%s by %d: got %s (%v), want %s", test.sql, size, got, err, test.want)
			}
		}
	}
}

// No query over an item takes the machine away: what costs too much is refused.
func TestAQueryThatCostsTooMuchIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.container("items", "/pk")
	numbers := strings.TrimSuffix(strings.Repeat("1,", 3000), ",")
	members := make([]string, 20_000)
	for i := range members {
		members[i] = fmt.Sprintf(`"m%d":%d`, i, i)
	}
	forth := strings.Join(members, ",")
	slices.Reverse(members)
	long := strings.Repeat("x", 500_000)
	must2(c.CreateItem(t.Context(), pk("p"), fmt.Appendf(nil, `{"id":"a","pk":"p","l":[%s],"s":[%s],"t":%q,"u":"%sy","o":{%s},"r":{%s}}`,
		numbers, numbers[:59], long, long, forth, strings.Join(members, ",")), nil))(t)
	joins := ""
	for i := range 4 {
		joins += fmt.Sprintf(" JOIN x%d IN c.l", i)
	}
	doubled := "c.t"
	for range 14 {
		doubled = "(" + doubled + " || " + doubled + ")"
	}
	for name, test := range map[string]struct{ sql, says string }{
		"joins":                {"SELECT VALUE COUNT(1) FROM c" + joins, "more than the 1048576 rows"},
		"joins in a subquery":  {"SELECT VALUE EXISTS(SELECT VALUE 1 FROM c" + joins + " WHERE false) FROM c", "more than the 1048576 rows"},
		"a text doubled":       {"SELECT VALUE LENGTH(" + doubled + ") FROM c", "more steps"},
		"a text replicated":    {"SELECT VALUE REPLACE(c.t, 'x', c.t) FROM c", "more steps"},
		"a large result":       {"SELECT VALUE [" + strings.TrimSuffix(strings.Repeat("c.t,", 20), ",") + "] FROM c", "larger than a page"},
		"a slow pattern":       {"SELECT VALUE c.t LIKE '%" + strings.Repeat("x", 1000) + "y' FROM c", "more steps"},
		"a large set":          {"SELECT VALUE c.t LIKE '%[" + strings.Repeat("y", 20_000) + "]' FROM c", "more steps"},
		"many blanks":          {"SELECT VALUE TRIM(c.t, '" + strings.Repeat("é", 50_000) + "x') FROM c", "more steps"},
		"a text folded often":  {"SELECT VALUE COUNT(1) FROM c JOIN x IN c.l WHERE CONTAINS('a', c.t, true)", "more steps"},
		"texts compared often": {"SELECT VALUE COUNT(1) FROM c JOIN x IN c.l WHERE c.t < c.u", "more steps"},
		"a member of many":     {"SELECT VALUE COUNT(1) FROM c JOIN x IN c.l JOIN y IN c.s WHERE c.o.m19999 = y", "more steps"},
		"a chain of terms":     {"SELECT VALUE 1" + strings.Repeat("+1", 20_000) + " FROM c", ""},
		"objects compared":     {"SELECT VALUE c.o = c.r FROM c", ""},
		"deep parentheses":     {"SELECT VALUE " + strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200) + " FROM c", "nested deeper"},
		"deep subqueries":      {"SELECT VALUE " + strings.Repeat("(SELECT VALUE ", 200) + "1" + strings.Repeat(")", 200) + " FROM c", "nested deeper"},
	} {
		_, _, err := query(t, c, test.sql, pk("p"), nil)
		if test.says == "" && err != nil || test.says != "" && (status(err) != 400 || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %.300v, want %q", name, err, test.says)
		}
	}
}
