package cosmos_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json/jsontext"

	"oneeffect/emulator/control"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
	"oneeffect/internal/receipt"
)

const soldKey = "inventory:sku-42:reservation:R-1001"

func sold(outcome receipt.Outcome) receipt.Receipt {
	return receipt.Receipt{
		Key: soldKey, Digest: "sha256:00", Outcome: outcome, Version: 10, Found: 9, Delta: -3, W: "91bd",
		Delivery: "delivery-A", TTL: 5184000, Schema: 1, Unknown: jsontext.Value(`{"later":1}`),
	}
}

// begin makes an item with a receipt of its own.
func begin(t *testing.T, s *cosmos.ReceiptStore, entity string, i receipt.Item) receipt.ETag {
	t.Helper()
	etag, err := s.Begin(t.Context(), entity, receipt.Receipt{Key: "begin " + entity, Outcome: receipt.OutcomeApplied, TTL: 60}, i)
	if err != nil {
		t.Fatal(err)
	}
	return etag
}

func TestAReceiptAndItsItemAreOneBatchAndReadAsTheyWereWritten(t *testing.T) { // R2
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for entity, store := range map[string]*cosmos.ReceiptStore{"sku-42": w.db.Inventory(), "billing:invoice/7": w.db.Webhooks()} {
			first, next := receipt.Item{Stock: 100, Version: 9}, receipt.Item{Stock: 97, Version: 10, Unknown: jsontext.Value(`{"warehouse":"north"}`)}
			if strings.Contains(entity, ":") {
				first, next = receipt.Item{State: jsontext.Value(`{"paid":false}`), Version: 9}, receipt.Item{State: jsontext.Value(`{"paid":true}`), Version: 10}
			}
			etag := begin(t, store, entity, first)
			w.wire.forget()
			newer, err := store.Apply(t.Context(), entity, sold(receipt.OutcomeApplied), next, etag)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range w.wire.wantOperations(t, 1) {
				if r.Header.Get("X-Ms-Cosmos-Batch-Atomic") != "True" {
					t.Error("it was not written by an atomic batch")
				}
			}
			stored, err := store.Item(t.Context(), entity)
			if err != nil || stored.ETag != newer || text(t, stored.Item) != text(t, next) {
				t.Errorf("read %s under %s, %v, want %s under %s", text(t, stored.Item), stored.ETag, err, text(t, next), newer)
			}
			r, err := store.Receipt(t.Context(), entity, soldKey)
			if want := sold(receipt.OutcomeApplied); err != nil || text(t, r) != text(t, want) {
				t.Errorf("read %s, %v\nwant %s", text(t, r), err, text(t, want))
			}
		}
	})
}

// What lies in the containers is a contract with those who query it.
func TestDocumentsOfReceiptsAreAsTheyAreDocumented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		read := func(container, entity, id, want string) {
			t.Helper()
			answer, err := w.sdk(container).ReadItem(t.Context(), azcosmos.NewPartitionKeyString(entity), id, nil)
			if err != nil || !strings.HasPrefix(string(answer.Value), want) {
				t.Errorf("%s of %s is %s, %v\nwant %s", id, entity, answer.Value, err, want)
			}
		}
		inventory, webhooks := w.db.Inventory(), w.db.Webhooks()
		begin(t, inventory, "sku-42", receipt.Item{Version: 1})
		read("inventory", "sku-42", "item", `{"id":"item","sku":"sku-42","stock":0,"version":1,`)
		begin(t, webhooks, "billing:7", receipt.Item{State: jsontext.Value(`{"paid":true}`), Version: 3})
		read("webhooks", "billing:7", "item", `{"id":"item","resource":"billing:7","state":{"paid":true},"version":3,`)
		rest := `"key":"inventory:sku-42:reservation:R-1001","digest":"sha256:00","outcome":"stale","version":10,"found":9,"delta":-3,"w":"91bd","delivery":"delivery-A","ttl":5184000,"v":1,"later":1,`
		for _, in := range []struct {
			container, key string
			store          *cosmos.ReceiptStore
		}{{"inventory", "sku", inventory}, {"webhooks", "resource", webhooks}} {
			if err := in.store.Reject(t.Context(), "sku-42", sold(receipt.OutcomeStale)); err != nil {
				t.Fatal(err)
			}
			read(in.container, "sku-42", receipt.ID(soldKey), fmt.Sprintf(`{"id":%q,%q:"sku-42",%s`, receipt.ID(soldKey), in.key, rest))
		}
	})
}

