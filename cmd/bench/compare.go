package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"oneeffect/measure"
)

// slots is how many tasks are worked on at once where nothing else is said.
const slots = 64

// warmUp is how many tasks a variant does before it is measured, at most: connections are made, and pools are filled.
const warmUp = 500

// ledgerHolds is how many keys the emulator's downstream knows. It refuses the next one.
const ledgerHolds = 1 << 17

// loop does tasks until n are settled, and says how long the last one was in coming.
type loop interface {
	run(ctx context.Context, n int) (time.Duration, error)
	// more is how many tasks the last run settled beyond those: what it had in its hands when they were done.
	more() int
	close(ctx context.Context) error
}

// variant is one way to do tasks.
type variant struct {
	name    string // begins the names of its rows
	than    string // the variant it is compared with; "" for none
	site    *site
	payload string // of its tasks; "": the usual one
	traced  bool   // its tasks come with the trace context of who asked for them
	make    func() (loop, error)
	loop    loop
}

// fill puts tasks into the variant's queue.
func (v *variant) fill(ctx context.Context, n int) error {
	return v.site.fill(ctx, n, cmp.Or(v.payload, payload), v.traced)
}

// turns is how often the goroutines of this process are counted at the most.
const turns = 1000

// leaving measures, and then counts the goroutines that all of it leaves behind. Clients do not wait until their last
// goroutines have returned, but only until those have said so: they get turns to do it, since on a busy machine not even
// the end of the emulator's process takes longer.
func (b *bench) leaving(ctx context.Context, row string, measured func(context.Context) error) error {
	base, err := measure.Goroutines()
	if err != nil {
		return err
	}
	if err := measured(ctx); err != nil {
		return err
	}
	left := base + 1
	for turn := 0; left > base && turn < turns; turn++ {
		runtime.Gosched()
		if left, err = measure.Goroutines(); err != nil {
			return err
		}
	}
	b.table.Row(row, "goroutines", measure.AtMost(0), "").Add(float64(left - base))
	return nil
}

// measureWorker compares the worker with loops that are written by hand.
func (b *bench) measureWorker(ctx context.Context) error {
	return b.leaving(ctx, "goroutines left by all of them", b.compareWorker)
}

// measureTelemetry compares the worker with one that is watched: by its log, and by traces and metrics.
func (b *bench) measureTelemetry(ctx context.Context) error {
	return b.leaving(ctx, "goroutines left by those that are watched", b.compareWatched)
}

func (b *bench) compareWorker(ctx context.Context) (err error) {
	s, err := b.newSite(ctx, "worker")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	silent, err := noTelemetry(ctx)
	if err != nil {
		return err
	}
	err = b.compare(ctx, b.tasks,
		&variant{name: "bare", site: s, make: func() (loop, error) { return newByHand(s, slots, false, silent) }},
		&variant{name: "ideal", than: "bare", site: s, make: func() (loop, error) { return newByHand(s, slots, true, silent) }},
		&variant{name: "ideal, one write", than: "ideal", site: s, make: func() (loop, error) { return newByHand(s, slots, true, silent, inOneWrite{}) }},
		&variant{name: "worker", than: "ideal", site: s, make: func() (loop, error) { return newProduct(s, slots, silent, quiet()) }},
	)
	if err != nil {
		return err
	}
	b.share("worker", "ideal", measure.AtLeast(0.95))
	b.share("worker", "ideal, one write", measure.Goal{})
	b.share("worker", "bare", measure.Goal{})
	return nil
}

