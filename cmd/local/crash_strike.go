package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"oneeffect/internal/message"
)

// strike does to the process what the cell is about, and sees to it that others go on.
func (s *stage) strike(ctx context.Context) error {
	switch s.cell.mode {
	case sigkill:
		return s.kill(ctx)
	case sigstop:
		return s.pause(ctx)
	case sigterm:
		return s.terminate(ctx)
	}
	if s.cell.point.late {
		if _, err := s.events.await(ctx, settledOf(message.Tasks, s.id)); err != nil {
			return err
		}
	}
	return s.letGo(ctx, "go")
}

// letGo lets go of what is held: what came to the crash point goes on as told, the
// call as if nothing had been.
func (s *stage) letGo(ctx context.Context, action string) error {
	if s.held {
		if err := s.release(ctx, pointRule, s.cell.point.at.Service, action, s.cell.point.after); err != nil {
			return err
		}
	}
	if when := s.cell.point.call; when != "" {
		return s.release(ctx, callRule, calls.Service, "go", when == "after")
	}
	return nil
}

// release lets go of what one rule holds. Unless it is dropped, or was applied before,
// it is waited for: its asker may be gone or asleep, and nobody else would.
func (s *stage) release(ctx context.Context, name, service, action string, applied bool) error {
	if err := s.events.release(ctx, name, action); err != nil || action == "drop" || applied {
		return err
	}
	released, err := s.events.await(ctx, func(e event) bool { return e.Kind == "rule-released" && e.Rule == name })
	if err == nil {
		_, err = s.events.await(ctx, func(e event) bool {
			return e.Seq > released.Seq && e.Service == service && e.Client == s.victim.name && slices.Contains(deeds, e.Kind)
		})
	}
	if err != nil {
		return fmt.Errorf("what was let go of comes to nothing: %w", err)
	}
	return nil
}

// deeds are the events that say what became of an operation.
var deeds = []string{"request", "reply", "enqueued", "duplicate-dropped", "settled", "settle-refused", "dead-lettered"}

func (s *stage) kill(ctx context.Context) error {
	s.victim.kill()
	if !s.victim.killed() {
		return fmt.Errorf("%s was not ended by SIGKILL: %w", s.victim.name, s.victim.err)
	}
	_, err := s.events.await(ctx, func(e event) bool { return e.Kind == "peer-gone" && e.Rule == pointRule })
	if err != nil {
		return fmt.Errorf("the emulators still wait for %s: %w", s.victim.name, err)
	}
	if err := s.events.jump(ctx, allExpired); err != nil {
		return err
	}
	if err := s.succeed(ctx); err != nil || !s.cell.point.late {
		return err
	}
	if err := s.takenOver(ctx); err != nil {
		return err
	}
	return s.letGo(ctx, "go")
}

func (s *stage) succeed(ctx context.Context) error {
	c, err := s.launch(ctx, s.cell.point.program, 2)
	if err == nil {
		s.successor = c.name
	}
	return err
}

// takenOver waits until a successor has done all that there was to do in the place of
// another.
func (s *stage) takenOver(ctx context.Context) error {
	var last func(event) bool
	left := func([]event) bool { return false }
	switch p := s.cell.point; {
	case p.program == "projector":
		last = settledOf(inventory, reservationMessage)
	case p.program == "worker":
		// The lease may last longer than the lock. Then the successor puts the task off, once,
		// and has only begun.
		last = settledOf(message.Tasks, s.id)
		left = func(seen []event) bool {
			return slices.ContainsFunc(unsettled(seen), func(m string) bool { return strings.Contains(m, " in "+message.Tasks+",") })
		}
	case p.at.Entity == subscription || p.at.Operation == "patch":
		last = settledOf(subscription, s.id+"/completed")
	default: // the relay has sent it
		last = func(e event) bool {
			return e.Entity == "executions" && e.Operation == "delete" && e.Status == http.StatusNoContent
		}
	}
	err := s.events.until(ctx, func(seen []event) bool {
		return slices.ContainsFunc(seen, by(s.successor, last)) && !left(seen)
	})
	if err != nil {
		return fmt.Errorf("%s does not go on: %w", s.successor, err)
	}
	return nil
}

// pause stops the process by SIGSTOP, in real time, until another has gone on in its
// place. Then it wakes, finds an answer, or that there is none, and does what it would
// do next. It is asked to end at once, which it does when its work is done.
func (s *stage) pause(ctx context.Context) error {
	if err := s.victim.stopped(); err != nil {
		return err
	}
	action := "go"
	if s.cell.point.drop {
		action = "drop"
	}
	if s.cell.point.early {
		if err := s.letGo(ctx, action); err != nil {
			return err
		}
	}
	if err := s.succeed(ctx); err != nil {
		return err
	}
	if err := s.takenOver(ctx); err != nil {
		return err
	}
	if !s.cell.point.early {
		if err := s.letGo(ctx, action); err != nil {
			return err
		}
	}
	if err := s.victim.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	return s.end(ctx, s.victim)
}

// terminate asks the process to end, and only then lets go of what it waits for.
func (s *stage) terminate(ctx context.Context) error {
	if err := s.victim.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.letGo(ctx, "go"); err != nil {
		return err
	}
	return s.end(ctx, s.victim)
}

// end asks a process to end, and waits until it has, by itself and without a complaint.
func (s *stage) end(ctx context.Context, c *child) error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-c.ended:
	case <-ctx.Done():
		return fmt.Errorf("%s does not end: %w", c.name, context.Cause(ctx))
	}
	if meant := c == s.victim && s.cell.mode == sigkill; !meant && !c.cmd.ProcessState.Success() {
		return fmt.Errorf("%s ended badly: %w", c.name, c.err)
	}
	return nil
}
