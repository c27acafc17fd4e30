package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// The settings of the matrix: five minutes as twenty seconds and less, every
// relation between them kept, with room for a machine that has much else to do.
// Processes check those relations themselves. A process that is to be caught has one
// slot: no message may lie at its door while it sleeps.
var (
	//go:embed crash/handlers.yaml
	crashHandlers []byte
	//go:embed crash/servicebus.json
	crashEntities []byte

	crashSettings = map[string][]string{
		"worker": {
			"-lock=20s", "-lease=16s", "-renewal=5s", "-owner-margin=2s", "-challenger-margin=1s", "-store-timeout=2500ms",
			"-busy-wait=1s", "-publish-timeout=6s", "-settle-timeout=3s", "-max-delivery=10", "-max-attempts=8", "-grace=30s",
		},
		"orchestrator": {
			"-listen=127.0.0.1:0", "-lock=20s", "-settle-timeout=3s", "-store-timeout=2500ms", "-grace=30s", "-lease=16s",
			"-challenger-margin=1s", "-send-timeout=4s", "-relay-age=5s", "-relay-period=1s",
		},
		"projector": {"-listen=127.0.0.1:0", "-lock=20s", "-settle-timeout=3s", "-store-timeout=2500ms", "-grace=30s"},
	}
)

// allExpired is how far the clock is moved when the owner of lock and lease is dead:
// past both, and past the age at which the relay looks. While an owner lives or
// sleeps the clock is left alone, since its own would not move with it.
const allExpired = 25 * time.Second

// The rules of a cell.
const (
	pointRule = "crash-point"
	callRule  = "call"
)

// stage is one cell at work: processes of its own, emulators of its own.
type stage struct {
	*system
	links
	cell   cell
	id     string // of the execution; of a projector: the sku
	events *controller

	victim    *child
	held      bool   // the rule of the crash point holds what comes to it
	successor string // its name, once it has been started
	asked     chan error
	claim     claim.Claim // as it stood in the end
}

// play runs the cell and says what there was to be counted. An error is a cell that
// did not come to its end.
func (s *stage) play(ctx context.Context) (outcome, error) {
	defer s.disconnect(ctx)
	if err := s.prepare(ctx); err != nil {
		return outcome{}, fmt.Errorf("prepare: %w", err)
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"begin", s.begin},
		{"come to the crash point", s.arrive},
		{"go on from there", s.strike},
		{"come to an end", s.finish},
	} {
		if err := step.do(ctx); err != nil {
			return outcome{}, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	if s.cell.point.program == "projector" {
		return s.stocked(ctx)
	}
	return s.counted(ctx)
}

func (s *stage) prepare(ctx context.Context) error {
	entities, handlers := filepath.Join(s.dir, "servicebus.json"), s.handlers()
	if err := errors.Join(os.WriteFile(entities, crashEntities, 0o600), os.WriteFile(handlers, crashHandlers, 0o600)); err != nil {
		return err
	}
	err := s.emulator(ctx, "-amqp=127.0.0.1:0", "-cosmos=127.0.0.1:0", "-downstream=127.0.0.1:0", "-control=127.0.0.1:0", "-config="+entities)
	if err != nil {
		return err
	}
	s.events.address = s.control
	if err := s.connect(ctx, s.system); err != nil {
		return err
	}
	programs := []string{"orchestrator", "worker"}
	if s.cell.point.program == "projector" {
		programs = []string{"projector"}
	}
	for _, program := range programs {
		c, err := s.launch(ctx, program, 1)
		if err != nil {
			return err
		}
		if program == s.cell.point.program {
			s.victim = c
		}
	}
	return nil
}

func (s *stage) handlers() string { return filepath.Join(s.dir, "handlers.yaml") }

// launch starts the first of a kind, or the one that comes after it.
func (s *stage) launch(ctx context.Context, program string, number int) (*child, error) {
	name := fmt.Sprintf("%s-%d", program, number)
	slots := "-slots=1"
	if s.cell.point.twice {
		slots = "-slots=2"
	}
	args := slices.Concat([]string{"-id", name, slots}, s.endpoints(), crashSettings[program])
	if program == "worker" {
		args = append(args, "-handlers", s.handlers())
	}
	c, err := s.start(ctx, name, program, args...)
	if err == nil && program == "orchestrator" {
		s.api = c.addresses["http"]
	}
	return c, err
}

// begin arms the rules and has the work begun that leads to the crash point.
func (s *stage) begin(ctx context.Context) error {
	if s.cell.point.program == "projector" {
		return s.sendReservation(ctx)
	}
	p := s.cell.point
	if p.replay {
		if err := s.failFirst(ctx); err != nil {
			return fmt.Errorf("have the first run fail: %w", err)
		}
		if err := s.arm(ctx); err != nil {
			return err
		}
		s.ask("/"+s.id+"/replay", `{"reason":"the crash matrix asks for it"}`)
		return nil
	}
	if err := errors.Join(s.armFirst(ctx), s.arm(ctx)); err != nil {
		return err
	}
	s.ask("", s.request())
	return nil
}

func (s *stage) request() string {
	kind := map[bool]string{true: "customer.create", false: "letter.print"}[s.cell.isKeyed]
	return fmt.Sprintf(`{"executionId":%q,"type":%q,"payload":{"name":"Ada Lovelace"}}`, s.id, kind)
}

// ask asks the orchestrator, which may never answer.
func (s *stage) ask(path, body string) {
	asked := make(chan error, 1)
	s.asked = asked
	url := "http://" + s.api + "/v1/executions" + path
	go func() {
		// It ends at the latest with the orchestrator, which does not outlive its cell.
		_, _, err := ask(context.Background(), http.DefaultClient, http.MethodPost, url, []byte(body))
		asked <- err
	}()
}

// answered waits until what was asked was answered, or never will be.
func (s *stage) answered() error {
	if s.asked == nil {
		return nil
	}
	err := <-s.asked
	s.asked = nil
	return err
}

// leave ends all that the cell has begun, whatever has become of it.
func (s *stage) leave() {
	for _, c := range s.children {
		c.kill()
	}
	_ = s.answered() // it was lost, or has been looked at
}

// armFirst is what must go wrong before the crash point, if anything.
func (s *stage) armFirst(ctx context.Context) error {
	p := s.cell.point
	var errs []error
	if p.first != 0 {
		errs = append(errs, s.events.arm(ctx, rule{Name: "first-answer", Match: calls, Do: "answer", Status: p.first, Times: 1}))
	}
	if p.outage {
		down := match{Service: "cosmos", Entity: "claims", Client: s.victim.name}
		errs = append(errs, s.events.arm(ctx, rule{Name: "outage", Match: down, Do: "answer", Status: http.StatusServiceUnavailable}))
	}
	if p.call != "" {
		errs = append(errs, s.events.arm(ctx, rule{Name: callRule, Match: calls, When: p.call, Do: "hold", Times: 1}))
	}
	return errors.Join(errs...)
}

// arm puts the rule of the crash point to work. Whoever is to live on loses an
// answer; everybody else is held, until it is known what becomes of them.
func (s *stage) arm(ctx context.Context) error {
	p := s.cell.point
	r := rule{Name: pointRule, Match: p.at, When: "before", Do: "hold", Late: p.late, Nth: p.nth}
	r.Match.Client = s.victim.name
	if p.suffix != "" {
		r.Match.Key = s.id + p.suffix
	}
	if r.Nth == 0 {
		r.Nth = 1
	}
	if p.after {
		r.When = "after"
	}
	if p.after && (s.cell.mode == alive || p.drop) {
		r.Do = "drop"
	}
	s.held = r.Do == "hold"
	return s.events.arm(ctx, r)
}

// failFirst brings an execution to FAILED, so that it can be replayed.
func (s *stage) failFirst(ctx context.Context) error {
	if err := s.armFirst(ctx); err != nil {
		return err
	}
	s.ask("", s.request())
	if err := s.answered(); err != nil {
		return err
	}
	return s.events.until(ctx, func(seen []event) bool { return over(seen, endsExecution(s.id), 1) })
}

// neverFired is how long a rule is waited for when all has come to its end without it.
const neverFired = 5 * time.Second

var errNeverFired = errors.New("its rule never fired: the cell shows nothing")

// arrive waits until the victim is at the crash point.
func (s *stage) arrive(ctx context.Context) error {
	at := func(seen []event) bool { return slices.ContainsFunc(seen, reached) }
	err := s.events.until(ctx, func(seen []event) bool { return at(seen) || s.over(seen) })
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w (%w)", errNeverFired, err)
		}
		return err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, neverFired, errNeverFired)
	defer cancel()
	if err := s.events.until(bounded, at); err != nil {
		return err
	}
	if s.cell.point.twice {
		return s.deliverAgain(ctx)
	}
	return nil
}

