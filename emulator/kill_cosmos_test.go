package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/emulator/cosmos"
)

// TestAnAcknowledgedWriteOutlivesTheEmulator compares: every item is there, byte for byte as its last write was answered,
// or as one without an answer would have made it; a batch without an answer is there whole or not at all; and no ETag and
// no LSN is given twice.
func TestAnAcknowledgedWriteOutlivesTheEmulator(t *testing.T) {
	survive(t, newBook(t))
}

func (v *victim) account() *azcosmos.Client {
	v.t.Helper()
	key, err := azcosmos.NewKeyCredential(cosmos.EmulatorKey)
	if err != nil {
		v.t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: writers}
	v.t.Cleanup(transport.CloseIdleConnections)
	client, err := azcosmos.NewClientWithKey("http://"+v.addresses["cosmos"]+"/", key, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		// One attempt: a second one would make two writes of one.
		Retry:     policy.RetryOptions{MaxRetries: -1},
		Transport: &http.Client{Transport: transport},
	}})
	if err != nil {
		v.t.Fatal(err)
	}
	return client
}

func (v *victim) items(client *azcosmos.Client) *azcosmos.ContainerClient {
	v.t.Helper()
	c, err := client.NewContainer("books", "items")
	if err != nil {
		v.t.Fatal(err)
	}
	return c
}

// writers is how many write at the same time, each to a logical partition of its own.
const writers = 8

func (b *book) in(t *testing.T) { b.t = t }

func (b *book) load(v *victim, round int) (all []func(context.Context) error, end func()) {
	client := v.account()
	for who := range writers {
		w := &writer{book: b, items: v.items(client), of: fmt.Sprint("writer-", who), made: fmt.Sprintf("%d-%d", round, who)}
		all = append(all, w.write)
	}
	return append(all, func(ctx context.Context) error { return b.makeAndDrop(ctx, client, round) }), client.Close
}

// writer has a logical partition to itself. It tells the book what it is about to do, does it, and tells what was
// answered: in between, anything may have happened.
type writer struct {
	*book
	items *azcosmos.ContainerClient
	of    string // its partition
	made  string // what its ids begin with
	n     int
}

// write goes on until the emulator is gone.
func (w *writer) write(ctx context.Context) error {
	for {
		w.n++
		if err := w.one(ctx); err != nil {
			return err
		}
	}
}

// enough is how many items a partition is kept at: looking at all of them takes longer every time.
const enough = 30

func (w *writer) one(ctx context.Context) error {
	there := w.there(w.of)
	if len(there) == 0 {
		return w.alone(ctx, w.fresh(), "create")
	}
	i := there[rand.IntN(len(there))]
	switch n := rand.IntN(10); {
	case n < 2 && len(there) < enough:
		return w.alone(ctx, w.fresh(), "create")
	case n < 4:
		return w.alone(ctx, i, "replace")
	case n < 5:
		return w.alone(ctx, i, "patch")
	case n < 6:
		return w.alone(ctx, i, "delete")
	case n < 7:
		return w.read(ctx, i)
	case n < 8:
		return w.stale(ctx, i)
	}
	return w.together(ctx, there)
}

func (w *writer) fresh() *item {
	w.n++
	return &item{of: w.of, id: fmt.Sprintf("%s-%d", w.made, w.n)}
}

func (w *writer) key() azcosmos.PartitionKey { return azcosmos.NewPartitionKeyString(w.of) }

func (w *writer) options(i *item) *azcosmos.ItemOptions {
	o := &azcosmos.ItemOptions{EnableContentResponseOnWrite: true}
	if etag := azcore.ETag(i.etag()); etag != "" {
		o.IfMatchEtag = &etag
	}
	return o
}

// alone does one thing to one item, under the ETag that it was last known by.
func (w *writer) alone(ctx context.Context, i *item, what string) error {
	d := w.begin(change{i, what, w.mark()})
	var answer azcosmos.ItemResponse
	var err error
	switch c := d.changes[0]; what {
	case "create":
		answer, err = w.items.CreateItem(ctx, w.key(), c.body(), w.options(i))
	case "replace":
		answer, err = w.items.ReplaceItem(ctx, w.key(), i.id, c.body(), w.options(i))
	case "patch":
		answer, err = w.items.PatchItem(ctx, w.key(), i.id, c.patch(), w.options(i))
	default:
		answer, err = w.items.DeleteItem(ctx, w.key(), i.id, w.options(i))
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, i.id, err)
	}
	w.answered(d, *answer.SessionToken, string(answer.Value))
	return nil
}

