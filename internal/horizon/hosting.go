package horizon

import "time"

// The service's limits.
const (
	maxMessageID = 128
	maxDocument  = 2 << 20
)

// What our records need beside what varies.
const (
	envelopeRoom = 8 << 10  // properties of a message
	attemptRoom  = 1 << 10  // one of the 32 attempts that a claim keeps
	claimRoom    = 64 << 10 // the rest of a claim
)

// hosting are the relations with what a process runs on, and the limits of what
// it sends and stores.
func hosting() []Relation {
	return []Relation{
		{"H23", "from SIGTERM on a call can end, its claim be written, its message be settled and the process close; whoever kills it waits for that", func(c *check, t terms) {
			closing := lasting(Closing)
			for _, p := range t.processes {
				c.below(p.store.plus(p.settle).plus(closing), p.grace, "nothing is left for tasks to end in")
				c.atLeast(p.term, p.preStop.plus(p.grace), "the process is killed while it stops")
				c.only("on Container Apps", p.containerApps, true, func() {
					c.atMost(p.term, lasting(600*time.Second), "Container Apps refuses it")
				})
			}
			end := t.store.plus(t.settle).plus(closing)
			for _, h := range t.handlers {
				if h.keyed {
					c.atMost(h.call.plus(end), t.grace, "every deploy cuts calls off")
				} else {
					c.atMost(h.attempt.plus(end), t.grace, "every deploy makes dead letters of tasks without a key")
				}
			}
		}},
		{"H24", "the scaler takes no worker away while work may be there that the queue's active count does not show: locked, or scheduled", func(c *check, t terms) {
			const killed = "scaling in kills a running owner"
			cooldown := setting("K", "the scaler's cooldown", "", t.Worker.Cooldown)
			for _, h := range t.handlers {
				c.atLeast(cooldown, h.attempt.plus(t.lock), killed)
			}
			c.atLeast(cooldown, t.grace, killed)
		}},
		{"H25", "a delayed copy waits a second at least; and, when it is made, at most max(ℓ + m_s, B, Retry-After), and never past notAfter", func(c *check, t terms) {
			for _, h := range t.handlers {
				if h.keyed {
					c.atLeast(h.backoff, lasting(time.Second), "a task that waits runs in a circle")
				}
			}
		}},
		{"H26", "all calls that may end unknown fit into the longest story; a Retry-After is cut to H13 and notAfter", func(c *check, t terms) {
			for _, h := range t.handlers {
				if h.keyed {
					c.atMost(h.call.plus(h.backoff).times(h.answers), h.story.onlyBy(t.attempts), "the key window passes while a task is still tried")
				}
			}
		}},
		{"H27", "every id, message and document is within the service's limits", func(c *check, t terms) {
			id := setting("id", "characters of an execution's id", "", t.ExecutionID)
			suffix := setting("suffix", "characters that a MessageID has behind it", "", t.MessageIDSuffix)
			c.atMost(id, number(96), "ids are refused that were promised")
			c.atMost(id.plus(suffix), number(maxMessageID), "a message cannot be sent")
			ours := sized("M", "bytes of a task's body", "", t.Orchestrator.MaxMessage)
			theirs := sized("M_max", "bytes of a message that the queue takes", "", t.Tasks.MaxMessage)
			c.atMost(ours.plus(size(envelopeRoom)), theirs, "a message cannot be sent")
			for _, h := range t.handlers {
				c.atMost(h.result.plus(size(32*attemptRoom+claimRoom)), size(maxDocument), "a claim cannot be completed")
			}
		}},
		{"H28", "the store forgets by the item, takes writes in one region, and shows a process its own writes", func(c *check, t terms) {
			const inert = "nothing is ever forgotten"
			c.is(setting("TTL of claims", "container TTL −1, with one in every item", "", t.Store.ClaimTTL), true, inert)
			c.is(setting("TTL of inventory", "the same", "", t.Store.InventoryTTL), true, inert)
			c.is(setting("TTL of webhooks", "the same", "", t.Store.WebhookTTL), true, inert)
			c.is(setting("writes in several regions", "a property of the account", "", t.Store.MultipleWrites), false, "two regions grant one claim")
			c.is(setting("Session", "consistency is Session or stronger", "", t.Store.Session), true, "a process does not see what it wrote")
		}},
	}
}
