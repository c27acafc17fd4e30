package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"oneeffect/internal/message"
	"oneeffect/measure"
)

// priced is how many tasks are counted of every kind. Each costs the same.
const priced = 5

// subscription is what the emulator's event log calls the orchestrator's.
const subscription = message.TaskEvents + "/subscriptions/" + message.Orchestrator

// kinds are the tasks whose cost is counted.
func kinds() []kind {
	all := []kind{
		{"a keyed task", taskType, payload, false},
		{"a keyless task", keylessType, payload, false},
		{"a task of 3 steps", stepsType, payload, false},
		{"a task of 2 steps, one keyless", mixedType, payload, false},
	}
	for _, size := range kilobytes {
		all = append(all, kind{fmt.Sprintf("a keyed task of %d KB", size), taskType, payloadOf(size), true})
	}
	return all
}

type kind struct {
	name, taskType, payload string
	sized                   bool // it is there for its payload
}

// measureCost counts what tasks cost from the request that submits them to the settlement of their event, by the
// emulator's event log: nothing is timed, so another run counts the same.
func (b *bench) measureCost(ctx context.Context) error {
	return b.withWorker(ctx, "cost", func(s *site, p *product) error { return b.countCost(ctx, s, p) })
}

func (b *bench) countCost(ctx context.Context, s *site, p *product) (err error) {
	o, err := b.open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	log := &bills{server: s.server}
	for i, k := range kinds() {
		tasks := min(priced, b.tasks)
		if i == 0 { // connections are made, and what is read once is read
			if _, err := b.price(ctx, o, p, log, k, tasks); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
		}
		total, err := b.price(ctx, o, p, log, k, tasks)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		b.charge(k, total, float64(tasks))
	}
	return nil
}

// charge adds the rows of a kind. Of a payload only the request units depend.
func (b *bench) charge(k kind, total bill, tasks float64) {
	row := func(what string, v float64) {
		b.table.Row(k.name+": "+what, "per task", measure.Goal{}, "").Add(v / tasks)
	}
	for _, who := range []string{"worker", "orchestrator"} {
		row(who+"'s request units", total.units[who])
		if !k.sized {
			row(who+"'s store operations", float64(total.operations[who]))
		}
	}
	if !k.sized {
		row("sends", float64(total.sends))
		row("settlements", float64(total.settlements))
		row("calls", float64(total.calls))
	}
}

// price has tasks done and says what they cost.
func (b *bench) price(ctx context.Context, o *office, p *product, log *bills, k kind, tasks int) (bill, error) {
	if _, err := o.create(ctx, tasks, fewAtOnce, requestFor(k.taskType, k.payload)); err != nil {
		return bill{}, err
	}
	if _, err := p.run(ctx, tasks); err != nil {
		return bill{}, err
	}
	return log.next(ctx, tasks)
}

// bill is what tasks have cost.
type bill struct {
	operations                map[string]int     // of the store, by who
	units                     map[string]float64 // by who
	sends, settlements, calls int
	ended, forgotten          int // events that the orchestrator has settled, entries that it has deleted from its outbox
}

// released is what becomes of a message that has come when its receiver is about to end: it was in nobody's hands.
const released = "released"

// bills reads the event log.
type bills struct {
	server *measure.Server
	seen   uint64
}

// next is what so many tasks cost that were begun since the last bill, when the last of them is over: its event is
// settled, and its entry in the outbox is deleted, which nobody waits for.
func (l *bills) next(ctx context.Context, tasks int) (bill, error) {
	total := bill{operations: map[string]int{}, units: map[string]float64{}}
	for total.ended < tasks || total.forgotten < tasks {
		events, err := l.server.Events(ctx, l.seen)
		if err != nil {
			return bill{}, err
		}
		if len(events) == 0 || events[0].Seq != l.seen+1 {
			return bill{}, fmt.Errorf("after event %d there are %d, and of %d tasks %d have ended and %d are deleted from the outbox", l.seen, len(events), tasks, total.ended, total.forgotten)
		}
		for _, e := range events {
			total.add(e)
			l.seen = e.Seq
		}
	}
	return total, nil
}

// periodic are what the orchestrator does by the clock and for no task: it looks for what was left behind, and follows
// the change feed.
var periodic = []string{"query", "change-feed", "account", "metadata"}

func (t *bill) add(e measure.Event) {
	switch {
	case e.Service == "cosmos" && e.Kind == "request" && !slices.Contains(periodic, e.Operation):
		who := "orchestrator"
		if e.Entity == "claims" {
			who = "worker"
		}
		t.operations[who]++
		t.units[who] += e.Charge
		if e.Operation == "delete" {
			t.forgotten++
		}
	case e.Kind == "enqueued" && e.Entity != subscription: // whose messages are copies of the topic's
		t.sends++
	case e.Kind == "settled" && e.Disposition != released:
		t.settlements++
		if e.Entity == subscription {
			t.ended++
		}
	case e.Kind == "call":
		t.calls++
	}
}
