package cosmos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/internal/message"
)

const (
	containerClaims     = "claims"
	containerExecutions = "executions"
	containerInventory  = "inventory"
	containerWebhooks   = "webhooks"
)

// perItem switches expiry on without a default: every item says how long it lives.
const perItem int32 = -1

// Container is what must be true of a container.
type Container struct {
	ID      string
	Key     string   // path of the partition key
	TTL     int32    // seconds; -1: every item says how long it lives
	Indexed []string // what queries ask for; everything else is not indexed, and costs no writes
}

// Table is the one table: Setup makes its containers where a key gives the right to,
// and infra/ where nobody has one.
func Table() []Container {
	return []Container{
		{ID: containerClaims, Key: "/id", TTL: perItem},
		{ID: containerExecutions, Key: "/executionId", TTL: int32(90 * 24 * time.Hour / time.Second), Indexed: []string{"/kind/?", "/status/?"}},
		{ID: containerInventory, Key: "/sku", TTL: perItem},
		{ID: containerWebhooks, Key: "/resource", TTL: perItem},
	}
}

// Containers names the containers of the table, in its order.
func Containers() []string {
	var names []string
	for _, c := range Table() {
		names = append(names, c.ID)
	}
	return names
}

// ErrDiffers: the database is not as the table says.
var ErrDiffers = errors.New("the database is not as it must be")

// Setup creates what is missing, if a key gives the right to, and then compares.
// ErrDiffers comes with every difference; nothing that exists is changed.
func (d *Database) Setup(ctx context.Context) error {
	if d.options.Key != "" {
		if err := d.create(ctx); err != nil {
			return err
		}
	}
	o, err := d.Observe(ctx)
	if err != nil {
		return err
	}
	if len(o.Differences) > 0 {
		return fmt.Errorf("%w:\n%w", ErrDiffers, errors.Join(o.Differences...))
	}
	return nil
}

func (d *Database) create(ctx context.Context) error {
	err := d.do(ctx, &operation{name: "create database " + d.options.Database, write: true, create: true},
		func(ctx context.Context, c *connection) error {
			_, err := c.client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: d.options.Database}, nil)
			return err
		})
	if err != nil && !errors.Is(err, message.ErrExists) {
		return err
	}
	for _, want := range Table() {
		err := d.do(ctx, &operation{name: "create container " + want.ID, write: true, create: true},
			func(ctx context.Context, c *connection) error {
				database, err := c.client.NewDatabase(d.options.Database)
				if err != nil {
					return err
				}
				_, err = database.CreateContainer(ctx, want.properties(), nil)
				return err
			})
		if err != nil && !errors.Is(err, message.ErrExists) {
			return err
		}
	}
	return nil
}

func (c Container) properties() azcosmos.ContainerProperties {
	p := azcosmos.ContainerProperties{
		ID: c.ID,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{
			Kind: azcosmos.PartitionKeyKindHash, Paths: []string{c.Key}, Version: 2,
		},
		DefaultTimeToLive: &c.TTL,
		IndexingPolicy: &azcosmos.IndexingPolicy{
			// Not None: expiry needs the index of _ts.
			Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}},
		},
	}
	for _, path := range c.Indexed {
		p.IndexingPolicy.IncludedPaths = append(p.IndexingPolicy.IncludedPaths, azcosmos.IncludedPath{Path: path})
	}
	return p
}

// differences reads a container and says where it is not as wanted, and its default
// time to live.
func (d *Database) differences(ctx context.Context, want Container) ([]error, *int32, error) {
	var found *azcosmos.ContainerProperties
	err := d.onItems(ctx, &operation{name: "read container " + want.ID}, want.ID,
		func(ctx context.Context, items *azcosmos.ContainerClient) error {
			answer, err := items.Read(ctx, nil)
			found = answer.ContainerProperties
			return err
		})
	switch {
	case errors.Is(err, message.ErrNotFound) || errors.Is(err, errNoContainer):
		return []error{fmt.Errorf("container %s: is missing", want.ID)}, nil, nil
	case err != nil:
		return nil, nil, err
	case found == nil:
		return nil, nil, fmt.Errorf("read container %s: %w: the answer says nothing of it", want.ID, message.ErrRefused)
	}
	var differences []error
	compare := func(what, is, must string) {
		if is != must {
			differences = append(differences, fmt.Errorf("container %s: %s is %s, it must be %s", want.ID, what, is, must))
		}
	}
	wanted := want.properties()
	compare("partition key", list(found.PartitionKeyDefinition.Paths), list([]string{want.Key}))
	compare("default TTL", ttlText(found.DefaultTimeToLive), ttlText(&want.TTL))
	compare("indexing", indexingText(found.IndexingPolicy), indexingText(wanted.IndexingPolicy))
	return differences, found.DefaultTimeToLive, nil
}

func list(paths []string) string {
	if len(paths) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(slices.Values(paths)), " ")
}

func ttlText(seconds *int32) string {
	switch {
	case seconds == nil:
		return "off"
	case *seconds == perItem:
		return "on, for each item as it says (-1)"
	}
	return fmt.Sprintf("%d seconds", *seconds)
}

// indexingText is a policy in words that are equal for equal policies. The service
// adds the exclusion of _etag to every policy.
func indexingText(p *azcosmos.IndexingPolicy) string {
	if p == nil {
		return "not told"
	}
	var included, excluded []string
	for _, path := range p.IncludedPaths {
		included = append(included, path.Path)
	}
	for _, path := range p.ExcludedPaths {
		if path.Path != `/"_etag"/?` {
			excluded = append(excluded, path.Path)
		}
	}
	return fmt.Sprintf("%s, of %s without %s", strings.ToLower(string(p.IndexingMode)), list(included), list(excluded))
}
