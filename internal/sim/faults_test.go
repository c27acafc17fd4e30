package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"oneeffect/emulator/control"
	"oneeffect/internal/message"
)

// kind is one way in which the world outside fails: a rule of the emulators, whose
// place and time a seed chooses.
type kind struct {
	name  string
	ops   []string // one of them; empty: that of the rule
	rule  control.Rule
	least time.Duration // how long an answer is delayed, or a request is late …
	most  time.Duration // … at most
}

var (
	writes = []string{"create", "replace", "replace", "patch", "batch", "delete"}
	asks   = []string{"read", "read", "query"}
	// claiming are the operations of claims alone.
	claiming = []string{"create", "replace", "replace"}
	tells    = []string{"complete", "complete", "abandon", "dead-letter"}
)

func store(name string, ops []string, r control.Rule) kind {
	r.Match.Service = "cosmos"
	return kind{name: "store: " + name, ops: ops, rule: r}
}

func broker(name, operation string, r control.Rule) kind {
	r.Match.Service, r.Match.Operation = "servicebus", operation
	return kind{name: "broker: " + name, rule: r}
}

func settling(name string, r control.Rule) kind {
	r.Match.Service = "servicebus"
	return kind{name: "broker: " + name, ops: tells, rule: r}
}

func outside(name string, r control.Rule) kind {
	r.Match.Service, r.Match.Operation = "downstream", "call"
	return kind{name: "downstream: " + name, rule: r}
}

func (k kind) lasting(least, most time.Duration) kind {
	k.least, k.most = least, most
	return k
}

const second = time.Second

