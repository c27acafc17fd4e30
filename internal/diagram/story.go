package diagram

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// Of draws a timeline.
func Of(t Timeline) Diagram {
	s := &story{t: t, id: t.ExecutionID}
	for i, m := range t.Entries {
		switch m.Source {
		case FromClaim:
			s.granted(i, m)
		case Seen:
			s.seen(m)
		default:
			s.noted(m)
		}
	}
	s.stands()
	return s.diagram()
}

// who is one of those who take part, before lifelines have places.
type who struct {
	kind Kind
	name string
	id   string // of a worker: its process
}

var (
	operator     = who{kind: Operator, name: "Operator"}
	broker       = who{kind: Broker, name: "Service Bus"}
	claims       = who{kind: Claims, name: "Idempotency store"}
	downstream   = who{kind: Downstream, name: "Downstream system"}
	orchestrator = who{kind: Orchestrator, name: "Orchestrator"}
	store        = who{kind: Store, name: "Cosmos DB"}
)

type step struct {
	from, to who
	Arrow
	remark bool // it has no number
}

// story is a picture in the making.
type story struct {
	t       Timeline
	id      string
	steps   []step
	workers []who
	before  *Moment // the grant before
	asked   bool    // the operator's arrow of what comes next is drawn
}

func (s *story) add(from, to who, a Arrow) {
	s.steps = append(s.steps, step{from: from, to: to, Arrow: a})
}

// remark is no arrow.
func (s *story) remark(at who, when time.Time, text string) {
	s.steps = append(s.steps, step{from: at, to: at, Arrow: Arrow{Label: text, At: when}, remark: true})
}

// worker is the lifeline of a process: an owner is pod, process and grant.
func (s *story) worker(owner string) who {
	pod, rest, _ := strings.Cut(owner, "/")
	process, _, _ := strings.Cut(rest, "/")
	if pod == "" {
		pod = "a worker"
	}
	w := who{Worker, pod, pod + "/" + process}
	for _, known := range s.workers {
		if known.id == w.id {
			return known
		}
	}
	again := 1
	for _, known := range s.workers {
		if known.name == pod || strings.HasPrefix(known.name, pod+" (") {
			again++
		}
	}
	if again > 1 {
		w.name = fmt.Sprintf("%s (process %d)", pod, again)
	}
	s.workers = append(s.workers, w)
	return w
}

// diagram gives everybody a place and every arrow its number. Those of the drawing
// are always there; an operator only if one has done something.
func (s *story) diagram() Diagram {
	line := []who{broker}
	if len(s.workers) == 0 {
		s.workers = []who{{Worker, "Worker", ""}}
	}
	line = append(append(line, s.workers...), claims, downstream, orchestrator, store)
	if slices.ContainsFunc(s.steps, func(e step) bool { return e.from == operator }) {
		line = append([]who{operator}, line...)
	}
	d := Diagram{
		ExecutionID: plain(s.id, maxLabel), Type: plain(s.t.Type, maxLabel), Status: string(s.t.Status), TraceID: plain(s.t.TraceID, maxLabel),
	}
	for _, w := range line {
		d.Lifelines = append(d.Lifelines, Lifeline{plain(w.name, maxName), w.kind})
	}
	number := 0
	for _, e := range s.steps {
		a := e.Arrow
		a.From, a.To, a.Label = slices.Index(line, e.from), slices.Index(line, e.to), plain(a.Label, maxLabel)
		if !e.remark {
			number++
			a.Number = number
		}
		d.Arrows = append(d.Arrows, a)
	}
	d.bounded()
	return d
}

// maxName bounds a lifeline's name, in characters.
const maxName = 40

// granted draws one grant: how the message came, how the claim was taken, and what
// became of it.
func (s *story) granted(i int, m Moment) {
	switch {
	case m.End == claim.EndResolved:
		s.byOperator(i, "resolved")
		s.add(orchestrator, claims, Arrow{At: m.At, Label: fmt.Sprintf("claim FAILED → COMPLETED · fence %d", m.Fence), Mark: Decision})
		s.before = &m
		return
	case m.End == claim.EndCancelled && s.before == nil && strings.HasPrefix(m.Owner, "orchestrator"):
		s.add(orchestrator, claims, Arrow{At: m.At, Label: "claim CANCELLED, so that a late message finds it", Mark: Decision})
		s.before = &m
		return
	}
	w := s.worker(m.Owner)
	deliver := Arrow{At: m.At, Reply: true, Label: "deliver taskExecutionId " + s.id + " · attempt " + strconv.FormatInt(m.Fence, 10)}
	take := Arrow{At: m.At, Label: fmt.Sprintf("claim %s · IN_PROGRESS%s", s.id, s.lease(m))}
	if b := s.before; b != nil {
		switch {
		case b.End == claim.EndExpired:
			deliver.Label, deliver.Mark = "lock expired · redeliver "+s.id, Expired
			take.Label = fmt.Sprintf("read %s → IN_PROGRESS, lease stale · take over, fence %d", s.id, m.Fence)
		case b.End == claim.EndReleased:
			deliver.Label = "deliver " + s.id + " again"
			take.Label = fmt.Sprintf("read %s → released · IN_PROGRESS, fence %d", s.id, m.Fence)
		case strings.HasPrefix(b.End, claim.EndFailed):
			deliver.Label = "deliver " + s.id + " · another run"
			take.Label = fmt.Sprintf("read %s → FAILED, of an earlier run · IN_PROGRESS, fence %d", s.id, m.Fence)
		default:
			deliver.Label = "deliver " + s.id + " again"
			take.Label = fmt.Sprintf("claim %s · IN_PROGRESS, fence %d", s.id, m.Fence)
		}
		// One fence alone may be that of whoever failed the run before: it was no grant.
		if left := m.Fence - b.Fence - 1; left > 1 {
			s.remark(claims, time.Time{}, strconv.FormatInt(left, 10)+" grants in between are not kept")
		}
	}
	s.add(broker, w, deliver)
	s.busy(m)
	s.add(w, claims, take)
	if b := s.before; b != nil && b.End == claim.EndExpired {
		s.fenced(b.Fence)
	}
	s.ended(w, m, s.t.Claim != nil && s.last(i))
	s.before = &m
}

