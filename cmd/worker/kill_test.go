package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"oneeffect/emulator/control"
	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

var (
	stops = flag.Int("stops", 4, "how many workers are stopped under load")
	seed  = flag.Uint64("seed", 0, "of the moments, the workers and the signals; 0: by chance")
)

// lettersKept is how many replies the ledger remembers of one key, the empty one
// of all letters among them.
const lettersKept = 32

// Workers come and go at random moments under load, half of them with a signal
// that says so and half without. Every keyed task has one effect and none is
// dead-lettered; a keyless one has one effect or is dead-lettered, and never two.
func TestTasksSurviveTheirWorkers(t *testing.T) {
	t.Parallel()
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64()
	}
	t.Logf("again: go test ./cmd/worker -run TestTasksSurviveTheirWorkers -stops=%d -seed=%d", *stops, chosen)
	chance := rand.New(rand.NewPCG(chosen, 0))
	s := newSite(t, time.Minute+time.Duration(*stops)*10*time.Second)
	// Calls take a while, before the effect or after it, so that many are cut off.
	for _, when := range []string{"before", "after"} {
		s.arm(control.Rule{Name: "slow-" + when, Match: control.Match{Service: "downstream"}, When: when, Do: "delay", Delay: control.Duration(100 * time.Millisecond)})
	}
	keyed, keyless := 40*max(*stops, 1), lettersKept-2
	l := newLoad(s, chance, keyed, keyless)

	workers := []*child{s.worker("w0"), s.worker("w1")}
	for n := range *stops {
		last := uint64(0)
		if len(s.seen) > 0 {
			last = s.seen[len(s.seen)-1].Seq
		}
		at := last + 30 + chance.Uint64N(200)
		s.until("load", func(e control.Event) bool { return e.Seq >= at })
		victim := chance.IntN(len(workers))
		if gone := workers[victim]; chance.IntN(2) == 0 {
			gone.kill()
		} else {
			gone.terminate()
		}
		workers[victim] = s.worker(fmt.Sprintf("w%d", n+2))
	}
	l.untilOver()
	l.audit()
	for _, w := range workers {
		w.terminate()
	}
}

// load is the tasks of one test and what has become of them.
type load struct {
	*site
	keyed, keyless []string
	traces         map[string]string // by keyless task
	open           map[string]bool   // messages of tasks that are in the queue, by MessageID
	over           map[string]string // claim status by task, once it is final
	dead           map[string]string // dead-letter reason by task
}

func newLoad(s *site, chance *rand.Rand, keyed, keyless int) *load {
	s.t.Helper()
	l := &load{site: s, traces: map[string]string{}, open: map[string]bool{}, over: map[string]string{}, dead: map[string]string{}}
	for i := range keyed {
		l.keyed = append(l.keyed, fmt.Sprintf("customer-%d", i))
	}
	for i := range keyless {
		l.keyless = append(l.keyless, fmt.Sprintf("letter-%d", i))
	}
	all := append(append([]string{}, l.keyed...), l.keyless...)
	chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for n, id := range all {
		if strings.HasPrefix(id, "customer") {
			s.send(s.ctx, id, "customer.create")
			continue
		}
		// Letters have no key that the ledger could tell them apart by, but traces.
		var traceID trace.TraceID
		binary.BigEndian.PutUint64(traceID[:], uint64(n+1))
		l.traces[id] = traceID.String()
		of := trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
		s.send(trace.ContextWithSpanContext(s.ctx, of), id, "letter.print")
	}
	return l
}

// untilOver returns when every claim is final and the queue is empty.
func (l *load) untilOver() {
	l.t.Helper()
	tasks := len(l.keyed) + len(l.keyless)
	l.until("the end of all tasks", func(e control.Event) bool {
		switch {
		case e.Service == "cosmos" && e.Entity == "claims" && e.Status == 200 && (e.BodyStatus == "COMPLETED" || e.BodyStatus == "FAILED"):
			l.over[e.Key] = e.BodyStatus
		case e.Service != "servicebus" || e.Entity != message.Tasks:
		case e.Kind == "enqueued" || e.Kind == "scheduled":
			l.open[e.Key] = true
		case e.Kind == "dead-lettered":
			l.dead[e.CorrelationID] = e.Reason
			delete(l.open, e.Key)
		case e.Kind == "settled" && e.Disposition == "completed":
			delete(l.open, e.Key)
		}
		return len(l.over) == tasks && len(l.open) == 0
	})
}

