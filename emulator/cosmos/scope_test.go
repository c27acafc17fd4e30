package cosmos

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/control"
)

// What an index finds is what looking at every item finds: the same results in the
// same pages with the same tokens, and charged alike, while items come, change, go
// and expire between the pages.
func TestAnIndexGivesWhatAScanGives(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newIndexWorld(t, seed)
			for range 300 {
				w.write()
			}
			for range 30 {
				w.query()
			}
			if len(w.container.indexes) == 0 {
				t.Error("no query has asked an index")
			}
		})
	}
}

// indexWorld is one container with items and queries made at random.
type indexWorld struct {
	t         *testing.T
	random    *rand.Rand
	store     *store
	container *container
	now       clock
}

func newIndexWorld(t *testing.T, seed uint64) *indexWorld {
	t.Helper()
	w := &indexWorld{t: t, random: rand.New(rand.NewPCG(seed, 1)), store: newStore(nil, func(string) bool { return false }), now: clock{1_000_000, true, true, true}}
	w.store.hub = control.New()
	body, err := parseObject([]byte(`{"id":"k","defaultTtl":-1,"partitionKey":{"kind":"Hash","paths":["/pk"]},
		"indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/hidden/?"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	set, refusal := readSettings(body)
	if refusal != nil {
		t.Fatal(refusal)
	}
	w.container = w.store.newContainer("k", 1, &database{id: "d", rid: "d", containers: map[string]*container{}})
	w.store.putContainer(w.container, set, body, "")
	return w
}

func (w *indexWorld) one(of ...string) string { return of[w.random.IntN(len(of))] }

// value is one of few, of every type, and some that a double cannot tell apart.
func (w *indexWorld) value() string {
	return w.one("0", "-0", "1", "1.0", "1.5", "2", "-3", "9007199254740993", "9007199254740992", "1e300",
		`""`, `"a"`, `"ab"`, `"b"`, `"\u00e9"`, "true", "false", "null")
}

func (w *indexWorld) partition() string { return w.one("p", "p", "p", "q", "r") }

// write changes one item, mostly by making it.
func (w *indexWorld) write() {
	w.t.Helper()
	w.now.seconds += w.random.Int64N(3)
	partition := w.partition()
	op := operation{kind: w.one("upsert", "upsert", "upsert", "delete"), id: fmt.Sprint(w.random.IntN(300))}
	if op.kind == "upsert" {
		members := []string{fmt.Sprintf(`"id":%q`, op.id), fmt.Sprintf(`"pk":%q`, partition)}
		for _, name := range []string{"a", "b", "hidden"} {
			if w.random.IntN(4) > 0 {
				members = append(members, fmt.Sprintf("%q:%s", name, w.value()))
			}
		}
		members = append(members, fmt.Sprintf(`"o":%s`, w.one("[1]", `{"x":`+w.value()+"}", w.value())))
		if w.random.IntN(6) == 0 {
			members = append(members, fmt.Sprintf(`"ttl":%d`, 1+w.random.IntN(300)))
		}
		var err error
		if op.body, err = parseObject([]byte("{" + strings.Join(members, ",") + "}")); err != nil {
			w.t.Fatal(err)
		}
	}
	o := w.store.begin(w.container, partitionKey{partition}, w.now)
	out := o.apply(op)
	if out.failure == nil {
		o.commit()
	} else if op.kind == "upsert" {
		w.t.Fatal(out.failure)
	}
}

// filter is a condition in which some comparisons can be looked up.
func (w *indexWorld) filter(depth int) string {
	if depth > 0 && w.random.IntN(3) > 0 {
		return w.filter(depth-1) + w.one(" AND ", " AND ", " OR ") + w.filter(depth-1)
	}
	path := w.one("c.a", "c.b", `c["a"]`, "c.o.x", "c.o", "c.hidden", "c.pk", "c.id", "c._ts", "c.missing")
	value := w.value
	switch path {
	case "c.id":
		value = func() string { return fmt.Sprintf("%q", fmt.Sprint(w.random.IntN(300))) }
	case "c._ts":
		value = func() string { return fmt.Sprint(w.now.seconds - w.random.Int64N(400)) }
	case "c.pk":
		value = func() string { return w.one(`"p"`, `"q"`, "1") }
	}
	switch w.random.IntN(8) {
	case 0:
		return path + " IN (" + value() + ", " + value() + ", " + value() + ")"
	case 1:
		return path + " BETWEEN " + value() + " AND " + value()
	case 2:
		return "IS_NULL(" + path + ")"
	case 3:
		return "NOT (" + path + " = " + value() + ")"
	case 4:
		return value() + w.one(" = ", " < ", " >= ") + path
	case 5:
		return "(" + path + w.one(" < ", " <= ", " > ", " >= ", " != ") + value() + ")"
	}
	return path + " = " + value()
}

// query asks for all pages twice, once with every item looked at, and writes
// between them.
func (w *indexWorld) query() {
	w.t.Helper()
	text := w.one("SELECT * FROM c", "SELECT * FROM c", "SELECT VALUE c.id FROM c", "SELECT VALUE COUNT(1) FROM c", "SELECT DISTINCT VALUE c.a FROM c",
		"SELECT TOP 7 c.id FROM c", "SELECT c.id, x FROM c JOIN x IN c.o") + " WHERE " + w.filter(3) + w.one("", "", " ORDER BY c.a")
	spec := querySpec{text: text}
	var err error
	if spec.selection, err = parseQuery(text, nil); err != nil {
		if strings.Contains(text, "COUNT") && strings.Contains(text, "ORDER BY") {
			return
		}
		w.t.Fatalf("%s: %v", text, err)
	}
	var key partitionKey
	if w.random.IntN(2) == 0 {
		key = partitionKey{w.partition()}
	}
	size := 1 + w.random.IntN(40)
	token := ""
	for {
		at, refusal := parseContinuation(token, "rid", spec, "")
		if refusal != nil {
			w.t.Fatal(refusal)
		}
		found := w.page(spec, w.container.scope(key, w.now, spec.selection.bounds()), size, at)
		narrowed := w.page(spec, w.scan(key, spec.selection.bounds()), size, at)
		all := w.page(spec, w.scan(key, nil), size, at)
		if got, want := fmt.Sprintf("%s", found.results), fmt.Sprintf("%s", all.results); got != want {
			w.t.Fatalf("%s\nfinds %s\nwant  %s", text, got, want)
		}
		if found.next.token() != narrowed.next.token() || found.examined != narrowed.examined {
			w.t.Fatalf("%s\ngoes on at %+v after %d items\nwant       %+v after %d", text, found.next, found.examined, narrowed.next, narrowed.examined)
		}
		if found.next.more != all.next.more || found.examined > all.examined {
			w.t.Fatalf("%s: goes on: %v, want %v; has looked at %d of %d items", text, found.next.more, all.next.more, found.examined, all.examined)
		}
		if token = found.next.token(); token == "" {
			return
		}
		for range w.random.IntN(4) {
			w.write()
		}
	}
}

func (w *indexWorld) page(spec querySpec, all items, size int, at continuation) page {
	w.t.Helper()
	p, refusal := spec.selection.page(all, size, at, time.Now())
	if refusal != nil {
		w.t.Fatal(refusal)
	}
	return p
}

// scan is a scope that looks at every item.
func (w *indexWorld) scan(key partitionKey, demanded []bound) items {
	demanded = slices.DeleteFunc(demanded, func(b bound) bool { return slices.Equal(b.path, []string{"hidden"}) })
	return func(after uint64) iter.Seq[*document] {
		return func(yield func(*document) bool) {
			for d := range w.container.inOrder.from(&document{}) {
				mine := key == nil || d.body().text("pk") == key[0]
				if mine && d.ordinal > after && !w.container.settings.expired(d, w.now) && admitted(d, demanded) && !yield(d) {
					return
				}
			}
		}
	}
}

func TestWhatHasExpiredIsForgottenThoughNobodyAsksForIt(t *testing.T) {
	w := newIndexWorld(t, 7)
	for range 400 {
		w.write()
	}
	w.now.seconds += 1000 // all with a time to live have expired
	jumped := w.now.seconds
	old := func() (expired int) {
		for d := range w.container.inOrder.from(&document{}) {
			if w.container.settings.expired(d, w.now) && d.ts < jumped {
				expired++
			}
		}
		return expired
	}
	if n := old(); n < 10 {
		t.Fatalf("%d items have expired, want some", n)
	}
	for range 400 {
		w.write()
	}
	if n := old(); n > 0 {
		t.Errorf("%d expired items are still there", n)
	}
	if n := len(w.container.items); n != w.container.inOrder.length || n != w.container.changed.length {
		t.Errorf("%d items, %d in order, %d in the feed", n, w.container.inOrder.length, w.container.changed.length)
	}
}
