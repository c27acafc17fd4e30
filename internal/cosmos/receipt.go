package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json/jsontext"

	"oneeffect/internal/message"
	"oneeffect/internal/receipt"
)

// itemID is the id of an entity's item. No receipt's id is like it.
const itemID = "item"

// ReceiptStore keeps an item and its receipts in one partition for each entity.
type ReceiptStore struct {
	d        *Database
	kind     receiptKind
	sessions sessions // of entities
}

var _ receipt.Store = (*ReceiptStore)(nil)

// receiptKind is what the two containers differ by: the name of the partition key,
// and what an item consists of.
type receiptKind struct {
	container string
	item      func(entity string, i receipt.Item) any
	receipt   func(entity, id string, r receipt.Receipt) any
	decode    func(text []byte) (receipt.Item, error)
}

// The documents of the inventory.
type (
	inventoryItem struct {
		ID      string         `json:"id"`
		SKU     string         `json:"sku"`
		Stock   int64          `json:"stock"`
		Version int64          `json:"version"`
		Unknown jsontext.Value `json:",embed"`
	}
	inventoryReceipt struct {
		ID  string `json:"id"`
		SKU string `json:"sku"`
		receipt.Receipt
	}
)

var inventory = receiptKind{
	container: containerInventory,
	item: func(entity string, i receipt.Item) any {
		return inventoryItem{ID: itemID, SKU: entity, Stock: i.Stock, Version: i.Version, Unknown: i.Unknown}
	},
	receipt: func(entity, id string, r receipt.Receipt) any { return inventoryReceipt{id, entity, r} },
	decode: func(text []byte) (receipt.Item, error) {
		var i inventoryItem
		err := decode(text, &i, &i.Unknown)
		return receipt.Item{Stock: i.Stock, Version: i.Version, Unknown: i.Unknown}, err
	},
}

// The documents of webhooks.
type (
	webhookItem struct {
		ID       string         `json:"id"`
		Resource string         `json:"resource"`
		State    jsontext.Value `json:"state"`
		Version  int64          `json:"version"`
		Unknown  jsontext.Value `json:",embed"`
	}
	webhookReceipt struct {
		ID       string `json:"id"`
		Resource string `json:"resource"`
		receipt.Receipt
	}
)

var webhooks = receiptKind{
	container: containerWebhooks,
	item: func(entity string, i receipt.Item) any {
		return webhookItem{ID: itemID, Resource: entity, State: i.State, Version: i.Version, Unknown: i.Unknown}
	},
	receipt: func(entity, id string, r receipt.Receipt) any { return webhookReceipt{id, entity, r} },
	decode: func(text []byte) (receipt.Item, error) {
		var i webhookItem
		err := decode(text, &i, &i.Unknown)
		return receipt.Item{State: i.State, Version: i.Version, Unknown: i.Unknown}, err
	},
}

// Inventory is the store of stock and its receipts. Ask for it once: it remembers
// sessions.
func (d *Database) Inventory() *ReceiptStore { return &ReceiptStore{d: d, kind: inventory} }

// Webhooks is the store of what webhooks told, and its receipts.
func (d *Database) Webhooks() *ReceiptStore { return &ReceiptStore{d: d, kind: webhooks} }

// Check reads an item that nobody has: the store answers, and this process may read.
func (s *ReceiptStore) Check(ctx context.Context) error {
	_, err := s.Item(ctx, "startup.check")
	if errors.Is(err, message.ErrNotFound) {
		return nil
	}
	return err
}

// Item reads an entity's item, no older than this process has seen it.
func (s *ReceiptStore) Item(ctx context.Context, entity string) (receipt.Stored, error) {
	var stored receipt.Stored
	o := &operation{name: "read item of " + entity}
	err := s.read(ctx, o, entity, itemID, func(answer azcosmos.ItemResponse) (err error) {
		stored.ETag = receipt.ETag(answer.ETag)
		stored.Item, err = s.kind.decode(answer.Value)
		return versioned(answer.ETag, err)
	})
	if err != nil {
		return receipt.Stored{}, err
	}
	return stored, nil
}

