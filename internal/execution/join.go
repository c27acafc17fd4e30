package execution

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxParts bounds an orchestration: one batch creates it, with an outbox entry for
// each part, and a batch takes a hundred operations.
const MaxParts = 90

// maxOrchestrationID leaves room for what a part's id adds.
const maxOrchestrationID = message.MaxExecutionID - len(":89")

// Part is one task of an orchestration: an execution of its own, and what is known
// of its end here. The join counts parts that have ended; nothing is ever counted
// down.
type Part struct {
	ExecutionID string         `json:"executionId"`
	Type        string         `json:"type"`
	Payload     jsontext.Value `json:"payload"`
	Request     string         `json:"request"` // fingerprint of type and payload
	Status      Status         `json:"status"`
	Run         int            `json:"run"` // that ended so
	Ref         string         `json:"resultRef,omitzero"`
	Digest      string         `json:"resultDigest,omitzero"`
	Reason      string         `json:"reason,omitzero"`
}

// NewOrchestration is an execution that is made of others (fan-out), and the outbox
// entries of its parts. It carries no task and no ticket of its own.
func NewOrchestration(id string, parts []Part, request string, now time.Time) (Execution, []Entry, error) {
	if len(parts) == 0 || len(parts) > MaxParts {
		return Execution{}, nil, fmt.Errorf("%d tasks: an orchestration has 1 to %d", len(parts), MaxParts)
	}
	if len(id) > maxOrchestrationID {
		return Execution{}, nil, fmt.Errorf("executionId has %d characters, an orchestration's may have %d", len(id), maxOrchestrationID)
	}
	e := New(id, TypeOrchestration, jsontext.Value("{}"), request, now)
	entries := make([]Entry, len(parts))
	for i, p := range parts {
		child := id + ":" + strconv.Itoa(i)
		e.Tasks = append(e.Tasks, Part{ExecutionID: child, Type: p.Type, Payload: p.Payload, Request: p.Request, Status: Running, Run: 1})
		entries[i] = PartEntry(id, child)
	}
	return e, entries, nil
}

// PartEntry is the outbox entry of a part that has not begun.
func PartEntry(orchestration, part string) Entry {
	return Entry{
		ID: KindOutbox + ":" + part, ExecutionID: orchestration, Kind: KindOutbox,
		MessageID: message.TaskMessageID(part, 1), Run: 1, Part: part,
	}
}

// TypeOrchestration is the type of an execution that is made of others. No task
// type of a handler can be called so.
const TypeOrchestration = "+orchestration"

// Begin is the execution of one part.
func (e Execution) Begin(child string, now time.Time) (Execution, error) {
	for _, p := range e.Tasks {
		if p.ExecutionID == child {
			begun := New(child, p.Type, p.Payload, p.Request, now)
			begun.Orchestration, begun.TraceParent = e.ExecutionID, e.TraceParent
			begun.Deadline, begun.NotAfter = e.Deadline, e.NotAfter
			return begun, nil
		}
	}
	return Execution{}, fmt.Errorf("%w: %s is no part of %s", message.ErrRefused, child, e.ExecutionID)
}

// Ended is a part as its execution's end shows it, and nothing while it runs.
func (e Execution) Ended() (Part, bool) {
	p := Part{ExecutionID: e.ExecutionID, Type: e.Type, Status: e.Status, Run: e.Run}
	switch {
	case e.Status == Completed && e.Result != nil:
		p.Ref, p.Digest = e.Result.Ref, e.Result.Digest
	case e.Status == Failed && e.Failure != nil:
		p.Reason = e.Failure.Reason
	case e.Status == Cancelled:
		p.Reason = "Cancelled"
	default:
		return Part{}, false
	}
	return p, true
}

// Joined is a part as it has ended, at its place.
type Joined struct {
	Index int
	Part  Part
}

// PartFailed is the reason of an orchestration with a part that failed.
const PartFailed = "PartFailed"

// errNotAPart: the end of an execution came to an orchestration that does not list it.
var errNotAPart = errors.New("it is no part of this orchestration")

