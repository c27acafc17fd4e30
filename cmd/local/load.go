package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"oneeffect/internal/message"
)

// The settings of soak and drill: five minutes as eight seconds and less, every
// relation between them kept. Processes check those relations themselves.
var (
	//go:embed load/handlers.yaml
	loadHandlers []byte
	//go:embed load/servicebus.json
	loadEntities []byte

	loadWorker = []string{
		"-slots=4", "-lock=" + loadLock.String(), "-lease=" + loadLease.String(), "-renewal=1900ms", "-owner-margin=1s",
		"-challenger-margin=" + loadMargin.String(), "-store-timeout=900ms", "-busy-wait=" + loadBusy.String(),
		"-publish-timeout=2500ms", "-settle-timeout=1200ms", "-max-delivery=10", "-max-attempts=8", "-grace=" + loadGrace.String(),
	}
	loadOrchestrator = []string{
		"-lock=" + loadLock.String(), "-settle-timeout=1200ms", "-store-timeout=2500ms", "-grace=12s", "-lease=" + loadLease.String(),
		"-challenger-margin=" + loadMargin.String(), "-send-timeout=4s", "-relay-age=5s", "-relay-period=1s",
	}
)

const (
	loadLock   = 8 * time.Second
	loadLease  = 6 * time.Second
	loadMargin = time.Second // of a challenger
	loadBusy   = time.Second
	loadGrace  = 14 * time.Second
)

// crew is a system at work on many tasks, with workers that come and go.
type crew struct {
	*system
	handlers string
	log      *controller // read by the tally alone
	rules    *controller
	tally    *tally
	hired    int
}

// withCrew musters a crew and has it work. Its logs are left where anything goes wrong.
func withCrew(ctx context.Context, bin string, work func(*crew) error) error {
	dir, err := logFolder("")
	if err != nil {
		return err
	}
	c, err := muster(ctx, bin, dir)
	defer c.leave()
	if err == nil {
		err = work(c)
	}
	if err != nil {
		return fmt.Errorf("%w; logs are in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

// muster starts everything but workers.
func muster(ctx context.Context, bin, dir string) (*crew, error) {
	c := &crew{system: &system{bin: bin, dir: dir}, handlers: filepath.Join(dir, "handlers.yaml"), tally: newTally()}
	entities := filepath.Join(dir, "servicebus.json")
	if err := errors.Join(os.WriteFile(entities, loadEntities, 0o600), os.WriteFile(c.handlers, loadHandlers, 0o600)); err != nil {
		return c, fmt.Errorf("write the settings: %w", err)
	}
	if err := c.emulator(ctx, "-amqp=127.0.0.1:0", "-cosmos=127.0.0.1:0", "-downstream=127.0.0.1:0", "-control=127.0.0.1:0", "-config="+entities); err != nil {
		return c, err
	}
	c.log, c.rules = &controller{address: c.control}, &controller{address: c.control}
	db, err := c.database(ctx)
	if err != nil {
		return c, err
	}
	db.Close()
	return c, c.orchestrator(ctx, "127.0.0.1:0", append([]string{"-pprof=127.0.0.1:0"}, loadOrchestrator...)...)
}

// hire starts one more worker, under a name that no other has had.
func (c *crew) hire(ctx context.Context, args ...string) (*child, error) {
	c.hired++
	return c.worker(ctx, fmt.Sprintf("w%d", c.hired), c.handlers, slices.Concat(loadWorker, args)...)
}

// watched has a load played while the tally reads along.
func (c *crew) watched(ctx context.Context, play func(context.Context) error) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	parts, running := errgroup.WithContext(following)
	parts.Go(func() error { return c.tally.follow(running, c.log) })
	parts.Go(func() error {
		defer stop() // nothing is left to follow
		return play(running)
	})
	if err := parts.Wait(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("stopped before the end: nothing was counted")
	}
	return nil
}

// count ends the crew's work, and holds what the tally has seen against what the
// downstream has counted itself.
func (c *crew) count(ctx context.Context) (sum, error) {
	if err := c.retire(ctx); err != nil {
		return sum{}, err
	}
	counted := c.tally.sum()
	l, err := c.ledger(ctx)
	if err != nil {
		return sum{}, err
	}
	counted.compare(l.Entries)
	return counted, nil
}

// leave ends all processes at once: nothing of them is needed any more.
func (c *crew) leave() {
	for _, child := range c.children {
		child.kill()
	}
}

// retire ends everything but the emulators well, and reads what happened until then.
func (c *crew) retire(ctx context.Context) error {
	c.stopOthers()
	events, err := c.log.next(ctx, 0)
	for err == nil && len(events) > 0 {
		c.tally.take(events)
		events, err = c.log.next(ctx, 0)
	}
	return err
}

// keyless is the share of tasks whose downstream honours no key: one in so many.
const keyless = 4

// submit has one task done. A request that is not answered is made again, for the same
// execution, until it is: then it is known that there is one.
func (c *crew) submit(ctx context.Context, number int) error {
	id, kind := fmt.Sprintf("customer-%d", number), "customer.create"
	if number%keyless == 0 {
		id, kind = fmt.Sprintf("letter-%d", number), "letter.print"
	}
	var random [24]byte
	_, _ = rand.Read(random[:]) // it never fails
	trace := hex.EncodeToString(random[:16])
	c.tally.add(id, trace, kind == "customer.create")
	body := fmt.Sprintf(`{"executionId":%q,"type":%q,"payload":{"name":"Ada Lovelace","number":%d}}`, id, kind, number)
	for {
		err := c.post(ctx, body, "00-"+trace+"-"+hex.EncodeToString(random[16:])+"-01")
		if err == nil {
			return nil
		}
		if message.Pause(ctx, submitAgain) != nil {
			return fmt.Errorf("submit %s: %w", id, err)
		}
	}
}

// submitAgain is how long a request waits that was not answered; submitBound is how
// long an answer may take.
const (
	submitAgain = 200 * time.Millisecond
	submitBound = 10 * time.Second
)

func (c *crew) post(ctx context.Context, body, traceparent string) error {
	ctx, cancel := context.WithTimeout(ctx, submitBound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.api+"/v1/executions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", traceparent)
	_, _, err = exchange(http.DefaultClient, req)
	return err
}
