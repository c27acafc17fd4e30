package claim

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json/jsontext"
)

// Status of a claim.
type Status string

// The states. All but InProgress are final for the run they end.
const (
	InProgress Status = "IN_PROGRESS"
	Completed  Status = "COMPLETED"
	Failed     Status = "FAILED"
	Cancelled  Status = "CANCELLED"
)

// Reasons of a failure or refusal: they travel, so message names them.
const (
	OutcomeUnknown       = message.OutcomeUnknown
	KeyWindowPassed      = message.KeyWindowPassed
	TooOld               = message.TooOld
	AttemptsExhausted    = message.AttemptsExhausted
	DeadlinePassed       = message.DeadlinePassed
	IdempotencyKeyReused = message.IdempotencyKeyReused
	DownstreamRejected   = message.DownstreamRejected
)

// What is known of the effect of work that ended without a result.
const (
	EffectNone    = "none"
	EffectUnknown = "unknown"
	EffectPartial = "partial" // some steps were made and have their results in the claim; the failed one was not
)

// Claim is the record of one key. Times in it and all transport ids are for
// people; what decides is Status, Run, Fence, W, CallStarted, Released and the
// store's own clock (FirstCallAt and NotBefore are broker time).
type Claim struct {
	ID           string         `json:"id"`
	Status       Status         `json:"status"`
	Run          int            `json:"run"`
	Fence        int64          `json:"fence"`
	Owner        string         `json:"owner"` // pod / process nonce / grant nonce: new at every Take
	W            string         `json:"w"`     // nonce of the last write
	LeaseSeconds int            `json:"leaseSeconds"`
	TaskType     string         `json:"taskType"`
	Keyed        bool           `json:"keyed"`
	KeylessStep  string         `json:"keylessStep,omitzero"` // of several steps: the one that honours no key
	Fingerprint  string         `json:"fingerprint"`
	CallStarted  bool           `json:"callStarted"`
	FirstCallAt  time.Time      `json:"firstCallAt,omitzero"`
	Starts       int            `json:"starts"`
	Answered     int            `json:"answered"` // calls of this run that ended unknown and were not free
	NotBefore    time.Time      `json:"notBefore,omitzero"`
	Released     bool           `json:"released"`
	Steps        Steps          `json:"steps,omitzero"` // the steps that are made, each with its result
	Result       *Result        `json:"result,omitzero"`
	Failure      *Failure       `json:"failure,omitzero"`
	Attempts     []Attempt      `json:"attempts"`
	TTL          int            `json:"ttl"` // seconds from the last write
	Version      int            `json:"v"`
	Unknown      jsontext.Value `json:",embed"` // members of later versions and of the store, kept
}

// Steps are results by the steps' names.
type Steps map[string]message.StepResult

// with is a copy that has one more.
func (s Steps) with(name string, r message.StepResult) Steps {
	next := make(Steps, len(s)+1)
	maps.Copy(next, s)
	next[name] = r
	return next
}

// Result is what the work brought, stored before anyone is told.
type Result struct {
	Ref     string         `json:"ref"`
	Digest  string         `json:"digest"` // sha256:… over the canonical form of {ref, value, omitted}
	Value   jsontext.Value `json:"value,omitzero"`
	Omitted string         `json:"omitted,omitzero"` // instead of a value that is too large: its digest, sha256:…
}

// MaxValue is the largest value that is kept in a claim; of a larger one the
// digest is.
const MaxValue = 64 << 10

// MaxStepValue is the largest value of one step that is kept for the steps after it.
const MaxStepValue = 16 << 10

// NewResult canonicalises and digests what a downstream gave. omitted is the
// digest of what the caller itself found too large to hand over.
func NewResult(ref string, value jsontext.Value, omitted string) (Result, error) {
	r := Result{Ref: ref, Value: value, Omitted: omitted}
	var whole []byte
	if value != nil {
		var err error
		if whole, err = message.Canonical(value); err != nil {
			return Result{}, fmt.Errorf("digest the result: %w", err)
		}
	}
	if len(value) > MaxValue {
		r.Value, r.Omitted, whole = nil, digest(whole), nil
	}
	stored, err := r.canonical(whole)
	if err != nil {
		return Result{}, fmt.Errorf("digest the result: %w", err)
	}
	r.Digest = digest(stored)
	return r, nil
}

