package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"oneeffect/measure"
)

// shareOfFixed is what a request may cost: the least share of the rate at which the SDK gets answers that were made
// before it asked, from a server that does nothing else.
const shareOfFixed = 0.75

// account is a server of the Cosmos rows with its client.
type account struct {
	*documents
	server *measure.Server
	name   string // begins the names of its rows
	base   string // the account it is compared with; "" for none
	share  float64
}

// measureCosmos measures the SDK against the emulator, the emulator with -data, and a server with fixed answers, in
// turns.
func measureCosmos(ctx context.Context, b *bench) (err error) {
	accounts := []*account{
		{name: "fixed answers"},
		{name: "cosmos", base: "fixed answers", share: shareOfFixed},
		{name: "cosmos" + durable, base: "cosmos", share: 0.5},
	}
	for _, a := range accounts {
		switch a.name {
		case "fixed answers":
			a.server, err = startFixed(ctx)
		case "cosmos" + durable:
			a.server, err = b.start(ctx, "cosmos-data", "-data", filepath.Join(b.work, "cosmos-data"))
		default:
			a.server, err = b.start(ctx, "cosmos")
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.server.Stop()) }()
		if a.documents, err = dialDocuments(ctx, a.server, "items"); err != nil {
			return err
		}
		if err := a.create(ctx, inPartition*inFlight); err != nil { // warms up, and makes what is queried
			return err
		}
	}
	for range b.Repeat {
		for _, what := range requests {
			for _, a := range accounts {
				if err := b.measureRequest(ctx, a, what); err != nil {
					return fmt.Errorf("%s: %s: %w", a.name, what, err)
				}
			}
		}
	}
	return nil
}

// requests are what the rows measure, in their order: what has to be there is made first.
var requests = []string{"create", "point read", "replace, If-Match", "batch of 2", "query of 20"}

func (b *bench) measureRequest(ctx context.Context, a *account, what string) error {
	do := map[string]func(context.Context, int) error{
		"create": a.create, "point read": a.read, "replace, If-Match": a.replace, "batch of 2": a.batch, "query of 20": a.query,
	}[what]
	n := max(b.Messages/8, 1)
	than := ""
	if a.base != "" {
		than = a.base + ": " + what
	}
	name := a.name + ": " + what
	rate := b.table.Row(name, "requests/s", measure.Goal{}, than)
	err := b.timed(a.server, n, workload{rate: rate, cpu: name, run: func() error { return do(ctx, n) }})
	if err != nil || a.base == "" {
		return err
	}
	turn := rate.Turns() - 1
	share := rate.Sample(turn) / b.table.Find(than).Sample(turn)
	b.table.Row(name+", share of "+a.base, "", measure.AtLeast(a.share), "").Add(share)
	b.table.Row(name+", the same by processor time", "", measure.Goal{}, "").Add(b.spent(than, turn) / b.spent(name, turn))
	return nil
}

// spent is the processor time of client and server in one turn: where both share all processors, it is what limits the
// rate, and other work on the machine changes it little.
func (b *bench) spent(name string, turn int) float64 {
	return b.table.Find(name+", client").Sample(turn) + b.table.Find(name+", server").Sample(turn)
}
