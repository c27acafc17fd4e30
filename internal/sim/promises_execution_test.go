package sim

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// executionSeen is what was seen of one execution so far.
type executionSeen struct {
	doc         *document
	at          time.Time // of the newest version
	transitions int       // to COMPLETED
	settledOnce bool
}

// transition is one version of an execution.
func (i *inspection) transition(v version, c *commit) {
	s, known := i.runs[v.id]
	if !known {
		s = &executionSeen{}
		i.runs[v.id] = s
	}
	old, next, since := s.doc, v.doc, s.at
	s.doc, s.at = next, i.now.at
	claim := i.claimOf(v.id)
	parent := len(next.Tasks) > 0
	outbox := slices.ContainsFunc(c.versions, func(o version) bool { return o.doc != nil && o.doc.Kind == "outbox" })
	if old == nil {
		whole := i.runs[next.Orchestration] // a part that had not begun when the whole was cancelled begins as CANCELLED
		if next.Run != 1 || next.Status != "RUNNING" && (next.Status != "CANCELLED" || whole == nil || whole.doc.Status != "CANCELLED") {
			i.broken("E1", "execution %s begins as %s of run %d", v.id, next.Status, next.Run)
		}
		if next.Orchestration == "" && !outbox {
			i.broken("E6", "execution %s is created without an outbox entry", v.id)
		}
		return
	}
	if next.Run != old.Run && (old.Status != "FAILED" || next.Status != "RUNNING") {
		i.broken("E7", "execution %s comes to run %d from %s of run %d", v.id, next.Run, old.Status, old.Run)
	}
	if n := next.ends(); n > 1 {
		i.broken("E1", "execution %s came to COMPLETED %d times, its history says", v.id, n)
	}
	if old.Status == next.Status {
		return
	}
	switch old.Status + " to " + next.Status {
	case "RUNNING to COMPLETED", "FAILED to COMPLETED":
		i.hold("E1")
		s.transitions++
		if old.Status == "FAILED" {
			i.hold("E3")
		}
		if parent {
			return
		}
		if !claim.completed {
			i.broken("E1", "execution %s is COMPLETED and its claim is not", v.id)
		} else if next.Result == nil || next.Result.Digest != claim.digest {
			i.broken("E2", "execution %s has another result than its claim", v.id)
		}
		i.hold("E2")
	case "RUNNING to FAILED":
		i.hold("E4")
		if !parent && (claim.doc == nil || claim.doc.Status != "COMPLETED" && (claim.doc.Status != "FAILED" || claim.doc.Run < next.Run)) {
			i.broken("E4", "execution %s fails in run %d, and its claim is %s", v.id, next.Run, claim.doc.short())
		}
	case "RUNNING to CANCELLED":
		i.hold("E8")
	case "FAILED to RUNNING":
		i.hold("E7")
		if began := i.peace; claim.completed && !began.IsZero() && claim.at.Before(began) && since.Before(began) && i.now.at.Sub(began) > 3*time.Minute {
			i.broken("E3", "execution %s is replayed: its claim has long been COMPLETED, and it stayed FAILED", v.id)
		}
		if next.Run != old.Run+1 || !outbox && !parent {
			i.broken("E7", "execution %s is replayed as run %d after %d, outbox entry %t", v.id, next.Run, old.Run, outbox)
		}
	default:
		promise := "E1"
		if old.Status == "CANCELLED" {
			promise = "E8"
		}
		i.broken(promise, "execution %s was %s and is %s", v.id, old.Status, next.Status)
	}
}

// ends are how often a document's history says that it came to COMPLETED.
func (d *document) ends() (n int) {
	for _, note := range d.History {
		if note.To == "COMPLETED" {
			n++
		}
	}
	return n
}

// forgotten: an entry of the outbox goes when its message is in the queue, or nobody
// wants it any more.
func (i *inspection) forgotten(v version) {
	e := i.outbox[v.id]
	delete(i.outbox, v.id)
	if e == nil || i.events.sent[e.MessageID] {
		return
	}
	task, _, _ := strings.Cut(e.MessageID, "/")
	x := i.runs[task]
	another := false
	for _, other := range i.outbox {
		another = another || other.MessageID == e.MessageID // a part's own, in its own partition
	}
	if x != nil && x.doc.Status == "RUNNING" && x.doc.Run == e.Run && !another {
		i.broken("E6", "the outbox entry of %s is forgotten, and it was never in the queue", e.MessageID)
	}
}