// faultKinds are all rules that a seed may choose from.
var faultKinds = []kind{
	store("a write is lost", writes, control.Rule{Do: "drop"}),
	store("a write's answer is lost", writes, control.Rule{Do: "drop", When: "after"}),
	store("a write is not answered", writes, control.Rule{Do: "silence"}),
	store("a write is applied and not answered", writes, control.Rule{Do: "silence", When: "after"}),
	store("a write is slow", writes, control.Rule{Do: "delay"}).lasting(second/2, 9*second),
	store("a write's answer is slow", writes, control.Rule{Do: "delay", When: "after"}).lasting(second/2, 9*second),
	store("a write lands late", writes, control.Rule{Do: "delay", Late: true}).lasting(11*second, 80*second),
	store("a write is held and lands at last", writes, control.Rule{Do: "hold", Late: true}),
	store("503", writes, control.Rule{Do: "answer", Status: 503}),
	store("503 after it was applied", writes, control.Rule{Do: "answer", Status: 503, When: "after"}),
	store("408", writes, control.Rule{Do: "answer", Status: 408}),
	store("408 after it was applied", writes, control.Rule{Do: "answer", Status: 408, When: "after"}),
	store("a claim's write is refused", claiming, control.Rule{Match: control.Match{Entity: "claims"}, Do: "answer", Status: 403}),
	store("429", writes, control.Rule{Do: "answer", Status: 429, RetryAfter: control.Duration(second)}),
	store("449", []string{"replace", "patch"}, control.Rule{Do: "answer", Status: 449}),
	store("410", writes, control.Rule{Do: "answer", Status: 410, Condition: "Gone/1002"}),
	store("a write meets itself: 412", []string{"replace", "patch"}, control.Rule{Do: "answer", Status: 412, When: "after"}),
	store("a write meets itself: 409", []string{"create"}, control.Rule{Do: "answer", Status: 409, When: "after"}),
	store("a read is lost", asks, control.Rule{Do: "drop"}),
	store("a read is not answered", asks, control.Rule{Do: "silence"}),
	store("a read is slow", asks, control.Rule{Do: "delay"}).lasting(second/2, 9*second),
	store("a read is answered 503", asks, control.Rule{Do: "answer", Status: 503}),
	store("a read is throttled", asks, control.Rule{Do: "answer", Status: 429, RetryAfter: control.Duration(second)}),
	store("a replica is behind the session", []string{"read"}, control.Rule{Do: "answer", Status: 404, Condition: "NotFound/1002"}),

	broker("a message is lost with its connection", "send", control.Rule{Do: "drop"}),
	broker("a message is taken and its connection lost", "send", control.Rule{Do: "drop", When: "after"}),
	broker("a message is not answered", "send", control.Rule{Do: "silence"}),
	broker("a message is taken and not answered", "send", control.Rule{Do: "silence", When: "after"}),
	broker("a message is slow", "send", control.Rule{Do: "delay"}).lasting(second, 15*second),
	broker("a message is held", "send", control.Rule{Do: "hold"}),
	broker("too busy", "send", control.Rule{Do: "answer", Condition: "com.microsoft:server-busy"}),
	broker("full", "send", control.Rule{Do: "answer", Condition: "amqp:resource-limit-exceeded"}),
	broker("a sender is detached", "send", control.Rule{Do: "detach", Condition: "amqp:link:detach-forced"}),
	broker("a connection is closed", "send", control.Rule{Do: "close", Condition: "amqp:connection:forced"}),
	settling("a settlement is lost with its connection", control.Rule{Do: "reset"}),
	settling("a settlement is made and its connection lost", control.Rule{Do: "drop", When: "after"}),
	settling("a settlement is not answered", control.Rule{Do: "silence"}),
	settling("a settlement is made and not answered", control.Rule{Do: "silence", When: "after"}),
	settling("a settlement is slow", control.Rule{Do: "delay"}).lasting(second, 12*second),
	settling("a settlement finds its lock lost", control.Rule{Do: "lose-lock"}),
	settling("a settlement is told that its lock is lost", control.Rule{Do: "answer", Condition: "com.microsoft:message-lock-lost"}),
	settling("a receiver is detached", control.Rule{Do: "detach", Condition: "amqp:link:detach-forced"}),
	broker("a renewal finds its lock lost", "renew-lock", control.Rule{Do: "lose-lock"}),
	broker("a renewal is refused for a while", "renew-lock", control.Rule{Do: "answer", Status: 503}),
	broker("a renewal is not answered", "renew-lock", control.Rule{Do: "silence"}),
	broker("a delivery is slow", "deliver", control.Rule{Do: "delay"}).lasting(second, 70*second),
	broker("a delivery is lost with its connection", "deliver", control.Rule{Do: "drop"}),
	broker("a delivery is swallowed", "deliver", control.Rule{Do: "silence"}),
	broker("nobody may attach", "attach", control.Rule{Do: "answer", Condition: "com.microsoft:entity-disabled"}),
	broker("a token is refused", "put-token", control.Rule{Do: "answer", Status: 401, Description: "InvalidSignature: the token has an invalid signature"}),

	outside("a call is lost", control.Rule{Do: "drop"}),
	outside("a call's answer is lost", control.Rule{Do: "drop", When: "after"}),
	outside("a call is not answered", control.Rule{Do: "silence"}),
	outside("a call is made and not answered", control.Rule{Do: "silence", When: "after"}),
	outside("a call is slow", control.Rule{Do: "delay"}).lasting(second, 9*second),
	outside("a call's answer is slow", control.Rule{Do: "delay", When: "after"}).lasting(second, 9*second),
	outside("a call lands late", control.Rule{Do: "delay", Late: true}).lasting(11*second, 45*second),
	outside("a call is held", control.Rule{Do: "hold"}),
	outside("503", control.Rule{Do: "answer", Status: 503, RetryAfter: control.Duration(20 * second)}),
	outside("503 for minutes", control.Rule{Do: "answer", Status: 503, RetryAfter: control.Duration(5 * time.Minute)}),
	outside("503 after it was applied", control.Rule{Do: "answer", Status: 503, When: "after"}),
	outside("500", control.Rule{Do: "answer", Status: 500}),
	outside("500 after it was applied", control.Rule{Do: "answer", Status: 500, When: "after"}),
	outside("429", control.Rule{Do: "answer", Status: 429, RetryAfter: control.Duration(5 * second)}),
	outside("409", control.Rule{Do: "answer", Status: 409}),
	outside("400", control.Rule{Do: "answer", Status: 400}),
}

