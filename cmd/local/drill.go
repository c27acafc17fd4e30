package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"

	"golang.org/x/sync/errgroup"
)

// What the drill puts on the system in each of its two rounds: at once a burst, and for
// a while tasks one by one, so that workers go while there is work. Calls are slow, so
// that there is some in every hand.
const (
	drillBurst  = 150
	drillRate   = 4 // tasks a second
	drillFor    = 30 * time.Second
	drillPoll   = 2 * time.Second
	drillBound  = 100 * time.Second // of one round
	evictions   = 2                 // busy workers that are killed when there are as many as there can be
	lengthBound = 10 * time.Second
)

// drillRule is the scaler's. The cooldown is no shorter than what relation H24 wants of
// these settings: an attempt and a lock, and the grace.
var drillRule = scaleRule{target: 8, most: 8, cooldown: loadGrace, settle: 5 * time.Second}

// takeoverBound is how long a task can be without an owner when its owner was killed:
// until lock and lease are over, then busy for a moment or in a copy, then until the
// scaler has looked.
const takeoverBound = max(loadLock, loadLease+loadMargin+time.Second) + max(loadBusy, time.Second) + drillPoll

// drill scales workers out and in, first with SIGTERM and then with SIGKILL.
func drill(ctx context.Context, bin string, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("local drill", flag.ContinueOnError)
	flags.SetOutput(stderr)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q: local drill takes nothing", flags.Arg(0))
	}
	return withCrew(ctx, bin, func(c *crew) error {
		d := &drilling{crew: c, out: stdout, started: time.Now()}
		return d.run(ctx)
	})
}

// drilling is a drill at work.
type drilling struct {
	*crew
	out       io.Writer
	started   time.Time
	queue     *servicebus.Manager
	submitted int

	memory   scaleMemory
	running  []*child
	stopping sync.WaitGroup // those that were asked to end
	mu       sync.Mutex     // guards badly
	badly    []error        // ends that were none of their own
}

// round is one way from no worker to as many as there can be, and back.
type round struct {
	signal syscall.Signal // by which workers go
	peak   int
	evict  int // busy workers that are still to be killed at the peak
}

func (d *drilling) run(ctx context.Context) error {
	var err error
	if d.queue, err = servicebus.Manage(servicebus.Options{ConnectionString: d.connectionString(), ApplicationID: "local"}); err != nil {
		return err
	}
	for _, when := range []string{"before", "after"} {
		if err := d.rules.arm(ctx, rule{Name: "slow-" + when, Match: calls, When: when, Do: "delay", Delay: "750ms"}); err != nil {
			return err
		}
	}
	if err := d.watched(ctx, d.rounds); err != nil {
		return err
	}
	return d.conclude(ctx)
}

