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

// container is what must be true of a container.
type container struct {
	id      string
	key     string   // path of the partition key
	ttl     int32    // seconds, or perItem
	indexed []string // what queries ask for; everything else is not indexed, and costs no writes
}

// containers is the one table.
var containers = []container{
	{id: containerClaims, key: "/id", ttl: perItem},
	{id: containerExecutions, key: "/executionId", ttl: int32(90 * 24 * time.Hour / time.Second), indexed: []string{"/kind/?", "/status/?"}},
	{id: containerInventory, key: "/sku", ttl: perItem},
	{id: containerWebhooks, key: "/resource", ttl: perItem},
}

// Containers names the containers of the table, in its order.
func Containers() []string {
	names := make([]string, len(containers))
	for i, c := range containers {
		names[i] = c.id
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
	var differences []error
	for _, want := range containers {
		found, err := d.differences(ctx, want)
		if err != nil {
			return err
		}
		differences = append(differences, found...)
	}
	if len(differences) > 0 {
		return fmt.Errorf("%w:\n%w", ErrDiffers, errors.Join(differences...))
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
	for _, want := range containers {
		err := d.do(ctx, &operation{name: "create container " + want.id, write: true, create: true},
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

func (c container) properties() azcosmos.ContainerProperties {
	p := azcosmos.ContainerProperties{
		ID: c.id,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{
			Kind: azcosmos.PartitionKeyKindHash, Paths: []string{c.key}, Version: 2,
		},
		DefaultTimeToLive: &c.ttl,
		IndexingPolicy: &azcosmos.IndexingPolicy{
			// Not None: expiry needs the index of _ts.
			Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
			ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}},
		},
	}
	for _, path := range c.indexed {
		p.IndexingPolicy.IncludedPaths = append(p.IndexingPolicy.IncludedPaths, azcosmos.IncludedPath{Path: path})
	}
	return p
}

// differences reads a container and says where it is not as wanted.
func (d *Database) differences(ctx context.Context, want container) ([]error, error) {
	var found *azcosmos.ContainerProperties
	err := d.onItems(ctx, &operation{name: "read container " + want.id}, want.id,
		func(ctx context.Context, items *azcosmos.ContainerClient) error {
			answer, err := items.Read(ctx, nil)
			found = answer.ContainerProperties
			return err
		})
	switch {
	case errors.Is(err, message.ErrNotFound) || errors.Is(err, errNoContainer):
		return []error{fmt.Errorf("container %s: is missing", want.id)}, nil
	case err != nil:
		return nil, err
	case found == nil:
		return nil, fmt.Errorf("read container %s: %w: the answer says nothing of it", want.id, message.ErrRefused)
	}
	var differences []error
	compare := func(what, is, must string) {
		if is != must {
			differences = append(differences, fmt.Errorf("container %s: %s is %s, it must be %s", want.id, what, is, must))
		}
	}
	wanted := want.properties()
	compare("partition key", list(found.PartitionKeyDefinition.Paths), list([]string{want.key}))
	compare("default TTL", ttlText(found.DefaultTimeToLive), ttlText(&want.ttl))
	compare("indexing", indexingText(found.IndexingPolicy), indexingText(wanted.IndexingPolicy))
	return differences, nil
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
