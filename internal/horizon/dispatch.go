package horizon

import "time"

// dispatches are the relations of those who send again: relay, reconciler and
// the senders of reservations.
func dispatches() []Relation {
	return []Relation{
		{"H17", "the relay leaves alone what is still being sent, and comes back within the duplicate window (else it costs a delivery, and nothing more)", func(c *check, t terms) {
			c.below(t.send, t.relayAge, "the relay sends what is still being sent")
			c.below(t.relayAge.plus(t.relayPeriod.times(number(2))), t.window, "what the relay sends twice is delivered twice")
		}},
		{"H18", "duplicate detection looks back as far as the service allows; no correctness depends on it", func(c *check, t terms) {
			const refused = "the service refuses the entity"
			c.atLeast(t.window, lasting(20*time.Second), refused)
			c.atMost(t.window, lasting(7*day), refused)
			c.only("on the official emulator", t.official, true, func() {
				const refused = "the official emulator refuses its configuration"
				c.atMost(t.window, lasting(5*time.Minute), refused)
				for _, e := range t.entities {
					c.atMost(e.ttl, lasting(time.Hour), refused)
				}
			})
		}},
		{"H19", "the reconciler begins when a task that is on its way must have ended, and sends it again no sooner, doubling", func(c *check, t terms) {
			const storm = "tasks that are well on their way are sent again, and again"
			for _, h := range t.handlers {
				c.atLeast(t.reconcileAge, t.takeover.plus(h.attempt).plus(t.publish), storm)
			}
			c.atLeast(t.firstRedispatch, t.reconcileAge, storm)
			c.atMost(t.reconcilePeriod, t.reconcileAge, "an execution waits for the reconciler longer than for its task")
		}},
		{"H20", "the reconciler has read a claim before that, its message or its event is gone", func(c *check, t terms) {
			const gone = "the claim is gone before it is read"
			seen := t.reconcileAge.plus(t.reconcilePeriod)
			c.below(seen.plus(t.reconcileBudget), t.keep, gone)
			c.below(seen.plus(t.reconcileBudget), t.taskLife, gone)
			c.below(seen, t.eventTTL, "an event is gone before its execution is looked at")
		}},
		{"H21", "events outlast an outage of the store, or the reconciler heals what they would have told", func(c *check, t terms) {
			c.only("without a reconciler", t.reconciler, false, func() {
				c.atLeast(t.eventLock.times(t.eventDelivery), t.outage, "an outage of the store makes dead letters of events")
			})
		}},
		{"H22", "a receipt is kept for as long as its event can come back", func(c *check, t terms) {
			const stale = "a duplicate is shown as stale (the version rule still keeps it from a second effect)"
			ttl := setting("T_res", "time to live of a reservation", "", t.Reservations.TTL)
			replay := setting("A_res", "age up to which a dead-lettered reservation may be replayed", "", t.Projector.ReplayAge)
			retry := setting("T_hook", "how long a sender of webhooks tries", "", t.Projector.WebhookRetry)
			c.atLeast(t.keepReceipts, ttl.plus(replay), stale)
			c.below(retry, t.keepReceipts, stale)
		}},
	}
}
