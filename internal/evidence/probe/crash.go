package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"oneeffect/internal/evidence"
	"oneeffect/internal/message"
	"oneeffect/internal/servicebus"

	"github.com/go-json-experiment/json"
)

// Order is what a process of the crash window is told.
type Order struct {
	Broken   bool   // the broken variant; otherwise the projector
	Kill     bool   // it kills itself: between effect and receipt, or before it settles
	Token    string // of the run whose messages it takes
	Delivery string // MessageID
}

// processName is how a process stands in the record.
func processName() string { return fmt.Sprintf("pid %d", os.Getpid()) }

// Deliver is what such a process does: it works on one delivery, prints what it saw of
// it in one line, and kills itself if that is its order. The kill is real: nothing of
// the process runs after it, neither a deferred call nor a settlement.
func (p *Probes) Deliver(ctx context.Context, o Order, stdout io.Writer) error {
	p.token = o.Token
	a := evidence.Attempt{Transport: "servicebus", ID: o.Delivery, Process: processName()}
	die := func(d message.Delivery) {
		if !o.Kill {
			return
		}
		a.Count, a.Sequence, a.Ended = d.Count, d.Sequence, "killed"
		if tell(stdout, a) == nil {
			kill()
		}
	}
	handler := func(*slog.Logger) servicebus.Handle { return p.Unguarded.handle(die) }
	if !o.Broken {
		handler = func(log *slog.Logger) servicebus.Handle {
			handle := p.projector(log)
			return func(ctx context.Context, d message.Delivery) message.Settlement {
				s := handle(ctx, d)
				die(d)
				return s
			}
		}
	}
	done, err := p.receive(ctx, o.Delivery, handler)
	if err != nil {
		return err
	}
	return tell(stdout, done)
}

// kill ends this process as kill -9 does.
func kill() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(fmt.Sprint("this process cannot kill itself: ", err))
	}
	select {} // until the signal is there
}

func tell(to io.Writer, a evidence.Attempt) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = to.Write(append(text, '\n'))
	return err
}

// attempt runs a process for one delivery, and adds to what it told how it ended.
func (p *Probes) attempt(ctx context.Context, f *findings, o Order) error {
	ctx, cancel := context.WithTimeout(ctx, p.Lock+2*patience)
	defer cancel()
	o.Token = p.token
	var out, errOut bytes.Buffer
	cmd := p.Attempt(ctx, o)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return fmt.Errorf("start the process that is to be killed: %w", err)
	}
	var a evidence.Attempt
	if e := message.Decode(bytes.TrimSpace(out.Bytes()), &a); e != nil {
		return errors.Join(fmt.Errorf("the process for %s said nothing of its delivery and ended with %s", o.Delivery, cmd.ProcessState), errors.New(last(errOut.String())))
	}
	a.Process = fmt.Sprintf("pid %d", cmd.ProcessState.Pid())
	if a.Ended == "killed" {
		a.Ended = cmd.ProcessState.String() // by what the system says: signal: killed
	}
	f.attempt(a)
	f.saw("process", "%s worked on delivery %d of message %s (%s) and ended with %q", a.Process, a.Count, a.ID, variant(o), cmd.ProcessState)
	return nil
}

func variant(o Order) string {
	switch {
	case o.Broken && o.Kill:
		return "the broken variant, killed between effect and receipt"
	case o.Broken:
		return "the broken variant"
	case o.Kill:
		return "the projector, killed between its batch and the settlement"
	}
	return "the projector"
}

// last is the end of what a process complained about.
func last(text string) string {
	const most = 600
	return text[max(0, len(text)-most):]
}

// crashWindow has a process die in the middle of one delivery, and the broker deliver
// again: at first with a variant that has a middle, and then with the projector.
func (p *Probes) crashWindow(ctx context.Context, broken, repair evidence.Case) ([]evidence.Record, error) {
	var records []evidence.Record
	for _, c := range []evidence.Case{broken, repair} {
		isBroken := c.Case == evidence.BrokenVariant
		r, err := p.window(ctx, c, isBroken)
		if err != nil {
			return records, fmt.Errorf("%s: %w", c.Case, err)
		}
		records = append(records, r)
	}
	return records, nil
}

func (p *Probes) window(ctx context.Context, c evidence.Case, broken bool) (evidence.Record, error) {
	if err := p.open(ctx); err != nil {
		return evidence.Record{}, err
	}
	f := found(c)
	id := c.Deliveries[0]
	err := inTurn(
		func() error { return p.look(ctx, f, p.Inventory, "before it is sent") },
		func() error { return p.send(ctx, f, id) },
		func() error { return p.attempt(ctx, f, Order{Broken: broken, Kill: true, Delivery: id}) },
		func() error { return p.lookChanged(ctx, f, p.Inventory, "after the process was killed") },
		func() error {
			if broken {
				return p.attempt(ctx, f, Order{Broken: true, Delivery: id})
			}
			return p.project(ctx, f, id)
		},
		func() error {
			look := p.look
			if broken {
				look = p.lookChanged // it was another process again
			}
			return look(ctx, f, p.Inventory, "after the broker had delivered it again")
		},
	)
	if err != nil {
		return evidence.Record{}, err
	}
	return f.record(), nil
}
