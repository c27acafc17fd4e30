package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// job is one task that was submitted, as the event log tells of it.
type job struct {
	id, trace string
	keyed     bool

	effects int                // at the downstream
	ends    []execution.Status // transitions of its execution to an end, in their order
	reason  string             // of its dead letter
	open    int                // its messages that somebody still has to deal with

	claim  claim.Status // as it was written last
	holder string       // by whom
}

// over says that nothing more happens to it.
func (j *job) over() bool { return len(j.ends) > 0 && j.open == 0 }

// takeover is a claim whose owner was killed, and which another went on with.
type takeover struct {
	job, from, to string
	took          time.Duration
}

// tally follows many tasks at once through the event log, and keeps of it no more than
// what is to be counted in the end.
type tally struct {
	mu        sync.Mutex
	jobs      map[string]*job
	traces    map[string]*job      // by trace: the world knows calls by nothing else, when a key is wrong or there is none
	open      map[string]*job      // by message
	kills     map[string]time.Time // by worker
	takeovers []takeover
	pending   int      // jobs that are not over
	strays    []string // effects that belong to no job
	changed   chan struct{}
}

func newTally() *tally {
	return &tally{jobs: map[string]*job{}, traces: map[string]*job{}, open: map[string]*job{}, kills: map[string]time.Time{}, changed: make(chan struct{})}
}

// add makes a job known before anything can happen to it.
func (t *tally) add(id, trace string, keyed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := &job{id: id, trace: trace, keyed: keyed}
	t.jobs[id], t.traces[trace] = j, j
	t.pending++
}

// killed notes when a worker was killed.
func (t *tally) killed(worker string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kills[worker] = at
}

// busy are the workers that hold the claim of a task which is not over.
func (t *tally) busy() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := map[string]int{}
	for _, j := range t.jobs {
		if j.claim == claim.InProgress {
			held[j.holder]++
		}
	}
	return held
}

// left is how many jobs are not over.
func (t *tally) left() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending
}

// drained waits until every job is over.
func (t *tally) drained(ctx context.Context) error {
	for {
		t.mu.Lock()
		left, changed := t.pending, t.changed
		t.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: not over: %s", context.Cause(ctx), strings.Join(t.unfinished(5), "; "))
		}
	}
}

// unfinished are some of the jobs that are not over, for an error message.
func (t *tally) unfinished(atMost int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var some []string
	for _, id := range slices.Sorted(maps.Keys(t.jobs)) {
		if j := t.jobs[id]; !j.over() && len(some) < atMost {
			some = append(some, fmt.Sprintf("%s (%s, claim %s by %s, execution %v, dead letter %q)", id, plural(j.open, "message"), j.claim, j.holder, j.ends, j.reason))
		}
	}
	return append(some, plural(t.pending, "task")+" in all")
}