func (b *bench) compareWatched(ctx context.Context) (err error) {
	s, err := b.newSite(ctx, "telemetry")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	collector, err := startCollector(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, collector.Stop()) }()
	silent, err := noTelemetry(ctx)
	if err != nil {
		return err
	}
	err = b.compare(ctx, b.tasks,
		&variant{name: "worker, silent", site: s, make: func() (loop, error) { return newProduct(s, slots, silent, quiet()) }},
		&variant{name: "worker, log", than: "worker, silent", site: s, make: func() (loop, error) { return newProduct(s, slots, silent, loud()) }},
		&variant{name: "worker, telemetry", than: "worker, silent", site: s, traced: true, make: func() (loop, error) {
			traces, err := sampled(ctx, collector)
			if err != nil {
				return nil, err
			}
			return newProduct(s, slots, traces, quiet())
		}},
	)
	if err != nil {
		return err
	}
	b.share("worker, log", "worker, silent", measure.Goal{})
	b.share("worker, telemetry", "worker, silent", measure.AtLeast(0.95))
	return nil
}

// compare measures variants in turns, each turn begun by another.
func (b *bench) compare(ctx context.Context, tasks int, variants ...*variant) (err error) {
	first := min(tasks, warmUp)
	calls := map[*site]int{}
	for _, v := range variants {
		if calls[v.site] += first + b.Repeat*tasks; calls[v.site] > ledgerHolds {
			return fmt.Errorf("the emulator's ledger holds %d calls, and these are more: give a smaller -tasks or -repeat", ledgerHolds)
		}
	}
	for _, v := range variants {
		if v.loop, err = v.make(); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		defer func() { err = errors.Join(err, v.loop.close(ctx)) }()
		if err := v.fill(ctx, first); err != nil {
			return err
		}
		if _, err := v.loop.run(ctx, first); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		b.rows(v) // in the order of the table
	}
	for turn := range b.Repeat {
		for i := range variants {
			v := variants[(turn+i)%len(variants)]
			if err := v.fill(ctx, tasks); err != nil {
				return err
			}
			if err := b.sample(ctx, v, tasks); err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
		}
	}
	return nil
}

// rows are those of a variant.
func (b *bench) rows(v *variant) (rate, client, server, allocations, bytes *measure.Row) {
	row := func(what, unit string) *measure.Row {
		than := ""
		if v.than != "" {
			than = v.than + ": " + what
		}
		return b.table.Row(v.name+": "+what, unit, measure.Goal{}, than)
	}
	const per = "CPU s per 1,000 tasks"
	return row("throughput", "tasks/s"), row("client", per), row("server", per), row("allocations", "per task"), row("allocated", "KB per task")
}

// sample measures one run of a variant.
func (b *bench) sample(ctx context.Context, v *variant, tasks int) error {
	runtime.GC() // what the one before has left is not this one's
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	own, err1 := measure.OwnCPU()
	theirs, err2 := v.site.server.CPU()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	took, err := v.loop.run(ctx, tasks)
	if err != nil {
		return err
	}
	ownAfter, err1 := measure.OwnCPU()
	theirsAfter, err2 := v.site.server.CPU()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	n := float64(tasks + v.loop.more())
	rate, client, server, allocations, bytes := b.rows(v)
	rate.Add(float64(tasks) / took.Seconds())
	client.Add((ownAfter - own) * 1000 / n)
	server.Add((theirsAfter - theirs) * 1000 / n)
	allocations.Add(float64(after.Mallocs-before.Mallocs) / n)
	bytes.Add(float64(after.TotalAlloc-before.TotalAlloc) / 1024 / n)
	return nil
}

// share adds the rows that compare two variants turn by turn: by what they did in a second, and by the processor time
// that client and server took for it. Where both share all processors the latter is what limits the former, and other
// work on the machine changes it little.
func (b *bench) share(name, of string, g measure.Goal) {
	spent := func(name string, turn int) float64 {
		return b.table.Find(name+": client").Sample(turn) + b.table.Find(name+": server").Sample(turn)
	}
	row := b.table.Row(name+", share of "+of, "", g, "")
	byCPU := b.table.Row(name+", share of "+of+" by processor time", "", measure.Goal{}, "")
	for turn := range b.Repeat {
		row.Add(b.table.Find(name+": throughput").Sample(turn) / b.table.Find(of+": throughput").Sample(turn))
		byCPU.Add(spent(of, turn) / spent(name, turn))
	}
}
