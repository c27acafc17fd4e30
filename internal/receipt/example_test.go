package receipt_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"oneeffect/emulator/control"
	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
	"oneeffect/internal/receipt"
)

// A reservation is applied; a later one comes first, so that the one between them
// is stale, and leaves its trace.
func ExampleDecide() {
	take := func(id string, version, quantity int64) receipt.Event {
		e, _ := receipt.FromStock(message.StockEvent{Reservation: &message.Reservation{
			EventKey: "inventory:sku-42:reservation:" + id, SKU: "sku-42", ReservationID: id, Version: version, Quantity: quantity,
		}})
		return e
	}
	item := receipt.Item{Stock: 100, Version: 9}
	for _, e := range []receipt.Event{take("R-1001", 10, 3), take("R-1003", 12, 1), take("R-1002", 11, 5)} {
		next, r, _ := receipt.Decide(&item, e)
		fmt.Println(r.Outcome, "version", r.Version, "found", r.Found, "gap", r.Gap, "delta", r.Delta, "stock", next.Stock)
		item = next
	}
	// Output:
	// applied version 10 found 9 gap 0 delta -3 stock 97
	// applied version 12 found 10 gap 1 delta -1 stock 96
	// stale version 11 found 12 gap 0 delta -5 stock 96
}

// One event is delivered twice, under two transport ids: it has one receipt, and the
// stock goes down once.
func ExampleBook() {
	hub := control.New()
	server := emulator.New(hub, emulator.Options{})
	defer server.Close()
	defer hub.Close()
	ctx := context.Background()
	db, err := cosmos.Open(cosmos.Options{Endpoint: "http://receipts.example:8081/", Key: emulator.EmulatorKey, ApplicationID: "projector", Transport: server.Transport()})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Setup(ctx); err != nil {
		log.Fatal(err)
	}
	book := &receipt.Book{Store: db.Inventory(), Timeout: 10 * time.Second, Keep: 60 * 24 * time.Hour}

	reserved, err := receipt.FromStock(message.StockEvent{Reservation: &message.Reservation{
		EventKey: "inventory:sku-42:reservation:R-1001", SKU: "sku-42", ReservationID: "R-1001", Version: 1, Quantity: 3,
	}})
	if err != nil {
		log.Fatal(err)
	}
	for _, delivery := range []receipt.Delivery{{ID: "message-1"}, {ID: "message-2", Again: true}} {
		d, err := book.Record(ctx, reserved, delivery)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(delivery.ID, d.Class, "receipt of", d.Receipt.Delivery, "delta", d.Receipt.Delta)
	}
	// Output:
	// message-1 RECEIPT_COMMITTED_EFFECT_APPLIED receipt of message-1 delta -3
	// message-2 DUPLICATE_SUPPRESSED receipt of message-1 delta -3
}
