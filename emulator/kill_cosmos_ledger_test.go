package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// item is what the clients know of one, by the last answer to a write of it.
type item struct {
	of, id string
	text   string // "" while there is none
	old    string // an ETag that it had before
}

func (i *item) etag() string { return systemOf(i.text).ETag }

// system is what the service and a change have put into an item.
type system struct {
	ID   string `json:"id"`
	Of   string `json:"of"`
	Mark int    `json:"mark"`
	ETag string `json:"_etag"`
}

func systemOf(text string) (s system) {
	_ = json.Unmarshal([]byte(text), &s) // what is not there is empty
	return s
}

// change is what is to become of an item. Its mark is in no other.
type change struct {
	*item
	what string // create, replace, patch, delete
	mark int
}

func (c change) body() []byte {
	return fmt.Appendf(nil, `{"id":%q,"of":%q,"mark":%d,"n":1.50,"text":"\u00e4\ud83d\ude00"}`, c.id, c.of, c.mark)
}

func (c change) patch() azcosmos.PatchOperations {
	p := azcosmos.PatchOperations{}
	p.AppendSet("/mark", c.mark)
	p.AppendIncrement("/n", 1)
	return p
}

// doubt is a request of which no answer has come: all of its changes have been made, or none.
type doubt struct{ changes []change }

// book is what the clients of all rounds have been told.
type book struct {
	t *testing.T

	mu      sync.Mutex
	items   map[string]*item // by id, which no two partitions share
	doubts  map[*doubt]bool
	etags   map[string]bool // that were given
	lsns    map[string]bool // session tokens of writes
	extras  map[string][2]known
	marks   int
	settled map[string]int // answered writes, of each kind, and what became of those without an answer
}

func newBook(t *testing.T) *book {
	return &book{
		t: t, items: map[string]*item{}, doubts: map[*doubt]bool{}, etags: map[string]bool{}, lsns: map[string]bool{}, extras: map[string][2]known{},
		settled: map[string]int{"create": 0, "replace": 0, "patch": 0, "delete": 0, "batch": 0, "refused": 0, "doubts that were done": 0, "doubts that were not": 0},
	}
}

func (b *book) counts() map[string]int {
	counts := maps.Clone(b.settled)
	counts["items"], counts["containers"] = len(b.items), len(b.extras)
	return counts
}

// mark is one that no change has had.
func (b *book) mark() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marks++
	return b.marks
}

// there are the items of a partition.
func (b *book) there(of string) (all []*item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range b.items {
		if i.of == of {
			all = append(all, i)
		}
	}
	return all
}

func (b *book) begin(changes ...change) *doubt {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := &doubt{changes}
	b.doubts[d] = true
	return d
}

// answered enters what a request was answered with: an LSN, and a text for each change.
func (b *book) answered(d *doubt, lsn string, texts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.doubts, d)
	if b.lsns[lsn] {
		b.t.Errorf("the session token %s was given twice", lsn)
	}
	b.lsns[lsn] = true
	for n, c := range d.changes {
		if c.what != "delete" && systemOf(texts[n]).Mark != c.mark {
			b.t.Errorf("%s %s with mark %d was answered with %s", c.what, c.id, c.mark, texts[n])
		}
		b.enter(c, texts[n])
	}
	if len(d.changes) > 1 {
		b.settled["batch"]++
	} else {
		b.settled[d.changes[0].what]++
	}
}

// enter enters the text that a change has made.
func (b *book) enter(c change, text string) {
	c.old = c.etag()
	c.text = text
	if c.what == "delete" {
		delete(b.items, c.id)
		return
	}
	etag := c.etag()
	if etag == "" || b.etags[etag] {
		b.t.Errorf("%s of %s has given the ETag %q, which was given before", c.what, c.id, etag)
	}
	b.etags[etag] = true
	b.items[c.id] = c.item
}

func (b *book) refused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settled["refused"]++
}

// note enters whether a container has been made and dropped.
func (b *book) note(id string, made, dropped known) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.extras[id] = [2]known{made, dropped}
}

// cluttered reports whether there are containers enough.
func (b *book) cluttered() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.extras) > 200
}

// audit compares what is there with what was told, and takes over what it finds where nobody was told.
func (b *book) audit(v *victim) {
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	client := v.account()
	defer client.Close()
	if b.marks == 0 {
		b.setUp(ctx, client)
	}
	found := b.all(ctx, v.items(client))
	for d := range b.doubts {
		b.resolve(d, found)
	}
	clear(b.doubts)
	for _, id := range slices.Sorted(maps.Keys(b.items)) {
		if text := found[id]; text != b.items[id].text {
			b.t.Errorf("%s is\n%s\nand was answered as\n%s", id, text, b.items[id].text)
		}
	}
	for id, text := range found {
		if b.items[id] == nil {
			b.t.Errorf("this is there, and was never written or was deleted:\n%s", text)
		}
	}
	b.auditExtras(ctx, client)
}

// resolve finds out what became of a request without an answer.
func (b *book) resolve(d *doubt, found map[string]string) {
	done := 0
	for _, c := range d.changes {
		text := found[c.id]
		if c.what == "delete" && text == "" || c.what != "delete" && systemOf(text).Mark == c.mark {
			done++
		}
	}
	switch done {
	case 0:
		b.settled["doubts that were not"]++
	case len(d.changes):
		b.settled["doubts that were done"]++
		for _, c := range d.changes {
			b.enter(c, found[c.id])
		}
	default:
		b.t.Errorf("%d of the %d changes of a batch have been made: %v", done, len(d.changes), d.changes)
	}
}

func (b *book) setUp(ctx context.Context, client *azcosmos.Client) {
	_, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "books"}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	database, err := client.NewDatabase("books")
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = database.CreateContainer(ctx, azcosmos.ContainerProperties{
		ID: "items", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/of"}, Version: 2},
	}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
}

// all reads every item, by its partition.
func (b *book) all(ctx context.Context, c *azcosmos.ContainerClient) map[string]string {
	found := map[string]string{}
	pages := c.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), nil)
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			b.t.Fatalf("read everything: %v", err)
		}
		for _, text := range page.Items {
			id := systemOf(string(text)).ID
			if _, twice := found[id]; twice {
				b.t.Errorf("%s is there twice", id)
			}
			found[id] = string(text)
		}
	}
	return found
}

// auditExtras looks for the containers that were made and dropped.
func (b *book) auditExtras(ctx context.Context, client *azcosmos.Client) {
	database, err := client.NewDatabase("books")
	if err != nil {
		b.t.Fatal(err)
	}
	there := map[string]bool{}
	pages := database.NewQueryContainersPager("SELECT * FROM c", nil)
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			b.t.Fatalf("list the containers: %v", err)
		}
		for _, c := range page.Containers {
			there[c.ID] = true
		}
	}
	for id, is := range b.extras {
		if !there[id] && is[0] == yes && is[1] == no || there[id] && is[1] == yes {
			b.t.Errorf("container %s is there: %t; it was made: %d, and dropped: %d", id, there[id], is[0], is[1])
		}
		b.extras[id] = [2]known{yes, yes} // or it never was, which is the same from now on
		if there[id] {
			b.extras[id] = [2]known{yes, no}
		}
	}
}