// together does several things as a batch: all of them, or none.
func (w *writer) together(ctx context.Context, there []*item) error {
	batch := w.items.NewTransactionalBatch(w.key())
	rand.Shuffle(len(there), func(i, j int) { there[i], there[j] = there[j], there[i] })
	kinds := []string{"replace", "patch", "delete"}
	var changes []change
	for n, i := range slices.Insert(there[:min(len(there), 4)], 0, w.fresh()) {
		c := change{i, "create", w.mark()}
		etag := azcore.ETag(i.etag())
		under := &azcosmos.TransactionalBatchItemOptions{IfMatchETag: &etag}
		if n > 0 {
			c.what = kinds[rand.IntN(len(kinds))]
		}
		switch c.what {
		case "create":
			batch.CreateItem(c.body(), nil)
		case "replace":
			batch.ReplaceItem(i.id, c.body(), under)
		case "patch":
			batch.PatchItem(i.id, c.patch(), under)
		case "delete":
			batch.DeleteItem(i.id, under)
		}
		changes = append(changes, c)
	}
	d := w.begin(changes...)
	answer, err := w.items.ExecuteTransactionalBatch(ctx, batch, &azcosmos.TransactionalBatchOptions{EnableContentResponseOnWrite: true})
	if err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	if !answer.Success {
		return fmt.Errorf("batch of %s: %+v", w.of, answer.OperationResults)
	}
	var texts []string
	for _, r := range answer.OperationResults {
		texts = append(texts, string(r.ResourceBody))
	}
	w.answered(d, answer.SessionToken, texts...)
	return nil
}

func (w *writer) read(ctx context.Context, i *item) error {
	answer, err := w.items.ReadItem(ctx, w.key(), i.id, nil)
	if err == nil && string(answer.Value) != i.text {
		w.t.Errorf("%s was read as\n%s\nand is\n%s", i.id, answer.Value, i.text)
	}
	return err
}

// stale tries to write under an ETag that the item had before.
func (w *writer) stale(ctx context.Context, i *item) error {
	if i.old == "" {
		return nil
	}
	etag := azcore.ETag(i.old)
	_, err := w.items.ReplaceItem(ctx, w.key(), i.id, change{i, "replace", w.mark()}.body(), &azcosmos.ItemOptions{IfMatchEtag: &etag})
	if refused, ok := errors.AsType[*azcore.ResponseError](err); ok && refused.StatusCode == http.StatusPreconditionFailed {
		w.refused()
		return nil
	}
	if err == nil {
		w.t.Errorf("%s was replaced under an ETag that it had before", i.id)
	}
	return err
}

// extra is a container of no further use.
func extra(id string) azcosmos.ContainerProperties {
	return azcosmos.ContainerProperties{ID: id, PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}, Version: 2}}
}

// makeAndDrop makes containers and drops most of them.
func (b *book) makeAndDrop(ctx context.Context, client *azcosmos.Client, round int) error {
	database, err := client.NewDatabase("books")
	if err != nil {
		return err
	}
	for n := 0; !b.cluttered(); n++ {
		id := fmt.Sprintf("extra-%d-%d", round, n)
		b.note(id, unknown, no)
		if _, err := database.CreateContainer(ctx, extra(id), nil); err != nil {
			return err
		}
		b.note(id, yes, no)
		if n%3 == 0 {
			continue
		}
		c, err := database.NewContainer(id)
		if err != nil {
			return err
		}
		if _, err := c.CreateItem(ctx, azcosmos.NewPartitionKeyString("1"), []byte(`{"id":"1"}`), nil); err != nil {
			return err
		}
		b.note(id, yes, unknown)
		if _, err := c.Delete(ctx, nil); err != nil {
			return err
		}
		b.note(id, yes, yes)
	}
	return nil
}

func TestADiskThatTakesNoMoreItemsEndsTheEmulator(t *testing.T) {
	b := newBook(t)
	answered := 0
	data := fillDisk(t, "keep the data in ", func(v *victim) {
		client := v.account()
		b.setUp(t.Context(), client)
		var err error
		for err == nil {
			if answered == fills {
				t.Fatalf("%d items of 10 kB were answered", answered)
			}
			body := fmt.Appendf(nil, `{"id":"%d","of":"x","text":%q}`, answered, strings.Repeat("x", 10_000))
			if _, err = v.items(client).CreateItem(t.Context(), azcosmos.NewPartitionKeyString("x"), body, nil); err == nil {
				answered++
			}
		}
		if refused, ok := errors.AsType[*azcore.ResponseError](err); ok {
			t.Errorf("what could not be kept was answered: %v", refused)
		}
	})
	v := startVictim(t, "-data", data)
	if there := len(b.all(t.Context(), v.items(v.account()))); answered == 0 || there < answered || there > answered+1 {
		t.Errorf("%d items were answered and %d are there", answered, there)
	}
}
