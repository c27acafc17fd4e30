package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/measure"
)

// sought is how many items of every container a filter finds.
const sought = 10

// grown is a container of some size.
type grown struct {
	*documents
	size int
	feed string // the place in the change feed behind all of them
}

// measureGrowth fills containers of three sizes and asks all of them for the same, in turns.
func measureGrowth(ctx context.Context, b *bench) (err error) {
	s, err := b.start(ctx, "growth")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	containers := []grown{{size: 1_000}, {size: 100_000}, {size: 1_000_000}}
	names := []string{"10³", "10⁵", "10⁶"}
	for i := range containers {
		c := &containers[i]
		if c.documents, err = dialDocuments(ctx, s, fmt.Sprint("items-", c.size)); err != nil {
			return err
		}
		c.together = inBatch
		began := time.Now()
		if err := c.fill(ctx); err != nil {
			return fmt.Errorf("fill a container with %s items: %w", names[i], err)
		}
		if i == len(containers)-1 {
			b.table.Row(fmt.Sprintf("cosmos, 10⁶ items in batches of %d: create", inBatch), "items/s", measure.Goal{}, "").Add(float64(c.size) / time.Since(began).Seconds())
		}
	}
	rest, err := s.Memory("VmRSS")
	if err != nil {
		return err
	}
	asked := []struct {
		what string
		do   func(context.Context, *grown) error
	}{
		{"point read", func(ctx context.Context, c *grown) error { return c.read(ctx, requestsAsked) }},
		{"filter that finds 10", func(ctx context.Context, c *grown) error { return c.seek(ctx) }},
		{"newest 10 of the feed", func(ctx context.Context, c *grown) error { return c.follow(ctx) }},
		{"replace", func(ctx context.Context, c *grown) error { return c.replace(ctx, requestsAsked) }},
	}
	for _, a := range asked {
		for turn := range 1 + b.Repeat {
			for i := range containers {
				began := time.Now()
				if err := a.do(ctx, &containers[i]); err != nil {
					return fmt.Errorf("%s items: %s: %w", names[i], a.what, err)
				}
				if turn == 0 {
					continue // an index may have to be made
				}
				than := ""
				if i > 0 {
					than = "cosmos, " + names[0] + " items: " + a.what
				}
				b.table.Row("cosmos, "+names[i]+" items: "+a.what, "µs/request", measure.Goal{}, than).
					Add(float64(time.Since(began).Microseconds()) / requestsAsked)
			}
		}
	}
	most, err := s.Memory("VmHWM")
	if err != nil {
		return err
	}
	b.table.Row("memory, 1.1 × 10⁶ items of 1 KB", "MB", measure.AtMost(3072), "").Add(rest)
	b.table.Row("memory, the same and asked", "MB", measure.AtMost(3072), "").Add(most)
	return nil
}

const (
	// requestsAsked is how many requests one repetition has.
	requestsAsked = 400
	// inBatch is how many items are made at once, the most that the service takes.
	inBatch = 100
)

// fill makes the items, the sought ones among them last, in batches of what belongs to one partition.
func (g *grown) fill(ctx context.Context) error {
	g.made = g.size
	return each(ctx, g.size/inBatch, func(ctx context.Context, p int) error {
		batch := g.container.NewTransactionalBatch(azcosmos.NewPartitionKeyString(g.partition(p * inBatch)))
		for i := range inBatch {
			n, kind := p*inBatch+i, "claim"
			if n >= g.size-sought {
				kind = "outbox"
			}
			batch.CreateItem(g.item(n, kind), nil)
		}
		response, err := g.container.ExecuteTransactionalBatch(ctx, batch, nil)
		if err == nil && !response.Success {
			err = errors.New("a batch was refused")
		}
		return err
	})
}

// seek asks across partitions for the few items of a kind, as the product does for what it has not sent yet.
func (g *grown) seek(ctx context.Context) error {
	return each(ctx, requestsAsked, func(ctx context.Context, _ int) error {
		return g.expect(ctx, "SELECT * FROM c WHERE c.kind = @kind", azcosmos.NewPartitionKey(), "outbox", sought)
	})
}

// follow reads the change feed behind everything but the newest changes, which are made at first.
func (g *grown) follow(ctx context.Context) error {
	if g.feed == "" {
		whole := azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}
		never := time.Now().Add(time.Hour)
		nothing, err := g.container.ReadChangeFeed(ctx, &azcosmos.ChangeFeedOptions{FeedRange: &whole, StartFrom: &never})
		if err != nil {
			return err
		}
		g.feed = nothing.ContinuationToken
		if err := g.replace(ctx, sought); err != nil {
			return err
		}
	}
	return each(ctx, requestsAsked, func(ctx context.Context, _ int) error {
		page, err := g.container.ReadChangeFeed(ctx, &azcosmos.ChangeFeedOptions{Continuation: &g.feed})
		if err == nil && len(page.Items) != sought {
			err = fmt.Errorf("the change feed gave %d items, want %d", len(page.Items), sought)
		}
		return err
	})
}
