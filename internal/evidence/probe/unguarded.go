package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
	"oneeffect/internal/receipt"
	"oneeffect/internal/servicebus"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json"
)

// The containers, and the id of an item in each.
const (
	inventory = "inventory"
	webhooks  = "webhooks"
	itemID    = "item"
)

// Unguarded writes what internal/cosmos has no method for: an item without its
// receipt. It is the broken variant's hand, and clears what the probes have left.
type Unguarded struct {
	client   *azcosmos.Client
	database string
	timeout  time.Duration
}

// OpenUnguarded opens the probes' own database for it. It does no I/O.
func OpenUnguarded(o cosmos.Options) (*Unguarded, error) {
	u := &Unguarded{database: o.Database, timeout: o.Timeout}
	options := &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: o.Transport, Telemetry: policy.TelemetryOptions{ApplicationID: o.ApplicationID},
	}}
	var err error
	if o.Key == "" {
		u.client, err = azcosmos.NewClient(o.Endpoint, o.Credential, options)
	} else {
		var key azcosmos.KeyCredential
		if key, err = azcosmos.NewKeyCredential(o.Key); err == nil {
			u.client, err = azcosmos.NewClientWithKey(o.Endpoint, key, options)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the database of the probes: %w", err)
	}
	return u, nil
}

// Close ends what the SDK does in the background.
func (u *Unguarded) Close() { u.client.Close() }

// stock is an item of the inventory as it is stored.
type stock struct {
	ID      string `json:"id"`
	SKU     string `json:"sku"`
	Stock   int64  `json:"stock"`
	Version int64  `json:"version"`
}

// do bounds an operation on a container, and says what its error means.
func (u *Unguarded) do(ctx context.Context, what, container string, f func(context.Context, *azcosmos.ContainerClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, u.timeout)
	defer cancel()
	c, err := u.client.NewContainer(u.database, container)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	err = f(ctx, c)
	if answer, ok := errors.AsType[*azcore.ResponseError](err); ok {
		meaning := message.ErrRefused
		switch {
		case answer.StatusCode == http.StatusNotFound:
			meaning = message.ErrNotFound
		case answer.StatusCode == http.StatusTooManyRequests, answer.StatusCode >= 500:
			meaning = message.ErrUnknown
		}
		return fmt.Errorf("%s: %w: %d %s", what, meaning, answer.StatusCode, answer.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", what, message.ErrUnknown, err)
	}
	return nil
}

// clear removes an entity's item and the receipts of keys.
func (u *Unguarded) clear(ctx context.Context, container, entity string, keys ...string) error {
	ids := []string{itemID}
	for _, key := range keys {
		ids = append(ids, receipt.ID(key))
	}
	for _, id := range ids {
		err := u.do(ctx, "remove "+id, container, func(ctx context.Context, c *azcosmos.ContainerClient) error {
			_, err := c.DeleteItem(ctx, azcosmos.NewPartitionKeyString(entity), id, nil)
			return err
		})
		if err != nil && !errors.Is(err, message.ErrNotFound) {
			return err
		}
	}
	return nil
}

// handle is the broken variant of a consumer: it does know event keys, and looks for
// the receipt; but it applies the effect first and writes the receipt after it, so that
// there is a moment between the two. between is called in that moment.
func (u *Unguarded) handle(between func(d message.Delivery)) servicebus.Handle {
	return func(ctx context.Context, d message.Delivery) message.Settlement {
		m, err := message.ParseStockEvent(d.Body)
		if err != nil || m.Reservation == nil {
			return message.Reject(message.InvalidMessage, "the broken variant knows reservations only")
		}
		if err := u.apply(ctx, *m.Reservation, d, between); err != nil {
			return message.Reject("BrokenVariant", err.Error())
		}
		return message.Done()
	}
}

func (u *Unguarded) apply(ctx context.Context, r message.Reservation, d message.Delivery, between func(d message.Delivery)) error {
	partition := azcosmos.NewPartitionKeyString(r.SKU)
	known := false
	err := u.do(ctx, "look for the receipt", inventory, func(ctx context.Context, c *azcosmos.ContainerClient) error {
		_, err := c.ReadItem(ctx, partition, receipt.ID(r.EventKey), nil)
		known = err == nil
		return err
	})
	if known {
		return nil
	}
	if !errors.Is(err, message.ErrNotFound) {
		return err
	}
	err = u.do(ctx, "apply the effect alone", inventory, func(ctx context.Context, c *azcosmos.ContainerClient) error {
		answer, err := c.ReadItem(ctx, partition, itemID, nil)
		if err != nil {
			return err
		}
		var item stock
		if err := json.Unmarshal(answer.Value, &item); err != nil {
			return err
		}
		item.Stock, item.Version = item.Stock-r.Quantity, r.Version
		text, err := json.Marshal(item)
		if err != nil {
			return err
		}
		_, err = c.ReplaceItem(ctx, partition, itemID, text, nil)
		return err
	})
	if err != nil {
		return err
	}
	between(d)
	return u.write(ctx, r, d)
}

// write writes the receipt, too late.
func (u *Unguarded) write(ctx context.Context, r message.Reservation, d message.Delivery) error {
	e, err := receipt.FromStock(message.StockEvent{Reservation: &r})
	if err != nil {
		return err
	}
	text, err := json.Marshal(struct {
		ID  string `json:"id"`
		SKU string `json:"sku"`
		receipt.Receipt
	}{receipt.ID(e.Key), r.SKU, receipt.Receipt{
		Key: e.Key, Digest: e.Digest, Outcome: receipt.OutcomeApplied, Version: e.Version, Delta: -r.Quantity,
		W: "broken-variant", Delivery: d.MessageID, TTL: int(keep / time.Second), Schema: 1,
	}})
	if err != nil {
		return err
	}
	return u.do(ctx, "write the receipt alone", inventory, func(ctx context.Context, c *azcosmos.ContainerClient) error {
		_, err := c.CreateItem(ctx, azcosmos.NewPartitionKeyString(r.SKU), text, nil)
		return err
	})
}
