package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"oneeffect/emulator/control"
)

// grantSeen is what became of a grant: who has it has written it, and may not know.
type grantSeen struct {
	by       string
	at       time.Time
	readBack bool // its owner has seen it in the store, and nothing has gone wrong there since
	used     bool
	spoilt   bool // something went wrong where its owner looked
}

// used: the owner of a grant calls or writes.
func (i *inspection) used(id, by string) {
	if g := i.claimOf(id).grant; g != nil && g.by == by {
		if g.readBack && !g.used {
			i.hold("C9")
		}
		g.used = true
	}
}

// lookedAfter is a read of a claim: by who has just been granted it, it says so.
func (i *inspection) lookedAfter(e *control.Event) {
	s := i.claims[e.Key]
	if s == nil || s.grant == nil || s.grant.by != e.Client || s.grant.readBack {
		return
	}
	g := s.grant
	if e.Status != 200 || e.Rule != "" || i.now.at.Sub(g.at) > 15*second {
		g.spoilt = true
		return
	}
	g.readBack = true
}

// disturbed: something goes wrong for a process. Before it has looked after its grant
// that may be what it looks after.
func (i *inspection) disturbed(client, operation string) {
	for _, s := range i.claims {
		if g := s.grant; g != nil && (client == "" || g.by == client) && (g.readBack || !slices.Contains(claiming, operation)) {
			g.spoilt = true
		}
	}
}

// deliveredAgain: what looks then is another delivery, and the grant is not its own.
func (i *inspection) deliveredAgain(e *control.Event, id string) {
	if s := i.claims[id]; s != nil && s.grant != nil && s.grant.by == e.Client && !s.grant.readBack {
		s.grant.spoilt = true
	}
}

// gaveUp: a process does not wait any longer for a write that is held. If a grant of its
// own lands now, it may be that write, which was of a delivery that has gone: whoever
// reads it in that process need not be who asked for it.
func (i *inspection) gaveUp(e *control.Event) {
	if e.Service == "cosmos" && e.Entity == "claims" && slices.Contains(claiming, e.Operation) {
		s := i.claimOf(e.Key)
		s.givenUp = append(s.givenUp, e.Client)
	}
}

// leftLying: a grant that is passed on since its lease is stale was used by who had it,
// if it has seen that it had it.
func (i *inspection) leftLying(id string, old *document) {
	g := i.claimOf(id).grant
	if g == nil || old.Status != "IN_PROGRESS" || old.Released || !g.readBack || g.by != pod(old.Owner) {
		return
	}
	clocks := slices.ContainsFunc(i.h.plan.Steps, func(s step) bool {
		return s.Entity == "claims" || s.Target == slotOf(g.by) && (s.Kind == jumpsWorker || s.Kind == jumpsAtCall)
	})
	if g.spoilt || clocks || i.h.gone[g.by] || len(i.jumps) > 0 {
		return
	}
	if !g.used {
		i.broken("C9", "%s was granted claim %s, has read so, and has left it to whoever comes when its lease is over", g.by, id)
	}
}

// goesOn: a later step is made when the claim has the results of all before it.
func (i *inspection) goesOn(c *call, d *document) {
	step := "letter"
	if c.path != "/letters" {
		_, step, _ = strings.Cut(c.key, "/")
	}
	for _, earlier := range stepsOf[i.h.plan.Tasks[c.task]] {
		if earlier == step {
			return
		}
		promise := "W2"
		if earlier == "letter" {
			promise = "W1"
		}
		i.hold(promise)
		if _, kept := d.Steps[earlier]; !kept {
			i.broken(promise, "%s makes step %s of %s, and the claim has no result of step %s", c.client, step, c.task, earlier)
		}
	}
}

// outside is what the player does.
func (i *inspection) outside(e *control.Event) {
	switch e.Kind {
	case "peace":
		i.peace = i.now.at
	case "cut off":
		i.disturbed(e.Key, "")
	case "forged":
		i.events.forged[e.Key] = true
	case "clock jump":
		i.clockJumped(e)
	}
}

// clockJumped: a process whose clock jumps over the end of its lease finds that within
// half its margin, and a call that it makes ends then.
func (i *inspection) clockJumped(e *control.Event) {
	if d, _ := time.ParseDuration(e.Reason); d < leaseTime {
		return
	}
	for n := range i.h.calls {
		c := &i.h.calls[n]
		if c.client != e.Key || !c.at.Before(i.now.at) || !c.ended.After(i.now.at) {
			continue
		}
		promise := "W2"
		if c.key == "" {
			promise = "W1"
		}
		i.hold(promise)
		if took := c.ended.Sub(i.now.at); took > margin/2+2*second {
			i.broken(promise, "the call of %s for %s goes on for %v after its lease has ended by its clock", c.client, c.task, took)
		}
	}
}

// Who was granted a claim, has seen so and does nothing breaks C9. If a write was given up
// before the grant landed, it may be that one's, and nothing is said.
func TestAGrantThatLandsAfterItWasGivenUpIsNobodys(t *testing.T) { // C9
	for _, givenUp := range []bool{false, true} {
		i := inspect(&history{witness: &witness{}})
		event := control.Event{Service: "cosmos", Entity: "claims", Client: "worker-1", Key: "82f3"}
		if givenUp {
			held := event
			held.Kind, held.Operation = "peer-gone", "replace"
			i.gaveUp(&held)
		}
		next := &document{Status: "IN_PROGRESS", Owner: "worker-1/5e/a0", Fence: 1, Starts: 1}
		i.granted("82f3", nil, next, "worker-1")
		read := event
		read.Kind, read.Operation, read.Status = "request", "read", 200
		i.lookedAfter(&read)
		i.leftLying("82f3", next)
		if found := len(i.violations) == 1 && i.violations[0].Promise == "C9"; found == givenUp {
			t.Errorf("given up %t: %+v", givenUp, i.violations)
		}
	}
}
