package horizon

import "time"

const day = 24 * time.Hour

// lifetimes are the relations between what is remembered and what may still come.
func lifetimes() []Relation {
	const second = ": a second effect"
	return []Relation{
		{"H10", "a task fails by its claim before the broker gives its message up", func(c *check, t terms) {
			c.atMost(t.attempts, t.maxDelivery.less(number(2)), "the broker's reason hides the claim's")
			c.only("on the official emulator", t.official, true, func() {
				for _, e := range t.entities {
					c.atMost(e.maxDelivery, number(10), "the official emulator refuses its configuration")
				}
			})
		}},
		{"H11", "a claim is kept for as long as any message of its task can live, and a day", func(c *check, t terms) {
			for _, h := range t.handlers {
				c.atLeast(t.keep, t.taskLife.plus(h.story).plus(lasting(day)), "a claim is forgotten while a message of it lives"+second)
			}
		}},
		{"H12", "a task message does not outlive its task, and what expires becomes a dead letter", func(c *check, t terms) {
			c.atMost(t.ttl, t.taskLife, "a message lies in the queue that nobody may run")
			for _, e := range t.entities {
				c.is(e.deadLetter, true, "what expires vanishes without a trace")
			}
		}},
		{"H13", "all automatic calls are made while the downstream remembers the key; before every call, now + T_call < firstCallAt + W_k − m_k", func(c *check, t terms) {
			for _, h := range t.handlers {
				if h.keyed || h.window.value > 0 { // of several steps, some may have a key
					c.atMost(h.story, h.window.less(t.keyMargin), "the downstream may have forgotten the key of a late call"+second)
				}
			}
		}},
		{"H14", "no dead letter is replayed after the life of its task; a keyed one only while H13 allows a call, else with the assertion that nothing was applied", func(c *check, t terms) {
			c.atMost(t.replayAge, t.taskLife, "a replay runs what its claim no longer guards"+second)
		}},
		{"H15", "what ended unknown is replayed only when its first caller cannot wake any more, and asserted", func(c *check, t terms) {
			for _, h := range t.handlers {
				c.atLeast(t.unknownAge, t.lease.plus(t.challengerMargin).plus(h.call).plus(lasting(15*time.Minute)), "the first caller may still be on its way"+second)
			}
		}},
		{"H16", "an execution is kept for as long as its claim, and as any event of it can live", func(c *check, t terms) {
			const reborn = "an old event meets an execution that was created again under its id"
			c.atLeast(t.keepExecutions, t.keep, reborn)
			c.atLeast(t.keepExecutions, t.taskLife.plus(t.eventTTL).plus(t.replayAge), reborn)
		}},
	}
}