// redispatched: what is alive is left. A replica that lags may hide that, and what is
// sent then is only a message more.
func (i *inspection) redispatched(v version) {
	s := i.claims[v.doc.ExecutionID]
	if s == nil || len(i.jumps) > 0 || slices.ContainsFunc(i.h.plan.Steps, func(p step) bool { return p.Entity == "claims" }) {
		return
	}
	// A store that is slow or silent may have answered of half a minute ago.
	if s.lives(i.now.at.Add(30*second)) && i.now.at.Sub(s.alive) > time.Minute {
		i.broken("E5", "the task of %s is sent again, and its claim is %s", v.doc.ExecutionID, s.doc.short())
	}
}

// end looks at what stands when nothing goes wrong any more.
func (i *inspection) end() {
	for _, id := range slices.Sorted(maps.Keys(i.runs)) {
		i.ended(id, i.runs[id])
	}
	for _, task := range slices.Sorted(maps.Keys(i.h.effects)) {
		i.effects(task, i.h.effects[task])
	}
	if i.h.stuck {
		i.broken("W3", "%v after the last fault there are messages left: %v, and %d executions RUNNING", patience, i.h.left, i.h.running())
	}
	i.stockEnds()
	for _, p := range i.h.problems {
		i.broken("SIM", "%s", p)
	}
}

func (i *inspection) ended(id string, s *executionSeen) {
	claim := i.claimOf(id)
	switch {
	case s.doc.Status == "RUNNING":
		i.broken("E4", "execution %s is RUNNING for ever; its claim is %s", id, claim.doc.short())
	case s.doc.Status == "FAILED" && claim.completed:
		i.broken("E4", "execution %s is FAILED and its claim COMPLETED", id)
	case s.doc.Status == "FAILED":
		i.hold("E4")
	}
	if s.transitions > 1 {
		i.broken("E1", "execution %s was COMPLETED %d times", id, s.transitions)
	}
	if len(s.doc.Tasks) > 0 {
		i.joined(id, s)
		return
	}
	if i.events.tasks[id] > 0 {
		i.hold("E6")
	} else if s.doc.Status != "CANCELLED" {
		i.broken("E6", "the task of %s was never in the queue", id)
	}
}

// joined: a whole is what its parts are.
func (i *inspection) joined(id string, s *executionSeen) {
	want := "COMPLETED"
	for _, part := range s.doc.Tasks {
		child := i.runs[part.ExecutionID]
		if child == nil {
			if s.doc.Status != "CANCELLED" {
				i.broken("E6", "part %s of %s was never begun", part.ExecutionID, id)
			}
			continue
		}
		if child.doc.Status != "COMPLETED" {
			want = "FAILED"
		}
	}
	if s.doc.Status != want && s.doc.Status != "CANCELLED" {
		i.broken("E4", "orchestration %s is %s, by its parts %s", id, s.doc.Status, want)
	}
	i.hold("E9")
}

// effects are what it is all about: each once, and where an end says how many there
// are, as many.
func (i *inspection) effects(task string, effects map[string]int) {
	total := 0
	for where, n := range effects {
		total += min(n, 1)
		if n > 1 {
			i.broken("ONE", "%s of %s had %d effects", where, task, n)
		}
		if n == 1 {
			i.hold("ONE")
		}
	}
	s := i.claims[task]
	if s == nil || s.doc == nil {
		if total > 0 {
			i.broken("ONE", "%s had an effect and has no claim", task)
		}
		return
	}
	switch d := s.doc; {
	case d.Status == "COMPLETED" && !strings.HasPrefix(d.Result.Ref, "/seen/"):
		if want := len(callsOf[i.h.plan.Tasks[task]]); total != want {
			i.broken("ONE", "%s is completed and had %d of %d effects: %v", task, total, want, effects)
		}
	case d.Status == "FAILED" && d.Failure.Outcome == "none" && total > 0:
		i.broken("ONE", "%s failed without any effect, it says, and had %v", task, effects)
	}
}
