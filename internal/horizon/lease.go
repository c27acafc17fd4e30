package horizon

import (
	"fmt"
	"time"
)

// leases are the relations within one attempt: lock, lease, call and settlement.
func leases() []Relation {
	return []Relation{
		{"H1", "a lock lasts as long as the service allows, and is renewed three times while it lasts", func(c *check, t terms) {
			const refused = "the service refuses the entity"
			for _, e := range t.entities {
				c.atLeast(e.lock, lasting(5*time.Second), refused)
				c.atMost(e.lock, lasting(5*time.Minute), refused)
			}
			for i, p := range t.processes {
				c.atMost(p.renewal, t.entities[i].lock.third(), "one slow renewal loses the lock")
			}
		}},
		{"H2", "a challenger waits for what the store's clock may be wrong by", func(c *check, t terms) {
			skew := setting("skew", "between the clocks of the store's gateway and replicas", "", t.Store.Skew)
			c.atLeast(t.challengerMargin, lasting(Grain).plus(skew), "a lease that stands is judged stale")
		}},
		{"H3", "an owner stops before its lease ends, however slow its clock and its processor are", func(c *check, t terms) {
			drift := t.lease
			drift.value, drift.parts = drift.value*Drift/1_000_000, 2
			drift.formula, drift.words = "ρ·"+drift.formula, fmt.Sprintf("%g × %s", Drift/1e6, drift.words)
			stall := lasting(Stall)
			stall.formula = "T_sched"
			c.atLeast(t.ownerMargin, drift.plus(stall), "an owner works on while another may take over")
		}},
		{"H4", "two renewals and a write fit into what the owner trusts of its lease: one may fail", func(c *check, t terms) {
			c.atMost(t.renewal.times(number(2)).plus(t.store), t.trust(), "one slow answer loses the lease")
		}},
		{"H5", "a write is given up within half a renewal period", func(c *check, t terms) {
			c.atMost(t.store, t.renewal.half(), "a renewal outlives what it renews")
		}},
		{"H6", "a call and the write after it fit into what the owner trusts of its lease; looked at again before each call", func(c *check, t terms) {
			for _, h := range t.handlers {
				c.atMost(h.call.plus(t.store), t.trust(), "a call outlives its lease")
			}
		}},
		{"H7", "a redelivery waits here until the dead owner's lease is stale, and not until its own lock is lost", func(c *check, t terms) {
			late := t.lease.plus(t.challengerMargin).plus(lasting(Grain)).plus(t.store).less(t.lock)
			c.atLeast(t.busy, late, "a takeover takes the detour of a copy")
			c.below(t.busy.plus(t.store).plus(t.settle), t.lock, "the lock is lost while waiting")
		}},
		{"H8", "a message that waits for a slot still has its lock when it gets one", func(c *check, t terms) {
			c.atMost(t.buffered.plus(t.store), t.lock.less(t.settle), "work starts under a lock that is lost")
		}},
		{"H9", "publishing and settling fit into half a lock; each has a context of its own that outlives the work", func(c *check, t terms) {
			c.atMost(t.publish.plus(t.settle), t.lock.half(), "messages are settled after their lock")
		}},
	}
}

// trust is the part of a lease that its owner relies on.
func (t terms) trust() amount { return t.lease.less(t.ownerMargin) }
