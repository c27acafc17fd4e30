package sim

import (
	"encoding/json"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
)

// What goes wrong here is two things at once, each of them ordinary: chance would
// hardly ever bring them to the same moment of one task.
const (
	cancelsTaken = "an operator cancels while a claim is taken"
	givesUpHeld  = "a task's message is given up while it is worked on"
)

// meeting is the place that both come to.
func meeting(kind string) *control.Rule {
	if kind == cancelsTaken {
		// The claim stands, its owner is not answered yet, and there was no call.
		return &control.Rule{
			Match: control.Match{Service: "cosmos", Operation: "create", Entity: "claims", Body: map[string]any{"/taskType": "letter.print", "/status": "IN_PROGRESS"}},
			Do:    "delay", When: "after", Delay: control.Duration(9 * second), Times: 1,
		}
	}
	return &control.Rule{Match: control.Match{Service: "downstream", Operation: "call"}, Do: "hold", Times: 1}
}

// meet waits until the one comes to the place, and has the other happen then.
func (pl *player) meet(s step) {
	name := pl.armFor(s, s.Target)
	pl.mu.Lock()
	delete(pl.rules, name) // what counts is that they met
	pl.mu.Unlock()
	pl.aside.Go(func() {
		reached, err := pl.hub.WaitReached(pl.ctx, name)
		if err != nil {
			return
		}
		if s.Kind == cancelsTaken {
			pl.cancel(reached.Op.Key)
			pl.count(s.Kind)
			return
		}
		pl.giveUpHeld(s, reached.Op)
		pl.in(s.For, func() { _ = pl.hub.Disarm(name) })
	})
}

// giveUpHeld cuts off whoever makes a call, and has somebody else give up what comes
// of the same task meanwhile: a dead letter, beside a claim whose lease stands.
func (pl *player) giveUpHeld(s step, op control.Op) {
	var payload struct {
		For string `json:"for"`
	}
	if err := json.Unmarshal(op.Body, &payload); err != nil {
		pl.wrong(err.Error())
		return
	}
	pl.mu.Lock()
	r := pl.slots[slotOf(op.Client)]
	pl.mu.Unlock()
	pl.pause(r, s.For)
	stop := pl.consume(tasks, message.Reject("Broken", "by somebody else"))
	for range 3 { // workers receive too
		pl.repeat(step{Kind: copies, Target: payload.For})
	}
	time.Sleep(30 * second)
	stop()
	pl.count(s.Kind)
}