func TestARefusedPairLeavesNothing(t *testing.T) { // R1 R2 R5
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store := w.db.Inventory()
		etag := begin(t, store, "sku-42", receipt.Item{Stock: 100, Version: 9})
		next := receipt.Item{Stock: 97, Version: 10}

		_, err := store.Apply(t.Context(), "sku-42", sold(receipt.OutcomeApplied), next, `"another"`)
		wantError(t, err, message.ErrConflict)
		_, err = store.Begin(t.Context(), "sku-42", sold(receipt.OutcomeApplied), next)
		wantError(t, err, message.ErrConflict) // the item is there; its receipt is not
		_, err = store.Apply(t.Context(), "sku-43", sold(receipt.OutcomeApplied), next, etag)
		wantError(t, err, message.ErrConflict) // the item has gone
		_, err = store.Receipt(t.Context(), "sku-42", soldKey)
		wantError(t, err, message.ErrNotFound)

		if err := store.Reject(t.Context(), "sku-42", sold(receipt.OutcomeStale)); err != nil {
			t.Fatal(err)
		}
		_, err = store.Apply(t.Context(), "sku-42", sold(receipt.OutcomeApplied), next, etag)
		wantError(t, err, message.ErrExists)
		_, err = store.Apply(t.Context(), "sku-42", sold(receipt.OutcomeApplied), next, `"another"`)
		wantError(t, err, message.ErrExists) // before it is said that the item has changed
		wantError(t, store.Reject(t.Context(), "sku-42", sold(receipt.OutcomeStale)), message.ErrExists)

		if stored, err := store.Item(t.Context(), "sku-42"); err != nil || stored.ETag != etag || stored.Item.Stock != 100 {
			t.Errorf("the item is %+v, %v", stored, err)
		}
	})
}

func TestALostPairIsUnknownAndIsSentOnce(t *testing.T) { // R6, K1, K2
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				store := w.db.Inventory()
				etag := begin(t, store, "sku-42", receipt.Item{Stock: 100, Version: 9})
				w.arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "batch"}, When: when, Do: "drop"})
				w.wire.forget()
				_, err := store.Apply(t.Context(), "sku-42", sold(receipt.OutcomeApplied), receipt.Item{Stock: 97, Version: 10}, etag)
				wantError(t, err, message.ErrUnknown)
				w.wire.wantOperations(t, 1)
				_, err = store.Receipt(t.Context(), "sku-42", soldKey)
				stored, itemErr := store.Item(t.Context(), "sku-42")
				if applied := err == nil; itemErr != nil || applied != (when == "after") || applied != (stored.Item.Stock == 97) {
					t.Errorf("the receipt: %v; the stock: %d, %v", err, stored.Item.Stock, itemErr)
				}
			})
		})
	}
}

func TestWhatAPairIsRefusedForIsSaid(t *testing.T) { // K1
	for status, want := range map[int]error{
		http.StatusTooManyRequests: message.ErrTransient, 449: message.ErrTransient, http.StatusServiceUnavailable: message.ErrUnknown,
		http.StatusRequestTimeout: message.ErrUnknown, http.StatusRequestEntityTooLarge: message.ErrRefused, http.StatusForbidden: message.ErrRefused,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "batch"}, Do: "answer", Status: status, RetryAfter: control.Duration(time.Second)})
				wantError(t, w.db.Inventory().Reject(t.Context(), "sku-42", sold(receipt.OutcomeStale)), want)
			})
		})
	}
}

func TestAReceiptExpiresAndItsItemDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store := w.db.Inventory()
		begin(t, store, "sku-42", receipt.Item{Stock: 100, Version: 9})
		if err := store.Reject(t.Context(), "sku-42", sold(receipt.OutcomeStale)); err != nil {
			t.Fatal(err)
		}
		w.hub.Jump(60*24*time.Hour + time.Second)
		_, err := store.Receipt(t.Context(), "sku-42", soldKey)
		wantError(t, err, message.ErrNotFound)
		if stored, err := store.Item(t.Context(), "sku-42"); err != nil || stored.Item.Stock != 100 {
			t.Errorf("the item is %+v, %v", stored, err)
		}
	})
}

func TestAnItemIsNotReplacedWithoutAVersion(t *testing.T) { // R2
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := w.db.Inventory().Apply(t.Context(), "sku-42", sold(receipt.OutcomeApplied), receipt.Item{}, "")
		wantError(t, err, message.ErrRefused)
		w.wire.wantOperations(t, 0)
	})
}

// Every name that a sku may have is a partition of its own.
func TestOddNamesArePartitionsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store := w.db.Inventory()
		names := []string{"item", "a/b", "a%2Fb", "a b", "a+b", `a"b`, `a\b`, "größe", "品番", "Größe", "..", "#?&", "'"}
		for i, name := range names {
			begin(t, store, name, receipt.Item{Stock: int64(i), Version: 1})
		}
		for i, name := range names {
			if stored, err := store.Item(t.Context(), name); err != nil || stored.Item.Stock != int64(i) {
				t.Errorf("%q: %+v, %v, want stock %d", name, stored.Item, err, i)
			}
		}
	})
}

func TestTheStoreIsCheckedByReadingNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if err := w.db.Inventory().Check(t.Context()); err != nil {
			t.Errorf("a store that is as it must be: %v", err)
		}
		w.arm(control.Rule{Match: control.Match{Service: "cosmos", Operation: "read"}, Do: "answer", Status: http.StatusForbidden})
		wantError(t, w.db.Inventory().Check(t.Context()), message.ErrRefused)
	})
}