// canonical is the canonical form of {ref, value, omitted}, given that of the value:
// members rise, and those that are missing are left out.
func (r *Result) canonical(value []byte) (text []byte, err error) {
	text = append(make([]byte, 0, len(`{"ref":"","value":}`)+len(r.Ref)+len(value)), '{')
	if r.Omitted != "" {
		text = append(text, `"omitted":`...)
		if text, err = jsontext.AppendQuote(text, r.Omitted); err != nil {
			return nil, err
		}
		text = append(text, ',')
	}
	text = append(text, `"ref":`...)
	if text, err = jsontext.AppendQuote(text, r.Ref); err != nil {
		return nil, err
	}
	if value != nil {
		text = append(append(text, `,"value":`...), value...)
	}
	return append(text, '}'), nil
}

// Failure says why the work ended without a result.
type Failure struct {
	Reason      string `json:"reason"`
	Description string `json:"description"`
	Outcome     string `json:"outcome"` // EffectNone, EffectUnknown or EffectPartial
}

// Attempt is one grant, for people and pictures: it never decides.
type Attempt struct {
	Fence int64     `json:"fence"`
	Owner string    `json:"owner"`
	At    time.Time `json:"at"`                    // broker time
	End   string    `json:"end"`                   // how, once it has: EndCompleted, EndReleased and so on
	Trace string    `json:"trace,omitzero"`        // W3C traceparent of the delivery that was granted, if it is kept
	Busy  int       `json:"busySeconds,omitzero"`  // so long that delivery waited where it was, since it found the claim busy
	Lease int       `json:"leaseSeconds,omitzero"` // if that of the grant after it was another
}

// The ends of attempts; one that has none is under way. Of a failed one the reason
// follows.
const (
	EndCompleted = "completed"
	EndReleased  = "released"
	EndExpired   = "lease expired" // and the claim was taken over
	EndCancelled = "cancelled"
	EndResolved  = "resolved" // by an operator: no worker's grant
	EndFailed    = "failed: "
)

// maxAttemptsKept bounds the record: the first grant and the newest 31.
const maxAttemptsKept = 32

// granted notes a grant of what was asked for.
func (c *Claim) granted(ask Ask, at time.Time) {
	busy := int((ask.Waited + time.Second - 1) / time.Second)
	c.began(Attempt{Fence: c.Fence, Owner: c.Owner, At: at, Trace: ask.Trace, Busy: busy})
}

func (c *Claim) began(a Attempt) {
	c.Attempts = append(c.Attempts[:len(c.Attempts):len(c.Attempts)], a)
	if len(c.Attempts) > maxAttemptsKept {
		c.Attempts = append(c.Attempts[:1:1], c.Attempts[len(c.Attempts)-maxAttemptsKept+1:]...)
	}
}

// ended notes how the newest attempt ended. The slice is copied: the record
// that was read stays as it was read.
func (c *Claim) ended(how string) {
	c.Attempts = append([]Attempt(nil), c.Attempts...)
	if n := len(c.Attempts); n > 0 && c.Attempts[n-1].End == "" {
		c.Attempts[n-1].End = how
	}
}

// effect is what is known of the effect of a claim that nobody holds, by the record
// alone. Of a failed one it is what was known then: a run that nobody took adds
// nothing to it. Of an open one it is none only if every call would have been
// announced, and none was; of several steps, those with a key are made without a word.
func (c Claim) effect() string {
	switch {
	case c.Status == Failed:
		return c.Failure.Outcome
	case !c.Keyed && !c.CallStarted && len(c.Steps) == 0 && c.KeylessStep == "":
		return EffectNone
	}
	return EffectUnknown
}

// check refuses a record that this version does not write, by a later version's
// hand or a person's: to decide from it would be to guess, and the guess might be
// a second call.
func (c *Claim) check() error {
	switch {
	case c.Status == InProgress, c.Status == Cancelled, c.Status == Completed && c.Result != nil, c.Status == Failed && c.Failure != nil:
		return nil
	}
	return fmt.Errorf("%w: claim %s is %q without what belongs to that, or written by a later version", message.ErrRefused, c.ID, c.Status)
}

func (c *Claim) lease() time.Duration { return time.Duration(c.LeaseSeconds) * time.Second }

// Fingerprint identifies what is asked for: task type and canonical payload
// (RFC 8785). It is fixed before any handler runs.
func Fingerprint(taskType string, payload jsontext.Value) (string, error) {
	canonicalPayload, err := message.Canonical(payload)
	if err != nil {
		return "", fmt.Errorf("%w: payload: %w", message.ErrPoison, err)
	}
	return digest(slices.Concat([]byte(taskType), []byte{0}, canonicalPayload)), nil
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	const prefix = "sha256:"
	var written [len(prefix) + 2*sha256.Size]byte
	hex.Encode(written[copy(written[:], prefix):], sum[:])
	return string(written[:])
}

// Nonce returns 64 random bits in hex: enough to tell apart the writes of one record.
func Nonce() string {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}
