package main

import "time"

// scaleRule is how many workers a queue gets, as KEDA and the autoscaler under it
// decide. KEDA alone decides between none and one.
type scaleRule struct {
	target   int           // messages that one worker is for
	most     int           // workers
	cooldown time.Duration // without a message, until there is no worker
	settle   time.Duration // fewer workers are taken only when none of the decisions of this time asked for more
}

// scaleMemory is what a decision needs to know of those before it.
type scaleMemory struct {
	active time.Time // when there was a message last
	asked  []scaleAsk
}

// scaleAsk is what the length of the queue asked for, at one time.
type scaleAsk struct {
	at      time.Time
	workers int
}

// decide is one decision: by the queue's length, the workers that there are, and what
// was asked for lately. More are taken at once.
func (r scaleRule) decide(m scaleMemory, now time.Time, length, running int) (int, scaleMemory) {
	ask := min((length+r.target-1)/r.target, r.most)
	if length > 0 {
		m.active = now
	} else if running > 0 && now.Sub(m.active) < r.cooldown {
		ask = 1
	}
	next := scaleMemory{active: m.active, asked: []scaleAsk{{now, ask}}}
	highest := ask
	for _, a := range m.asked {
		if now.Sub(a.at) < r.settle {
			next.asked = append(next.asked, a)
			highest = max(highest, a.workers)
		}
	}
	if ask == 0 {
		return 0, next
	}
	return max(ask, min(highest, running)), next
}