func (s *story) lease(m Moment) string {
	if s.t.Claim == nil || m.Fence != 1 {
		return ""
	}
	lease := s.t.Claim.LeaseSeconds
	for _, later := range slices.Backward(s.t.Entries) {
		if later.Source == FromClaim && later.LeaseSeconds > 0 {
			lease = later.LeaseSeconds // of this grant, and of those after it that say nothing else
		}
	}
	return " · lease " + duration(time.Duration(lease)*time.Second)
}

// busy remarks on what a delivery had found before it was granted.
func (s *story) busy(m Moment) {
	if m.BusySeconds == 0 {
		return
	}
	label := fmt.Sprintf("busy: the lease stood for another %s, and nothing ran", seconds(int64(m.BusySeconds)))
	if b := s.before; b != nil && b.End == claim.EndReleased {
		label = fmt.Sprintf("busy: released, not before its time, which was %s away", seconds(int64(m.BusySeconds)))
	}
	s.steps = append(s.steps, step{from: claims, to: claims, Arrow: Arrow{Label: label, Mark: Busy}, remark: true})
}

// fenced remarks on what follows from a takeover (C4), unless it is known that the
// earlier owner still lived and tried.
func (s *story) fenced(fence int64) {
	if s.refused(fence) {
		return
	}
	label := fmt.Sprintf("fenced: what fence %d writes now is refused", fence)
	s.steps = append(s.steps, step{from: claims, to: claims, Arrow: Arrow{Label: label, Mark: Fenced, Inferred: true}, remark: true})
}

// refused reports whether the owner of a grant is known to have been refused a write.
func (s *story) refused(fence int64) bool {
	return slices.ContainsFunc(s.t.Entries, func(m Moment) bool { return m.Source == Seen && m.What == Refused && m.Fence == fence })
}

// ownerOf is who had a grant; "" if it is not kept.
func (s *story) ownerOf(fence int64) string {
	for _, m := range s.t.Entries {
		if m.Source == FromClaim && m.Fence == fence {
			return m.Owner
		}
	}
	return ""
}

// last reports whether no grant follows.
func (s *story) last(i int) bool {
	return !slices.ContainsFunc(s.t.Entries[i+1:], func(m Moment) bool { return m.Source == FromClaim })
}

// ended draws what became of a grant. What an operator resolved since is the claim's
// newest grant, so of those before it only their ends are known.
func (s *story) ended(w who, m Moment, newest bool) {
	reason, failed := strings.CutPrefix(m.End, claim.EndFailed)
	switch {
	case m.End == claim.EndCompleted:
		s.called(w, true)
		s.add(w, claims, Arrow{Label: "mark COMPLETED" + detail("result", s.resultOf(m)), Mark: Success})
		s.add(w, broker, Arrow{Reply: true, Label: "TaskCompleted · complete message"})
	case m.End == claim.EndExpired:
		s.called(w, false)
		s.silent(w, m)
	case m.End == claim.EndReleased:
		s.add(w, claims, Arrow{Label: "release " + s.id + " · for another attempt" + s.until(newest)})
	case failed && newest && s.t.Claim.Fence > m.Fence:
		// Whoever found it failed it, under a fence that nobody was granted.
		s.called(w, false)
		s.silent(w, m)
		s.add(s.finder(), claims, Arrow{Label: "read IN_PROGRESS, nobody's any more → FAILED · " + reason, Mark: Failure})
	case failed:
		s.failedCall(w, reason)
		s.add(w, claims, Arrow{Label: "mark FAILED · " + reason, Mark: Failure})
		s.add(w, broker, Arrow{Reply: true, Label: "TaskFailed · dead-letter message", Mark: Failure})
	case m.End == claim.EndCancelled:
		s.add(orchestrator, claims, Arrow{Label: "claim CANCELLED: nobody has called", Mark: Decision})
	case newest:
		s.open(w)
	}
}

