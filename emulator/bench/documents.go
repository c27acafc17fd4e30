package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/measure"
)

const (
	// accountKey is the one that every Cosmos DB emulator is known by.
	accountKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
	// databaseName is that of the one database.
	databaseName = "bench"
	// callers is how many goroutines use the SDK at once.
	callers = 32
	// inPartition is how many items have the same partition key, unless documents say otherwise.
	inPartition = 20
	// itemSize is about the size of an item as it is sent.
	itemSize = 1024
)

// documents is the SDK on one container, whose items are numbered.
type documents struct {
	container *azcosmos.ContainerClient
	together  int      // items of one partition
	made      int      // items
	batched   int      // batches
	etags     sync.Map // of items that have been replaced, by number
	padding   string
}

// dialDocuments makes a container, and the database if it is not there.
func dialDocuments(ctx context.Context, s *measure.Server, name string) (*documents, error) {
	credential, err := azcosmos.NewKeyCredential(accountKey)
	if err != nil {
		return nil, fmt.Errorf("make a credential: %w", err)
	}
	client, err := azcosmos.NewClientWithKey("http://"+s.Cosmos+"/", credential, nil)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	_, err = client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: databaseName}, nil)
	if refusal, ok := errors.AsType[*azcore.ResponseError](err); err != nil && (!ok || refusal.StatusCode != http.StatusConflict) {
		return nil, fmt.Errorf("make the database: %w", err)
	}
	database, err := client.NewDatabase(databaseName)
	if err != nil {
		return nil, err
	}
	_, err = database.CreateContainer(ctx, azcosmos.ContainerProperties{
		ID: name, PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("make the container: %w", err)
	}
	container, err := client.NewContainer(databaseName, name)
	return &documents{container: container, together: inPartition, padding: strings.Repeat("x", itemSize-450)}, err
}

// id is as long as the ids that programs make.
func id(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

// partition has the items of a number up to the next together.
func (d *documents) partition(i int) string { return fmt.Sprintf("partition-%09d", i/d.together) }

// item is one that has about itemSize bytes with the system's properties.
func (d *documents) item(i int, kind string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"pk":%q,"kind":%q,"status":"IN_PROGRESS","owner":"worker-%d","attempt":%d,"taken":true,"lease":{"until":"2030-01-01T00:00:00Z","by":"worker"},"padding":%q}`,
		id(i), d.partition(i), kind, i%16, i%5, d.padding)
}

// each does something with the numbers below n, callers of them at once.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var working sync.WaitGroup
	for range callers {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	working.Wait()
	return context.Cause(ctx)
}

func (d *documents) create(ctx context.Context, n int) error {
	first := d.made
	d.made += n
	return each(ctx, n, func(ctx context.Context, i int) error {
		_, err := d.container.CreateItem(ctx, azcosmos.NewPartitionKeyString(d.partition(first+i)), d.item(first+i, "claim"), nil)
		return err
	})
}

func (d *documents) read(ctx context.Context, n int) error {
	return each(ctx, n, func(ctx context.Context, i int) error {
		i %= d.made
		_, err := d.container.ReadItem(ctx, azcosmos.NewPartitionKeyString(d.partition(i)), id(i), nil)
		return err
	})
}

// replace replaces every item once, under the etag that it has.
func (d *documents) replace(ctx context.Context, n int) error {
	return each(ctx, n, func(ctx context.Context, i int) error {
		options := &azcosmos.ItemOptions{}
		if kept, ok := d.etags.Load(i); ok {
			etag := kept.(azcore.ETag)
			options.IfMatchEtag = &etag
		}
		response, err := d.container.ReplaceItem(ctx, azcosmos.NewPartitionKeyString(d.partition(i)), id(i), d.item(i, "claim"), options)
		if err == nil {
			d.etags.Store(i, response.ETag)
		}
		return err
	})
}

// batch makes two items that belong together.
func (d *documents) batch(ctx context.Context, n int) error {
	first := d.batched
	d.batched += n
	return each(ctx, n, func(ctx context.Context, i int) error {
		key := fmt.Sprintf("batch-%09d", first+i)
		batch := d.container.NewTransactionalBatch(azcosmos.NewPartitionKeyString(key))
		for _, kind := range []string{"claim", "event"} {
			batch.CreateItem(fmt.Appendf(nil, `{"id":"%s-%s","pk":%q,"kind":%q,"padding":%q}`, key, kind, key, kind, d.padding), nil)
		}
		response, err := d.container.ExecuteTransactionalBatch(ctx, batch, nil)
		if err == nil && !response.Success {
			err = errors.New("a batch was refused")
		}
		return err
	})
}

// query asks for one partition's items.
func (d *documents) query(ctx context.Context, n int) error {
	partitions := d.made / d.together
	return each(ctx, n, func(ctx context.Context, i int) error {
		key := azcosmos.NewPartitionKeyString(d.partition(i % partitions * d.together))
		return d.expect(ctx, "SELECT * FROM c WHERE c.kind = @kind", key, "claim", d.together)
	})
}

// expect runs a query with one parameter and wants so many results.
func (d *documents) expect(ctx context.Context, text string, key azcosmos.PartitionKey, kind string, want int) error {
	pages := d.container.NewQueryItemsPager(text, key, &azcosmos.QueryOptions{
		QueryParameters: []azcosmos.QueryParameter{{Name: "@kind", Value: kind}},
	})
	got := 0
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		got += len(page.Items)
	}
	if got != want {
		return fmt.Errorf("%s gave %d items, want %d", text, got, want)
	}
	return nil
}