// What goes wrong that is no rule.
const (
	kills       = "a process is killed"
	killsAt     = "a process is killed at an arrow"
	killsLate   = "a process is killed and its request lands late"
	pauses      = "a process is cut off for a while"
	terminates  = "a process is told to end"
	jumpsWorker = "a process's clock jumps"
	jumpsAtCall = "a process's clock jumps while it calls"
	jumpsAhead  = "the servers' clock jumps ahead"
	jumpsBack   = "the servers' clock jumps back"
	lagsCommits = "a replica lags by commits"
	lagsTime    = "a replica lags by time"
	skews       = "a process's clock is wrong"
	drifts      = "a process's clock is slow"
	purges      = "a task's message is taken by somebody else"
	givesUp     = "a task's message is given up"
	buries      = "an event is dead-lettered by somebody else"
	changes     = "an entity is changed"
	disables    = "an entity is disabled for a while"
)

var otherKinds = []string{
	kills, kills, killsAt, killsAt, killsAt, killsAt, killsLate, killsLate, pauses, pauses, pauses, terminates,
	jumpsWorker, jumpsAtCall, jumpsAtCall, jumpsAhead, jumpsBack, lagsCommits, lagsTime, lagsTime, purges, purges, purges, givesUp, givesUp, buries, buries, changes, disables,
	cancelsTaken, givesUpHeld,
}

var containers = []string{"claims", "executions", "executions", "inventory"}

// fault chooses one. Five of eight are rules.
func (c *choice) fault() step {
	s := step{At: c.time(0, chaos-30*second), For: c.time(10*second, 150*second), Target: c.process()}
	if c.IntN(8) < 5 {
		k := c.theme.kinds[c.IntN(len(c.theme.kinds))]
		s.Kind, s.Fault = k.name, true
		s.Rule = c.rule(k)
		if s.Rule.Match.Operation == "renew-lock" {
			s.For = c.time(4*time.Minute, 8*time.Minute) // there are few
		}
		if c.IntN(3) > 0 || s.Rule.Match.Operation == "renew-lock" {
			s.Target = "" // whoever it meets
		}
		return s
	}
	s.Kind, s.Fault = c.theme.others[c.IntN(len(c.theme.others))], true
	switch s.Kind {
	case killsAt, killsLate:
		s.For = c.time(second, 40*second) // down
		s.Rule = c.arrow(s.Target, s.Kind == killsLate)
	case kills, terminates:
		s.For = c.time(second, 40*second)
	case pauses:
		s.For = c.time(10*second, 150*second)
	case jumpsWorker:
		s.Jump = c.time(-10*time.Minute, 10*time.Minute)
	case jumpsAtCall:
		s.Target = fmt.Sprintf("worker-%d", 1+c.IntN(c.plan.Workers))
		s.Rule = &control.Rule{Match: control.Match{Service: "downstream", Operation: "call"}, Do: "delay", Delay: control.Duration(9 * second), Times: 1}
		s.Jump = c.time(2*time.Minute, 10*time.Minute)
	case jumpsAhead:
		s.Jump = c.time(20*second, 6*time.Minute)
	case jumpsBack:
		s.Jump = -c.time(20*second, 6*time.Minute)
	case lagsCommits:
		s.Entity, s.N = containers[c.IntN(len(containers))], 1+c.IntN(4)
	case lagsTime:
		s.Entity, s.Jump = containers[c.IntN(len(containers))], c.time(second, 10*second)
		if s.Entity == "executions" {
			s.Jump, s.For = 4*s.Jump, 2*s.For // what has ended meanwhile is looked at once more
		}
	case changes, disables:
		s.Entity = []string{message.Tasks, message.TaskEvents, message.Reservations}[c.IntN(3)]
	case purges, givesUp, buries:
		s.For = c.time(30*second, 2*time.Minute)
	case cancelsTaken, givesUpHeld:
		s.Target, s.Rule = "", meeting(s.Kind) // whoever comes there
		s.For = c.time(70*second, 150*second)
	}
	return s
}

