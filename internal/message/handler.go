package message

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// Handler does the work of one task type: one call to the world outside, or one
// for each of its steps. What it declares about that world computes every retry,
// takeover and dead letter.
type Handler interface {
	Declaration() Declaration
	// Call makes exactly one call and says what is known of it. It ends with ctx,
	// whose cause says why: the lease was lost, the process stops, time is up.
	Call(ctx context.Context, c Call) Outcome
}

// Declaration is what a handler says of its downstream.
type Declaration struct {
	Type       string
	Keyed      bool          // the downstream honours the key: a second call has no second effect; with steps: every one
	KeyWindow  time.Duration // for so long after the first call; with steps: the shortest
	Timeout    time.Duration // of one call; with steps: the longest
	Attempts   int           // calls that may end unknown before the task fails
	BackoffMin time.Duration
	BackoffMax time.Duration
	Steps      []Step // none: the task is one call

	// Prompt says that Call has returned a moment after its context ended, whatever
	// the other side does. Only such a call may hold its delivery; any other is made
	// in a goroutine of its own, so that it can be left behind.
	Prompt bool
}

// Step is one of several calls that a task makes, one after the other. Its result
// is kept in the claim before the next begins, and a step that has one is not made
// again.
type Step struct {
	Name      string // unique within the task; part of the key
	Keyed     bool
	KeyWindow time.Duration
	Timeout   time.Duration
}

// Calls are the steps, or the one call of a task without any, which has no name.
func (d Declaration) Calls() []Step {
	if len(d.Steps) > 0 {
		return d.Steps
	}
	return []Step{{Keyed: d.Keyed, KeyWindow: d.KeyWindow, Timeout: d.Timeout}}
}

// KeylessStep names the step that honours no key; empty if there is none, and if
// the task is one call.
func (d Declaration) KeylessStep() string {
	for _, s := range d.Steps {
		if !s.Keyed {
			return s.Name
		}
	}
	return ""
}

// Stepwise sums up steps: keyed if every one is, with the shortest window and the
// longest timeout. A second keyless step is a mistake: of one the claim can say
// that it may have been made, of two it could not say which.
func Stepwise(taskType string, steps ...Step) (Declaration, error) {
	d := Declaration{Type: taskType, Keyed: true, Steps: steps}
	names := map[string]bool{}
	keyless := ""
	for _, s := range steps {
		if err := CheckStep(s.Name); err != nil {
			return d, err
		}
		if names[s.Name] {
			return d, fmt.Errorf("step %s is declared twice", s.Name)
		}
		names[s.Name] = true
		d.Timeout = max(d.Timeout, s.Timeout)
		switch {
		case s.Keyed && (d.KeyWindow == 0 || s.KeyWindow < d.KeyWindow):
			d.KeyWindow = s.KeyWindow
		case !s.Keyed && keyless != "":
			return d, fmt.Errorf("steps %s and %s honour no key: at most one may, make two task types of it", keyless, s.Name)
		case !s.Keyed:
			d.Keyed, keyless = false, s.Name
		}
	}
	return d, nil
}

// Check says what is wrong with the steps of a declaration, which need not be made
// by Stepwise: one that is keyed although a step is not would be made again.
func (d Declaration) Check() error {
	if len(d.Steps) == 0 {
		return nil
	}
	sum, err := Stepwise(d.Type, d.Steps...)
	if err == nil && (d.Keyed != sum.Keyed || d.KeyWindow > sum.KeyWindow || d.Timeout < sum.Timeout) {
		err = errors.New("the whole promises more than its steps: sum them up with Stepwise")
	}
	if err != nil {
		return fmt.Errorf("declaration of %s: %w", d.Type, err)
	}
	return nil
}

// Call is one call of a handler.
type Call struct {
	Key     string // the execution's id, and /step; empty where no key is honoured
	Type    string
	Step    string // empty for a task that is one call
	Payload jsontext.Value
	Results map[string]StepResult // of the steps before this one
}

// StepResult is what a step brought.
type StepResult struct {
	Ref   string         `json:"resultRef"`
	Value jsontext.Value `json:"value,omitzero"`
}

// Effect is what is known of the effect of a call.
type Effect int

// The three ways a call can end. The zero value is none of them.
const (
	_                Effect = iota
	EffectApplied           // it happened, now or at an earlier call under the same key
	EffectNotApplied        // it did not happen, and this call cannot make it happen any more
	EffectUnknown           // nobody here can tell
)

func (e Effect) String() string {
	return [...]string{"undecided", "applied", "not applied", "unknown"}[e]
}

// Outcome is what is known after a call.
type Outcome struct {
	Effect      Effect
	Ref         string         // Applied: where the result is
	Value       jsontext.Value // Applied: the reply, if it is JSON and small
	Omitted     string         // Applied: the digest of a reply that is too large to keep, sha256:…
	Retry       bool           // otherwise: another call under the same key may end better
	Free        bool           // with Retry: it costs no attempt, the downstream only asks to wait
	After       time.Duration  // with Retry: not before (Retry-After)
	Description string         // for people: status, error, problem title
}

// What there is room for in a claim, an event and a dead letter.
const (
	MaxRef         = 2048
	MaxDescription = 1024
)

// Line makes a text from anywhere fit to be kept, sent and logged: one line of
// valid UTF-8, of at most MaxDescription bytes.
func Line(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "")))
	const cut = "…"
	if len(text) > MaxDescription {
		return strings.ToValidUTF8(text[:MaxDescription-len(cut)], "") + cut
	}
	return text
}
