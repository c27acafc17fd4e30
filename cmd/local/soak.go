package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"oneeffect/internal/message"
)

// soakPlan is what a soak is asked to be.
type soakPlan struct {
	load    time.Duration // how long tasks are submitted, and workers killed
	rate    float64       // tasks a second
	workers int
	kill    time.Duration // between two kills, on average
	seed    uint64        // of the moments, the victims and the faults
}

// Bounds of a soak: what may be under way at once, and how long the last tasks may take
// when no more come and nobody is killed any more. It is many times what a task takes
// whose worker was killed at the very end.
const (
	maxUnderWay = 400
	drainBound  = 3 * time.Minute
)

// soak puts a constant load on the system while workers are killed, links are dropped
// and requests are throttled, and counts in the end.
func soak(ctx context.Context, bin string, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("local soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var p soakPlan
	flags.DurationVar(&p.load, "for", time.Minute, "how long tasks are submitted")
	flags.Float64Var(&p.rate, "rate", 10, "tasks a second")
	flags.IntVar(&p.workers, "workers", 3, "workers at a time, at least 2: the first is watched, the others are killed")
	flags.DurationVar(&p.kill, "kill-every", 4*time.Second, "a worker is killed so often, on average")
	flags.Uint64Var(&p.seed, "seed", 0, "of the moments, the victims and the faults; 0: by chance")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || p.load <= 0 || p.rate <= 0 || p.workers < 2 || p.kill <= 0 {
		return errors.New("local soak takes flags only, -for, -rate and -kill-every positive, -workers at least 2; -h lists them")
	}
	if p.seed == 0 {
		p.seed = rand.Uint64()
	}
	return withCrew(ctx, bin, func(c *crew) error {
		s := &soaking{crew: c, soakPlan: p, out: stdout, chance: rand.New(rand.NewPCG(p.seed, 0)), fired: map[string]int{}}
		return s.run(ctx)
	})
}

// soaking is a soak at work.
type soaking struct {
	*crew
	soakPlan
	out    io.Writer
	chance *rand.Rand // of kill alone

	elder    *child   // is never killed, so that there is something to be watched
	others   []*child // those of now
	kills    int
	heldBack int
	fired    map[string]int // faults
	vitals   []*vitals
}

func (s *soaking) run(ctx context.Context) error {
	fmt.Fprintf(s.out, "soak: %v of %g tasks a second, %d workers, one killed every %v or so (-seed %d)\n", s.load, s.rate, s.workers, s.kill, s.seed)
	if err := s.prepare(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "soak: it runs; logs are in %s, and stay there if anything is wrong in the end\n", s.dir)
	if err := s.watched(ctx, s.soak); err != nil {
		return err
	}
	return s.conclude(ctx)
}

func (s *soaking) prepare(ctx context.Context) error {
	var err error
	if s.elder, err = s.hire(ctx, "-pprof=127.0.0.1:0"); err != nil {
		return err
	}
	for range s.workers - 1 {
		other, err := s.hire(ctx)
		if err != nil {
			return err
		}
		s.others = append(s.others, other)
	}
	s.vitals = []*vitals{{child: s.elder}, {child: s.children[1]}}
	for i, f := range faults {
		f.Seed = s.seed + uint64(i) + 1
		if err := s.rules.arm(ctx, f.rule); err != nil {
			return fmt.Errorf("arm %s: %w", f.Name, err)
		}
	}
	return nil
}

// soak is the load and what is done to it, and then the wait for the last task.
func (s *soaking) soak(ctx context.Context) error {
	loaded, end := context.WithTimeout(ctx, s.load)
	defer end()
	parts, running := errgroup.WithContext(ctx)
	parts.Go(func() error { return s.submitAll(loaded, running) })
	parts.Go(func() error { return s.killSome(loaded, running) })
	parts.Go(func() error { return s.watch(loaded) })
	if err := parts.Wait(); err != nil {
		return err
	}
	for _, f := range faults {
		fired, err := s.rules.disarm(ctx, f.Name)
		if err != nil {
			return err
		}
		s.fired[f.kind] += fired
	}
	bounded, cancel := context.WithTimeoutCause(ctx, drainBound, fmt.Errorf("the last tasks were not over %v after the load", drainBound))
	defer cancel()
	err := s.tally.drained(bounded)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(s.out, "soak: %v\n", err) // they are counted as lost
		return nil
	}
	return err
}

// submitting is how many requests are under way at once.
const submitting = 8

// submitAll submits at a constant rate until the load ends. What was begun is ended.
func (s *soaking) submitAll(load, ctx context.Context) error {
	requests, running := errgroup.WithContext(ctx)
	requests.SetLimit(submitting)
	tick := time.NewTicker(time.Duration(float64(time.Second) / s.rate))
	defer tick.Stop()
	for number := 1; ; {
		select {
		case <-tick.C:
		case <-running.Done():
			return requests.Wait()
		case <-load.Done():
			return requests.Wait()
		}
		if s.tally.left() >= maxUnderWay {
			s.heldBack++
			continue
		}
		n := number
		number++
		requests.Go(func() error { return s.submit(running, n) })
	}
}