// Receipt reads the receipt of a key. The members that say where it lies are the
// document's and not the receipt's.
func (s *ReceiptStore) Receipt(ctx context.Context, entity, key string) (receipt.Receipt, error) {
	var r receipt.Receipt
	o := &operation{name: fmt.Sprintf("read receipt of %q", key)}
	err := s.read(ctx, o, entity, receipt.ID(key), func(answer azcosmos.ItemResponse) error {
		var document struct {
			ID       string `json:"id"`
			SKU      string `json:"sku"`
			Resource string `json:"resource"`
			receipt.Receipt
		}
		err := decode(answer.Value, &document, &document.Unknown)
		r = document.Receipt
		return err
	})
	if err != nil {
		return receipt.Receipt{}, err
	}
	return r, nil
}

func (s *ReceiptStore) read(ctx context.Context, o *operation, entity, id string, take func(azcosmos.ItemResponse) error) error {
	return s.do(ctx, o, entity, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		answer, err := items.ReadItem(ctx, azcosmos.NewPartitionKeyString(entity), id, &azcosmos.ItemOptions{SessionToken: sessionOption(o.session)})
		if err != nil {
			return err
		}
		return take(answer)
	})
}

// Begin writes a receipt and the first version of its item in one transactional batch.
func (s *ReceiptStore) Begin(ctx context.Context, entity string, r receipt.Receipt, first receipt.Item) (receipt.ETag, error) {
	return s.write(ctx, entity, r, func(batch *azcosmos.TransactionalBatch) error {
		item, err := encode(s.kind.item(entity, first))
		batch.CreateItem(item, nil)
		return err
	})
}

// Apply writes a receipt, and an item under If-Match, in one transactional batch.
func (s *ReceiptStore) Apply(ctx context.Context, entity string, r receipt.Receipt, next receipt.Item, unchanged receipt.ETag) (receipt.ETag, error) {
	return s.write(ctx, entity, r, func(batch *azcosmos.TransactionalBatch) error {
		condition, err := ifMatch(string(unchanged))
		if err != nil {
			return err
		}
		item, err := encode(s.kind.item(entity, next))
		batch.ReplaceItem(itemID, item, &azcosmos.TransactionalBatchItemOptions{IfMatchETag: condition})
		return err
	})
}

// Reject writes a receipt alone.
func (s *ReceiptStore) Reject(ctx context.Context, entity string, r receipt.Receipt) error {
	_, err := s.write(ctx, entity, r, func(*azcosmos.TransactionalBatch) error { return nil })
	return err
}

// write sends one batch: the receipt, so that a second one of its key refuses the
// whole, and then what goes with it. It returns the ETag of what was written last.
func (s *ReceiptStore) write(ctx context.Context, entity string, r receipt.Receipt, with func(*azcosmos.TransactionalBatch) error) (receipt.ETag, error) {
	o := &operation{name: fmt.Sprintf("write receipt of %q", r.Key), write: true, create: true}
	document, err := encode(s.kind.receipt(entity, receipt.ID(r.Key), r))
	if err != nil {
		return "", fmt.Errorf("%s: %w", o.name, err)
	}
	var etag azcore.ETag
	err = s.do(ctx, o, entity, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		batch := items.NewTransactionalBatch(azcosmos.NewPartitionKeyString(entity))
		batch.CreateItem(document, nil)
		if err := with(&batch); err != nil {
			return err
		}
		answer, err := items.ExecuteTransactionalBatch(ctx, batch, nil)
		if err != nil {
			return err
		}
		if !answer.Success {
			return pairRefusedBy(answer.OperationResults)
		}
		if n := len(answer.OperationResults); n > 0 {
			etag = answer.OperationResults[n-1].ETag
		}
		return versioned(etag, nil)
	})
	if err != nil {
		return "", err
	}
	return receipt.ETag(etag), nil
}

// pairRefusedBy is refusedBy where a receipt comes first. That an item is there
// which was to be created, or not there which was to be replaced, is not about the
// receipt: the item has changed.
func pairRefusedBy(results []azcosmos.TransactionalBatchResult) refusal {
	if len(results) > 1 {
		switch results[1].StatusCode {
		case http.StatusConflict, http.StatusNotFound:
			return refusal{http.StatusPreconditionFailed}
		}
	}
	return refusedBy(results)
}

// do is onItems with the session of one entity.
func (s *ReceiptStore) do(ctx context.Context, o *operation, entity string, send func(context.Context, *azcosmos.ContainerClient) error) error {
	o.session = s.sessions.of(entity)
	err := s.d.onItems(ctx, o, s.kind.container, send)
	s.sessions.remember(entity, o.session)
	return err
}