// Unseen is the join of a part whose orchestration nobody has looked at: to be
// written on the condition that the part stands there, and as running. The place is
// told by the part's id; ok is false for an id that tells none.
func Unseen(orchestration string, ended Part, now time.Time) (j Joined, n Note, ok bool) {
	place, ok := strings.CutPrefix(ended.ExecutionID, orchestration+":")
	i, err := strconv.Atoi(place)
	if !ok || err != nil || i < 0 || i >= MaxParts || strconv.Itoa(i) != place {
		return Joined{}, Note{}, false
	}
	return Joined{i, ended}, noteOf(ended, now), true
}

func noteOf(ended Part, now time.Time) Note {
	return Note{At: now, What: "part " + strings.ToLower(string(ended.Status)), Run: ended.Run, Detail: ended.ExecutionID}
}

// Join decides what the end of a part does to its orchestration, which was looked
// at: it stays RUNNING until all parts have ended, is COMPLETED once when all are,
// and FAILED, with the failed ones named, when one is. A part that failed and was
// replayed to its completion recovers it. Joining the same end again is a no-op,
// unless the whole was not ended with its last part.
func Join(stands Execution, ended Part, now time.Time) (Change, Decision, error) {
	i := slices.IndexFunc(stands.Tasks, func(p Part) bool { return p.ExecutionID == ended.ExecutionID })
	if i < 0 {
		return Change{}, Contradiction, fmt.Errorf("join %s into %s: %w", ended.ExecutionID, stands.ExecutionID, errNotAPart)
	}
	old := stands.Tasks[i]
	ended.Type, ended.Payload, ended.Request = old.Type, old.Payload, old.Request
	switch {
	case old.Status == Completed && ended.Status == Completed && old.Digest != ended.Digest:
		return Change{}, Contradiction, fmt.Errorf("join %s into %s: it completed with another result before", ended.ExecutionID, stands.ExecutionID)
	case old.Status == Completed, old.Status != Running && ended.Status != Completed && old.Run >= ended.Run:
		change, d := Conclude(stands, now)
		return change, d, nil
	}
	parts := slices.Clone(stands.Tasks)
	parts[i] = ended
	joined := stands
	joined.Tasks = parts
	change, d := Conclude(joined, now)
	if d == NoOp {
		change, d = Change{From: stands.Status, Status: stands.Status, EndedAt: stands.EndedAt}, Record
	}
	change.Joined = &Joined{i, ended}
	if n := noteOf(ended, now); d == Transition {
		n.From, n.To = change.Note.From, change.Note.To
		change.Note = n
	} else if len(stands.History) < maxNotes+MaxParts {
		change.Note = n // all parts have room, whatever else was noted
	}
	return change, d, nil
}

// Conclude ends an orchestration whose parts have all ended: a no-op while one runs,
// where that was done before, and after a cancel.
func Conclude(stands Execution, now time.Time) (Change, Decision) {
	whole, failed := sum(stands.Tasks)
	if len(stands.Tasks) == 0 || stands.Status == Cancelled || whole == stands.Status || whole == Running {
		return Change{}, NoOp
	}
	change := Change{
		From: stands.Status, Status: whole, EndedAt: now,
		Note: Note{At: now, What: strings.ToLower(string(whole)), From: stands.Status, To: whole, Run: stands.Run},
	}
	if whole == Completed {
		change.Result = &Result{Ref: "/v1/executions/" + stands.ExecutionID, Digest: digestOf(stands.Tasks)}
	} else {
		change.Failure = &Failure{Reason: PartFailed, Description: "failed: " + strings.Join(failed, ", "), Outcome: "partial"}
	}
	return change, Transition
}

// sum is the state of an orchestration with these parts, and which have failed.
func sum(parts []Part) (Status, []string) {
	var failed []string
	for _, p := range parts {
		switch p.Status {
		case Running:
			return Running, nil
		case Completed:
		default:
			failed = append(failed, p.ExecutionID)
		}
	}
	if len(failed) > 0 {
		return Failed, failed
	}
	return Completed, nil
}

// digestOf is the digest of an orchestration's result: of its parts' digests, in order.
func digestOf(parts []Part) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%s %s\n", p.ExecutionID, p.Digest)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
