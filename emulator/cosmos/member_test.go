package cosmos

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// What is found in a stored text is what its tree has, for every path that leads
// somewhere and for some that do not.
func TestWhatIsFoundInATextIsWhatItsTreeHas(t *testing.T) {
	names := []string{"a", "b", "a b", `"`, `\`, `\"`, `\n`, "\n", `{`, `}]`, ",", ":", "é", "\u2028", ""}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 2))
		var grow func(depth int) value
		grow = func(depth int) value {
			kind := random.IntN(8)
			if depth == 0 {
				kind = 7
			}
			switch kind {
			case 0:
				return nil
			case 1:
				return random.IntN(2) == 0
			case 2:
				n, err := readNumber([]string{"0", "-1.5e+3", "1E9", "12345678901234567890"}[random.IntN(4)])
				if err != nil {
					t.Fatal(err)
				}
				return n
			case 3, 4:
				return names[random.IntN(len(names))] + names[random.IntN(len(names))]
			case 5:
				list := []any{}
				for range random.IntN(4) {
					list = append(list, grow(depth+1))
				}
				return list
			}
			o := &object{}
			for range random.IntN(6) * max(0, 3-depth) {
				o.set(names[random.IntN(len(names))], grow(depth+1))
			}
			return o
		}
		tree := grow(0)
		text := stored(appendValue(nil, tree))
		for _, a := range names {
			want := [][]string{{a}}
			for _, b := range names {
				want = append(want, []string{a, b})
			}
			for _, path := range want {
				if got, want := text.at(path), follow(tree, path); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: %q of %s is %v, want %v", seed, path, text, got, want)
				}
			}
		}
		asked := names[:1+random.IntN(len(names))]
		want := &object{members: []member{}}
		for _, m := range tree.(*object).members {
			for _, name := range asked {
				if m.name == name {
					want.members = append(want.members, m)
				}
			}
		}
		if got := text.only(asked); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %q of %s are %s, want %s", seed, asked, text, textOf(got), textOf(want))
		}
	}
}

// A query that looks at few members gives what it gives when it looks at the whole
// item: which those are is never too few.
func TestAQueryNeedsWhatItLooksAt(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT * FROM c": "",
		"SELECT * FROM c WHERE c.a = 1 AND c['b'].x > 2":               "a b",
		"SELECT * FROM c WHERE c.a = 1 ORDER BY c.n, c.a":              "a n",
		"SELECT c.id, [c.x, {y: c.y}] AS l FROM c":                     "id x y",
		"SELECT VALUE COUNT(1) FROM c":                                 "",
		"SELECT c.kind, SUM(c.n) AS n FROM c GROUP BY c.kind":          "kind n",
		"SELECT * FROM c WHERE c[c.which].x":                           "all",
		"SELECT VALUE c FROM c":                                        "all",
		"SELECT DISTINCT * FROM c":                                     "all",
		"SELECT * FROM c OFFSET 1 LIMIT 2":                             "all",
		"SELECT c.a FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.l)": "all",
		"SELECT c.a FROM c JOIN x IN c.l":                              "all",
		"SELECT c.a FROM c.b AS c":                                     "all",
		"SELECT * FROM c WHERE IS_DEFINED(c.a) OR c.l[0] = c.m[c.n]":   "a l m n",
		"SELECT VALUE 1":                                               "all",
	} {
		t.Run(text, func(t *testing.T) {
			query, err := parseQuery(text, nil)
			if err != nil {
				t.Fatal(err)
			}
			names, known := query.needs()
			got := strings.Join(names, " ")
			if !known {
				got = "all"
			}
			if got != want {
				t.Errorf("needs %q, want %q", got, want)
			}
		})
	}
}