func (l *load) audit() {
	l.t.Helper()
	effects := map[string]int{}
	var letters entry
	for _, e := range l.ledger() {
		if e.Path == "/letters" {
			letters = e
			continue
		}
		effects[e.Key] += e.Effects
	}
	for _, id := range l.keyed {
		if reason, dead := l.dead[id]; dead || effects[id] != 1 || l.over[id] != "COMPLETED" {
			l.t.Errorf("%s: %d effects, claim %s, dead letter %q", id, effects[id], l.over[id], reason)
		}
	}
	printed := map[string]int{} // answers by trace
	for _, r := range letters.Replies {
		printed[r.Traceparent[3:35]]++
	}
	completed := 0
	for _, id := range l.keyless {
		reason, dead := l.dead[id]
		n := printed[l.traces[id]]
		switch {
		case n > 1:
			l.t.Errorf("%s: printed %d times", id, n)
		case l.over[id] == "COMPLETED" && !dead && n == 1:
			completed++
		case l.over[id] == "FAILED" && reason == claim.OutcomeUnknown:
		default:
			l.t.Errorf("%s: printed %d times, claim %s, dead letter %q", id, n, l.over[id], reason)
		}
	}
	if letters.Calls > len(l.keyless) || letters.Effects < completed {
		l.t.Errorf("%d calls with %d effects for %d letters, of which %d are completed", letters.Calls, letters.Effects, len(l.keyless), completed)
	}
	if completed == 0 {
		l.t.Error("no letter was completed: the load was none")
	}
	l.t.Logf("%d customers, %d letters of which %d are dead letters, %d lock expiries", len(l.keyed), len(l.keyless), len(l.dead), l.count(onTasks("lock-expired", "")))
}

// The process is asked to end while a call gets no answer: the claim is given
// back and the message put off by a copy. Whoever comes next has both at once.
func TestAfterACleanStopTheNextWorkerStartsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Minute)
	s.arm(control.Rule{Name: "call", Match: control.Match{Service: "downstream", Client: "first"}, Do: "hold"})
	first := s.worker("first")
	s.send(s.ctx, "82f3", "customer.create")
	s.until("the call", reached("call"))
	first.terminate()
	second := s.worker("second")
	s.until("the result", written("82f3", "COMPLETED"))
	s.until("the settlement", func(e control.Event) bool {
		return onTasks("settled", "82f3")(e) && e.Client == "second"
	})
	second.terminate()

	if n := s.count(onTasks("lock-expired", "")); n != 0 {
		t.Errorf("%d locks expired", n)
	}
	if n := s.count(onTasks("scheduled", "82f3")); n != 1 {
		t.Errorf("%d copies, want the one of the stopped worker: the next met a lease", n)
	}
	if n := s.count(func(e control.Event) bool { return onTasks("delivered", "82f3")(e) && e.Delivery > 1 }); n != 0 {
		t.Errorf("%d deliveries were counted", n)
	}
	if c := s.claim("82f3"); c.Fence != 2 || !strings.HasPrefix(c.Owner, "second/") {
		t.Errorf("claim: fence %d, owner %s", c.Fence, c.Owner)
	}
	if l := s.ledger(); len(l) != 1 || l[0].Key != "82f3" || l[0].Effects != 1 {
		t.Errorf("ledger: %+v, want one effect under the task's key", l)
	}
}

// A task whose call kills its process, so that no code runs after it: the starts
// that the claim has counted end it.
func TestATaskThatKillsItsProcessIsDeadLettered(t *testing.T) { // C8 D1
	t.Parallel()
	const attempts = 2
	s := newSite(t, 2*time.Minute)
	s.send(s.ctx, "poison", "customer.create")
	for n := range attempts {
		id := fmt.Sprintf("victim-%d", n)
		s.arm(control.Rule{Name: id, Match: control.Match{Service: "downstream", Client: id}, Do: "hold"})
		victim := s.worker(id, fmt.Sprintf("-max-attempts=%d", attempts))
		s.until("call of "+id, reached(id))
		victim.kill()
	}
	survivor := s.worker("survivor", fmt.Sprintf("-max-attempts=%d", attempts))
	dead := s.until("the dead letter", onTasks("dead-lettered", "poison"))
	told := s.until("TaskFailed", func(e control.Event) bool {
		return e.Kind == "enqueued" && strings.HasPrefix(e.Entity, message.TaskEvents) && e.Subject == message.TypeFailed && e.CorrelationID == "poison"
	})
	failed := s.until("FAILED", written("poison", "FAILED"))
	survivor.terminate()
	if dead.Reason != claim.AttemptsExhausted {
		t.Errorf("dead-lettered as %q, want %s", dead.Reason, claim.AttemptsExhausted)
	}
	if failed.Seq > told.Seq || told.Seq > dead.Seq {
		t.Errorf("FAILED, TaskFailed and the dead letter are events %d, %d and %d, want them in this order", failed.Seq, told.Seq, dead.Seq)
	}
	if dead.Client != "survivor" {
		t.Errorf("dead-lettered by %q", dead.Client)
	}
	if c := s.claim("poison"); c.Starts != attempts || c.Status != claim.Failed || c.Failure.Outcome != claim.EffectUnknown {
		t.Errorf("claim: %d starts, %s, %+v", c.Starts, c.Status, c.Failure)
	}
	if n := s.count(func(e control.Event) bool { return e.Kind == "call" }); n != attempts {
		t.Errorf("%d calls, want one of each process that died", n)
	}
}