// rule puts a kind into a place.
func (c *choice) rule(k kind) *control.Rule {
	r := k.rule
	if len(k.ops) > 0 {
		r.Match.Operation = k.ops[c.IntN(len(k.ops))]
	}
	if r.Match.Service == "cosmos" && c.theme.claims {
		r.Match.Operation, r.Match.Entity = claiming[c.IntN(len(claiming))], "claims"
	} else if r.Match.Service == "cosmos" && r.Match.Entity == "" && c.IntN(2) == 0 {
		r.Match.Entity = map[string]string{"create": "claims", "replace": "claims", "patch": "executions", "batch": "executions", "delete": "executions"}[r.Match.Operation]
	}
	if r.Match.Service == "servicebus" && r.Match.Operation == "send" && c.IntN(2) == 0 {
		r.Match.Entity = []string{message.Tasks, message.TaskEvents}[c.IntN(2)]
	}
	if k.most > 0 {
		r.Delay = control.Duration(c.time(k.least, k.most))
	}
	switch c.IntN(3) { // once, a few times, or as long as it lasts
	case 0:
		r.Times = 1
	case 1:
		r.Times = 2 + c.IntN(3)
	default:
		if c.IntN(2) == 0 {
			r.Probability, r.Seed = 0.4, c.Uint64()|1
		}
	}
	return &r
}

// arrow is a place at which a process dies: before or after what it does there is
// applied.
func (c *choice) arrow(target string, late bool) *control.Rule {
	places := map[byte][]control.Match{
		'w': {
			{Service: "cosmos", Operation: "create", Entity: "claims"},
			{Service: "cosmos", Operation: "replace", Entity: "claims"},
			{Service: "cosmos", Operation: "replace", Entity: "claims", Body: map[string]any{"/status": "IN_PROGRESS", "/callStarted": true}},
			{Service: "cosmos", Operation: "replace", Entity: "claims", Body: map[string]any{"/status": "COMPLETED"}},
			{Service: "cosmos", Operation: "replace", Entity: "claims", Body: map[string]any{"/status": "FAILED"}},
			{Service: "downstream", Operation: "call"},
			{Service: "downstream", Operation: "call"},
			{Service: "servicebus", Operation: "send", Entity: message.TaskEvents},
			{Service: "servicebus", Operation: "send", Entity: message.Tasks},
			{Service: "servicebus", Operation: "complete", Entity: message.Tasks},
			{Service: "servicebus", Operation: "dead-letter", Entity: message.Tasks},
		},
		'o': {
			{Service: "cosmos", Operation: "batch", Entity: "executions"},
			{Service: "cosmos", Operation: "patch", Entity: "executions"},
			{Service: "cosmos", Operation: "delete", Entity: "executions"},
			{Service: "cosmos", Operation: "replace", Entity: "claims"},
			{Service: "cosmos", Operation: "create", Entity: "claims"},
			{Service: "servicebus", Operation: "send", Entity: message.Tasks},
			{Service: "servicebus", Operation: "complete"},
		},
		'p': {
			{Service: "cosmos", Operation: "batch", Entity: "inventory"},
			{Service: "servicebus", Operation: "complete"},
		},
	}[target[0]]
	r := control.Rule{Match: places[c.IntN(len(places))], Do: "hold", Times: 1}
	if late && r.Match.Service != "servicebus" {
		r.Late = true
	} else if c.IntN(2) == 0 {
		r.When = "after"
	}
	return &r
}

// choice is a seed at work.
type choice struct {
	*rand.Rand
	plan  *plan
	theme theme
}

func (c *choice) time(least, most time.Duration) time.Duration {
	return least + time.Duration(c.Int64N(int64(most-least)+1))
}