// deliverAgain sends the task once more, as a relay or a copy may, and waits until
// the process has had it in its other slot and has put it off.
func (s *stage) deliverAgain(ctx context.Context) error {
	stands, err := s.store.Executions().Load(ctx, s.id)
	if err != nil {
		return err
	}
	e := stands.Execution
	m, err := e.Task(e.Run, stands.ETag).Message(message.CopyMessageID(s.id, "twice"), time.Now())
	if err != nil {
		return err
	}
	queue, err := s.bus.Sender(message.Tasks)
	if err != nil {
		return err
	}
	if err := queue.Send(ctx, m); err != nil {
		return err
	}
	_, err = s.events.await(ctx, by(s.victim.name, settledOf(message.Tasks, m.ID)))
	return err
}

// over says that the work has come to an end, be it the right one, and nothing is left.
func (s *stage) over(seen []event) bool {
	if s.cell.point.program == "projector" {
		return over(seen, settledOf(inventory, reservationMessage), 1)
	}
	return over(seen, endsExecution(s.id), s.cell.want.Runs) // each run has its own
}

// finish waits until all is settled, and then for the processes: what they were
// still about to do is done when they have ended.
func (s *stage) finish(ctx context.Context) error {
	if err := s.events.rest(ctx); err != nil { // so that the end is not looked for in what was known before
		return err
	}
	if err := s.events.until(ctx, s.over); err != nil {
		return fmt.Errorf("%w; not settled: %s", err, strings.Join(unsettled(s.events.seen), ", "))
	}
	for _, c := range slices.Backward(s.children[1:]) { // the emulators stay, to be asked
		if err := s.end(ctx, c); err != nil {
			return err
		}
	}
	if err := s.answered(); err != nil && s.cell.point.program != "orchestrator" {
		return fmt.Errorf("the request was not answered: %w", err)
	}
	if err := s.events.rest(ctx); err != nil {
		return err
	}
	if left := unsettled(s.events.seen); len(left) > 0 {
		return fmt.Errorf("not settled: %s", strings.Join(left, ", "))
	}
	return nil
}

// keepEvents writes the whole event log beside the logs of the processes.
func (s *stage) keepEvents(ctx context.Context) error {
	if s.control == "" {
		return nil
	}
	c := &controller{address: s.control}
	log, _, err := c.ask(ctx, http.MethodGet, "/control/events", nil)
	if err != nil {
		return err
	}
	states, _, err := c.ask(ctx, http.MethodGet, "/control/rules", nil)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(s.dir, "events.jsonl"), log, 0o600), os.WriteFile(filepath.Join(s.dir, "rules.json"), states, 0o600))
}
