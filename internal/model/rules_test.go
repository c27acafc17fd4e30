package model

import (
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// rules are the decisions under exploration: the product's own, or with one of
// them broken.
type rules struct {
	take     func(stands *claim.Claim, age time.Duration, ask claim.Ask, owner string, t claim.Terms) (claim.Claim, claim.Verdict, bool)
	examine  func(stands *claim.Claim, age time.Duration, l claim.Look, owner string, t claim.Terms) (claim.Claim, claim.Found, bool)
	withdraw func(stands *claim.Claim, age time.Duration, l claim.Look, owner string, t claim.Terms) (claim.Claim, bool)
	resolve  func(stands claim.Claim, run int, r claim.Result, owner string, t claim.Terms) (claim.Claim, bool, error)
	takenBy  func(stands claim.Claim, owner string) bool
	readBack func(stands *claim.Claim, owner string, fence int64, mine func(string) bool) claim.Proof
	next     func(stands execution.Execution, ev message.Event, now time.Time) (execution.Change, execution.Decision)
	cancel   func(stands execution.Execution, o execution.Operator, now time.Time) (execution.Change, execution.Decision, error)
	replay   func(stands execution.Execution, o execution.Operator, asserted bool, settle time.Duration, now time.Time) (execution.Change, execution.Decision, error)
	settle   func(stands execution.Execution, c message.Completed, o execution.Operator, now time.Time) (execution.Change, execution.Decision, error)

	// What the worker and the adapters do around them.
	announce     bool // callStarted is written and proved before a keyless call
	sameStep     bool // a step keeps its key beside a keyless one only if the claim began with the same
	ownerPerTake bool // every Take has an owner of its own
	randomCopies bool // copies have ids of their own
	deadReads    bool // a dead letter is a hint to read the claim
	windowOfAll  bool // the window is looked at before an announced call too, if one may have been made unannounced
	vouchWaits   bool // whoever vouches waits until no call can be under way any more, whatever the reason
}

var product = rules{
	take: claim.Take, examine: claim.Examine, withdraw: claim.Withdraw, resolve: claim.Resolve,
	takenBy: claim.TakenBy, readBack: claim.ReadBack,
	next: execution.Next, cancel: execution.Cancel, replay: execution.Replay, settle: execution.Resolve,
	announce: true, sameStep: true, ownerPerTake: true, randomCopies: true, deadReads: true, windowOfAll: true, vouchWaits: true,
}

// A decision is asked for once for each distinct question: there are thousands of
// questions and millions of states.
type (
	takeAsk struct {
		stands        id
		stale, tooOld bool
		run           uint8
		asserted      bool
		worker        uint8
	}
	takeAnswer struct {
		next  id
		kind  claim.Kind
		inert bool // refused, or over for its age: a dead letter that says nothing
		write bool
	}
	lookAsk struct {
		stands        id
		stale, tooOld bool
		run           uint8
		dead          bool
	}
	lookAnswer struct {
		next  id
		found claim.Found
		write bool
	}
	changeAsk struct {
		of     id
		op     op
		step   uint8
		fail   outcome
		worker uint8
	}
)

type decisions struct {
	changesOf map[changeOf]execution.Change // of the execution
	takes     map[takeAsk]takeAnswer
	looks     map[lookAsk]lookAnswer
	withdraws map[lookAsk]lookAnswer
	changes   map[changeAsk]id
}

func age(stale bool) time.Duration {
	if stale {
		return lease + time.Hour
	}
	return 0
}

func notAfter(tooOld bool) time.Time {
	if tooOld {
		return past
	}
	return later
}

// take asks what the worker's declaration and a message come to over a record.
func (m *model) take(a takeAsk) takeAnswer {
	if known, ok := m.takes[a]; ok {
		return known
	}
	d := m.declared[a.worker]
	ask := claim.Ask{
		ID: taskID, Fingerprint: fingerprint, Run: int(a.run), Keyed: d.Keyed, KeylessStep: d.KeylessStep(),
		KeyWindow: window, NotAfter: notAfter(a.tooOld), Asserted: a.asserted, Now: func() time.Time { return now },
	}
	next, v, write := m.rules.take(m.records.list[a.stands].claim(), age(a.stale), ask, names[1+a.worker], terms)
	answer := takeAnswer{kind: v.Kind, write: write, inert: v.Reason == claim.TooOld || v.Kind == claim.Over && v.Claim.Failure.Reason == claim.TooOld}
	if write {
		next.W = names[1+a.worker]
		answer.next = m.records.id(abstract(next))
	}
	m.takes[a] = answer
	return answer
}

func (m *model) look(a lookAsk) claim.Look {
	l := claim.Look{ID: taskID, Fingerprint: fingerprint, Run: int(a.run), NotAfter: notAfter(a.tooOld), Now: now}
	if a.dead {
		l.DeadLetter = "MaxDeliveryCountExceeded"
	}
	return l
}

func (m *model) examine(a lookAsk) lookAnswer {
	if known, ok := m.looks[a]; ok {
		return known
	}
	next, found, write := m.rules.examine(m.records.list[a.stands].claim(), age(a.stale), m.look(a), names[overruled], terms)
	answer := lookAnswer{found: found, write: write}
	if write {
		next.W = names[overruled]
		answer.next = m.records.id(abstract(next))
	}
	m.looks[a] = answer
	return answer
}

func (m *model) withdraw(a lookAsk) lookAnswer {
	if known, ok := m.withdraws[a]; ok {
		return known
	}
	next, write := m.rules.withdraw(m.records.list[a.stands].claim(), age(a.stale), m.look(a), names[overruled], terms)
	answer := lookAnswer{write: write}
	if write {
		next.W = names[overruled]
		answer.next = m.records.id(abstract(next))
	}
	m.withdraws[a] = answer
	return answer
}

// changed is the record after one write of its owner.
func (m *model) changed(a changeAsk) id {
	if known, ok := m.changes[a]; ok {
		return known
	}
	c := *m.records.list[a.of].claim()
	switch a.op {
	case opStart:
		claim.Starting(&c)
	case opWithdraw:
		claim.NotStarting(&c)
	case opKeep:
		claim.Keeping(stepNames[a.step], message.StepResult{})(&c)
	case opComplete:
		claim.Completing(claim.Result{})(&c)
	case opFail:
		claim.Failing(failures[a.fail])(&c)
	case opRelease:
		claim.Releasing(later, false)(&c)
	case opCounted:
		claim.Releasing(later, true)(&c)
	}
	c.W = names[1+a.worker]
	next := m.records.id(abstract(c))
	m.changes[a] = next
	return next
}

// failures are the ends that a worker writes; an outcome is a place in it.
var failures = []claim.Failure{
	{Reason: claim.OutcomeUnknown, Outcome: claim.EffectUnknown},
	{Reason: claim.KeyWindowPassed, Outcome: claim.EffectUnknown},
	{Reason: claim.AttemptsExhausted, Outcome: claim.EffectUnknown},
	{Reason: claim.DownstreamRejected, Outcome: claim.EffectUnknown},
	{Reason: claim.DownstreamRejected, Outcome: claim.EffectPartial},
	{Reason: claim.DownstreamRejected, Outcome: claim.EffectNone},
}

const (
	unknownOutcome outcome = iota
	windowOutcome
	exhaustedOutcome
	rejectedOutcome // and two more, by what is known of the effect
)

var stepNames = [...]string{"a", "b"}

// single and steps are the declarations of the handler, as its authors may change them.
func single(keyed bool) message.Declaration {
	return message.Declaration{Keyed: keyed, KeyWindow: window}
}

func steps(keyed ...bool) message.Declaration {
	var list []message.Step
	for i, k := range keyed {
		list = append(list, message.Step{Name: stepNames[i], Keyed: k, KeyWindow: window})
	}
	d, err := message.Stepwise("task", list...)
	if err != nil {
		panic(err)
	}
	return d
}

// changeOf is a question about the execution.
type changeOf struct {
	exec                        status
	run, digest                 uint8
	asserted, uncertain, tooOld bool
	what                        asked
	ofRun, withDigest           uint8
	ofUncertain, vouched        bool
}

type asked uint8

const (
	byCompleted asked = iota
	byFailed
	byReplay
	byCancel
)

// transition asks what an event or an operator does to the execution. Its zero is
// nothing: a no-op, a note, or a refusal. A contradiction is a second result.
func (m *model) transition(s *state, q changeOf) (change execution.Change, contradiction bool) {
	q.exec, q.run, q.digest, q.asserted, q.uncertain, q.tooOld = s.exec, s.run, s.digest, s.asserted, s.uncertain, s.tooOld
	if known, ok := m.changesOf[q]; ok {
		return known, known.Note.What == contradicted
	}
	var decision execution.Decision
	var err error
	switch q.what {
	case byCompleted:
		c := message.Completed{ExecutionID: taskID, Run: int(s.run), Fence: int64(q.withDigest), ResultDigest: digestOf(q.withDigest)}
		change, decision = m.rules.next(s.execution(), message.Event{Completed: &c}, now)
	case byFailed:
		f := message.Failed{ExecutionID: taskID, Run: int(q.ofRun), Fence: 1, Reason: claim.DownstreamRejected}
		if q.ofUncertain {
			f.Reason = claim.OutcomeUnknown
		}
		change, decision = m.rules.next(s.execution(), message.Event{Failed: &f}, now)
	case byReplay:
		change, decision, err = m.rules.replay(s.execution(), execution.Operator{}, q.vouched, 0, now)
	case byCancel:
		change, decision, err = m.rules.cancel(s.execution(), execution.Operator{}, now)
	}
	if decision != execution.Transition || err != nil {
		change = execution.Change{}
	}
	if decision == execution.Contradiction {
		change.Note.What = contradicted
	}
	m.changesOf[q] = change
	return change, decision == execution.Contradiction
}

const contradicted = "contradiction"

// execution is what the orchestrator's rules see.
func (s *state) execution() execution.Execution {
	e := execution.Execution{Status: statuses[s.exec], Run: int(s.run), NotAfter: notAfter(s.tooOld), Asserted: s.asserted}
	if s.exec == completed {
		e.Result = &execution.Result{Digest: digestOf(s.digest)}
	}
	if s.exec == failed {
		e.Failure = &execution.Failure{Reason: claim.DownstreamRejected}
		if s.uncertain {
			e.Failure.Reason = claim.OutcomeUnknown
		}
	}
	return e
}

// change carries out a transition of the execution.
func (s *state) change(c execution.Change, digest uint8) {
	if c.Status == "" {
		return
	}
	if c.From != statuses[s.exec] {
		panic("a change from a state that does not stand")
	}
	for i, to := range statuses {
		if c.Status == to {
			s.exec = status(i)
		}
	}
	if c.Result != nil {
		s.digest = digest
	}
	s.uncertain = c.Failure != nil && (c.Failure.Reason == claim.OutcomeUnknown || c.Failure.Reason == claim.KeyWindowPassed)
	if c.Reopened != nil {
		s.run, s.asserted, s.outbox = uint8(c.Reopened.Run), c.Reopened.Asserted, uint8(c.Reopened.Run)
	}
}