// follow reads the event log until ctx ends.
func (t *tally) follow(ctx context.Context, log *controller) error {
	for {
		events, err := log.next(ctx, waitForMore)
		t.take(events)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// take takes in what has happened.
func (t *tally) take(events []event) {
	if len(events) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range events {
		j := t.jobOf(e)
		if j == nil {
			continue
		}
		before := j.over()
		t.apply(e, j)
		switch after := j.over(); {
		case after && !before:
			t.pending--
		case before && !after:
			t.pending++
		}
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// jobOf is the job that an event is about: broker and store know it by its id, a
// downstream by its trace, whatever key it was told, if any.
func (t *tally) jobOf(e event) *job {
	if e.Service != "downstream" {
		id, _, _ := strings.Cut(e.Key, "/")
		return t.jobs[id]
	}
	j := t.traces[traceOf(e.Traceparent)]
	if j == nil && e.Kind == "effect" {
		t.strays = append(t.strays, fmt.Sprintf("%s under the key %q, trace %q", e.Resource, e.Key, e.Traceparent))
	}
	return j
}

// traceOf is the second part of a W3C traceparent.
func traceOf(traceparent string) string {
	if parts := strings.Split(traceparent, "-"); len(parts) == 4 {
		return parts[1]
	}
	return ""
}

func (t *tally) apply(e event, j *job) {
	switch {
	case e.Kind == "effect":
		j.effects++
	case e.Service == "servicebus":
		t.move(e, j)
	case e.Service == "cosmos" && e.Entity == "executions" && endsExecution(j.id)(e):
		j.ends = append(j.ends, execution.Status(e.BodyStatus))
	case e.Service == "cosmos" && e.Entity == "claims" && e.Status/100 == http.StatusOK/100 && e.BodyStatus != "":
		t.own(e, j)
	}
}

// move follows a message.
func (t *tally) move(e event, j *job) {
	came, gone := cameAndGone(e)
	if came != "" && t.open[came] == nil {
		t.open[came] = j
		j.open++
	}
	if t.open[gone] != nil {
		delete(t.open, gone)
		j.open--
	}
	if e.Kind == "dead-lettered" && e.Entity == message.Tasks {
		j.reason = e.Reason
	}
}

// own follows a claim. Reads have no status in their body, and so are none of it.
func (t *tally) own(e event, j *job) {
	if j.holder != "" && e.Client != j.holder && j.claim == claim.InProgress {
		if at, dead := t.kills[j.holder]; dead {
			t.takeovers = append(t.takeovers, takeover{job: j.id, from: j.holder, to: e.Client, took: e.At.Sub(at)})
		}
	}
	j.claim, j.holder = claim.Status(e.BodyStatus), e.Client
}

// sum is what all of it has come to. A task that was dead-lettered for that nobody
// knows what its call has done counts apart: it has no key, and so must not be asked
// again.
type sum struct {
	tasks, effects int // of those that were not dead-lettered
	lost, doubled  int // of all

	dead            map[string]int // by reason
	deadWith        int            // dead letters that had their effect
	twice           int            // executions that came to an end more than once
	wrong           []string       // what is not as it must be, some of it in words
	keyed           map[string]int // effects of each keyed task
	lettersInLedger int            // effects there must be in the ledger of those without a key
}

// sum sums the jobs up.
func (t *tally) sum() sum {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := sum{dead: map[string]int{}, keyed: map[string]int{}}
	for _, id := range slices.Sorted(maps.Keys(t.jobs)) {
		s.job(t.jobs[id])
	}
	for _, stray := range t.strays {
		s.find("an effect that no task had asked for: %s", stray)
	}
	return s
}

func (s *sum) job(j *job) {
	if j.keyed {
		s.keyed[j.id] = j.effects
	} else {
		s.lettersInLedger += j.effects
	}
	dead := !j.keyed && j.over() && j.ends[0] == execution.Failed && j.claim == claim.Failed && j.reason != ""
	if dead {
		s.dead[j.reason]++
		if j.effects > 0 {
			s.deadWith++
		}
	} else {
		s.tasks++
		s.effects += j.effects
	}
	whole := j.over() && j.ends[0] == execution.Completed && j.claim == claim.Completed && j.reason == "" && j.effects > 0
	if !dead && !whole {
		s.lost++
		s.find("%s is lost: %s, %s, claim %s, execution %v, dead letter %q", j.id, plural(j.effects, "effect"), plural(j.open, "message"), j.claim, j.ends, j.reason)
	}
	if j.effects > 1 {
		s.doubled++
		s.find("%s is doubled: %s, claim %s, dead letter %q", j.id, plural(j.effects, "effect"), j.claim, j.reason)
	}
	if len(j.ends) > 1 {
		s.twice++
		s.find("%s ended %d times: %v", j.id, len(j.ends), j.ends)
	}
}

// maxFindings bounds what is said in words; the counts are whole.
const maxFindings = 20

func (s *sum) find(format string, args ...any) {
	if len(s.wrong) < maxFindings {
		s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
	}
}

// compare holds what the event log told to what the ledger kept.
func (s *sum) compare(entries []entry) {
	letters := 0
	for _, e := range entries {
		if e.Path == "/letters" {
			letters += e.Effects
			continue
		}
		if told, known := s.keyed[e.Key]; !known || told != e.Effects {
			s.find("the ledger has %s under the key %q, and the event log told of %d", plural(e.Effects, "effect"), e.Key, told)
		}
		delete(s.keyed, e.Key)
	}
	for key, told := range s.keyed {
		if told != 0 {
			s.find("the ledger has nothing under the key %q, and the event log told of %d", key, told)
		}
	}
	if letters != s.lettersInLedger {
		s.find("the ledger has %s without a key, and the event log told of %d", plural(letters, "effect"), s.lettersInLedger)
	}
}

// apart is the line of the dead letters.
func (s *sum) apart() string {
	n := 0
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(s.dead)) {
		n += s.dead[reason]
		reasons = append(reasons, fmt.Sprintf("%d %s", s.dead[reason], reason))
	}
	if n == 0 {
		return "no task was dead-lettered"
	}
	return fmt.Sprintf("%s without a key, dead-lettered (%s), not counted below: %d had their effect, %d none", plural(n, "task"), strings.Join(reasons, ", "), s.deadWith, n-s.deadWith)
}

// right says whether all is as it must be.
func (s *sum) right() bool {
	return s.lost == 0 && s.doubled == 0 && s.twice == 0 && s.tasks == s.effects && s.tasks > 0 && len(s.wrong) == 0
}