// silent draws the end of a grant that its owner has not written.
func (s *story) silent(w who, m Moment) {
	if s.refused(m.Fence) {
		s.add(w, w, Arrow{Label: "recorded no result before its lease ended", Mark: Expired})
		return
	}
	s.add(w, w, Arrow{Label: "stopped before recording a result", Mark: Crash, Inferred: true})
}

// finder is who has written the claim's newest version without a grant: a worker, or
// an orchestrator that looked after it.
func (s *story) finder() who {
	if strings.HasPrefix(s.t.Claim.Owner, "orchestrator") {
		return orchestrator
	}
	return s.worker(s.t.Claim.Owner)
}

// called draws the call of a grant. sure: its answer is on record.
func (s *story) called(w who, sure bool) {
	c := s.t.Claim
	if !sure && c != nil && !c.Keyed && c.KeylessStep == "" && !c.CallStarted && len(c.Steps) == 0 && c.Status == claim.InProgress {
		return // a call without a key is announced in the claim before it is made
	}
	if !sure {
		s.add(w, downstream, Arrow{Label: s.call() + ", if it came so far", Inferred: true})
		s.add(downstream, w, Arrow{Reply: true, Inferred: true, Label: "an answer, if any: not recorded"})
		return
	}
	s.add(w, downstream, Arrow{Label: s.call()})
	reply := "applied"
	if c != nil {
		reply += detail("", c.ResultRef)
		for _, name := range slices.Sorted(maps.Keys(c.Steps)) {
			reply += " · " + name + " " + c.Steps[name]
		}
	}
	s.add(downstream, w, Arrow{Reply: true, Label: reply})
}

// call is what a call says.
func (s *story) call() string {
	switch c := s.t.Claim; {
	case c != nil && !c.Keyed:
		return s.t.Type + " · without a key"
	case c != nil && len(c.Steps) > 0:
		return s.t.Type + " · Idempotency-Key: " + s.id + "/<step>"
	}
	return s.t.Type + " · Idempotency-Key: " + s.id
}

// failedCall draws the call of an owner that has written why it failed.
func (s *story) failedCall(w who, reason string) {
	switch reason {
	case message.TooOld, message.KeyWindowPassed: // there is none, by now
	case message.DownstreamRejected:
		s.add(w, downstream, Arrow{Label: s.call()})
		s.add(downstream, w, Arrow{Reply: true, Label: "refused: not applied", Mark: Failure})
	case message.OutcomeUnknown:
		s.add(w, downstream, Arrow{Label: s.call()})
		s.add(downstream, w, Arrow{Reply: true, Label: "no answer that tells whether it was applied", Mark: Failure})
	default:
		s.called(w, false)
	}
}

// open draws a grant that has not ended.
func (s *story) open(w who) {
	c := s.t.Claim
	if c.CallStarted || len(c.Steps) > 0 {
		s.add(w, downstream, Arrow{Label: s.t.Type + " · a call has begun"})
	}
	if stale := c.AgeSeconds > int64(c.LeaseSeconds); stale {
		s.add(w, w, Arrow{Label: fmt.Sprintf("silent for %s, lease %s: whoever comes next takes over", seconds(c.AgeSeconds), seconds(int64(c.LeaseSeconds))), Mark: Crash, Inferred: true})
		return
	}
	s.add(claims, claims, Arrow{Label: "lease stands: another delivery is busy, and nothing runs twice", Mark: Busy})
}

func (s *story) until(newest bool) string {
	if newest && !s.t.Claim.NotBefore.IsZero() {
		return ", not before " + s.t.Claim.NotBefore.UTC().Format(time.TimeOnly)
	}
	return ""
}

func (s *story) resultOf(m Moment) string {
	if s.t.Claim != nil && s.t.Claim.Fence == m.Fence {
		return s.t.Claim.ResultRef
	}
	return ""
}

// stands remarks on what waits.
func (s *story) stands() {
	if r := s.t.Redispatch; r != nil {
		s.remark(orchestrator, time.Time{}, fmt.Sprintf("nobody worked on run %d: sent again %s, %s ago last", r.Run, times(r.Times), seconds(r.AgeSeconds)))
	}
	for _, d := range s.t.Dispatches {
		if d.State == DispatchWaiting {
			s.remark(orchestrator, time.Time{}, d.MessageID+" waits in the outbox")
		}
	}
}

func detail(what, text string) string {
	switch {
	case text == "":
		return ""
	case what == "":
		return " · " + text
	}
	return " · " + what + " " + text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

func seconds(n int64) string { return duration(time.Duration(n) * time.Second) }

// duration writes 5 min, 90 s or 2 h.
func duration(d time.Duration) string {
	switch {
	case d >= 2*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	case d >= 2*time.Minute:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}
