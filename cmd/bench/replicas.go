package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"oneeffect/measure"
)

// replicas are the numbers of the worker's programs that share a queue.
var replicas = [...]int{1, 2, 4, 8}

// latency is how long the downstream takes for a call where replicas are compared: with an answer at once, one worker
// would keep the machine busy, and more of them could show nothing.
const latency = "50ms"

// crew is so many workers at a site of their own.
type crew struct {
	name    string
	site    *site
	workers []*measure.Server
}

// measureReplicas has one queue emptied by one, two, four and eight of the worker's programs, in turns. Those whose turn
// it is not wait for messages at emulators of their own.
func (b *bench) measureReplicas(ctx context.Context) (err error) {
	var crews []*crew
	for _, n := range replicas {
		c, err := b.assemble(ctx, n)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.close(ctx)) }()
		crews = append(crews, c)
		if _, err := c.empty(ctx, n*fewAtOnce, "first"); err != nil {
			return err
		}
	}
	for turn := range b.Repeat {
		for i := range crews {
			if err := b.sampleCrew(ctx, crews[(turn+i)%len(crews)], b.tasks/(2*fewer), fmt.Sprint("turn-", turn)); err != nil {
				return err
			}
		}
	}
	return nil
}

// assemble starts an emulator and its workers.
func (b *bench) assemble(ctx context.Context, n int) (*crew, error) {
	c := &crew{name: fmt.Sprintf("%d worker's programs", n)}
	if n == 1 {
		c.name = "1 worker's program"
	}
	var err error
	if c.site, err = b.newSite(ctx, fmt.Sprint("replicas-", n)); err != nil {
		return nil, err
	}
	rule := fmt.Sprintf(`{"name":"latency","match":{"service":"downstream"},"do":"delay","delay":%q}`, latency)
	_, err = c.site.server.Ask(ctx, http.MethodPost, "/control/rules", rule)
	for ; n > 0 && err == nil; n-- {
		var w *measure.Server
		if w, err = b.hire(ctx, c.site, "-log-level=warn"); err == nil {
			c.workers = append(c.workers, w)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.close(ctx))
	}
	return c, nil
}

func (c *crew) close(ctx context.Context) error {
	var errs []error
	for _, w := range c.workers {
		errs = append(errs, w.Stop())
	}
	return errors.Join(append(errs, c.site.close(ctx))...)
}

// empty puts tasks into the queue and says how long it takes from then until the last is settled. The rule that tells
// so changes nothing.
func (c *crew) empty(ctx context.Context, tasks int, name string) (time.Duration, error) {
	rule := fmt.Sprintf(`{"name":%q,"match":{"service":"servicebus","operation":"complete","entity":"tasks"},"when":"after","do":"delay","delay":"1ms","nth":%d}`, name, tasks)
	if _, err := c.site.server.Ask(ctx, http.MethodPost, "/control/rules", rule); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := c.site.fill(ctx, tasks, payload, false); err != nil {
		return 0, err
	}
	if _, err := c.site.server.Ask(ctx, http.MethodGet, "/control/rules/"+name+"?for=reached&wait=60s", ""); err != nil {
		return 0, fmt.Errorf("%s: %w", c.name, err)
	}
	took := time.Since(began)
	_, err := c.site.server.Ask(ctx, http.MethodDelete, "/control/rules/"+name, "")
	return took, err
}

// spent is the processor time of the workers, and of the emulator.
func (c *crew) spent() (workers, server float64, err error) {
	for _, w := range c.workers {
		own, err := w.CPU()
		if err != nil {
			return 0, 0, err
		}
		workers += own
	}
	server, err = c.site.server.CPU()
	return workers, server, err
}

func (b *bench) sampleCrew(ctx context.Context, c *crew, tasks int, name string) error {
	workers, server, err1 := c.spent()
	took, err2 := c.empty(ctx, tasks, name)
	workersAfter, serverAfter, err3 := c.spent()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	memory := 0.0
	for _, w := range c.workers {
		own, err := w.Memory("VmRSS")
		if err != nil {
			return err
		}
		memory += own
	}
	row := func(what, unit string) *measure.Row {
		than := ""
		if len(c.workers) > replicas[0] {
			than = "1 worker's program: " + what
		}
		return b.table.Row(c.name+": "+what, unit, measure.Goal{}, than)
	}
	per := float64(tasks) / 1000
	row("throughput", "tasks/s").Add(float64(tasks) / took.Seconds())
	row("workers", "CPU s per 1,000 tasks").Add((workersAfter - workers) / per)
	row("server", "CPU s per 1,000 tasks").Add((serverAfter - server) / per)
	row("memory of the workers", "MB").Add(memory)
	return nil
}
