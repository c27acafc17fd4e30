package receipt_test

import (
	"fmt"

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
