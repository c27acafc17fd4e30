package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"oneeffect/measure"
)

// client is what sends and receives in the repetitions of a variant.
type client interface {
	send(ctx context.Context, n int) error
	receive(ctx context.Context, n int) error
	close(ctx context.Context) error
}

// variant is a server with its client.
type variant struct {
	client
	server *measure.Server
	name   string // begins the names of its rows
	base   string // the variant it is compared with; "" for none
	goals  [2]measure.Goal
}

// durable is the suffix of a variant that keeps its messages on disk.
const durable = ", -data"

// measureSDK measures the SDK, in memory and with -data in turns.
func measureSDK(ctx context.Context, b *bench) error {
	return b.compare(ctx, b.Messages, dialSDK,
		variant{name: "sdk", goals: [2]measure.Goal{measure.AtLeast(40_000), measure.AtLeast(12_000)}},
		variant{name: "sdk" + durable, base: "sdk", goals: [2]measure.Goal{measure.AtLeast(20_000), measure.AtLeast(6_000)}})
}

// measureRaw measures what the server can do for a client that costs little.
func measureRaw(ctx context.Context, b *bench) error {
	if err := b.measureDisk(); err != nil {
		return err
	}
	return b.compare(ctx, 2*b.Messages, dialRaw, variant{name: "raw"}, variant{name: "raw" + durable, base: "raw"})
}

// compare measures variants in turns: first sending, then receiving and completing.
func (b *bench) compare(ctx context.Context, messages int, dial func(context.Context, *measure.Server) (client, error), variants ...variant) (err error) {
	const send, receive = "send", "receive and complete"
	for i := range variants {
		v := &variants[i]
		var flags []string
		if strings.HasSuffix(v.name, durable) {
			flags = []string{"-data", filepath.Join(b.work, v.name)}
		}
		if v.server, err = b.start(ctx, strings.ReplaceAll(v.name, ", ", ""), flags...); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.server.Stop()) }()
		if v.client, err = dial(ctx, v.server); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.close(context.WithoutCancel(ctx))) }()
		if err := errors.Join(v.send(ctx, 1000), v.receive(ctx, 1000)); err != nil { // warms up
			return err
		}
	}
	for range b.Repeat {
		for i := range variants {
			v := &variants[i]
			for j, what := range []string{send, receive} {
				than := ""
				if v.base != "" {
					than = v.base + ": " + what
				}
				do := v.send
				if what == receive {
					do = v.receive
				}
				err := b.timed(v.server, messages, workload{
					rate: b.table.Row(v.name+": "+what, "messages/s", v.goals[j], than),
					cpu:  v.name + ": " + what,
					run:  func() error { return do(ctx, messages) },
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measureDisk says how long the disk takes to keep what a group of messages of the SDK is, without which no figure with
// -data can be read.
func (b *bench) measureDisk() error {
	file, err := os.CreateTemp(b.work, "disk")
	if err != nil {
		return fmt.Errorf("measure the disk: %w", err)
	}
	defer file.Close()
	group := make([]byte, inFlight*bodySize)
	for range 4 * b.Repeat {
		began := time.Now()
		_, err1 := file.WriteAt(group, 0)
		if err := errors.Join(err1, file.Sync()); err != nil {
			return fmt.Errorf("measure the disk: %w", err)
		}
		b.table.Row("disk: write of 64 KB and sync", "ms", measure.Goal{}, "").Add(float64(time.Since(began).Microseconds()) / 1000)
	}
	return nil
}

// workload is something that is done with a number of messages.
type workload struct {
	rate *measure.Row
	cpu  string // begins the names of the rows of processor time; "" for none
	run  func() error
}

// timed adds a sample to the row of the workload's rate, and to those of client's and server's processor time.
func (b *bench) timed(s *measure.Server, messages int, w workload) error {
	own, err1 := measure.OwnCPU()
	theirs, err2 := s.CPU()
	began := time.Now()
	if err := errors.Join(err1, err2, w.run()); err != nil {
		return err
	}
	took := time.Since(began)
	ownAfter, err1 := measure.OwnCPU()
	theirsAfter, err2 := s.CPU()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	w.rate.Add(float64(messages) / took.Seconds())
	if w.cpu != "" {
		const unit, per = "CPU s per 100,000", 100_000.0
		inClient := b.table.Row(w.cpu+", client", unit, measure.Goal{}, "")
		inClient.Add((ownAfter - own) * per / float64(messages))
		b.table.Row(w.cpu+", server", unit, measure.Goal{}, w.cpu+", client").Add((theirsAfter - theirs) * per / float64(messages))
	}
	return nil
}