// killSome kills a worker every now and then, and starts another in its place.
func (s *soaking) killSome(load, ctx context.Context) error {
	for {
		if message.Pause(load, s.kill/2+time.Duration(s.chance.Int64N(int64(s.kill)))) != nil {
			return s.whole()
		}
		if err := s.whole(); err != nil {
			return err
		}
		n := s.chance.IntN(len(s.others))
		s.tally.killed(s.others[n].name, time.Now())
		s.others[n].kill()
		s.kills++
		next, err := s.hire(ctx)
		if err != nil {
			return err
		}
		s.others[n] = next
	}
}

// whole says whether everybody is there who was not killed.
func (s *soaking) whole() error {
	for _, c := range append([]*child{s.children[0], s.children[1], s.elder}, s.others...) {
		select {
		case <-c.ended:
			return fmt.Errorf("%s ended by itself (%w); its log ends with:\n%s", c.name, c.err, c.lastLines())
		default:
		}
	}
	return nil
}

// conclude counts, and tells.
func (s *soaking) conclude(ctx context.Context) error {
	counted, err := s.count(ctx)
	if err != nil {
		return err
	}
	if s.heldBack > 0 {
		fmt.Fprintf(s.out, "soak: %s not submitted, since %d were under way: this machine does not carry that rate\n", plural(s.heldBack, "task"), maxUnderWay)
	}
	wrong := s.missing()
	var done []string
	for _, kind := range faultKinds() {
		done = append(done, fmt.Sprintf("%d %s", s.fired[kind], kind))
	}
	submitted := len(s.tally.jobs)
	fmt.Fprintf(s.out, "soak: %s submitted, %.1f a second; %s killed, %s\n", plural(submitted, "task"), float64(submitted)/s.load.Seconds(), plural(s.kills, "worker"), strings.Join(done, ", "))
	for _, v := range s.vitals {
		line, err := v.judge(s.load)
		fmt.Fprintf(s.out, "soak: %s\n", line)
		wrong = append(wrong, err)
	}
	for _, finding := range counted.wrong {
		fmt.Fprintf(s.out, "soak: %s\n", finding)
	}
	fmt.Fprintf(s.out, "soak: %s\n", counted.apart())
	fmt.Fprintf(s.out, "soak: %s, %s, %d lost, %d doubled\n", plural(counted.tasks, "task"), plural(counted.effects, "effect"), counted.lost, counted.doubled)
	if !counted.right() {
		wrong = append(wrong, errors.New("the counts are not as they must be"))
	}
	return errors.Join(wrong...)
}

// missing are the faults that never happened: what was survived then says nothing.
func (s *soaking) missing() []error {
	var none []error
	if s.kills == 0 {
		none = append(none, errors.New("no worker was killed: run it for longer"))
	}
	for _, kind := range faultKinds() {
		if s.fired[kind] == 0 {
			none = append(none, fmt.Errorf("there were no %s: run it for longer", kind))
		}
	}
	return none
}

// fault is a rule that fires by chance, and what it counts as.
type fault struct {
	rule
	kind string
}

// faultKinds are those that are counted.
func faultKinds() []string {
	var kinds []string
	for _, f := range faults {
		if !slices.Contains(kinds, f.kind) {
			kinds = append(kinds, f.kind)
		}
	}
	return kinds
}

// The kinds of faults.
const (
	dropped   = "links dropped"
	throttled = "requests throttled"
	unheard   = "answers lost"
	slow      = "calls slowed down"
)

// faults are what the system has to live with, beside the kills. Calls take a while,
// before their effect and after it, so that kills meet them.
var faults = []fault{
	{rule{Name: "slow-before", Match: calls, Do: "delay", Delay: "100ms", Probability: 0.5}, slow},
	{rule{Name: "slow-after", Match: calls, When: "after", Do: "delay", Delay: "100ms", Probability: 0.5}, slow},
	{rule{Name: "detach", Match: match{Service: "servicebus", Operation: "deliver"}, Do: "detach", Condition: "amqp:link:detach-forced", Probability: 0.02}, dropped},
	{rule{Name: "reset", Match: match{Service: "servicebus", Operation: "complete"}, Do: "reset", Probability: 0.01}, dropped},
	{rule{Name: "reset-after", Match: match{Service: "servicebus", Operation: "send"}, When: "after", Do: "reset", Probability: 0.01}, dropped},
	{rule{Name: "too-many", Match: match{Service: "cosmos"}, Do: "answer", Status: 429, RetryAfter: "50ms", Probability: 0.03}, throttled},
	{rule{Name: "server-busy", Match: match{Service: "servicebus", Operation: "send"}, Do: "answer", Condition: "com.microsoft:server-busy", Probability: 0.01}, throttled},
	{rule{Name: "call-refused", Match: match{Service: "downstream", Entity: "/customers"}, Do: "answer", Status: 503, Probability: 0.03}, throttled},
	{rule{Name: "write-unheard", Match: match{Service: "cosmos", Entity: "claims"}, When: "after", Do: "drop", Probability: 0.01}, unheard},
	{rule{Name: "transition-unheard", Match: match{Service: "cosmos", Entity: "executions", Operation: "patch"}, When: "after", Do: "drop", Probability: 0.01}, unheard},
	{rule{Name: "call-unheard", Match: calls, When: "after", Do: "drop", Probability: 0.02}, unheard},
}
