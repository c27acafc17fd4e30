package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// record is a claim without what decides nothing: times are before or after what
// they are compared with, nonces are names of those who can still recognise them.
type record struct {
	status   claim.Status // empty: there is none
	run      uint8
	fence    uint8
	owner    name // of the grant
	w        name // of the write
	keyed    bool
	keyless  string // the recorded keyless step
	started  bool   // CallStarted
	passed   bool   // the key window that began at FirstCallAt has
	waiting  bool   // NotBefore is to come
	released bool
	starts   uint8
	answered uint8
	made     uint8 // bit i: step i has its result
	reason   string
	outcome  string
}

// name is who could still recognise a nonce: nobody, a worker's present grant or
// write, or the orchestrator.
type name uint8

const (
	nobody name = iota
	first
	second
	overruled // by the orchestrator
)

var names = [...]string{"", "w1", "w2", "orchestrator"}

func named(nonce string) name {
	i := slices.Index(names[:], nonce)
	if i < 0 {
		panic("no such name: " + nonce)
	}
	return name(i)
}

// The instants of the model. Everything is before or after; how long is nobody's
// business here.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const (
	lease  = 5 * time.Minute
	window = 24 * time.Hour
)

var (
	terms = claim.Terms{Lease: lease, OwnerMargin: 10 * time.Second, ChallengerMargin: 5 * time.Second, MaxAttempts: maxStarts, Keep: 30 * 24 * time.Hour}
	past  = now.Add(-time.Second)
	later = now.Add(time.Hour)
)

const taskID, fingerprint = "task", "sha256:of-the-task"

func (r record) String() string {
	if r.status == "" {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s run %d fence %d owner %q", r.status, r.run, r.fence, names[r.owner])
	for _, flag := range []struct {
		on   bool
		says string
	}{{r.keyed, "keyed"}, {r.started, "callStarted"}, {r.passed, "window passed"}, {r.released, "released"}, {r.waiting, "notBefore to come"}} {
		if flag.on {
			b.WriteString(", " + flag.says)
		}
	}
	if r.keyless != "" {
		b.WriteString(", keyless step " + r.keyless)
	}
	if r.made != 0 {
		fmt.Fprintf(&b, ", steps made %02b", r.made)
	}
	if r.reason != "" {
		fmt.Fprintf(&b, ", %s (effect %s)", r.reason, r.outcome)
	}
	return b.String()
}

// claim is the record as the guard sees it.
func (r record) claim() *claim.Claim {
	if r.status == "" {
		return nil
	}
	c := &claim.Claim{
		ID: taskID, Status: r.status, Run: int(r.run), Fence: int64(r.fence), Owner: names[r.owner], W: names[r.w],
		LeaseSeconds: int(lease / time.Second), Keyed: r.keyed, KeylessStep: r.keyless, Fingerprint: fingerprint,
		CallStarted: r.started, FirstCallAt: now, Starts: int(r.starts), Answered: int(r.answered), Released: r.released,
	}
	if r.passed {
		c.FirstCallAt = now.Add(-window)
	}
	if r.waiting {
		c.NotBefore = later
	}
	for i, step := range stepNames {
		if r.made&(1<<i) != 0 {
			claim.Keeping(step, message.StepResult{})(c)
		}
	}
	c.CallStarted = r.started
	if r.status == claim.Completed {
		c.Result = &claim.Result{Digest: digestOf(r.fence)}
	}
	if r.status == claim.Failed {
		c.Failure = &claim.Failure{Reason: r.reason, Outcome: r.outcome}
	}
	return c
}

// abstract is the way back. A completed claim's result is named by its fence: there
// is one for each write that completes.
func abstract(c claim.Claim) record {
	r := record{
		status: c.Status, run: uint8(c.Run), fence: uint8(c.Fence), owner: named(c.Owner), w: named(c.W),
		keyed: c.Keyed, keyless: c.KeylessStep, started: c.CallStarted, passed: claim.WindowPassed(c.FirstCallAt, now, window, 0),
		waiting: c.NotBefore.After(now), released: c.Released, starts: uint8(c.Starts), answered: uint8(c.Answered),
	}
	for i, step := range stepNames {
		if _, made := c.Steps[step]; made {
			r.made |= 1 << i
		}
	}
	if c.Failure != nil {
		r.reason, r.outcome = c.Failure.Reason, c.Failure.Outcome
	}
	return r
}

func digestOf(fence uint8) string { return "digest-" + strconv.Itoa(int(fence)) }

// records gives every record that occurs a number, so that a state holds numbers.
type records struct {
	list    []record
	ids     map[record]id
	renamed map[renaming]id
}

// id is a record's number; 0 is none.
type id uint16

type renaming struct {
	of    id
	from  name
	write bool // the write's name, not the grant's
}

func newRecords() *records {
	return &records{list: []record{{}}, ids: map[record]id{{}: 0}, renamed: map[renaming]id{}}
}

func (r *records) id(rec record) id {
	if known, ok := r.ids[rec]; ok {
		return known
	}
	next := id(len(r.list))
	if int(next) != len(r.list) {
		panic("more records than numbers: the bounds are too large")
	}
	r.list, r.ids[rec] = append(r.list, rec), next
	return next
}

// rename is the record after a name is nobody's any more.
func (r *records) rename(of id, n name, write bool) id {
	rec := r.list[of]
	if !write && rec.owner != n || write && rec.w != n {
		return of
	}
	key := renaming{of: of, from: n, write: write}
	if known, ok := r.renamed[key]; ok {
		return known
	}
	if write {
		rec.w = nobody
	} else {
		rec.owner = nobody
	}
	to := r.id(rec)
	r.renamed[key] = to
	return to
}
