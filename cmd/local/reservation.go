package main

import (
	"context"
	"fmt"
	"time"

	"oneeffect/internal/message"

	"go.opentelemetry.io/otel/propagation"
)

// demoSKU is what the demo's reservation is about.
const demoSKU = "SKU-1"

var demoProjector = []string{"-lock=5s", "-settle-timeout=500ms", "-store-timeout=2s", "-grace=8s"}

// reserve plays the system that keeps the stock: called within the trace of the task,
// it tells what it has reserved, and its broker tells it twice. The projector applies
// it once.
func (d *demonstration) reserve(ctx context.Context, bound time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("not seen within %v", bound))
	defer cancel()
	if err := d.projector(ctx, "127.0.0.1:0", demoProjector...); err != nil {
		return err
	}
	stands, err := d.store.Executions().Load(ctx, task)
	if err != nil {
		return err
	}
	traced := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": stands.Execution.TraceParent})
	topic, err := d.bus.Sender(message.Reservations)
	if err != nil {
		return err
	}
	count, errCount := message.StockCount{EventKey: "inventory:" + demoSKU + ":count-1", SKU: demoSKU, Version: 1, Stock: 10}.Message("count-1", time.Now())
	reserved := message.Reservation{EventKey: "inventory:" + demoSKU + ":" + task, SKU: demoSKU, ReservationID: task, Version: 2, Quantity: 1}
	once, errOnce := reserved.Message("reservation-1", time.Now())
	twice, errTwice := reserved.Message("reservation-1-again", time.Now())
	for _, err := range []error{errCount, errOnce, errTwice} {
		if err != nil {
			return err
		}
	}
	for _, m := range []message.Message{count, once, twice} {
		if err := topic.Send(traced, m); err != nil {
			return err
		}
		settled, err := d.events.await(ctx, func(e event) bool {
			return e.Kind == "settled" && e.Entity == message.Reservations+"/subscriptions/"+message.Inventory && e.Key == m.ID
		})
		if err != nil {
			return fmt.Errorf("stock: %s is not settled: %w", m.ID, err)
		}
		fmt.Fprintf(d.out, "stock     %s  %s settled by the projector [broker event %d: %s]\n", settled.At.Format("15:04:05.000"), m.ID, settled.Seq, settled.Disposition)
	}
	return nil
}
