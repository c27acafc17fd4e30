// Package probe makes the evidence of the lesson: six probes that act on the real
// broker and the real store through the projector's own path, and write down what
// they saw.
//
//	producer ──▶ topic ──▶ receiver ──▶ projector ──▶ receipt and item     (1, 2, 4)
//	producer ──▶ topic ──▶ a process that kills itself; the broker delivers again (3)
//	a record without its residual risk (5)
//	signed request ──▶ webhooks ──▶ receipt and resource                      (6)
//
// The topic, its subscription and the database are the probes' own: what they send is
// nobody's stock, and what they leave behind they remove when they run again.
//
// unguarded.go is the one place in this repository that writes an effect without its
// receipt. It is there to be seen failing (NON_ATOMIC_DUPLICATE_RISK), and nothing else
// uses it.
package probe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"time"

	"oneeffect/internal/evidence"
	"oneeffect/internal/message"
	"oneeffect/internal/projector"
	"oneeffect/internal/receipt"
	"oneeffect/internal/servicebus"
)

// What the probes use, and nobody else does.
const (
	Topic        = "evidence"
	Subscription = "probes"
	Database     = "oneeffect-evidence"
	Lock         = 5 * time.Second // of the subscription: how long a killed process keeps its message
)

// Probes are the six. Its fields are its wiring, filled in by cmd/taskctl.
type Probes struct {
	Bus                 *servicebus.Client
	Topic, Subscription string
	Lock                time.Duration // of the subscription, as it is configured there
	Inventory, Webhooks receipt.Store
	Unguarded           *Unguarded
	Timeout             time.Duration // of one operation of the store
	Counters            *projector.Counters
	Log                 *slog.Logger

	// Attempt prepares a process that does Deliver with this order and this program's
	// settings: it prints what it saw in one line, and may kill itself.
	Attempt func(ctx context.Context, o Order) *exec.Cmd

	token string // marks this run's messages
}

// Result is what became of one probe.
type Result struct {
	Name string
	Err  error // the probe could not be carried out; nil also where its outcome is another than expected
}

// Run carries out all probes and appends what they saw to the record. A probe that
// cannot be carried out does not keep the next one from being tried.
func (p *Probes) Run(ctx context.Context, record *evidence.Run) []Result {
	p.token = rand.Text()
	cases := evidence.Cases()
	steps := []struct {
		name string
		do   func(context.Context) ([]evidence.Record, error)
	}{
		{evidence.Baseline, func(ctx context.Context) ([]evidence.Record, error) { return p.baseline(ctx, cases[0]) }},
		{evidence.Redelivery, func(ctx context.Context) ([]evidence.Record, error) { return p.delivered(ctx, cases[1]) }},
		{evidence.CrashWindow, func(ctx context.Context) ([]evidence.Record, error) { return p.crashWindow(ctx, cases[2], cases[3]) }},
		{evidence.StaleLower, func(ctx context.Context) ([]evidence.Record, error) { return p.delivered(ctx, cases[4]) }},
		{evidence.NoRisk, nil},
		{evidence.Webhook, func(ctx context.Context) ([]evidence.Record, error) { return p.webhook(ctx, cases[6:9]) }},
	}
	var results []Result
	var plausible *evidence.Record
	for _, s := range steps {
		do := s.do
		if do == nil {
			do = func(context.Context) ([]evidence.Record, error) { return withoutRisk(cases[5], plausible) }
		}
		records, err := do(ctx)
		for i := range records {
			if s.name == evidence.Baseline {
				plausible = &records[i]
			}
			err = errors.Join(err, record.Append(records[i]))
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
		}
		results = append(results, Result{s.name, err})
	}
	return results
}

// baseline is the first delivery, to a sku that was counted and nothing else.
func (p *Probes) baseline(ctx context.Context, c evidence.Case) ([]evidence.Record, error) {
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	return p.delivered(ctx, c)
}

// delivered is one event under one transport id, worked on by the projector.
func (p *Probes) delivered(ctx context.Context, c evidence.Case) ([]evidence.Record, error) {
	f := found(c)
	id := c.Deliveries[0]
	err := inTurn(
		func() error { return p.look(ctx, f, p.Inventory, "before it is sent") },
		func() error { return p.send(ctx, f, id) },
		func() error { return p.project(ctx, f, id) },
		func() error { return p.look(ctx, f, p.Inventory, "after it was settled") },
	)
	if err != nil {
		return nil, err
	}
	return []evidence.Record{f.record()}, nil
}

// inTurn takes steps until one fails.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// withoutRisk is a plausible record from which the residual risk was taken.
func withoutRisk(c evidence.Case, plausible *evidence.Record) ([]evidence.Record, error) {
	if plausible == nil {
		return nil, errors.New("there is no plausible record to take the residual risk from: the first probe made none")
	}
	subject := plausible.Fields
	subject.ResidualRisk = nil
	return subjectRecord(c, subject)
}

// open begins with nothing but a counted sku.
func (p *Probes) open(ctx context.Context) error {
	if err := p.Unguarded.clear(ctx, inventory, evidence.SKU, evidence.CountKey, evidence.EventKey, evidence.LateKey); err != nil {
		return fmt.Errorf("remove what an earlier run has left: %w", err)
	}
	count := message.StockCount{EventKey: evidence.CountKey, SKU: evidence.SKU, Version: evidence.OpenedAt, Stock: evidence.Opening}
	m, err := count.Message("opening", time.Now())
	if err != nil {
		return err
	}
	if err := p.publish(ctx, m); err != nil {
		return err
	}
	got, err := p.receive(ctx, "opening", p.projector)
	if err != nil {
		return err
	}
	if got.Reported != evidence.Applied {
		return fmt.Errorf("the count that opens the books is %q, want it applied", got.Reported)
	}
	return nil
}