// rounds are all of them. Whoever was asked to end has ended afterwards.
func (d *drilling) rounds(ctx context.Context) error {
	defer d.stopping.Wait()
	for _, r := range []*round{{signal: syscall.SIGTERM}, {signal: syscall.SIGKILL, evict: evictions}} {
		if err := d.play(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// play is one round. It ends when the scaler has taken the last worker away and every
// task is over.
func (d *drilling) play(ctx context.Context, r *round) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drillBound, fmt.Errorf("a round of the drill is bounded to %v", drillBound))
	defer cancel()
	load, running := errgroup.WithContext(ctx)
	loaded := make(chan struct{})
	load.Go(func() error {
		defer close(loaded)
		return d.load(running)
	})
	load.Go(func() error {
		tick := time.NewTicker(drillPoll)
		defer tick.Stop()
		for {
			if err := d.scale(running, r); err != nil {
				return err
			}
			select {
			case <-loaded:
				if len(d.running) == 0 && d.tally.left() == 0 {
					return nil
				}
			default:
			}
			select {
			case <-tick.C:
			case <-running.Done():
				return fmt.Errorf("%w: %s", context.Cause(running), strings.Join(d.tally.unfinished(5), "; "))
			}
		}
	})
	if err := load.Wait(); err != nil {
		return err
	}
	if r.peak != drillRule.most {
		return fmt.Errorf("there were %d workers at most, and not %d: the load was too small", r.peak, drillRule.most)
	}
	return nil
}

// load submits a burst, and then one by one.
func (d *drilling) load(ctx context.Context) error {
	requests, running := errgroup.WithContext(ctx)
	requests.SetLimit(submitting)
	one := func() {
		d.submitted++
		n := d.submitted
		requests.Go(func() error { return d.submit(running, n) })
	}
	for range drillBurst {
		one()
	}
	tick := time.NewTicker(time.Second / drillRate)
	defer tick.Stop()
	for range int(drillFor/time.Second) * drillRate {
		select {
		case <-tick.C:
			one()
		case <-running.Done():
			return requests.Wait()
		}
	}
	return requests.Wait()
}

// scale is one look at the queue, and what follows from it.
func (d *drilling) scale(ctx context.Context, r *round) error {
	bounded, cancel := context.WithTimeout(ctx, lengthBound)
	defer cancel()
	length, err := d.queue.Active(bounded, message.Tasks)
	if err != nil {
		return err
	}
	before := len(d.running)
	want, memory := drillRule.decide(d.memory, time.Now(), length, before)
	d.memory = memory
	if want != before {
		fmt.Fprintf(d.out, "drill: %5.1f s: %s in the queue, %d workers become %d (%s)\n", time.Since(d.started).Seconds(), plural(length, "message"), before, want, signalName(r.signal))
	}
	for len(d.running) < want {
		w, err := d.hire(ctx, "-slots=2")
		if err != nil {
			return err
		}
		d.running = append(d.running, w)
	}
	r.peak = max(r.peak, len(d.running))
	for ; len(d.running) == drillRule.most && r.evict > 0; r.evict-- {
		fmt.Fprintf(d.out, "drill: %5.1f s: %s is killed with all that it does\n", time.Since(d.started).Seconds(), d.dismiss(syscall.SIGKILL))
	}
	for len(d.running) > want {
		d.dismiss(r.signal)
	}
	return nil
}

// dismiss has the worker go that has most to do: the worst choice, and nothing keeps a
// scaler from making it.
func (d *drilling) dismiss(by syscall.Signal) string {
	held := d.tally.busy()
	slices.SortStableFunc(d.running, func(a, b *child) int { return held[a.name] - held[b.name] })
	last := len(d.running) - 1
	w := d.running[last]
	d.running = d.running[:last]
	if by == syscall.SIGKILL {
		d.tally.killed(w.name, time.Now())
		w.kill()
		return w.name
	}
	d.stopping.Go(func() {
		w.stop()
		if !w.cmd.ProcessState.Success() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.badly = append(d.badly, fmt.Errorf("%s was asked to end and ended badly: %w", w.name, w.err))
		}
	})
	return w.name
}

func signalName(s syscall.Signal) string {
	if s == syscall.SIGTERM {
		return "with SIGTERM"
	}
	return "without SIGTERM"
}

// conclude counts, and measures.
func (d *drilling) conclude(ctx context.Context) error {
	counted, err := d.count(ctx)
	if err != nil {
		return err
	}
	for _, finding := range counted.wrong {
		fmt.Fprintf(d.out, "drill: %s\n", finding)
	}
	fmt.Fprintf(d.out, "drill: %s\n", counted.apart())
	wrong := d.badly
	if !counted.right() {
		wrong = append(wrong, fmt.Errorf("the counts are not as they must be: %d lost, %d doubled", counted.lost, counted.doubled))
	}
	took, err := d.measured()
	fmt.Fprintf(d.out, "drill: %s, %s, %s\n", plural(counted.tasks, "task"), plural(counted.effects, "effect"), took)
	return errors.Join(append(wrong, err)...)
}

// measured says how long takeovers took, and whether each was within its bound.
func (d *drilling) measured() (line string, err error) {
	all := slices.SortedFunc(slices.Values(d.tally.takeovers), func(a, b takeover) int { return int(a.took - b.took) })
	if len(all) == 0 {
		return "no takeover", errors.New("nobody was killed while it held a claim: nothing was measured")
	}
	fmt.Fprintf(d.out, "drill: %s of killed workers, from the kill to another's write of the claim\n", plural(len(all), "takeover"))
	for _, t := range all {
		if t.took > takeoverBound {
			err = errors.Join(err, fmt.Errorf("%s went from %s to %s in %v, more than %v", t.job, t.from, t.to, t.took, takeoverBound))
		}
	}
	const ms = time.Millisecond
	return fmt.Sprintf("takeover p50 %v max %v (bound %v)", all[len(all)/2].took.Round(ms), all[len(all)-1].took.Round(ms), takeoverBound), err
}
