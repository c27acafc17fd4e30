package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// counted is what a task has come to, each from where it is kept: effects from the
// ledger, transitions from the history, dead letters from the broker. Where claim and
// execution do not say the same there is nothing to count.
func (s *stage) counted(ctx context.Context) (outcome, error) {
	effects, err := s.effects(ctx)
	if err != nil {
		return outcome{}, err
	}
	stands, err := s.store.Executions().Load(ctx, s.id)
	if err != nil {
		return outcome{}, err
	}
	e := stands.Execution
	held, err := s.store.Claims().Record(s.id).Read(ctx)
	if err != nil {
		return outcome{}, err
	}
	s.claim = held.Claim
	if err := agree(e, held.Claim); err != nil {
		return outcome{}, err
	}
	if dead := buried(s.events.seen, subscription); len(dead) > 0 {
		return outcome{}, fmt.Errorf("events were dead-lettered: %v", dead)
	}
	o := outcome{Effects: effects, Status: string(e.Status), Runs: e.Run, DeadLetters: buried(s.events.seen, message.Tasks)}
	for _, n := range e.History {
		switch n.To {
		case execution.Completed:
			o.Completions++
		case execution.Failed:
			o.Failures++
		}
	}
	return o, nil
}

// agree says whether the claim has ended as the execution has, with the same result.
func agree(e execution.Execution, c claim.Claim) error {
	if string(c.Status) != string(e.Status) || c.Run != e.Run {
		return fmt.Errorf("the execution is %s in run %d, its claim %s in run %d", e.Status, e.Run, c.Status, c.Run)
	}
	if c.Result != nil && (e.Result == nil || e.Result.Digest != c.Result.Digest) {
		return fmt.Errorf("the claim's result has the digest %s, the execution's is %+v", c.Result.Digest, e.Result)
	}
	return nil
}

// effects are those of the whole ledger: the downstream is this cell's alone.
func (s *stage) effects(ctx context.Context) (int, error) {
	l, err := s.ledger(ctx)
	return l.Effects, err
}

// What a projector has to apply: a count, and one reservation after it.
const (
	countMessage       = "count"
	reservationMessage = "reservation"
	stockBefore        = 100
	reserved           = 7
)

// reservationKey is what a projector knows the reservation by.
func reservationKey(sku string) string { return "inventory:" + sku + ":2" }

// sendReservation opens the books of the sku, and only then catches the projector.
func (s *stage) sendReservation(ctx context.Context) error {
	topic, err := s.bus.Sender(message.Reservations)
	if err != nil {
		return err
	}
	count, err := message.StockCount{EventKey: "inventory:" + s.id + ":1", SKU: s.id, Version: 1, Stock: stockBefore}.Message(countMessage, time.Now())
	if err != nil {
		return err
	}
	if err := topic.Send(ctx, count); err != nil {
		return err
	}
	if _, err := s.events.await(ctx, settledOf(inventory, countMessage)); err != nil {
		return err
	}
	if err := s.arm(ctx); err != nil {
		return err
	}
	reservation, err := message.Reservation{
		EventKey: reservationKey(s.id), SKU: s.id, ReservationID: "r-2", Version: 2, Quantity: reserved,
	}.Message(reservationMessage, time.Now())
	if err != nil {
		return err
	}
	return topic.Send(ctx, reservation)
}

// stocked is what the reservation has come to, from the stock alone.
func (s *stage) stocked(ctx context.Context) (outcome, error) {
	item, err := s.store.Inventory().Item(ctx, s.id)
	if err != nil {
		return outcome{}, err
	}
	taken := stockBefore - item.Item.Stock
	if taken%reserved != 0 {
		return outcome{}, fmt.Errorf("the stock is %d: that is no number of reservations of %d", item.Item.Stock, reserved)
	}
	return outcome{Effects: int(taken / reserved), DeadLetters: buried(s.events.seen, inventory)}, nil
}

// same compares what was counted with what the cell wants.
func same(a, b outcome) bool {
	dead := slices.Equal(a.DeadLetters, b.DeadLetters)
	a.DeadLetters, b.DeadLetters = nil, nil
	return dead && reflect.DeepEqual(a, b)
}
